"""LogOwner: several owners duel for one log, crash anywhere, and lose replies.

The machine holds the truth: a list that changes by compare-and-swap, and ledgers that are written,
fenced and closed. Owners carry out one effect at a time, in any interleaving; a write of the list
may be carried out late, or its reply may be lost, and a read may show the past.
"""

from collections import deque
from itertools import pairwise

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.errors import LedgerFencedError, MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.protocol.log import owner_events as lo
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import LogOwner, Phase
from zbk.protocol.log.position import LogPosition

NAME = "orders"
LOST_REPLY = MetadataUnavailableError("memory://", "the reply was lost")


class Entry(msgspec.Struct):
    """One append: when it was begun, and when it was acknowledged."""

    owner: int
    invoked_at: int
    acked_at: int | None = None


class Ledger:
    """What the bookies hold."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_fenced = False
        self.is_closed = False


class World:
    """The list and the ledgers, as they are."""

    def __init__(self) -> None:
        self.history = [LogMetadata(name=NAME, log_id="1", created_ms=0)]  # by version
        self.ledgers: dict[int, Ledger] = {}
        self.deleted: set[int] = set()
        self.late_writes: list[lo.WriteList] = []
        self.appends: list[Entry] = []  # all that were ever begun, in that order
        self.next_ledger_id = 0
        self.clock = 0

    @property
    def log(self) -> LogMetadata:
        return self.history[-1]

    @property
    def version(self) -> int:
        return len(self.history) - 1

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def write(self, effect: lo.WriteList) -> bool:
        if effect.version != self.version:
            return False
        assert not set(effect.log.ledger_ids) & self.deleted, "a list names no deleted ledger"
        self.history.append(effect.log)
        return True

    def delete(self, ledger_id: int) -> None:
        assert ledger_id not in self.log.ledger_ids, "what is in the list is not deleted"
        self.ledgers.pop(ledger_id, None)
        self.deleted.add(ledger_id)


class Body:
    """A client that wants the log: a core, and what it has been told to do."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.core = LogOwner(NAME)
        self.todo: deque[lo.Effect] = deque()
        self.target: int | None = None  # the ledger that appends go to
        self.pending: deque[Entry] = deque()  # appended, not yet with the bookies
        self.unacked: deque[Entry] = deque()  # with the bookies, not yet answered
        self.recovering: int | None = None
        self.is_stopped = False
        self.is_dead = False
        self.stop_error: ZbkError | None = None

    def tell(self, event: lo.Event) -> None:
        self.todo += self.core.handle(event, 0)

    # ---------------------------------------------------------------- appends

    def append(self) -> None:
        assert self.target is not None
        self.pending.append(Entry(self.number, self.world.tick()))
        self.world.appends.append(self.pending[-1])

    def store(self) -> None:
        """The bookies get the oldest append, or refuse it."""
        assert self.target is not None
        ledger = self.world.ledgers.get(self.target)
        if ledger is None or ledger.is_fenced:
            self.pending.clear()
            self.tell(lo.LedgerLost(self.target, LedgerFencedError(self.target)))
            return
        entry = self.pending.popleft()
        ledger.entries.append(entry)
        self.unacked.append(entry)

    def acknowledge(self) -> None:
        self.unacked.popleft().acked_at = self.world.tick()

    # ---------------------------------------------------------------- effects

    def step(self, fate: str) -> None:
        """Carry out the next effect, or as much of it as is possible now."""
        effect = self.todo.popleft()
        match effect:
            case lo.ReadList():
                shown = self.world.version if fate == "good" else max(0, self.world.version - 1)
                self.tell(lo.ListRead(self.world.history[shown], shown))
            case lo.WriteList():
                self._write(effect, fate)
            case lo.RecoverLedger():
                self._recover(effect)
            case lo.CreateLedger():
                ledger_id = self.world.next_ledger_id
                self.world.next_ledger_id += 1
                self.world.ledgers[ledger_id] = Ledger()
                self.tell(lo.LedgerCreated(ledger_id))
            case lo.DeleteLedger():
                self.world.delete(effect.ledger_id)
            case lo.SwitchLedger():
                self._switch(effect)
            case lo.CloseLedger():
                self._close(effect, fate)
            case lo.Stop():
                self.is_stopped = True
                self.stop_error = effect.error
            case lo.Pause() | lo.RollFailed():
                return

    def _write(self, effect: lo.WriteList, fate: str) -> None:
        world = self.world
        match fate:
            case "good":
                if world.write(effect):
                    self.tell(lo.ListWritten(world.version))
                else:
                    self.tell(lo.ListConflicted())
            case "lost reply":
                world.write(effect)
                self.tell(lo.ListUnwritten(LOST_REPLY))
            case "late":
                world.late_writes.append(effect)
                self.tell(lo.ListUnwritten(LOST_REPLY))
            case _:
                self.tell(lo.ListUnwritten(LOST_REPLY))

    def _recover(self, effect: lo.RecoverLedger) -> None:
        ledger = self.world.ledgers.get(effect.ledger_id)
        if ledger is None:
            self.recovering = None
            self.tell(lo.LedgerUnrecovered(effect.ledger_id, NoSuchLedgerError(effect.ledger_id)))
        elif self.recovering != effect.ledger_id:
            ledger.is_fenced = True
            self.recovering = effect.ledger_id
            self.todo.appendleft(effect)  # closes it the next time
        else:
            self.recovering = None
            ledger.is_closed = True
            self.tell(lo.LedgerRecovered(effect.ledger_id))

    def _switch(self, effect: lo.SwitchLedger) -> None:
        if self.pending:
            self.todo.appendleft(effect)
            self.store()
            return
        while self.unacked:
            self.acknowledge()
        assert effect.new_id in self.world.log.ledger_ids or self.is_overtaken(effect.new_id)
        self.target = effect.new_id
        self.tell(lo.LedgerSwitched())

    def is_overtaken(self, ledger_id: int) -> bool:
        """Return whether a ledger was in the list once."""
        return any(ledger_id in log.ledger_ids for log in self.world.history)

    def _close(self, effect: lo.CloseLedger, fate: str) -> None:
        ledger = self.world.ledgers.get(effect.ledger_id)
        if fate == "never" and effect.ledger_id != self.target:
            self.tell(lo.LedgerUnclosed(effect.ledger_id, LOST_REPLY))
            return
        if ledger is None or (ledger.is_fenced and not ledger.is_closed):
            error = LedgerFencedError(effect.ledger_id)
            self.tell(lo.LedgerUnclosed(effect.ledger_id, error))
            return
        if effect.ledger_id == self.target and self.pending:
            self.todo.appendleft(effect)
            self.store()
            return
        while self.unacked:
            self.acknowledge()
        ledger.is_fenced = ledger.is_closed = True
        self.tell(lo.LedgerClosed(effect.ledger_id))


FATES = st.sampled_from(["good", "good", "good", "lost reply", "late", "never"])
NUMBERS = st.integers(0, 2)


class LogOwnerMachine(RuleBasedStateMachine):
    """Three clients and one log. A client that died or stopped comes back as another owner."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.owner_count = 0
        self.bodies = [self.new_body() for _ in range(3)]

    def new_body(self) -> Body:
        self.owner_count += 1
        body = Body(self.world, self.owner_count)
        body.tell(lo.TakeOverAsked())
        return body

    @rule(number=NUMBERS, fate=FATES)
    def step(self, number: int, fate: str) -> None:
        body = self.bodies[number]
        if body.todo:
            body.step(fate)

    @rule(number=NUMBERS, fate=FATES)
    def run_to_the_next_change(self, number: int, fate: str) -> None:
        """Run one client until it writes the list or closes a ledger, and let that go wrong."""
        body = self.bodies[number]
        for _ in range(20):
            if not body.todo:
                break
            if isinstance(body.todo[0], lo.WriteList | lo.CloseLedger):
                body.step(fate)
                break
            body.step("good")

    @rule(number=NUMBERS, count=st.integers(1, 12))
    def run(self, number: int, count: int) -> None:
        """Run one client for a while, as it is when others are slow."""
        body = self.bodies[number]
        for _ in range(count):
            if body.todo:
                body.step("good")

    @rule(number=NUMBERS)
    def append(self, number: int) -> None:
        body = self.bodies[number]
        if body.target is not None and not body.is_stopped and body.core.phase is not Phase.OVER:
            body.append()

    @rule(number=NUMBERS)
    def store(self, number: int) -> None:
        body = self.bodies[number]
        if body.pending:
            body.store()

    @rule(number=NUMBERS)
    def acknowledge(self, number: int) -> None:
        body = self.bodies[number]
        if body.unacked:
            body.acknowledge()

    @rule(number=NUMBERS)
    def roll(self, number: int) -> None:
        body = self.bodies[number]
        if body.core.phase is Phase.OWNING and not body.todo:
            body.tell(lo.RollAsked())

    @rule(number=NUMBERS, fate=FATES)
    def roll_twice(self, number: int, fate: str) -> None:
        """Roll, and roll again, while closing the old ledger may fail."""
        body = self.bodies[number]
        for _ in range(2):
            self.roll(number)
            for _ in range(20):
                if body.todo:
                    body.step(fate if isinstance(body.todo[0], lo.CloseLedger) else "good")

    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        body = self.bodies[number]
        if body.core.phase is Phase.OWNING and not body.todo:
            body.tell(lo.CloseAsked())

    @rule(number=NUMBERS)
    def crash_or_come_back(self, number: int) -> None:
        self.bodies[number] = self.new_body()

    @precondition(lambda self: self.world.late_writes)
    @rule()
    def arrive_late(self) -> None:
        self.world.write(self.world.late_writes.pop(0))

    @rule(count=st.integers(1, 3))
    def truncate(self, count: int) -> None:
        """Somebody cuts off whole closed ledgers."""
        log = self.world.log
        cut = [i for i in log.ledger_ids[:-1][:count] if self.world.ledgers[i].is_closed]
        if cut != list(log.ledger_ids[: len(cut)]):
            return
        self.world.history.append(log.without_first(len(cut)))
        for ledger_id in cut:
            self.cut_entries = [*self.cut_entries, *self.world.ledgers[ledger_id].entries]
            self.world.delete(ledger_id)

    cut_entries: tuple[Entry, ...] | list[Entry] = ()

    @invariant()
    def all_but_the_last_two_are_closed(self) -> None:
        for ledger_id in self.world.log.ledger_ids[:-2]:
            assert self.world.ledgers[ledger_id].is_closed

    @invariant()
    def the_log_holds_what_was_acknowledged_in_order(self) -> None:
        """I34: each ledger once, every acknowledged entry, in the order of the appends."""
        ids = self.world.log.ledger_ids
        assert len(ids) == len(set(ids))
        entries = list(self.cut_entries)
        for ledger_id in ids:
            entries += self.world.ledgers[ledger_id].entries
        stored = {id(entry) for entry in entries}
        missing_owners: set[int] = set()
        for entry in self.world.appends:
            if id(entry) not in stored:
                missing_owners.add(entry.owner)
                assert entry.acked_at is None, "acked, and not in the log"
            elif entry.acked_at is not None:
                assert entry.owner not in missing_owners, "acked before what came before it"
        earliest_ack = float("inf")
        for entry in reversed(entries):
            assert entry.invoked_at < earliest_ack, "begun after a later one was acknowledged"
            if entry.acked_at is not None:
                earliest_ack = min(earliest_ack, entry.acked_at)
        for first, second in pairwise(entries):
            if first.owner == second.owner:
                assert first.invoked_at < second.invoked_at, "an owner's entries stay in order"

    def teardown(self) -> None:
        """After all that, one more client takes the log over and keeps it."""
        while self.world.late_writes:
            self.arrive_late()
        last = self.new_body()
        for _ in range(100):
            if last.todo:
                last.step("good")
        assert last.core.phase is Phase.OWNING
        for ledger_id in self.world.log.ledger_ids[:-1]:
            assert self.world.ledgers[ledger_id].is_closed
        self.the_log_holds_what_was_acknowledged_in_order()


TestLogOwner = LogOwnerMachine.TestCase
TestLogOwner.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)


def test_positions_of_a_log_ascend() -> None:
    log = LogMetadata(name=NAME, log_id="1", created_ms=0, ledger_ids=(3, 5, 9), first_index=2)

    assert [log.place_of(LogPosition(i, 0)) for i in (3, 5, 9)] == [2, 3, 4]
    assert [log.ledger_at(i) for i in (2, 3, 4, 5)] == [3, 5, 9, None]


@pytest.mark.parametrize("phase", [Phase.OVER])
def test_a_dead_owner_deletes_what_is_made_for_it_still(phase: Phase) -> None:
    core = LogOwner(NAME)
    core.handle(lo.TakeOverAsked(), 0)
    core.handle(lo.ListUnread(LOST_REPLY), 0)

    assert core.phase is phase
    assert core.handle(lo.LedgerCreated(4), 0) == [lo.DeleteLedger(4)]
