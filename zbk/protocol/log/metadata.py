"""A log: a list of ledgers in the metadata store, and the ways in which it may change.

    append     a new ledger is added at the end, by the owner of the log
    truncate   ledgers at the front are removed, never the last one; by any client

The list is an immutable value; each change makes a new one, and is written by compare-and-swap. Ids
of ledgers ascend, because a ledger is created after the list to which it is appended was read. So
positions (ledger, entry) have the order of the entries.

An *index* counts the ledgers of a log since its creation, truncated ones included: ``first_index``
is the index of the first ledger in the list. It tells a reader whether the ledger after the one
that it has read was truncated meanwhile.

Invariant, kept by the owner (``zbk.protocol.log.owner``): every ledger of the list but the last two
is CLOSED.

Source: "The BookKeeper protocol", section Ledgers to logs.
"""

from itertools import pairwise
from typing import Final, Self

import msgspec

from zbk.errors import (
    BusyError,
    IllegalTransitionError,
    InvalidOptionError,
    LogTruncatedError,
)
from zbk.protocol.log.position import LogPosition

LOG_FORMAT_VERSION: Final = 1

LEDGER_COUNT_MAX: Final = 16_384
"""Ledgers of one log; at the limit it has to be truncated before it grows."""


class LogMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A log in the metadata store. Invariant: ids of ledgers strictly ascend."""

    name: str
    log_id: str  # differs from that of a deleted log of the same name
    created_ms: int  # wall clock, for people
    ledger_ids: tuple[int, ...] = ()
    first_index: int = 0  # ledgers that were truncated
    format_version: int = LOG_FORMAT_VERSION

    def __post_init__(self) -> None:
        if any(a >= b for a, b in pairwise(self.ledger_ids)):
            raise IllegalTransitionError(f"log {self.name}", "ids of its ledgers must ascend")
        if self.first_index < 0:
            raise IllegalTransitionError(f"log {self.name}", "an index is not negative")

    @property
    def last_ledger_id(self) -> int | None:
        """The ledger that the owner writes to."""
        return self.ledger_ids[-1] if self.ledger_ids else None

    @property
    def begin(self) -> LogPosition | None:
        """The first position; ``None`` in a log that never had an owner."""
        return LogPosition(self.ledger_ids[0], 0) if self.ledger_ids else None

    def with_ledger(self, ledger_id: int) -> Self:
        """Return the log with a new last ledger.

        Raises:
            BusyError: it has ``LEDGER_COUNT_MAX`` ledgers.
            IllegalTransitionError: the ledger is older than the last one.
        """
        if len(self.ledger_ids) >= LEDGER_COUNT_MAX:
            raise BusyError(
                f"log {self.name!r} has {LEDGER_COUNT_MAX} ledgers: truncate it, or roll it less"
            )
        return msgspec.structs.replace(self, ledger_ids=(*self.ledger_ids, ledger_id))

    def without_first(self, count: int) -> Self:
        """Return the log without its first ``count`` ledgers; the last one stays."""
        assert 0 <= count < max(1, len(self.ledger_ids)), "the last ledger stays"
        return msgspec.structs.replace(
            self, ledger_ids=self.ledger_ids[count:], first_index=self.first_index + count
        )

    def ledgers_before(self, position: LogPosition) -> tuple[int, ...]:
        """Return the ledgers that end before a position; the last ledger is never one."""
        return tuple(i for i in self.ledger_ids[:-1] if i < position.ledger_id)

    def place_of(self, position: LogPosition) -> int:
        """Return the index of the ledger of a position.

        Raises:
            LogTruncatedError: it was truncated.
            InvalidOptionError: the log never had such a ledger.
        """
        if position.ledger_id in self.ledger_ids:
            return self.first_index + self.ledger_ids.index(position.ledger_id)
        begin = self.begin
        if begin is not None and position < begin:
            raise LogTruncatedError(self.name, str(position), str(begin))
        raise InvalidOptionError(
            "position", str(position), f"log {self.name!r} has no ledger {position.ledger_id}"
        )

    def ledger_at(self, index: int) -> int | None:
        """Return the ledger with an index; ``None``: there is none yet.

        Raises:
            LogTruncatedError: it was truncated.
        """
        if index < self.first_index:
            raise LogTruncatedError(self.name, f"ledger number {index}", str(self.begin))
        offset = index - self.first_index
        return self.ledger_ids[offset] if offset < len(self.ledger_ids) else None
