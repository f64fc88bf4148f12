"""A ledger, its writer, disks that fail, and two workers at once, in any order.

I26   no change of the metadata leaves an entry with fewer replicas (``World.set_metadata``)
I27   nothing is copied but what the writer wrote (``Repair._add``)
F19   two workers without any lock hurt nobody
a live writer is not fenced within its grace period (``Repair._recover``)
every repair ends, and a ledger that it calls whole is whole
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.recovery_world import LEDGER_ID
from tests.support.repair_run import Repair
from tests.support.replica_world import DAMAGE, World
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.repair_effects import RepairAim, WaitUntil

QUORUMS = [
    *(Quorum(3, 3, 2), Quorum(2, 2, 1), Quorum(3, 2, 2), Quorum(4, 2, 2), Quorum(4, 3, 2)),
    *(Quorum(1, 1, 1), Quorum(5, 2, 1)),
]
ENTRY_COUNT_MAX = 24
WALK_COUNT = 1_000
INDEX = st.integers(0, 1_000)
WHO = st.integers(0, 1)


class ReplicationMachine(RuleBasedStateMachine):
    """One ledger and everybody around it."""

    @initialize(quorum=st.sampled_from(QUORUMS), count=st.integers(0, 8))
    def start(self, quorum: Quorum, count: int) -> None:
        self.world = World(quorum, spare_count=3)
        self.world.append(count)
        self.repairs: list[Repair | None] = [None, None]
        self.ends: Counter[str] = Counter()

    # -------------------------------------------------------------- the writer

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        if self.world.next_id + count <= ENTRY_COUNT_MAX:
            self.world.append(count)

    @rule()
    def close(self) -> None:
        if self.world.can_write:
            self.world.close()

    @rule()
    def writer_dies(self) -> None:
        self.world.is_writer_alive = False

    @rule()
    def delete(self) -> None:
        if self.world.now_ms > 20_000:
            self.world.metadata = None

    # -------------------------------------------------------------- the bookies

    @rule(index=INDEX)
    def lose(self, index: int) -> None:
        names = sorted(self.world.up)
        if len(names) > 1:
            self.world.up.discard(names[index % len(names)])

    @rule(index=INDEX)
    def come_back(self, index: int) -> None:
        names = sorted(self.world.disks)
        self.world.up.add(names[index % len(names)])

    @rule(index=INDEX)
    def hang(self, index: int) -> None:
        names = sorted(self.world.disks)
        self.world.refusing ^= {names[index % len(names)]}

    @rule(index=INDEX, entry_id=st.integers(0, ENTRY_COUNT_MAX))
    def damage(self, index: int, entry_id: int) -> None:
        names = sorted(self.world.disks)
        self.world.damage(names[index % len(names)], entry_id)

    @rule(index=INDEX, entry_id=st.integers(0, ENTRY_COUNT_MAX))
    def punch(self, index: int, entry_id: int) -> None:
        names = sorted(self.world.disks)
        self.world.punch(names[index % len(names)], entry_id)

    @rule(index=INDEX)
    def forget_what_it_had(self, index: int) -> None:
        names = sorted(self.world.disks)
        self.world.in_limbo ^= {names[index % len(names)]}

    # -------------------------------------------------------------- the workers

    @rule(who=WHO, index=INDEX, is_by_hand=st.booleans())
    def begin(self, who: int, index: int, is_by_hand: bool) -> None:
        if self.repairs[who] is not None:
            return
        names = sorted(self.world.disks)
        bookie = frozenset([names[index % len(names)]])
        aim = RepairAim(ledger_id=LEDGER_ID)
        if is_by_hand:
            aim = RepairAim(ledger_id=LEDGER_ID, suspects=bookie, to_leave=bookie)
        self.repairs[who] = Repair(self.world, aim, choose=lambda found: found[index % len(found)])

    @rule(who=WHO, index=INDEX, count=st.integers(1, 12))
    def step(self, who: int, index: int, count: int) -> None:
        for _ in range(count):
            self._step(who, index, is_lost=False)

    @rule(who=WHO, index=INDEX)
    def step_is_lost(self, who: int, index: int) -> None:
        self._step(who, index, is_lost=True)

    @rule(who=WHO)
    def worker_dies(self, who: int) -> None:
        self.repairs[who] = None

    @rule(ms=st.sampled_from([1, 500, 1_000, 5_000]))
    def wait(self, ms: int) -> None:
        self.world.now_ms += ms

    def _step(self, who: int, index: int, *, is_lost: bool) -> None:
        repair = self.repairs[who]
        if repair is None:
            return
        if isinstance(repair.pending, WaitUntil) and repair.copy is None:
            repair.step()
        else:
            repair.step(index, is_lost=is_lost)
        if repair.is_over:
            self._note(repair)
            self.repairs[who] = None

    def _note(self, repair: Repair) -> None:
        result = repair.run()
        self.ends["whole"] += result.is_whole
        self.ends["lost"] += bool(result.lost)
        self.ends["error"] += result.error is not None
        self.ends["recovered"] += result.is_recovered
        self.ends["replaced"] += bool(result.replaced_count)
        self.ends["copied"] += bool(result.copied_count)
        self.ends["in limbo"] += bool(result.in_limbo)

    @precondition(lambda self: self.repairs == [None, None])
    @rule()
    def repair_to_the_end(self) -> None:
        """With nobody else at work, what is called whole is whole."""
        world = self.world
        repair = Repair(world)
        result = repair.run()
        if not result.is_whole or world.metadata is None or not world.metadata.is_closed:
            return
        assert not world.lacking()
        named = {b for f in world.metadata.fragments for b in f.bookies}
        assert named <= world.up

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for repair in self.repairs:
                if repair is not None:
                    self._note(repair)


TestReplication = ReplicationMachine.TestCase
TestReplication.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@pytest.mark.parametrize("quorum", [one for one in QUORUMS if one.write_size > 1], ids=str)
def test_damage_is_mended_in_place_where_every_bookie_is_in_the_ensemble(quorum: Quorum) -> None:
    world = World(quorum, spare_count=0)
    world.append(9)
    world.close()
    bookie_id = min(world.disks)
    for entry_id in list(world.disks[bookie_id])[::2]:
        world.disks[bookie_id][entry_id] = DAMAGE
    bad = frozenset({bookie_id})
    aim = RepairAim(ledger_id=LEDGER_ID, suspects=bad, to_leave=bad, to_mend=bad)

    result = Repair(world, aim).run()

    assert world.metadata is not None
    assert result.is_whole
    assert result.mended == bad
    counts = {world.good_count(world.metadata, entry_id) for entry_id in range(9)}
    assert counts == {quorum.write_size}


def walk(seed: int) -> ReplicationMachine:
    """Do what chance says, the workers' steps more often than all else."""
    rng = random.Random(seed)
    machine = ReplicationMachine()
    machine.start(rng.choice(QUORUMS), rng.randrange(9))
    troubles: list[Callable[[], None]] = [
        lambda: machine.append(rng.randrange(1, 5)),
        machine.close,
        lambda: machine.lose(rng.randrange(10)),
        lambda: machine.lose(rng.randrange(10)),
        lambda: machine.come_back(rng.randrange(10)),
        lambda: machine.hang(rng.randrange(10)),
        lambda: machine.damage(rng.randrange(10), rng.randrange(ENTRY_COUNT_MAX)),
        lambda: machine.punch(rng.randrange(10), rng.randrange(ENTRY_COUNT_MAX)),
        lambda: machine.forget_what_it_had(rng.randrange(10)),
        lambda: machine.step_is_lost(rng.randrange(2), rng.randrange(10)),
        lambda: machine.wait(rng.choice([1, 400, 600])),
    ]
    for _ in range(rng.randrange(10, 120)):
        for who in range(2):
            machine.begin(who, rng.randrange(10), is_by_hand=rng.random() < 0.3)
        if rng.random() < 0.3:
            rng.choice(troubles)()
        machine.step(rng.randrange(2), rng.randrange(10), rng.randrange(1, 4))
    machine.teardown()
    return machine


def test_long_walks_break_nothing_and_reach_every_danger() -> None:
    """F19, I26, I27: among them are lost replies, two workers at one fragment, damaged sources."""
    ends: Counter[str] = Counter()
    for seed in range(WALK_COUNT):
        ends += walk(seed).ends
    for end in ("whole", "lost", "error", "recovered", "replaced", "copied"):
        assert ends[end] > WALK_COUNT // 50, ends
    assert ends["in limbo"] > WALK_COUNT // 500, ends


def test_what_the_last_holder_in_limbo_has_is_copied_and_the_repair_of_the_rest_ends() -> None:
    """Seed 7300606: two of three bookies are gone, the third lost 0-3 and waits for the two."""
    world = World(Quorum(3, 3, 3), spare_count=4)
    world.append(20)
    world.close()
    *lost, last = sorted(world.disks)[:3]
    world.up.difference_update(lost)
    for entry_id in range(4):
        world.punch(last, entry_id)
    world.in_limbo.add(last)

    result = Repair(world, RepairAim(ledger_id=LEDGER_ID, suspects=frozenset(lost))).run()

    assert result.error is None, "waiting would not help"
    assert [(one.first_entry_id, one.last_entry_id) for one in result.lost] == [(0, 3)]
    assert (set(result.away), set(result.in_limbo)) == (set(lost), {last})
    assert world.metadata is not None
    assert all(world.good_count(world.metadata, entry_id) == 3 for entry_id in range(4, 20))

    world.up.update(lost)  # their bookies come back after all
    assert Repair(world).run().is_whole
    assert not world.lacking()


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
def test_every_bookie_but_as_many_as_are_needed_may_go_one_after_the_other(quorum: Quorum) -> None:
    world = World(quorum, spare_count=4)
    world.append(20)
    world.close()

    lost = sorted(world.disks)[:4] if quorum.write_size > 1 else []
    for name in lost:
        world.up.discard(name)
        result = Repair(world).run()
        assert result.is_whole, (name, result)
    assert not world.lacking()
