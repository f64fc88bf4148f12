"""The rule by which a ledger writes to an entry log of its own.

An own log holds the entries of one ledger. Its fsync writes no other ledger's bytes, and with the
ledger it can be removed whole. But each one takes a file, a descriptor and an fsync. So a ledger
gets one when it has ``OWN_LOG_SIZE_MIN`` bytes to write: a ledger of a few entries costs no file.

At most ``count_max`` are open. A new ledger takes the place of the one written longest ago, whose
log is complete then. That ledger does not take the place back: what follows goes to the shared log.
So ledgers written in turns do not open a log each time.

Pure. Source: BookKeeper's ``EntryLogManagerForEntryLogPerLedger``, which opens a log again at the
price of a new file.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from zbk.config import OWN_LOG_COUNT_DEFAULT, OwnLogMode
from zbk.protocol.entry.entry_batch import EntryBatch

OWN_LOG_SIZE_MIN: Final = 64 * 1024
"""Bytes of a ledger, in the shared log and to be written, from which on it has its own log."""

OWN_LOG_FILES_MAX: Final = 20_000
"""Entry logs in a directory from which on ledgers get none of their own. The census has room for
twice as many."""

PAST_COUNT_MAX: Final = 10_000
"""Ledgers that are remembered because their own log is complete."""

SHARED_LOG: Final = -1
"""In place of a ledger's id: the log of all ledgers without their own."""


class OwnLogLimits(msgspec.Struct, frozen=True):
    """Which ledgers have own logs, and how many."""

    mode: OwnLogMode = "bypass"
    count_max: int = OWN_LOG_COUNT_DEFAULT  # open at once
    size_min: int = OWN_LOG_SIZE_MIN  # bytes of a ledger

    @property
    def unsynced_max(self) -> int:
        """Logs, open or not synced, from which on no own log is made: each has a descriptor."""
        return 2 * self.count_max

    def has_room(self, unsynced_count: int, file_count: int, new_count: int) -> bool:
        """Return whether one more own log may be made.

        ``new_count``: own logs to be made by the same append, which have no file yet.
        """
        has_place = new_count < self.count_max  # with more, some of them give way at once
        is_behind = unsynced_count + new_count > self.unsynced_max
        return has_place and not is_behind and file_count + new_count < OWN_LOG_FILES_MAX

    def candidates(
        self, batches: Sequence[EntryBatch], bypass_ids: Collection[int]
    ) -> Collection[int]:
        """Return the ledgers of batches that may have one; ``bypass_ids`` bypass the journal."""
        if self.mode == "bypass":
            return bypass_ids
        return {batch.ledger_id for batch in batches} if self.mode == "always" else ()


DEFAULT_OWN_LOGS: Final = OwnLogLimits()


class OwnLogs:
    """The ledgers with an own log.

    >>> own = OwnLogs(OwnLogLimits(count_max=1))
    >>> [own.admit(ledger_id, 1_000_000, has_room=True) for ledger_id in (7, 8)]
    [True, True]
    >>> list(own.surplus())
    [7]
    >>> own.admit(7, 1_000_000, has_room=True), own.admit(9, 100, has_room=True)
    (False, False)
    """

    def __init__(self, limits: OwnLogLimits) -> None:
        self._limits = limits
        self._open: OrderedDict[int, None] = OrderedDict()  # the one written longest ago first
        self._past: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, ledger_id: int) -> bool:
        """Return whether a ledger writes to its own log."""
        return ledger_id in self._open

    def admit(self, ledger_id: int, size: int, *, has_room: bool) -> bool:
        """Return whether a ledger writes to its own log, which may be a new one.

        ``size``: its bytes in the shared log, with those to write. ``has_room``: for a new log.
        """
        if ledger_id in self._open:
            self._open.move_to_end(ledger_id)
            return True
        if size < self._limits.size_min or not has_room or not self._limits.count_max:
            return False
        if ledger_id in self._past:
            self._past.move_to_end(ledger_id)
            return False
        self._open[ledger_id] = None
        return True

    def surplus(self) -> Iterator[int]:
        """Yield the ledgers whose own logs have to be completed, written longest ago first."""
        while len(self._open) > self._limits.count_max:
            ledger_id, _ = self._open.popitem(last=False)
            self._past[ledger_id] = None
            if len(self._past) > PAST_COUNT_MAX:
                self._past.popitem(last=False)
            yield ledger_id

    def forget(self, ledger_id: int) -> None:
        """Forget a ledger that was deleted."""
        self._open.pop(ledger_id, None)
        self._past.pop(ledger_id, None)
