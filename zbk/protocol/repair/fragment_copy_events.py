"""Events, effects and limits of a copy of entries to one bookie.

    the body       CopyStarted, CopyStopped
    the sources    ReadAnswered
    the target     AddAnswered, HoldingsAnswered; ReadAnswered at the end

    to the sources and, at the end, to the target   SendRead
    to the target                                   SendAdd, AskHoldings
    to the caller                                   CopyAdvanced, CopyEnded

Every request is answered with exactly one event, at the latest when it has timed out. The answer
may be any error: refused, not reached, timed out.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.holdings import AskHoldings, Holdings


class CopyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on a copy's memory and on its requests.

    The memory is ``window_size`` and, beyond it, the answers to the reads under way.
    """

    window_size: int = 8 * 1024 * 1024  # bytes read and not yet fsynced by the target
    read_size: int = 1024 * 1024  # bytes that one read is meant to bring
    read_count_max: int = 3  # reads under way, each of one or more requests
    batch_size_max: int = 1024 * 1024  # bytes of entries in one add
    batch_count_max: int = 8_192  # entries in one add
    chunk_count_max: int = 8_192  # entries in one read


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a copy. ``is_whole``: the target holds, fsynced, all that was ordered."""

    copied_count: int = 0  # entries that the target has fsynced
    copied_size: int = 0  # their bytes
    lost: tuple[LostEntries, ...] = ()  # no good replica is left
    source_error: ZbkError | None = None  # a replica may be left, but could not be read now
    target_error: ZbkError | None = None  # the target did not take an entry, or does not hold it
    is_stopped: bool = False

    @property
    def is_whole(self) -> bool:
        """True when nothing is missing."""
        return not (self.lost or self.source_error or self.target_error or self.is_stopped)


# ------------------------------------------------------------------ events


class CopyStarted(msgspec.Struct, frozen=True):
    """Begin."""


class CopyStopped(msgspec.Struct, frozen=True):
    """End now. Answers to requests under way are ignored."""


class ReadAnswered(msgspec.Struct, frozen=True):
    """A bookie sent entries, back to back from the first id requested, perhaps not all of them."""

    request_id: int
    body: bytes | ZbkError


class AddAnswered(msgspec.Struct, frozen=True):
    """The target has fsynced a batch, unless there is an error."""

    request_id: int
    error: ZbkError | None = None


class HoldingsAnswered(msgspec.Struct, frozen=True):
    """The holdings of the target, as far as its answer reaches."""

    held: Holdings | ZbkError


Event: TypeAlias = CopyStarted | CopyStopped | ReadAnswered | AddAnswered | HoldingsAnswered


# ------------------------------------------------------------------ effects


class SendRead(msgspec.Struct, frozen=True):
    """Ask a bookie for entries. Answer: ReadAnswered."""

    request_id: int
    bookie_id: str
    entry_ids: Sequence[int]  # ascending; a range if they are in a row
    is_checked: bool = False  # the bookie verifies the blocks of its entry log first


class SendAdd(msgspec.Struct, frozen=True):
    """Add entries at the target, as a recovery does: a fenced ledger takes them, too.

    Answer: AddAnswered.
    """

    request_id: int
    bookie_id: str
    batch: EntryBatch
    lac: int


class CopyAdvanced(msgspec.Struct, frozen=True):
    """The target has fsynced more entries: how many, and their bytes."""

    count: int
    size: int


class CopyEnded(msgspec.Struct, frozen=True):
    """The copy has ended. Nothing follows."""

    result: CopyResult


Effect: TypeAlias = SendRead | SendAdd | AskHoldings | CopyAdvanced | CopyEnded
