"""A running bookie keeps what its answers promise of ledgers that bypass the journal."""

from random import Random

from tests.support.bypass_ledgers import (
    BYPASS,
    SYNC,
    add_some,
    bookie,
    cursors,
    empty_disk,
    held,
    payload,
    sync_all,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, write_lac
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.actors.serve.storage_door import Quiesce, Requests
from zbk.errors import BusyError, OutOfDescriptorsError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import EntriesRecord, SyncedEntriesRecord
from zbk.transport.inbound import Inbound
from zbk.wire.messages import AddAnswer, GetLedgerInfo, LacAnswer, LedgerInfo, ReadLac

__all__ = ["empty_disk"]

PD = LedgerType.PD_JOURNAL


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
