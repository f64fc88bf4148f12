"""Readers that wait for a LAC: each is answered when it rises, or at its deadline.

Everything is bounded: ``WAITER_COUNT_MAX`` waiters, each for ``WAIT_MS_MAX`` at most. A waiter
whose client is gone is answered into the void, at its deadline at the latest.

A pure part of the storage actor, which owns it and says what time it is.

Source: BookKeeper's ``LongPollReadEntryProcessorV3``.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from zbk.actors.ledger_table import LedgerSlot
from zbk.transport.router import Inbound

WAITER_COUNT_MAX: Final = 4_096
"""Waiters at one bookie; one more is answered at once, and asks again."""

WAIT_MS_MAX: Final = 60_000
"""The longest wait; a longer one is cut. Connections that are silent for longer are forgotten."""


class Waiter(msgspec.Struct, frozen=True):
    """A request that is answered once the LAC is above ``known_lac``."""

    inbound: Inbound
    known_lac: int
    deadline_ms: int


class LongPolls:
    """Who waits, by ledger.

    Invariants, checked in ``_check``:
      * a ledger's ``waiter_count`` says how many of its waiters are here: it is not forgotten
        meanwhile;
      * no ledger is here without a waiter, and the count is that of all.
    """

    def __init__(self, count_max: int = WAITER_COUNT_MAX) -> None:
        self._count_max = count_max
        self._waiters: dict[LedgerSlot, list[Waiter]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """True when nobody more may wait."""
        return self._count >= self._count_max

    @property
    def slots(self) -> list[LedgerSlot]:
        """The ledgers that somebody waits for."""
        return list(self._waiters)

    def add(
        self, slot: LedgerSlot, inbound: Inbound, known_lac: int, wait_ms: int, now_ms: int
    ) -> None:
        """Let a request wait."""
        assert not self.is_full, "the limit is looked at first"
        waiter = Waiter(inbound, known_lac, now_ms + min(wait_ms, WAIT_MS_MAX))
        self._waiters.setdefault(slot, []).append(waiter)
        slot.waiter_count += 1
        self._count += 1

    def take_risen(self, slot: LedgerSlot, lac: int) -> list[Inbound]:
        """Return, and forget, who waited for this LAC of a ledger."""
        return self._take(slot, lambda waiter: waiter.known_lac < lac)

    def take_overdue(self, slot: LedgerSlot, now_ms: int) -> list[Inbound]:
        """Return, and forget, who has waited for a ledger as long as it wished."""
        return self._take(slot, lambda waiter: waiter.deadline_ms <= now_ms)

    def take_all(self, slot: LedgerSlot) -> list[Inbound]:
        """Return, and forget, all that wait for a ledger."""
        return self._take(slot, lambda _waiter: True)

    def _take(self, slot: LedgerSlot, is_due: Callable[[Waiter], bool]) -> list[Inbound]:
        taken: list[Inbound] = []
        left: list[Waiter] = []
        for waiter in self._waiters.get(slot, ()):
            if is_due(waiter):
                taken.append(waiter.inbound)
            else:
                left.append(waiter)
        if taken:
            slot.waiter_count -= len(taken)
            self._count -= len(taken)
            if left:
                self._waiters[slot] = left
            else:
                del self._waiters[slot]
        self._check(slot)
        return taken

    def _check(self, slot: LedgerSlot) -> None:
        assert slot.waiter_count == len(self._waiters.get(slot, ()))
        assert len(self._waiters) <= self._count <= self._count_max
