"""A bookie loses power under a VD ledger; a recovery asks it, and leaves nothing out.

Three storage actors on simulated disks, and the recovery's own machine.
"""

from collections.abc import Sequence
from random import Random

import pytest

from tests.support.recovery_world import (
    LEDGER_ID,
    Bookies,
    ModelBookie,
    Recovery,
    encoded,
    ledger,
    length_up_to,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, read, read_lac
from zbk.actors.identity.losses import Losses
from zbk.durability.limbo import LossReason
from zbk.errors import LedgerRecoveryError, from_wire
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import SendWrite
from zbk.wire.messages import AddAnswer, LacAnswer, Message, Refused

VD = LedgerType.VD_JOURNAL
SYNCED_COUNT, ENTRY_COUNT = 4, 9
SEEDS = range(12)


def batch_of(first: int, last: int) -> EntryBatch:
    entries = [encoded(entry_id, first - 1) for entry_id in range(first, last + 1)]
    sizes = [len(entry) for entry in entries]
    return EntryBatch.of(LEDGER_ID, range(first, last + 1), sizes, b"".join(entries))


class ActorBookie(ModelBookie):
    """A real storage actor, where a recovery expects a model."""

    def __init__(self, bookie_id: str) -> None:
        super().__init__(bookie_id)
        self.disk = SimulatedDisk()
        self.world = World(self.disk, "/b")

    def write(self, first: int, last: int, *, is_synced: bool) -> None:
        """Take adds of the writer; they are acknowledged when this returns."""
        self.world.say(*add(batch_of(first, last), kind=VD, lac=-1))
        self.world.written()
        assert isinstance(self.world.answers[-1], AddAnswer)
        if is_synced:
            self.world.synced()

    def lose_power(self, seed: int, *, knows_it: bool = True) -> None:
        """Come back after a loss of power, in another boot of the machine."""
        self.disk.crash(Random(seed))
        self.world = World(self.disk, "/b")
        if knows_it:
            losses = Losses(self.disk, self.world.storage.limbo, ["/b/ledgers"], "boot-2")
            losses.find(lambda: LEDGER_ID + 1, is_wiped_on_purpose=False)
            assert losses.reasons == (LossReason.UNCLEAN_STOP,)
            losses.begin_serving()

    def serve(self) -> None:
        """Note that it serves, in the first boot of the machine."""
        Losses(self.disk, self.world.storage.limbo, ["/b/ledgers"], "boot-1").begin_serving()

    @property
    def held(self) -> set[int]:
        ranges, _ = self.world.storage.homes.ledger(LEDGER_ID).held_ranges(
            0, range_count_max=99, entry_count_max=99
        )
        return {one for first, last in ranges for one in range(first, last + 1)}

    def _told(self) -> Message:
        self.world.settle()
        answer = self.world.answers[-1]
        if isinstance(answer, Refused):
            raise from_wire(answer.code, tuple(answer.fields))
        return answer

    def fence(self) -> int:
        self.check_up()
        self.world.say(read_lac(kind=VD, is_fencing=True))
        answer = self._told()
        assert isinstance(answer, LacAnswer)
        return answer.lac

    def read(self, entry_ids: Sequence[int], count_max: int) -> bytes:
        self.check_up()
        self.world.say(read(entry_ids[0], entry_ids[-1], kind=VD, is_fencing=True))
        self._told()
        resolved = self.world.storage.homes.ledger(LEDGER_ID).resolve(entry_ids, 1 << 20)
        assert resolved is not None, "it has just answered"
        return self.world.storage.home_of(resolved).fetch(resolved)[1]

    def write_back(self, request: SendWrite) -> None:
        self.check_up()
        self.world.say(*add(request.batch, kind=VD, lac=request.lac, is_recovery=True))
        assert isinstance(self._told(), AddAnswer)


class ActorBookies(Bookies):
    """Three of them; nobody else is there."""

    def __init__(self) -> None:
        super().__init__()
        self.all = {bookie_id: ActorBookie(bookie_id) for bookie_id in ("b0", "b1", "b2")}

    def __getitem__(self, bookie_id: str) -> ActorBookie:
        return self.all[bookie_id]


def after_a_power_cut(seed: int, *, knows_it: bool = True) -> ActorBookies:
    """Return bookies of which b0 and b1 acknowledged all, and b2, being slow, the first ones."""
    bookies = ActorBookies()
    for bookie in bookies.all.values():
        bookie.serve()
        bookie.write(0, SYNCED_COUNT - 1, is_synced=True)
    for bookie_id in ("b0", "b1"):
        bookies[bookie_id].write(SYNCED_COUNT, ENTRY_COUNT - 1, is_synced=False)
    bookies["b0"].lose_power(seed, knows_it=knows_it)
    return bookies


def recovery_with_b1_last(bookies: ActorBookies) -> Recovery:
    """Recover while b1 answers only when nobody else is left to wait for."""
    metadata = ledger(Quorum(3, 3, 2), ledger_type=VD)
    recovery = Recovery(metadata, bookies).start()
    for _ in range(10_000):
        if recovery.is_over:
            return recovery
        quick = [one for one in recovery.waiting if one.bookie_id != "b1"]
        if recovery.choices:
            recovery.choose({})
        elif quick or recovery.waiting:
            recovery.deliver((quick or recovery.waiting)[0])
        else:
            recovery.tick()
    raise AssertionError("the recovery does not end")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recovery_keeps_what_a_slow_bookie_holds_though_another_one_lost_it(seed: int) -> None:
    """B10, I24: one power cut loses nothing that a second bookie has in its page cache."""
    bookies = after_a_power_cut(seed)
    assert set(range(SYNCED_COUNT)) <= bookies["b0"].held

    recovery = recovery_with_b1_last(bookies)

    assert recovery.end == (ENTRY_COUNT - 1, length_up_to(ENTRY_COUNT - 1))


def test_without_limbo_such_a_recovery_leaves_entries_out() -> None:
    ends = {recovery_with_b1_last(after_a_power_cut(s, knows_it=False)).end[0] for s in SEEDS}

    assert min(ends) == SYNCED_COUNT - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_one_that_holds_them_a_recovery_fails_until_it_is_back(seed: int) -> None:
    """B10, I24: nobody concludes from "I do not know" that it never was."""
    bookies = after_a_power_cut(seed)
    bookies["b1"].is_dead = True

    recovery = recovery_with_b1_last(bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert recovery.error.is_retriable
    bookies["b1"].is_dead = False
    assert recovery_with_b1_last(bookies).end[0] == ENTRY_COUNT - 1


def test_once_the_ledger_is_cleared_two_bookies_are_enough_again() -> None:
    """Cleared without b1, as after the grace: what only that one holds may be left out."""
    bookies = after_a_power_cut(0)
    bookies["b1"].is_dead = True
    assert bookies["b0"].world.storage.limbo.clear([(LEDGER_ID, LEDGER_ID)])

    recovery = recovery_with_b1_last(bookies)

    assert recovery.end[0] == max(bookies["b0"].held)
