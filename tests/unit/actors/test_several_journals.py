"""A bookie with two journals: what is promised of a ledger is counted in the one that it has."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.bookie_storages import storage_on
from tests.support.fake_actors import FakeTicker
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, add, batch, read_lac
from zbk.actors.serve.ledger_lookups import LookedUp, LookUp
from zbk.actors.serve.log_syncs import SyncLogs
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.storage import StorageActor, StorageMessage
from zbk.actors.serve.storage_door import Quiesce, Requests
from zbk.actors.serve.sync_queue import (
    AppendGroup,
    Synced,
    SyncProgress,
)
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.config.units import FreeLimit
from zbk.durability.new_ledgers import KnownLedger
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.disk_space import DiskLimits
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import AddAnswer, LacAnswer, Message, Pong, Sync, SyncAnswer

FIRST, SECOND = 8, 9  # ledgers, of the first and of the second journal
VD = LedgerType.VD_JOURNAL


class Box:
    """An actor's ref that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.taken: list[Any] = []  # of these, what stood alone

    def tell(self, message: object) -> None:
        self.messages.append(message)

    def take(self, message: object) -> None:
        self.taken.append(message)
        self.tell(message)


class TwoJournals:
    """A storage actor without its thread, over two journals and two ledger directories."""

    def __init__(self, disk: SimulatedDisk, ledger_count_max: int = 1_000) -> None:
        self.storage = storage_on(disk, journal_dir=("/j1", "/j2"), ledger_dir=("/l1", "/l2"))
        self.storage.open()
        self.progresses = [SyncProgress(), SyncProgress()]
        self.journals = [Box(), Box()]
        self.answers: list[Message] = []
        self.questions: list[LookUp] = []
        self.log_syncs: list[SyncLogs] = []
        self.failures: list[BaseException] = []
        self.ticker = FakeTicker()
        self.actor = StorageActor(
            self.storage,
            ServeParts(
                journals=lambda: self.journals,
                progresses=self.progresses,
                reader=Box(),
                look_up=self.questions.append,
                sync_logs=self.log_syncs.append,
                send=self.send,
                space=SpaceGate("b"),
                ticker=self.ticker,
                status=lambda request: Pong(request_id=request.request_id),
            ),
            ServeLimits(1_000, read_size_max=1 << 20, ledger_count_max=ledger_count_max),
            incarnation=3,
            stop_bookie=self.failures.append,
        )

    def send(self, outbounds: Sequence[Outbound]) -> None:
        self.answers += [outbound.answer for outbound in outbounds]

    def tell(self, message: StorageMessage) -> None:
        self.actor.on_receive(message)
        assert not self.failures

    def say(self, *requests: tuple[Any, ...]) -> None:
        """Hand in requests of one turn, each with its frames."""
        self.tell(Requests([Inbound(b"peer", one[0], one[1:], 100) for one in requests]))
        while self.questions:
            kinds = {one[0].ledger_id: one[0].ledger_type for one in requests}
            ledger_ids = self.questions.pop().ledger_ids
            self.tell(LookedUp({one: KnownLedger(b"", kinds[one]) for one in ledger_ids}))

    def groups(self, number: int) -> list[AppendGroup]:
        return self.journals[number].messages

    def sync(self, number: int) -> None:
        """Do what the actors of a journal do: write and sync all that it got."""
        groups, self.journals[number].messages = self.groups(number), []
        journal = list(self.storage.journals)[number]
        progress = self.progresses[number]
        for group in groups:
            if group.records:
                journal.append(group.records)
            self.send(group.after_write)
            progress.written_size += group.size
        journal.sync()
        progress.synced_ticket = groups[-1].ticket
        for group in groups:
            self.send(group.after_sync)
        if progress.is_watched or any(group.is_sync_news for group in groups):
            self.tell(Synced(groups[-1].ticket, number))

    def told(self, kind: type[Message]) -> list[Any]:
        return [one for one in self.answers if isinstance(one, kind)]


@pytest.fixture
def world() -> TwoJournals:
    return TwoJournals(SimulatedDisk())


def test_an_add_is_answered_by_the_journal_of_its_ledger(world: TwoJournals) -> None:
    """The sync of one journal promises nothing of another one's."""
    world.say(
        add(batch(0, [b"a"], ledger_id=FIRST), request_id=1),
        add(batch(0, [b"b"], ledger_id=SECOND), request_id=2),
    )
    assert [len(world.groups(number)) for number in (0, 1)] == [1, 1]

    world.sync(1)
    assert [one.request_id for one in world.told(AddAnswer)] == [2]
    world.sync(0)
    assert [one.request_id for one in world.told(AddAnswer)] == [2, 1]


def test_a_journal_without_a_part_in_a_turn_gets_nothing(world: TwoJournals) -> None:
    world.say(add(batch(0, [b"a"], ledger_id=SECOND)))

    assert world.groups(0) == []
    assert len(world.groups(1)) == 1


def test_a_fence_is_answered_when_its_own_journal_is_synced(world: TwoJournals) -> None:
    """B9: whatever has been synced elsewhere meanwhile."""
    world.say(add(batch(0, [b"a"], ledger_id=FIRST)), add(batch(0, [b"b"], ledger_id=SECOND)))
    world.sync(0)
    world.sync(1)
    world.say((read_lac(ledger_id=FIRST, is_fencing=True),))
    for number in range(5):  # the other journal gets far ahead
        world.say(add(batch(number + 1, [b"c"], ledger_id=SECOND)))
        world.sync(1)

    assert world.told(LacAnswer) == []
    world.say((read_lac(ledger_id=FIRST, is_fencing=True),))
    assert world.told(LacAnswer) == []

    world.sync(0)
    assert len(world.told(LacAnswer)) == 2


def test_a_reader_is_told_a_lac_that_its_own_journal_has_synced(world: TwoJournals) -> None:
    """A ticket of one journal says nothing of another one's."""
    world.say(add(batch(0, [b"a"], ledger_id=SECOND)))
    world.sync(1)
    for number in range(4):
        world.say(add(batch(number, [b"x"], ledger_id=FIRST)))
        world.sync(0)
    world.say(add(batch(1, [b"b"], lac=0, ledger_id=SECOND), lac=0))

    world.say((read_lac(ledger_id=SECOND),))
    assert [one.lac for one in world.told(LacAnswer)] == [-1]

    world.sync(1)
    world.say((read_lac(ledger_id=SECOND),))
    assert [one.lac for one in world.told(LacAnswer)] == [-1, 0]


@pytest.mark.parametrize("ledger_id", [FIRST, SECOND])
def test_whoever_waits_for_a_lac_is_woken_by_either_journal(
    world: TwoJournals, ledger_id: int
) -> None:
    world.say(add(batch(0, [b"a"], ledger_id=ledger_id)))
    world.sync(ledger_id % 2)
    world.say((read_lac(ledger_id=ledger_id, wait_ms=5_000),))
    assert world.told(LacAnswer) == []
    assert not any(one.is_watched for one in world.progresses)

    world.say(add(batch(1, [b"b"], lac=0, ledger_id=ledger_id), lac=0))
    assert [one.is_watched for one in world.progresses] == [ledger_id == 8, ledger_id == 9]
    world.sync(ledger_id % 2)

    assert [one.lac for one in world.told(LacAnswer)] == [0]
    assert not any(one.is_watched for one in world.progresses)


def test_a_sync_cursor_moves_with_the_journal_of_its_ledger(world: TwoJournals) -> None:
    """Only what is on stable storage in this journal counts."""
    for ledger_id in (FIRST, SECOND):
        world.say(add(batch(0, [b"a"], ledger_id=ledger_id), kind=VD))
    world.say((Sync(request_id=7, ledger_id=SECOND, ledger_key=KEY, lac=-1),))
    world.sync(0)
    assert world.told(SyncAnswer) == []

    world.sync(1)
    assert [one.last_add_synced for one in world.told(SyncAnswer)] == [0]


class UnevenDisks(SimulatedDisk):
    """One of the ledger directories is on a disk that fills."""

    def __init__(self) -> None:
        super().__init__()
        self.free_size_of_first = 1 << 40

    def free_size(self, path: str) -> int:
        return self.free_size_of_first if path == "/l1" else 1 << 40


def test_a_directory_that_runs_low_gets_no_new_ledgers() -> None:
    """What is left there is for the ledgers that live there."""
    disk = UnevenDisks()
    world = TwoJournals(disk)
    gate = SpaceGate("b")
    limits = DiskLimits(FreeLimit(size=2_000), FreeLimit(size=1_000), margin_size=0)
    monitor = DiskMonitorActor(
        world.storage, disk, limits, gate, lambda: None, world.failures.append
    )

    def homes(ledger_ids: range) -> set[int]:
        monitor.on_receive(MeasureDue())
        for ledger_id in ledger_ids:
            world.say(add(batch(0, [b"a"], ledger_id=ledger_id)))
        return {world.storage.homes.ledger(ledger_id).home.number for ledger_id in ledger_ids}

    assert homes(range(20, 24)) == {0, 1}
    disk.free_size_of_first = 1_500
    assert homes(range(24, 28)) == {1}
    assert not gate.is_readonly
    disk.free_size_of_first = 1 << 40
    assert homes(range(28, 32)) == {0, 1}


def test_a_bookie_has_come_to_rest_when_all_journals_have(world: TwoJournals) -> None:
    is_quiet = threading.Event()
    world.say(add(batch(0, [b"a"], ledger_id=FIRST)))
    world.tell(Quiesce(is_quiet))

    world.sync(0)
    assert not is_quiet.is_set()
    world.sync(1)
    assert is_quiet.is_set()


def test_a_ledger_is_not_forgotten_before_its_own_journal_has_it() -> None:
    """B8: made anew from storage, a fence on its way would be taken for durable."""
    world = TwoJournals(SimulatedDisk(), ledger_count_max=1)
    for number in range(4):
        world.say(add(batch(number, [b"a"], ledger_id=FIRST)))
        world.sync(0)
    world.say((read_lac(ledger_id=SECOND, is_fencing=True),))
    world.say(add(batch(4, [b"a"], ledger_id=FIRST)))
    world.say(add(batch(0, [b"a"], ledger_id=FIRST + 2)))
    world.sync(0)
    world.say((read_lac(ledger_id=SECOND, is_fencing=True),))

    assert world.told(LacAnswer) == []
    world.sync(1)
    assert len(world.told(LacAnswer)) == 2
