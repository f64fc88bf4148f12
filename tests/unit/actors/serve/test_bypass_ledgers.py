"""Ledgers that bypass the journal: what a sync promises, and what a start finds, crash by crash."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, write_lac
from tests.support.storage_actor import held as held_with
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.actors.serve.storage_door import Quiesce, Requests
from zbk.durability.limbo import LossReason
from zbk.errors import BusyError, OutOfDescriptorsError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, SyncedEntriesRecord
from zbk.transport.inbound import Inbound
from zbk.wire.messages import (
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    ReadLac,
    Sync,
    SyncAnswer,
)

BYPASS = LedgerType.VD_BYPASS_JOURNAL
PD = LedgerType.PD_JOURNAL
SYNC = Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1)
LOG_PATH = "/b/ledgers/logs/00000001.log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def bookie(disk: SimulatedDisk) -> World:
    return World(disk, "/b", segment_size=1 << 16)


def payload(entry_id: int) -> bytes:
    return b"<%03d>" % entry_id


def add_some(world: World, first: int, count: int, ledger_id: int = LEDGER_ID) -> None:
    payloads = [payload(number) for number in range(first, first + count)]
    world.say(*add(batch(first, payloads, ledger_id=ledger_id), kind=BYPASS))
    world.written()


def sync_all(world: World) -> None:
    """Sync the entry logs that the actor asked for, and then the journal."""
    world.sync_logs()
    world.settle_journal()


def cursors(answers: list[Message]) -> list[int]:
    return [one.last_add_synced for one in answers if isinstance(one, SyncAnswer)]


def held(storage: BookieStorage, ledger_id: int = LEDGER_ID) -> list[tuple[int, int]]:
    return held_with(storage, ledger_id, payload)


# ------------------------------------------------------------------ while it runs


def test_entries_go_to_the_entry_log_alone_and_are_answered_after_the_write(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 3, 3)

    assert [type(one) for one in world.answers] == [AddAnswer, AddAnswer]
    records = [record for group in world.groups for record in group.records]
    assert not any(isinstance(one, EntriesRecord) for one in records)
    assert held(world.storage) == [(0, 5)]


def test_a_sync_is_answered_after_the_fsyncs_of_the_log_and_of_the_journal(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.say(SYNC)
    world.written()
    world.synced_journal()
    assert cursors(world.answers) == [], "the entry log is not synced"
    world.sync_logs()
    world.written()
    assert cursors(world.answers) == [], "the journal does not show it durably"
    world.synced_journal()

    assert cursors(world.answers) == [2]
    (record,) = [r for g in world.groups for r in g.records if isinstance(r, SyncedEntriesRecord)]
    assert record == SyncedEntriesRecord(LEDGER_ID, 0, 2)


def test_a_sync_covers_what_was_added_before_it_and_no_more(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.say(SYNC)
    world.written()
    add_some(world, 3, 2)  # while the fsync is under way
    sync_all(world)
    assert cursors(world.answers) == [2]
    assert [one.entry_count for one in world.actor.unsynced(0)] == [2]

    world.say(SYNC)
    sync_all(world)

    assert cursors(world.answers) == [2, 4]
    assert world.actor.unsynced(0) == []


def test_syncs_during_an_fsync_share_the_next_one(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 1)
    world.say(SYNC)
    add_some(world, 1, 1)
    world.say(SYNC)
    world.say(SYNC)
    assert len(world.log_syncs) == 1

    sync_all(world)
    assert len(world.log_syncs) == 1
    sync_all(world)

    assert cursors(world.answers) == [0, 1, 1]


def test_one_fsync_serves_all_ledgers_of_the_directory(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    add_some(world, 0, 4, ledger_id=8)
    world.say(SYNC)
    sync_all(world)
    world.answers.clear()

    world.say(*add(batch(4, [payload(4)], ledger_id=8), kind=BYPASS))
    world.written()

    (answer,) = world.answers
    assert isinstance(answer, AddAnswer)
    assert answer.last_add_synced == 3, "it moved with the sync of another ledger"


class SpanLike:
    """A span that remembers its events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, name: str) -> None:
        self.events.append(name)


def test_the_trace_of_an_add_has_its_admission(disk: SimulatedDisk) -> None:
    world, span = bookie(disk), SpanLike()
    add_some(world, 0, 1)
    request, *frames = add(batch(1, [payload(1)]), kind=BYPASS)
    traced = Inbound(b"peer", request, tuple(frames), 100, span=span)  # type: ignore[arg-type]

    world.tell(Requests([traced]))

    assert span.events == ["admitted"]
    assert list(map(id, world.groups[-1].spans)) == [id(span)]


def test_an_add_that_a_recovery_sends_again_waits_until_its_entries_are_durable(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    world.answers.clear()

    copies = batch(0, [payload(0), payload(1)])
    world.say(*add(copies, kind=BYPASS, is_recovery=True))
    world.written()
    world.synced_journal()
    assert world.answers == []
    sync_all(world)

    assert [type(one) for one in world.answers] == [AddAnswer]


def test_a_recovery_add_that_is_half_there_waits_for_both_halves(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    world.answers.clear()

    copies = batch(0, [payload(number) for number in range(3)]).select([1, 2])
    world.say(*add(copies, kind=BYPASS, is_recovery=True))
    world.written()
    world.synced_journal()
    assert world.answers == [], "entry 1 is in an entry log that is not synced"
    sync_all(world)

    assert [type(one) for one in world.answers] == [AddAnswer]


def test_the_journal_record_of_a_recovery_add_counts_nothing_that_only_a_log_has(
    disk: SimulatedDisk,
) -> None:
    """Seed 95001696: an entry in a log counted as synced with the record of its neighbor."""
    world = bookie(disk)
    whole = batch(0, [payload(0), payload(1)])
    world.say(*add(whole.select([1]), kind=BYPASS))
    world.written()
    world.say(*add(whole, kind=BYPASS, is_recovery=True))
    world.written()
    world.synced_journal()
    world.answers.clear()

    add_some(world, 2, 1)

    (answer,) = world.answers
    assert isinstance(answer, AddAnswer)
    assert answer.last_add_synced == 0, "entry 1 is in an entry log that is not synced"
    world.say(SYNC)
    sync_all(world)  # the logs that the recovery add waits for
    sync_all(world)
    assert cursors(world.answers) == [2]


def test_a_lac_does_not_wait_for_entry_logs_so_that_it_follows_no_higher_one(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 4)
    world.answers.clear()

    world.say(write_lac(1, kind=BYPASS, request_id=5))
    world.written()
    world.say(write_lac(3, kind=BYPASS, request_id=6))
    world.written()
    world.synced_journal()

    assert [one.lac for one in world.answers if isinstance(one, LacAnswer)] == [1, 3]


def test_what_a_repair_relies_on_waits_until_it_is_durable(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=LEDGER_ID))
    world.written()
    world.synced_journal()
    assert world.answers == []
    sync_all(world)

    (told,) = world.answers
    assert isinstance(told, LedgerInfo)
    assert told.ranges == [(0, 1)]


def test_a_checkpoint_leaves_nothing_un_synced(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)

    world.synced()  # with a checkpoint, as the entries are only in the log

    assert world.actor.unsynced(0) == []
    world.say(SYNC)
    world.settle()
    assert cursors(world.answers) == [2]


def test_an_fsync_without_a_descriptor_refuses_the_sync_and_keeps_the_entries(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    world.say(SYNC)
    world.log_syncs.clear()
    add_some(world, 2, 1)

    world.tell(LogsSynced(0, OutOfDescriptorsError("/b/ledgers/logs", "fsync", "too many")))

    assert world.last_error() is BusyError
    world.say(SYNC)
    sync_all(world)
    assert cursors(world.answers) == [2]


def test_a_ledger_with_un_synced_entries_stays_in_the_table(disk: SimulatedDisk) -> None:
    """Made again from storage, its cursor would count them as durable."""
    world = World(disk, "/b", segment_size=1 << 16, ledger_count_max=1)
    add_some(world, 0, 3)
    world.synced_journal()
    for ledger_id in (21, 22, 23):
        world.say(*add(batch(0, [b"0"], ledger_id=ledger_id), kind=PD))
        world.settle_journal()
    world.answers.clear()

    add_some(world, 3, 1)

    (answer,) = world.answers
    assert isinstance(answer, AddAnswer)
    assert answer.last_add_synced == -1


def test_a_clean_stop_makes_everything_durable(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    is_quiet = EventLike()

    world.tell(Quiesce(is_quiet))  # type: ignore[arg-type]  # of an event, only ``set`` is used
    world.settle_journal()

    assert is_quiet.is_set
    world.storage.close()
    disk.crash(Random(1))
    assert held(bookie(disk).storage) == [(0, 2)]


class EventLike:
    """An event without threads."""

    is_set = False

    def set(self) -> None:
        self.is_set = True


# ------------------------------------------------------------------ after a crash


def test_a_killed_process_loses_nothing_that_was_acknowledged(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 3, 2)
    disk.process_crash()

    assert held(bookie(disk).storage) == [(0, 4)]


def test_entries_after_a_checkpoint_are_found_behind_those_that_it_covers(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    add_some(world, 3, 2)
    disk.process_crash()

    assert held(bookie(disk).storage) == [(0, 4)]


def test_what_is_found_outlives_the_next_loss_of_power(disk: SimulatedDisk) -> None:
    add_some(bookie(disk), 0, 3)
    disk.process_crash()
    bookie(disk)
    disk.crash(Random(2))

    assert held(bookie(disk).storage) == [(0, 2)]


@pytest.mark.parametrize("is_synced", [True, False])
def test_what_is_found_after_a_failed_fsync_outlives_the_next_loss_of_power(
    disk: SimulatedDisk, is_synced: bool
) -> None:
    """The failed fsync left clean pages: another one writes nothing, and reports nothing."""
    world = bookie(disk)
    add_some(world, 0, 2)
    if is_synced:
        world.say(SYNC)
        sync_all(world)
    for first in range(2, 40, 2):
        add_some(world, first, 2)
    world.say(SYNC)
    disk.faults = [Fault("sync", errno.EIO, path_part="/logs/")]
    with pytest.raises(StorageFailedError):
        sync_all(world)
    disk.process_crash()
    assert held(bookie(disk).storage) == [(0, 39)]
    disk.crash(Random(2))

    assert held(bookie(disk).storage) == [(0, 39)]


def test_a_ledger_that_was_deleted_is_not_found_again(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    add_some(world, 3, 3)
    assert world.storage.mark_deleted([LEDGER_ID])
    assert world.storage.garbages[0].deleted.write()
    world.storage.garbages[0].drop([LEDGER_ID])
    disk.process_crash()

    assert held(bookie(disk).storage) == []


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_start_without_synced_entries_puts_their_ledger_in_limbo(
    disk: SimulatedDisk, damage: str
) -> None:
    """Their log is newer than the census, so only the journal knows that they were there."""
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 0, 1, ledger_id=8)
    world.say(SYNC)
    sync_all(world)
    add_some(world, 1, 1, ledger_id=8)  # not synced: it may be lost
    disk.process_crash()
    if damage == "removed":
        disk.remove_at_rest(LOG_PATH)
    else:
        with_closed_end(disk, 200)

    limbo = bookie(disk).storage.limbo.limbo

    assert limbo.reasons == (LossReason.INDEX_LOST,)
    assert limbo.is_miss_unknown(LEDGER_ID, BYPASS)
    assert not limbo.is_miss_unknown(77, BYPASS)


def with_closed_end(disk: SimulatedDisk, size: int) -> None:
    """Cut a log to a size."""
    file = disk.open(LOG_PATH)
    file.truncate(size)
    file.close()


def test_damage_in_an_un_synced_block_hides_only_that_block(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for entry_id in range(4):
        add_some(world, entry_id, 1)
    (_, location) = places(world)
    disk.process_crash()
    file = disk.open(LOG_PATH)
    file.pwrite([b"?"], location)
    file.close()

    assert held(bookie(disk).storage) == [(0, 0), (2, 3)]


def places(world: World) -> tuple[int, int]:
    """Return the places of the last bytes of entries 0 and 1 in the log."""
    locations = world.storage.homes.ledger(LEDGER_ID).index.locations_of(range(3))
    offsets = [one & 0xFFFFFFFF for one in locations]
    return offsets[1] - 49, offsets[2] - 49


Call = Callable[[], object]


def life_of_a_ledger(disk: SimulatedDisk) -> tuple[World, Call]:
    """Return a bookie that waits, and all steps from the first add to an answered sync."""
    world = World(disk, "/b", segment_size=1 << 16, log_size_max=1_000)

    def live() -> None:
        add_some(world, 0, 3)
        world.say(SYNC)
        sync_all(world)
        for entry_id in range(3, 12):  # they roll the log, and seal one
            add_some(world, entry_id, 1)
        world.checkpoint()
        add_some(world, 12, 2)
        world.say(SYNC)
        sync_all(world)
        add_some(world, 14, 2)

    return world, live


def test_a_loss_of_power_at_each_step_takes_nothing_that_a_sync_answered() -> None:
    """Issue of relaxed durability: add, sync, roll, seal, checkpoint and start."""
    worlds: list[World] = []
    cut_count = 0

    def prepare(disk: SimulatedDisk) -> Call:
        world, live = life_of_a_ledger(disk)
        worlds.append(world)
        return live

    for disk, step in crashed_at_each_step(prepare):
        promised = max(cursors(worlds[-1].answers), default=-1)
        acknowledged = sum(isinstance(one, AddAnswer) for one in worlds[-1].answers)
        for after in power_cuts(disk, Random(step), 6):
            cut_count += 1
            storage = World(after, "/b", segment_size=1 << 16).storage
            assert not storage.limbo.limbo.losses, "a cut is no loss of files"
            ranges = held(storage)
            if promised >= 0:
                assert ranges
                assert ranges[0][0] == 0
                assert ranges[0][1] >= promised, f"step {step}"
            after.crash(Random(step))
            again = held(World(after, "/b", segment_size=1 << 16).storage)
            assert again == ranges, "what was found once stays"
        disk.process_crash()
        count = sum(last - first + 1 for first, last in held(bookie(disk).storage))
        assert count >= min(acknowledged, 1) * (acknowledged + 2)
    assert cut_count > 200


def test_an_add_that_comes_again_is_answered_before_a_fence_that_follows(
    disk: SimulatedDisk,
) -> None:
    """A recovery must not see an acknowledgement that came after the answer to its fence."""
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 0, 3)
    fence = ReadLac(
        request_id=10, ledger_id=LEDGER_ID, ledger_key=KEY, ledger_type=BYPASS, is_fencing=True
    )
    world.say(fence)
    world.settle_journal()

    assert [type(one) for one in world.answers] == [AddAnswer, AddAnswer, LacAnswer]
