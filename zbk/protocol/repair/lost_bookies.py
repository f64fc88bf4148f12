"""The lost bookies, and when each of them is reported.

    known     has a cookie, or is named by a ledger's metadata
    present   registered, read-only or not
    lost      known and not present
    reported  lost, and every ledger that names it has been reported

When a lost bookie is *ready* to be reported:

    delay   a bookie that is the only lost one has ``delay_ms`` to return: an ordinary restart. Two
            or more have no delay, whether the others are reported or not: each minute counts when a
            second replica may be gone. A bookie that never returns should be decommissioned.
    brake   if more than max(1, share) of the known bookies vanished within the window, the fault is
            probably in the metadata store or the network: the auditor holds for ``brake_hold_ms``,
            looks again, and acts on the bookies that are still lost. It also holds at the beginning
            of a term: its session is new, and those of the bookies may be, too. A bookie that is
            lost when a hold ends is *confirmed*, and no longer held.

The two rules conflict: if two bookies are lost at once, the brake holds both for ``brake_hold_ms``
in a cluster of three; in a cluster of ten or more they are reported at once. The brake has
precedence, because a repair storm costs more than some seconds. A delay longer than the hold
continues after it.

A hold is not prolonged, so bookies that come and go cannot keep others from being reported: those
that vanish meanwhile are judged at its end, or begin another hold, which does not hold the
confirmed ones.

Invariants, checked in ``_check``: a reported or confirmed bookie is lost.

Source: BookKeeper's ``AuditorBookieCheckTask`` and ``lostBookieRecoveryDelay``; the brake is ours.
"""

from collections.abc import Collection

from zbk.protocol.repair.audit_events import AuditSettings, BrakeApplied, BrakeReleased


class LostBookies:
    """The bookies of the cluster, as of the last look."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._is_seen = False  # before the first look
        self._cookies: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()
        self._present: frozenset[str] = frozenset()
        self._lost_since_ms: dict[str, int] = {}
        self._vanished_ms: dict[str, int] = {}  # latest time, of the bookies in the window
        self._confirmed: set[str] = set()
        self._reported: set[str] = set()
        self._hold_until_ms: int | None = None

    def change(self, settings: AuditSettings) -> None:
        """Use other settings; a hold under way ends when it would have."""
        self._settings = settings

    @property
    def lost(self) -> frozenset[str]:
        """The bookies that are known and not present."""
        return frozenset(self._lost_since_ms)

    @property
    def familiar(self) -> frozenset[str]:
        """Bookies with a cookie or a registration. Others that a ledger names are strangers."""
        return self._cookies | self._present

    @property
    def is_held(self) -> bool:
        """True while the brake is applied."""
        return self._hold_until_ms is not None

    def is_hold_over(self, now_ms: int) -> bool:
        """Return whether the hold has lasted long enough."""
        return self._hold_until_ms is not None and now_ms >= self._hold_until_ms

    def begin_term(self, now_ms: int) -> BrakeApplied:
        """Forget the conclusions of an earlier term, and hold."""
        self._confirmed.clear()
        self._reported.clear()
        return self._hold("the session with the metadata store is new", now_ms)

    def see(
        self, cookies: frozenset[str], present: frozenset[str], now_ms: int
    ) -> tuple[frozenset[str], BrakeApplied | None]:
        """Record a look; return the lost bookies that returned, and the brake if it is applied."""
        is_first, self._is_seen = not self._is_seen, True
        self._cookies, self._present = cookies, present
        self._named -= cookies
        before = self.lost
        lost = self._update_lost(now_ms)
        vanished = set() if is_first else lost - before
        self._note_vanished(vanished, now_ms)
        if not vanished or self.is_held or not self._is_too_much():
            return before - lost, None
        count = len(self._vanished_ms)
        why = f"{count} of {self._known_count} bookies vanished in a short time"
        return before - lost, self._hold(why, now_ms)

    def note_strangers(self, bookie_ids: Collection[str], now_ms: int) -> None:
        """Record the bookies that ledgers name, instead of earlier ones; familiar ones are not."""
        self._named = frozenset(bookie_ids) - self.familiar
        self._update_lost(now_ms)

    def release(self) -> BrakeReleased:
        """End the hold, and confirm the bookies that are lost now."""
        self._hold_until_ms = None
        self._confirmed = set(self._lost_since_ms)
        self._check()
        return BrakeReleased(tuple(self._lost_since_ms))

    def ready(self, now_ms: int, delay_ms: int) -> frozenset[str]:
        """Return the lost bookies to report now."""
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
        """Record that all ledgers of these bookies are reported."""
        self._reported |= self.lost & set(bookie_ids)

    @property
    def pending(self) -> frozenset[str]:
        """The lost bookies that are not reported yet."""
        return frozenset(self._pending())

    def forget_reported(self) -> None:
        """Forget which bookies are reported: all are reported again."""
        self._reported.clear()

    def next_ms(self, now_ms: int, delay_ms: int) -> int | None:
        """Return the next end of a hold or a delay."""
        times = (self._hold_until_ms, self.delay_ends_ms(delay_ms))
        return min((time for time in times if time is not None and time > now_ms), default=None)

    # ------------------------------------------------------------------ inside

    def _update_lost(self, now_ms: int) -> frozenset[str]:
        lost = (self._cookies | self._named) - self._present
        self._lost_since_ms = {one: self._lost_since_ms.get(one, now_ms) for one in sorted(lost)}
        self._reported &= lost
        self._confirmed &= lost
        self._check()
        return lost

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
        assert self._reported <= lost, "a bookie that returned is reported when it is lost again"
        assert self._confirmed <= lost
        assert not lost & self._present
