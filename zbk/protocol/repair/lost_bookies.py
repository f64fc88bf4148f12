"""Which bookies are lost, and since when it is sure enough to act.

    known     has a cookie, or is named by a ledger's metadata
    present   registered; read-only counts
    lost      known and not present
    reported  lost, and every ledger that names it has been reported

When a lost bookie is *ready* to be reported:

    delay   a bookie that is the only lost one gets ``delay_ms`` to come back: an ordinary restart.
            Two or more get none, whether the others are reported or not: each minute counts when a
            second replica may be gone. So a bookie that never comes back should be decommissioned.
    brake   but if more than max(1, share) of the known bookies vanished within the window, it is
            rather the metadata store or the network that is ill: wait for ``brake_hold_ms``, look
            again, and act on those that are lost still. At the beginning of a term it is the same:
            the session was made anew, and so may all others be. Whoever is lost when a hold has
            ended is *confirmed*, and held no more.

The two pull apart: of two bookies lost at once in a cluster of three, the brake holds both for
``brake_hold_ms``; in a cluster of ten or more they are reported at once. The brake goes first, as
a repair storm costs more than some seconds; a delay that is longer than the hold goes on.

A hold is not prolonged, so what comes and goes cannot keep others from being reported: those who
vanish meanwhile are looked at at its end, or begin one of their own, in which the confirmed go on.

Invariants, checked in ``_check``: what is reported or confirmed is lost.

Source: BookKeeper's ``AuditorBookieCheckTask`` and ``lostBookieRecoveryDelay``; the brake is ours.
"""

from collections.abc import Collection

from zbk.protocol.repair.audit_events import AuditSettings, BrakeApplied, BrakeReleased


class LostBookies:
    """The bookies, as last seen."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._is_seen = False  # nothing is known yet
        self._cookies: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()
        self._present: frozenset[str] = frozenset()
        self._lost_since_ms: dict[str, int] = {}
        self._vanished_ms: dict[str, int] = {}  # the last time, of those in the window
        self._confirmed: set[str] = set()
        self._reported: set[str] = set()
        self._hold_until_ms: int | None = None

    @property
    def lost(self) -> frozenset[str]:
        """Known and not present."""
        return frozenset(self._lost_since_ms)

    @property
    def familiar(self) -> frozenset[str]:
        """Bookies with a cookie, or that are there. Others that a ledger names are strangers."""
        return self._cookies | self._present

    @property
    def is_held(self) -> bool:
        """True while the brake is applied."""
        return self._hold_until_ms is not None

    def is_hold_over(self, now_ms: int) -> bool:
        """Return whether it is time to look again."""
        return self._hold_until_ms is not None and now_ms >= self._hold_until_ms

    def begin_term(self, now_ms: int) -> BrakeApplied:
        """Forget what an earlier term concluded; hold."""
        self._confirmed.clear()
        self._reported.clear()
        return self._hold("the session with the metadata store is new", now_ms)

    def see(
        self, cookies: frozenset[str], present: frozenset[str], now_ms: int
    ) -> tuple[frozenset[str], BrakeApplied | None]:
        """Record a picture; return which lost ones came back, and whether the brake is due."""
        is_first, self._is_seen = not self._is_seen, True
        self._cookies, self._present = cookies, present
        self._named -= cookies
        before = self.lost
        lost = (cookies | self._named) - present
        self._lost_since_ms = {one: self._lost_since_ms.get(one, now_ms) for one in sorted(lost)}
        self._reported &= lost
        self._confirmed &= lost
        vanished = set() if is_first else lost - before
        self._note_vanished(vanished, now_ms)
        self._check()
        if not vanished or self.is_held or not self._is_too_much():
            return before - lost, None
        count = len(self._vanished_ms)
        why = f"{count} of {self._known_count} bookies vanished in a short time"
        return before - lost, self._hold(why, now_ms)

    def note_strangers(self, bookie_ids: Collection[str], now_ms: int) -> None:
        """Record whom all ledgers name of whom nothing else is known; instead of earlier ones."""
        self._named = frozenset(bookie_ids) - self.familiar
        lost = (self._cookies | self._named) - self._present
        self._lost_since_ms = {one: self._lost_since_ms.get(one, now_ms) for one in sorted(lost)}
        self._reported &= lost
        self._confirmed &= lost
        self._check()

    def release(self) -> BrakeReleased:
        """End the hold: who is lost now has been looked at again."""
        self._hold_until_ms = None
        self._confirmed = set(self._lost_since_ms)
        self._check()
        return BrakeReleased(tuple(self._lost_since_ms))

    def ready(self, now_ms: int, delay_ms: int) -> frozenset[str]:
        """Return the lost bookies that are to be reported now."""
        ends_ms = self.delay_ends_ms(delay_ms)
        if ends_ms is not None and now_ms < ends_ms:
            return frozenset()
        return frozenset(
            one for one in self._pending() if one in self._confirmed or not self.is_held
        )

    def delay_ends_ms(self, delay_ms: int) -> int | None:
        """Return when the delay of the only lost bookie ends; ``None``: no bookie has one."""
        if len(self._lost_since_ms) != 1 or not delay_ms:
            return None
        return next((self._lost_since_ms[one] + delay_ms for one in self._pending()), None)

    def note_reported(self, bookie_ids: Collection[str]) -> None:
        """Record that all ledgers of these bookies were reported."""
        self._reported |= self.lost & set(bookie_ids)

    @property
    def pending(self) -> frozenset[str]:
        """Lost, and not reported yet."""
        return frozenset(self._pending())

    def forget_reported(self) -> None:
        """Forget what was reported: all of it is reported again."""
        self._reported.clear()

    def next_ms(self, now_ms: int, delay_ms: int) -> int | None:
        """Return when something changes by itself: the end of the hold, or of the delay."""
        times = (self._hold_until_ms, self.delay_ends_ms(delay_ms))
        return min((time for time in times if time is not None and time > now_ms), default=None)

    # ------------------------------------------------------------------ inside

    @property
    def _known_count(self) -> int:
        return len(self._cookies | self._named)

    def _pending(self) -> set[str]:
        return set(self._lost_since_ms) - self._reported

    def _note_vanished(self, bookie_ids: Collection[str], now_ms: int) -> None:
        begun_ms = now_ms - self._settings.brake_window_ms
        recent = {one: at_ms for one, at_ms in self._vanished_ms.items() if at_ms > begun_ms}
        self._vanished_ms = recent | dict.fromkeys(bookie_ids, now_ms)

    def _is_too_much(self) -> bool:
        count = len(self._vanished_ms)
        return count > 1 and count * 100 > self._settings.brake_share_percent * self._known_count

    def _hold(self, why: str, now_ms: int) -> BrakeApplied:
        self._hold_until_ms = now_ms + self._settings.brake_hold_ms
        return BrakeApplied(tuple(self._lost_since_ms), self._known_count, why, self._hold_until_ms)

    def _check(self) -> None:
        lost = self.lost
        assert self._reported <= lost, "who came back is to be reported when it is lost again"
        assert self._confirmed <= lost
        assert not lost & self._present
