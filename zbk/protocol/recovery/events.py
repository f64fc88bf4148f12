"""Events, effects and limits of a recovery.

    the body           RecoveryStarted, Tick, TimeIsOver
    the bookies        FenceAnswered, ReadAnswered, WriteAnswered
    the placement      ReplacementsChosen

    to the bookies     SendFence, SendRead, SendWrite
    to the placement   ChooseReplacements
    to the metadata    CloseRecovered
    to the caller      RecoveryFailed

Every request is answered with exactly one event, at the latest when it has timed out. The answer
may be any error: refused, not reached, timed out, garbage.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.metadata import Fragment


class RecoveryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on a recovery's memory and retries.

    The memory is ``window_size`` and, beyond it, the answers to the reads under way: one a slot.
    """

    window_size: int = 8 * 1024 * 1024  # bytes read and not yet written back
    window_count: int = 4_096  # entries of one read, and entries read ahead
    batch_size_max: int = 1024 * 1024  # bytes of entries in one write
    batch_count_max: int = 4_096  # entries in one write
    patience_ms: int = 500  # without an answer of the one bookie asked; then the others are asked
    attempt_count_max: int = 8  # failures of a bookie in a row; then it is given up
    retry_delay_ms: int = 100  # after its first failure; doubled after each further one,
    retry_delay_ms_max: int = 2_000  # up to this
    change_count_max: int = 64  # replacements of bookies in the ensemble written back to


# ------------------------------------------------------------------ events


class RecoveryStarted(msgspec.Struct, frozen=True):
    """Begin."""


class FenceAnswered(msgspec.Struct, frozen=True):
    """A bookie is fenced, durably, and returned the highest LAC that it knows.

    After an error it may or may not be fenced.
    """

    slot: int
    lac: int | ZbkError


class ReadAnswered(msgspec.Struct, frozen=True):
    """A bookie is fenced, durably, and sent entries back to back, from the first id requested.

    After ``NoSuchEntryError`` the bookie is fenced, durably, too; after other errors perhaps.
    """

    read_id: int
    body: bytes | ZbkError


class WriteAnswered(msgspec.Struct, frozen=True):
    """A bookie has fsynced a write-back, unless there is an error."""

    write_id: int
    error: ZbkError | None = None


class ReplacementsChosen(msgspec.Struct, frozen=True):
    """New bookies by slot: for all failed slots, some, or none."""

    bookies: Mapping[int, str]


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Expected about every 100 ms: it triggers retries."""


class TimeIsOver(msgspec.Struct, frozen=True):
    """The caller's deadline has passed."""


Event: TypeAlias = (
    RecoveryStarted
    | FenceAnswered
    | ReadAnswered
    | WriteAnswered
    | ReplacementsChosen
    | Tick
    | TimeIsOver
)


# ------------------------------------------------------------------ effects


class SendFence(msgspec.Struct, frozen=True):
    """Fence a bookie and ask for its LAC."""

    slot: int
    bookie_id: str


class SendRead(msgspec.Struct, frozen=True):
    """Fence a bookie and ask for entries."""

    read_id: int
    bookie_id: str
    entry_ids: Sequence[int]  # ascending; a range on a ledger that is not striped
    is_checked: bool = False  # entries without a digest: the bookie verifies its blocks first


class SendWrite(msgspec.Struct, frozen=True):
    """Write a batch back, as a recovery add."""

    write_id: int
    bookie_id: str
    batch: EntryBatch
    lac: int


class ChooseReplacements(msgspec.Struct, frozen=True):
    """Choose bookies for the failed slots. Answer: ReplacementsChosen."""

    ensemble: tuple[str, ...]
    failed_slots: tuple[int, ...]
    exclude: frozenset[str]  # bookies that failed in this recovery


class CloseRecovered(msgspec.Struct, frozen=True):
    """Close the ledger in the metadata: ``close_by_recovery``. Nothing follows.

    ``length`` is the bytes of payload up to ``last_entry_id``.
    """

    fragments: tuple[Fragment, ...]
    last_entry_id: int
    length: int


class RecoveryFailed(msgspec.Struct, frozen=True):
    """The ledger stays IN_RECOVERY. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = (
    SendFence | SendRead | SendWrite | ChooseReplacements | CloseRecovered | RecoveryFailed
)
