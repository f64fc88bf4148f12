"""How many ``sync()`` calls share the fsyncs of the bookies.

A sync first waits until everything appended before it is acknowledged: it is *flushed*. Then a
*round* requests an fsync from each live bookie. A round covers the entries that were acknowledged
when it began. A later sync joins it if its entries are covered; otherwise it waits for the next
round. So at most one round runs, and all waiting syncs share the next one, as in group commit.

A sync is done when the LAC reaches it, by whatever means: on a PD ledger at once when it is
flushed. (The application hears of it when the bookies were told that LAC: ``explicit_lac``.) A
round that has moved the LAC, though not far enough, is followed by another one: the LAC that it
carries lifts the cursors of bookies over entries that they miss and an ack quorum has, and what
they hold behind such holes then counts. A round has failed when it moved nothing, and no bookie is
left that could answer it. One that is down may come back within a grace time, and is waited for if
it could make the next entry durable: also where an ack quorum has answered, as bookies that were
away in turn miss other entries each.

Source: the relaxed-durability proposal, section Sync API.
"""

from collections.abc import Collection

from zbk.errors import BusyError, CannotAdvanceError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import Effect, SendSync, SyncDone, SyncFailedFor, Ticket
from zbk.protocol.write.slots import WriterSlots


class _Round:
    """One fsync of each live bookie."""

    __slots__ = (
        "awaited", "errors", "heard", "is_demanded", "lac", "started_ms", "sync_id", "target_id",
    )  # fmt: skip

    def __init__(
        self, sync_id: int, lac: int, target_id: int, slots: Collection[int], now_ms: int
    ) -> None:
        self.sync_id = sync_id
        self.lac = lac  # what the bookies heard with it
        self.target_id = target_id  # the last acknowledged entry when the round began
        self.started_ms = now_ms
        self.awaited = set(slots)
        self.heard: dict[int, int] = {}  # the ``LastAddSynced`` by slot
        self.errors: dict[int, ZbkError] = {}
        self.is_demanded = False


class SyncRounds:
    """The syncs that wait, in order, and the round that runs.

    A ticket of ``None`` is a sync of the writer itself, which has no answer.

    Invariant, checked where they are queued: the ids that syncs wait for never fall.
    """

    __slots__ = (
        "_count_max", "_grace_ms", "_is_demanded", "_last_failure", "_ledger_id", "_next_id",
        "_quorum", "_round", "_waiting",
    )  # fmt: skip

    def __init__(self, ledger_id: int, quorum: Quorum, *, grace_ms: int, count_max: int) -> None:
        self._ledger_id = ledger_id
        self._quorum = quorum
        self._grace_ms = grace_ms
        self._count_max = count_max
        self._waiting: list[tuple[Ticket | None, int]] = []
        self._is_demanded = False
        self._round: _Round | None = None
        self._next_id = 0
        self._last_failure = ""

    def __len__(self) -> int:
        """Return the number of syncs that wait."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """True when no sync waits and no round runs or is demanded."""
        return not self._waiting and self._round is None and not self._is_demanded

    @property
    def has_round(self) -> bool:
        """True while a round runs, or is demanded."""
        return self._round is not None or self._is_demanded

    @property
    def last_failure(self) -> str:
        """Why the last round that failed did; empty if none has."""
        return self._last_failure

    # ------------------------------------------------------------------ who wants to sync

    def request(self, ticket: Ticket | None, flush_id: int) -> None:
        """Queue a sync of everything up to ``flush_id``.

        Raises:
            BusyError: too many wait. The writer's own sync is always taken.
        """
        assert not self._waiting or self._waiting[-1][1] <= flush_id, "syncs come in order"
        if ticket is not None and len(self._waiting) >= self._count_max:
            raise BusyError(f"ledger {self._ledger_id}: {self._count_max} syncs wait already")
        self._waiting.append((ticket, flush_id))

    def request_own(self, ticket: Ticket, flush_id: int) -> None:
        """Queue a sync of the writer itself, of everything up to ``flush_id`` or further.

        It is always taken, and its answer is for the writer.
        """
        last_id = self._waiting[-1][1] if self._waiting else flush_id
        self._waiting.append((ticket, max(flush_id, last_id)))

    def demand(self) -> None:
        """Start a round as soon as none runs, without a sync that waits for it."""
        self._is_demanded = True

    def fail_all(self, error: ZbkError, *, but: Ticket = None) -> list[Effect]:
        """Forget everything; return the failures of the syncs that waited, of all but one."""
        failed: list[Effect] = [
            SyncFailedFor(t, error) for t, _id in self._waiting if t is not None and t is not but
        ]
        self._waiting.clear()
        self._round = None
        self._is_demanded = False
        return failed

    # ------------------------------------------------------------------ what the bookies say

    def slot_up(self, slot: int) -> int | None:
        """Add a bookie that came up to the round that runs, if any; return the round's id."""
        if self._round is None:
            return None
        self._round.awaited.add(slot)
        self._round.heard.pop(slot, None)  # what its earlier life said is void
        self._round.errors.pop(slot, None)
        return self._round.sync_id

    def slot_down(self, slot: int, error: ZbkError) -> None:
        """Record that a slot will not answer."""
        if self._round is not None and slot in self._round.awaited:
            self._round.awaited.discard(slot)
            self._round.errors[slot] = error

    def ensemble_changed(self) -> None:
        """End the round that runs, and begin another one: there is a new bookie to ask."""
        if self._round is not None:
            self._is_demanded |= self._round.is_demanded
            self._round = None

    def target_of(self, sync_id: int) -> int | None:
        """Return the last entry that was acknowledged when a round began, if it runs."""
        now = self._round
        return now.target_id if now is not None and now.sync_id == sync_id else None

    def answered(self, slot: int, sync_id: int, last_add_synced: int) -> None:
        """Record an answer. One to an earlier round is late news."""
        if self._round is not None and self._round.sync_id == sync_id:
            self._round.awaited.discard(slot)
            self._round.heard[slot] = last_add_synced

    def failed(self, slot: int, sync_id: int, error: ZbkError) -> bool:
        """Record a refusal; return whether it was one of the round that runs."""
        if self._round is None or self._round.sync_id != sync_id:
            return False
        self.slot_down(slot, error)
        return True

    # ------------------------------------------------------------------ what follows

    def drive(
        self,
        lac: int,
        last_acked_id: int,
        slots: WriterSlots,
        now_ms: int,
        *,
        may_wait: bool,
        is_held: bool = False,
    ) -> list[Effect]:
        """Answer the syncs that are done or have failed, and begin a round if one is due.

        ``may_wait`` says that it makes sense to wait for bookies that are down. While the LAC
        ``is_held``, no round begins or ends: none could move it.
        """
        effects: list[Effect] = []
        while True:  # once more after each round that ended: syncs pop, or a demand is met
            effects += self._done(lac)
            if is_held:
                return effects
            if self._round is None:
                if not self._is_due(last_acked_id):
                    return effects
                effects += self._begin(lac, last_acked_id, slots, now_ms)
            effects += self._settle(lac, slots, now_ms, may_wait=may_wait and bool(slots.down))
            if self._round is not None:
                return effects

    def _done(self, lac: int) -> list[Effect]:
        done: list[Effect] = []
        while self._waiting and self._waiting[0][1] <= lac:
            ticket, _flush_id = self._waiting.pop(0)
            if ticket is not None:
                done.append(SyncDone(ticket, lac))
        return done

    def _is_due(self, last_acked_id: int) -> bool:
        return self._is_demanded or (bool(self._waiting) and self._waiting[0][1] <= last_acked_id)

    def _begin(self, lac: int, last_acked_id: int, slots: WriterSlots, now_ms: int) -> list[Effect]:
        sync_id = self._next_id
        self._next_id += 1
        self._round = _Round(sync_id, lac, last_acked_id, slots.live, now_ms)
        self._round.is_demanded, self._is_demanded = self._is_demanded, False
        return [SendSync(slot, sync_id, lac, slots.epochs[slot]) for slot in slots.live]

    def _settle(self, lac: int, slots: WriterSlots, now_ms: int, *, may_wait: bool) -> list[Effect]:
        """End the round if there is nothing more to wait for."""
        now = self._round
        if now is None:
            return []
        is_wanted = now.is_demanded or (
            bool(self._waiting) and self._waiting[0][1] <= now.target_id
        )
        if lac >= now.target_id or not is_wanted:
            self._round = None
            return []
        if now.awaited:
            return []
        is_moving = lac > now.lac and bool(now.heard)
        is_grace_over = now_ms - now.started_ms >= self._grace_ms
        if not is_moving and may_wait and not is_grace_over and self._may_move(lac, now, slots):
            return []
        self._round = None
        if is_moving:
            return []  # once more: the new LAC may lift a bookie's cursor over a hole
        return self._failures(lac, now, slots)

    def _may_move(self, lac: int, now: _Round, slots: WriterSlots) -> bool:
        """Return whether the bookies that are down could make the entry behind the LAC durable.

        One that has synced no more than the LAC, which it was told, misses that entry.
        """
        write_set = self._quorum.write_set(lac + 1)
        having = sum(now.heard.get(slot, NO_ENTRY) > lac for slot in write_set)
        return having + sum(slot in slots.down for slot in write_set) >= self._quorum.ack_size

    def _failures(self, lac: int, ended: _Round, slots: WriterSlots) -> list[Effect]:
        reason = f"{len(ended.heard)} of {len(slots)} bookies synced"
        errors = {slot: slots.error_of(slot) for slot in slots.down} | ended.errors
        if errors:
            reason += f"; {slots.text(errors)}"
        self._last_failure = reason
        failures: list[Effect] = []
        while self._waiting and self._waiting[0][1] <= ended.target_id:
            ticket, wanted_id = self._waiting.pop(0)
            if ticket is not None:
                error = CannotAdvanceError(self._ledger_id, lac, wanted_id, reason)
                failures.append(SyncFailedFor(ticket, error))
        return failures
