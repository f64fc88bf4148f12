"""LogOwner: several owners duel for one log, crash anywhere, and lose replies.

The world holds the truth: a list that changes by compare-and-swap, and ledgers that are written,
fenced and closed. Owners carry out one effect at a time, in any interleaving.
"""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.log_owner_world import NAME, Body, Entry, World
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import Phase
from zbk.protocol.log.owner_effects import CloseLedger, WriteList
from zbk.protocol.log.position import LogPosition

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
        body.run(body.owner.take_over())
        return body

    @rule(number=NUMBERS, fate=FATES)
    def step(self, number: int, fate: str) -> None:
        body = self.bodies[number]
        body.step(fate)

    @rule(number=NUMBERS, fate=FATES)
    def run_to_the_next_change(self, number: int, fate: str) -> None:
        """Run one client until it writes the list or closes a ledger, and let that go wrong."""
        body = self.bodies[number]
        for _ in range(20):
            if isinstance(body.effect, WriteList | CloseLedger):
                body.step(fate)
                break
            body.step("good")

    @rule(number=NUMBERS, count=st.integers(1, 12))
    def run(self, number: int, count: int) -> None:
        """Run one client for a while, as it is when others are slow."""
        body = self.bodies[number]
        for _ in range(count):
            body.step("good")

    @rule(number=NUMBERS)
    def append(self, number: int) -> None:
        body = self.bodies[number]
        if body.target is not None and body.owner.phase is not Phase.OVER:
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
        if body.owner.phase is Phase.OWNING:
            body.run(body.owner.roll())

    @rule(number=NUMBERS, fate=FATES)
    def roll_twice(self, number: int, fate: str) -> None:
        """Roll, and roll again, while closing the old ledger may fail."""
        body = self.bodies[number]
        for _ in range(2):
            self.roll(number)
            for _ in range(20):
                body.step(fate if isinstance(body.effect, CloseLedger) else "good")

    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        body = self.bodies[number]
        if body.owner.phase is Phase.OWNING:
            body.run(body.owner.close())

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
            last.step("good")
        assert last.owner.phase is Phase.OWNING
        for ledger_id in self.world.log.ledger_ids[:-1]:
            assert self.world.ledgers[ledger_id].is_closed
        self.the_log_holds_what_was_acknowledged_in_order()


TestLogOwner = LogOwnerMachine.TestCase
TestLogOwner.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)


def test_positions_of_a_log_ascend() -> None:
    log = LogMetadata(name=NAME, log_id="1", created_ms=0, ledger_ids=(3, 5, 9), first_index=2)

    assert [log.place_of(LogPosition(i, 0)) for i in (3, 5, 9)] == [2, 3, 4]
    assert [log.ledger_at(i) for i in (2, 3, 4, 5)] == [3, 5, 9, None]


def test_an_owner_does_not_fail_because_its_ledger_was_closed_and_cut_off() -> None:
    """Others close it while the reply to a roll is lost; the list then begins with the next one."""
    state = LogOwnerMachine()
    state.run_to_the_next_change(fate="good", number=1)
    state.run(count=1, number=0)
    state.run(count=1, number=1)
    state.roll(number=1)
    state.truncate(count=1)
    state.run_to_the_next_change(fate="good", number=0)
    state.run_to_the_next_change(fate="good", number=1)
    state.run_to_the_next_change(fate="lost reply", number=1)
    state.truncate(count=1)
    state.roll_twice(fate="good", number=1)
    state.all_but_the_last_two_are_closed()
    state.the_log_holds_what_was_acknowledged_in_order()
    state.teardown()
