"""Random bookies, a writer and two recoverers, in any order, against the invariants.

Messages to bookies arrive in any order, late, or not at all; answers get lost, too. Bookies die and
come back, lose the way to an entry that they have, and never what they promised. At most Qa - 1
copies of an entry are damaged: more than that is no promise.

    I1, I16   an entry that was acknowledged, or lies under a LAC that somebody saw, is in the
              closed ledger, and readable
    I2, I15   one closing change, and all recoverers that end well see that end
    I9        nothing behind the end was, or ever is, acknowledged
    B45       the length is that of the entries up to the end
"""

import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.recovery_world import (
    Bookies,
    Recovery,
    encoded,
    ledger,
    length_up_to,
)
from zbk.errors import BookieUnavailableError, LedgerFencedError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.changes import close_by_recovery
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import RecoveryLimits

QUORUMS = [
    *(Quorum(3, 3, 2), Quorum(2, 2, 1), Quorum(2, 2, 2), Quorum(4, 4, 2), Quorum(4, 4, 3)),
    *(Quorum(3, 2, 2), Quorum(4, 3, 2), Quorum(4, 2, 1), Quorum(1, 1, 1)),
]
ENTRY_COUNT_MAX = 8
SPARE_COUNT = 2
LIMITS = RecoveryLimits(
    window_count=4, window_size=400, batch_count_max=2, attempt_count_max=4, retry_delay_ms=1
)
FATES = ["answered", "answered", "lost", "unheard"]
WALK_COUNT = 3_000
INDEX = st.integers(0, 1_000)
WHO = st.integers(0, 1)


class RecoveryMachine(RuleBasedStateMachine):
    """One ledger and everybody around it."""

    @initialize(quorum=st.sampled_from(QUORUMS), count=st.integers(0, 3))
    def start(self, quorum: Quorum, count: int) -> None:
        self.quorum = quorum
        self.metadata = ledger(quorum)
        self.ensemble = self.metadata.last_fragment.bookies  # the writer knows no other
        spare = [f"x{i}" for i in range(SPARE_COUNT)]
        self.bookies = Bookies(*self.metadata.last_fragment.bookies, *spare)
        self.adds: list[tuple[int, int, int]] = []  # slot, entry, LAC: on their way
        self.acks: dict[int, set[int]] = {}
        self.writer_lac = NO_ENTRY
        self.last_pushed_id = NO_ENTRY
        self.refused: set[int] = set()  # entries of which an add was refused
        self.seen_lac = NO_ENTRY
        self.damaged_counts: dict[int, int] = {}
        self.recoveries: list[Recovery | None] = [None, None]
        self.ends: list[tuple[int, int]] = []
        self.append(count)

    # -------------------------------------------------------------- the writer

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        for _ in range(min(count, ENTRY_COUNT_MAX - 1 - self.last_pushed_id)):
            self.last_pushed_id += 1
            entry_id = self.last_pushed_id
            for slot in self.quorum.write_set(entry_id):
                self.adds.append((slot, entry_id, self.writer_lac))

    @precondition(lambda self: self.adds)
    @rule(index=INDEX, is_answer_lost=st.sampled_from([False, False, False, True]))
    def deliver_add(self, index: int, *, is_answer_lost: bool) -> None:
        self.arrive(index % len(self.adds), is_answer_lost=is_answer_lost)

    def arrive(self, index: int, *, is_answer_lost: bool) -> None:
        slot, entry_id, lac = self.adds.pop(index)
        name = self.ensemble[slot]
        try:
            self.bookies[name].add(entry_id, encoded(entry_id, lac), lac)
        except (LedgerFencedError, BookieUnavailableError):
            return
        if not is_answer_lost:
            self.acks.setdefault(entry_id, set()).add(slot)
        while len(self.acks.get(self.writer_lac + 1, ())) >= self.quorum.ack_size:
            self.writer_lac += 1

    # -------------------------------------------------------------- the recoverers

    @rule(who=WHO)
    def recover(self, who: int) -> None:
        """Begin anew; one that is under way crashes."""
        if self.metadata.is_closed:
            return
        recovery = Recovery(self.metadata, self.bookies, LIMITS, read_count_max=2)
        self.recoveries[who] = recovery.start()

    @rule(who=WHO, index=INDEX, fate=st.sampled_from(FATES))
    def deliver(self, who: int, index: int, fate: str) -> None:
        recovery = self.recoveries[who]
        if recovery is None or not recovery.waiting:
            return
        request = recovery.waiting[index % len(recovery.waiting)]
        if fate == "answered":
            recovery.deliver(request)
        else:
            if fate == "unheard":  # it arrives, and its answer does not
                recovery.answer(request)
            recovery.lose(request)
        self.note_end(recovery)

    @rule(who=WHO, count=st.integers(1, 60), seed=st.integers(0, 1_000_000))
    def go_on(self, who: int, count: int, seed: int) -> None:
        """Deliver much at once, in some order, so that recoveries end."""
        recovery = self.recoveries[who]
        rng = random.Random(seed)
        loss, newest_first = rng.choice([0.0, 0.1, 0.3]), rng.choice([0.0, 0.5, 0.9])
        for _ in range(count):
            if recovery is None or recovery.is_over:
                return
            if recovery.choices:
                recovery.choose()
            elif recovery.waiting:
                is_newest = rng.random() < newest_first  # stragglers stay behind
                request = recovery.waiting[-1] if is_newest else rng.choice(recovery.waiting)
                if rng.random() < loss:
                    recovery.lose(request)
                else:
                    recovery.deliver(request)
            else:
                recovery.tick(1)
            self.note_end(recovery)
            if self.adds and rng.random() < 0.1:
                self.arrive(rng.randrange(len(self.adds)), is_answer_lost=False)

    @rule(who=WHO)
    def choose(self, who: int) -> None:
        recovery = self.recoveries[who]
        if recovery is not None and recovery.choices:
            recovery.choose()
            self.note_end(recovery)

    @rule(who=WHO, ms=st.integers(1, 20))
    def wait(self, who: int, ms: int) -> None:
        recovery = self.recoveries[who]
        if recovery is not None:
            recovery.tick(ms)
            self.note_end(recovery)

    def note_end(self, recovery: Recovery) -> None:
        """Carry out the closing compare-and-swap."""
        closed, recovery.closed = recovery.closed, None
        if closed is None:
            return
        current = self.metadata if self.metadata.is_closed else self.metadata.with_recovery()
        changed = close_by_recovery(current, closed.fragments, closed.last_entry_id, closed.length)
        if changed is not None:
            self.metadata = changed
        assert self.metadata.last_entry_id is not None
        assert self.metadata.length is not None
        self.ends.append((self.metadata.last_entry_id, self.metadata.length))

    # -------------------------------------------------------------- the world

    @rule(index=INDEX)
    def die_or_come_back(self, index: int) -> None:
        """One bookie at most is dead."""
        dead = [bookie for bookie in self.bookies if bookie.is_dead]
        every = list(self.bookies)
        for bookie in dead or [every[index % len(every)]]:
            bookie.is_dead = not bookie.is_dead

    @rule(index=INDEX)
    def damage(self, index: int) -> None:
        every = list(self.bookies)
        bookie = every[index % len(every)]
        for entry_id, entry in bookie.entries.items():
            if (
                entry is not None
                and self.damaged_counts.get(entry_id, 0) < self.quorum.ack_size - 1
            ):
                bookie.entries[entry_id] = None
                self.damaged_counts[entry_id] = self.damaged_counts.get(entry_id, 0) + 1
                return

    @rule(index=INDEX)
    def see_a_lac(self, index: int) -> None:
        """Some reader hears a LAC."""
        every = list(self.bookies)
        self.seen_lac = max(self.seen_lac, every[index % len(every)].lac)

    # -------------------------------------------------------------- what holds

    @invariant()
    def what_was_promised_is_kept(self) -> None:
        if not hasattr(self, "metadata") or self.metadata.last_entry_id is None:
            return
        last = self.metadata.last_entry_id
        assert self.writer_lac <= last, "I1, I9: acknowledged, and not in the ledger"
        assert self.seen_lac <= last, "I16: somebody saw more"
        assert self.metadata.length == length_up_to(last), "B45"
        assert len(set(self.ends)) == 1, "I15: all see the same end"

    @invariant()
    def what_is_in_a_closed_ledger_is_on_its_bookies(self) -> None:
        if not hasattr(self, "metadata") or self.metadata.last_entry_id is None:
            return
        for entry_id in range(self.metadata.last_entry_id + 1):
            fragment, _ = self.metadata.fragment_of(entry_id)
            names = [fragment.bookies[slot] for slot in self.quorum.write_set(entry_id)]
            holders = [name for name in names if entry_id in self.bookies[name].entries]
            assert len(holders) >= self.quorum.ack_size, "I1: too few copies where they should be"


def walk(seed: int, *, does_read_fence: bool = True) -> None:
    """Take sixty random steps: far more of them in a second than Hypothesis takes."""
    rng = random.Random(seed)
    machine = RecoveryMachine()
    machine.start(rng.choice(QUORUMS), rng.randint(0, 3))
    for bookie in machine.bookies:
        bookie.does_read_fence = does_read_fence
    steps: dict[Callable[[], None], int] = {
        lambda: machine.append(1): 8,
        lambda: machine.recover(rng.randrange(2)): 8,
        lambda: machine.deliver(rng.randrange(2), rng.randrange(1000), rng.choice(FATES)): 17,
        lambda: machine.go_on(rng.randrange(2), rng.randint(1, 30), rng.randrange(10**6)): 20,
        lambda: machine.choose(rng.randrange(2)): 5,
        lambda: machine.wait(rng.randrange(2), rng.randint(1, 20)): 5,
        lambda: machine.die_or_come_back(rng.randrange(1000)): 3,
        lambda: machine.damage(rng.randrange(1000)): 2,
        lambda: machine.see_a_lac(rng.randrange(1000)): 5,
    }
    for _ in range(60):
        if machine.adds and rng.random() < 0.25:
            machine.arrive(rng.randrange(len(machine.adds)), is_answer_lost=rng.random() < 0.1)
        else:
            rng.choices([*steps], [*steps.values()])[0]()
        machine.what_was_promised_is_kept()
        machine.what_is_in_a_closed_ledger_is_on_its_bookies()


def walk_often(*, does_read_fence: bool = True) -> None:
    for seed in range(WALK_COUNT):
        walk(seed, does_read_fence=does_read_fence)


def test_no_random_walk_breaks_a_promise() -> None:
    walk_often()


def test_the_walks_see_what_happens_if_reads_do_not_fence() -> None:
    """B1: with bookies that fence only at the LAC read an acknowledged entry is lost."""
    with pytest.raises(AssertionError, match="acknowledged, and not in the ledger"):
        walk_often(does_read_fence=False)


TestRecoveryMachine = RecoveryMachine.TestCase
TestRecoveryMachine.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
