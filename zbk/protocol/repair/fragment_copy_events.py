"""What goes into the copying of entries to one bookie, and what comes out of it.

    the body       CopyStarted, CopyStopped, Tick
    the sources    ReadAnswered, ReadRefused
    the target     AddAnswered, AddRefused, HoldingsTold, HoldingsRefused

    to the sources and, at the end, to the target   SendRead
    to the target                                   SendAdd, AskHoldings
    to the caller                                   CopyAdvanced, CopyEnded

Every request is answered with exactly one event, at the latest when it has timed out.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.copy_order import LostEntries


class CopyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a copy keeps in memory and on its way.

    The memory is ``window_size`` and, beyond it, the answers to the reads under way.
    """

    window_size: int = 8 * 1024 * 1024  # bytes read and not yet fsynced by the target
    read_size: int = 1024 * 1024  # bytes that one read is meant to bring
    read_count_max: int = 3  # reads under way, each of one or more requests
    batch_size_max: int = 1024 * 1024  # bytes of entries in one add
    batch_count_max: int = 8_192  # entries in one add
    chunk_count_max: int = 8_192  # entries in one read


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a copy. ``is_whole``: the target holds, fsynced, all that was ordered."""

    copied_count: int = 0  # entries that the target has fsynced
    copied_size: int = 0  # their bytes
    lost: tuple[LostEntries, ...] = ()  # no good replica is left
    source_error: ZbkError | None = None  # a replica may be left, and could not be read now
    target_error: ZbkError | None = None  # the target did not take it, or does not hold it
    is_stopped: bool = False

    @property
    def is_whole(self) -> bool:
        """True when nothing is missing."""
        return not (self.lost or self.source_error or self.target_error or self.is_stopped)


# ------------------------------------------------------------------ events


class CopyStarted(msgspec.Struct, frozen=True):
    """Begin."""


class CopyStopped(msgspec.Struct, frozen=True):
    """End now; what is on its way is nobody's business any more."""


class ReadAnswered(msgspec.Struct, frozen=True):
    """A bookie sent entries, back to back from the first id asked for. They may be fewer."""

    request_id: int
    body: bytes


class ReadRefused(msgspec.Struct, frozen=True):
    """A read was refused or not answered."""

    request_id: int
    error: ZbkError


class AddAnswered(msgspec.Struct, frozen=True):
    """The target has fsynced a batch."""

    request_id: int


class AddRefused(msgspec.Struct, frozen=True):
    """An add was refused or not answered."""

    request_id: int
    error: ZbkError


class HoldingsTold(msgspec.Struct, frozen=True):
    """What a bookie holds of the ledger, from the id asked for on."""

    ranges: Sequence[Span]
    next_entry_id: int | None = None  # ask again from here for more


class HoldingsRefused(msgspec.Struct, frozen=True):
    """The bookie does not say what it holds."""

    error: ZbkError


Event: TypeAlias = (
    CopyStarted
    | CopyStopped
    | ReadAnswered
    | ReadRefused
    | AddAnswered
    | AddRefused
    | HoldingsTold
    | HoldingsRefused
)


# ------------------------------------------------------------------ effects


class SendRead(msgspec.Struct, frozen=True):
    """Ask a bookie for entries."""

    request_id: int
    bookie_id: str
    entry_ids: Sequence[int]  # ascending; a range if they are in a row
    is_checked: bool = False  # the bookie is to verify the blocks of its entry log first


class SendAdd(msgspec.Struct, frozen=True):
    """Add entries at the target, as a recovery does: it takes them though it is fenced."""

    request_id: int
    bookie_id: str
    batch: EntryBatch
    lac: int


class AskHoldings(msgspec.Struct, frozen=True):
    """Ask a bookie what it holds of the ledger."""

    bookie_id: str
    first_entry_id: int


class CopyAdvanced(msgspec.Struct, frozen=True):
    """So much more is fsynced."""

    count: int
    size: int


class CopyEnded(msgspec.Struct, frozen=True):
    """Nothing follows."""

    result: CopyResult


Effect: TypeAlias = SendRead | SendAdd | AskHoldings | CopyAdvanced | CopyEnded
