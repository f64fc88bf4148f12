"""Compaction: what is live moves, what is dead goes, and nothing that goes wrong costs an entry."""

import copy
import errno
import logging
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, read_all, storage_on
from tests.support.compactions import Compactor
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.actors.messages import AskCheckpoint, CheckpointEnded
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.compaction_rounds import room_of
from zbk.config import BookieConfig
from zbk.config.units import MIB
from zbk.errors import CorruptRecordError, NoSuchLedgerError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.upkeep.compaction import CompactionKind, CompactionLimits
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.disk_reserve import DiskReserve
from zbk.storage.gc.compaction_note import NOTE_NAME
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

LOG_SIZE = 4_000
PAYLOAD_SIZE = 50


def opened(disk: SimulatedDisk, *, log_size_max: int = LOG_SIZE) -> BookieStorage:
    storage = storage_on(disk, log_size_max=log_size_max)
    storage.open()
    return storage


def add(storage: BookieStorage, ledger_id: int, first: int = 0, count: int = 10) -> None:
    """Store and journal entries."""
    batch = batch_of(ledger_id, range(first, first + count), PAYLOAD_SIZE)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    storage.journal.append(
        [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)]
    )


def checkpoint(storage: BookieStorage) -> None:
    storage.journal.sync()
    under_way = storage.begin_checkpoint()
    under_way.run()
    storage.end_checkpoint(under_way)


def delete(storage: BookieStorage, *ledger_ids: int) -> None:
    """Drop ledgers, and the logs that are dead then."""
    (garbage,) = storage.garbages
    assert garbage.deleted.mark(ledger_ids)
    assert garbage.deleted.write()
    garbage.drop(ledger_ids)
    for log_id in garbage.left_logs():
        garbage.remove_dead([log_id])


def logs_of(disk: SimulatedDisk) -> list[int]:
    return [int(path[-12:-4], 16) for path in disk.paths("/l/logs/") if path.endswith(".log")]


def check(storage: BookieStorage, ledger_id: int, count: int) -> None:
    """Read entries one by one and together."""
    ids = range(count)
    assert read_all(storage, ledger_id, ids) == batch_of(ledger_id, ids, PAYLOAD_SIZE).body


def check_clean(disk: SimulatedDisk) -> None:
    """Nothing of a compaction is left over."""
    assert disk.paths(".compacting") == []
    assert disk.paths(f"/l/{NOTE_NAME}") == []


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def half_dead(disk: SimulatedDisk) -> BookieStorage:
    """Return storage with six logs of which ledger 1 lives and ledger 2 does not, and one more."""
    storage = opened(disk)
    for first in range(0, 100, 10):
        add(storage, 1, first)
        add(storage, 2, first)
    checkpoint(storage)
    delete(storage, 2)
    assert logs_of(disk) == [1, 2, 3, 4, 5, 6, 7]
    return storage


# ------------------------------------------------------------------ what it does


def test_the_live_entries_of_several_logs_become_few_logs(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage)

    assert compactor.major() == 6

    assert logs_of(disk) == [7, 8, 9, 10]
    counts = compactor.rounds.counts
    assert counts.freed_size > 0.4 * 6 * LOG_SIZE
    check(storage, 1, 100)
    check(opened(disk.process_crash()), 1, 100)
    check_clean(disk)


def test_entries_that_came_interleaved_lie_in_a_row(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    for first in range(20):
        for ledger_id in (1, 2, 3):
            add(storage, ledger_id, first, count=1)
    add(storage, 9, count=30)
    checkpoint(storage)
    delete(storage, 3)
    before = {one: storage.homes.ledger(one).resolve(range(10), 1 << 20) for one in (1, 2)}

    assert Compactor(storage).major() >= 1

    for ledger_id in (1, 2):
        resolved = storage.homes.ledger(ledger_id).resolve(range(10), 1 << 20)
        assert resolved is not None
        was = before[ledger_id]
        assert was is not None
        spread = resolved.locations[-1] - resolved.locations[0]
        assert spread < was.locations[-1] - was.locations[0]
        check(storage, ledger_id, 20)


def test_what_was_made_is_collected_although_no_log_begins_after_it(disk: SimulatedDisk) -> None:
    """As on a full disk: without adds, no last mark comes to cover it."""
    storage = half_dead(disk)
    Compactor(storage).major()
    assert logs_of(disk) == [7, 8, 9, 10]

    delete(storage, 1)

    assert logs_of(disk) == [7]
    storage = opened(disk.process_crash())
    assert storage.ledgers() == []
    add(storage, 3)
    checkpoint(storage)
    check(opened(disk.process_crash()), 3, 10)


def test_what_was_made_is_not_collected_before_its_sources_are_gone(disk: SimulatedDisk) -> None:
    """The index on disk points at the sources until the checkpoint has ended."""
    storage = half_dead(disk)
    compactor = Compactor(storage)
    compactor.ask_checkpoint = lambda _asked: None
    compactor.major()
    (garbage,) = storage.garbages
    assert compactor.rounds.is_open
    (made,) = set(logs_of(disk)) - set(range(1, 8))

    assert made not in garbage.left_logs()


def test_what_was_made_is_collected_and_compacted_like_any_log(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage)
    compactor.major()
    for first in range(100, 200, 10):
        add(storage, 3, first)
        add(storage, 4, first)
    checkpoint(storage)
    made = [log_id for log_id in logs_of(disk) if 8 <= log_id <= 10]
    assert made == [8, 9, 10]

    delete(storage, 1)

    assert not set(made) & set(logs_of(disk))
    delete(storage, 3)
    assert compactor.major() > 0
    assert read_all(storage, 4, range(100, 200)) == batch_of(4, range(100, 200), 50).body


def test_the_ids_of_logs_that_are_made_are_not_given_to_others(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    Compactor(storage).major()

    for first in range(100, 160, 10):
        add(storage, 1, first, count=30)
    checkpoint(storage)

    assert [one for one in logs_of(disk) if one > 10], "adds have made logs, too"
    check(storage, 1, 100)
    storage = opened(disk.process_crash())
    add(storage, 1, 300)
    check(storage, 1, 100)


def test_logs_without_a_live_entry_go_without_a_copy(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    add(storage, 1)
    storage.journal.sync()
    disk.process_crash()
    storage = opened(disk)  # the journal brings all of it back: log 1 is dead, ledger 1 is not
    add(storage, 2, count=40)
    add(storage, 3, count=40)
    checkpoint(storage)
    assert logs_of(disk)[0] == 1
    compactor = Compactor(storage)

    assert compactor.major() == 1

    assert 1 not in logs_of(disk)
    assert compactor.rounds.counts.copied_size == 0
    check(storage, 1, 10)
    check_clean(disk)


@pytest.mark.parametrize("log_size_max", [1_500, 6_000, 1 << 20])
def test_after_many_kills_the_logs_hold_little_that_is_dead(
    disk: SimulatedDisk, log_size_max: int
) -> None:
    """What a replay stores once more is dead where it was, in logs with a map and without."""
    rng = Random(5)
    storage = opened(disk, log_size_max=log_size_max)
    count = 0
    for _ in range(40):
        for _ in range(rng.randrange(4)):
            add(storage, 1, count)
            count += 10
        if rng.random() < 0.3:
            checkpoint(storage)
        storage.journal.sync()
        disk.process_crash()
        storage = opened(disk, log_size_max=log_size_max)
    add(storage, 1, count)
    count += 10
    checkpoint(storage)
    disk.process_crash()
    storage = opened(disk, log_size_max=log_size_max)  # so that all logs are left
    add(storage, 2, count=1)
    checkpoint(storage)
    live_size = len(batch_of(1, range(count), PAYLOAD_SIZE).body)

    Compactor(storage).major()

    used_size = sum(len(disk.content(path)) for path in disk.paths("/l/logs/"))
    assert used_size < 1.6 * live_size
    check(storage, 1, count)


def test_entries_of_a_ledger_whose_index_is_lost_are_copied(disk: SimulatedDisk) -> None:
    """The index may be made anew from the logs: absence from it proves nothing."""
    storage = half_dead(disk)
    storage.homes.ledger(1).home.cache.delete(1)  # not noted: as if a disk had lost the file
    add(storage, 3, count=40)
    checkpoint(storage)

    Compactor(storage).major()

    (garbage,) = storage.garbages
    uses = [garbage.uses.use_of(log_id) for log_id in logs_of(disk)]
    size = sum(
        size
        for use in uses
        for ledger_id, size in zip(use.ledger_ids, use.sizes, strict=True)
        if ledger_id == 1
    )
    assert size == len(batch_of(1, range(100), PAYLOAD_SIZE).body)


def test_nothing_is_compacted_that_is_not_below_the_threshold(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage, CompactionLimits(major_threshold=0.3))
    before = disk.used_size

    assert compactor.major() == 0

    assert disk.used_size == before
    assert compactor.rounds.wins[CompactionKind.MAJOR].log_count == 0


def test_a_threshold_of_zero_is_off_and_says_so(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage, CompactionLimits(major_threshold=0))

    assert compactor.major() == 0

    assert "off" in compactor.rounds.round_counts.gave_up
    assert compactor.rounds.wins[CompactionKind.MAJOR].size == 0


def test_what_it_would_win_is_told_before_and_after(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage)

    compactor.run(compactor.rounds.round(None, lambda: False))

    win = compactor.rounds.wins[CompactionKind.MAJOR]
    dead_size = len(batch_of(2, range(100), PAYLOAD_SIZE).body)
    assert win.log_count == 6
    assert 0.8 * dead_size < win.size <= dead_size
    assert compactor.rounds.wins[CompactionKind.MINOR].log_count == 0
    compactor.major()
    assert compactor.rounds.wins[CompactionKind.MAJOR].log_count == 0


def test_it_reads_and_writes_no_faster_than_it_may(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage, rate_size=10_000)

    compactor.major()

    # sources are read to be copied and to be verified, copies are written and read
    moved_size = 2 * compactor.rounds.counts.copied_size
    assert compactor.waited_ms > moved_size * 1_000 / 10_000 - 1_000
    check(storage, 1, 100)


# ------------------------------------------------------------------ races


@pytest.mark.parametrize("step", range(1, 150, 4))
@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_happens_to_entries_while_they_move_counts(
    disk: SimulatedDisk, step: int, is_deleted: bool
) -> None:
    """A ledger is deleted, or entries are stored once more elsewhere, at any step."""
    storage = half_dead(disk)
    add(storage, 5, 0, count=5)
    add(storage, 6, 0, count=40)
    checkpoint(storage)
    compactor = Compactor(storage)

    def meanwhile() -> None:
        if compactor.step_count == step:
            if is_deleted:
                delete_now(storage, 1)
            else:
                add_batches(
                    storage.homes, [batch_of(1, range(30, 60), PAYLOAD_SIZE)]
                )  # as a replay or a repair
            add(storage, 1 if not is_deleted else 7, 100)

    compactor.between = meanwhile
    compactor.major()

    if is_deleted and compactor.step_count >= step:
        with pytest.raises(NoSuchLedgerError):
            storage.homes.ledger(1).resolve(range(10), 1 << 20)
    else:
        check(storage, 1, 110 if compactor.step_count >= step else 100)
    checkpoint(storage)
    storage = opened(disk.crash(Random(step)))
    if not is_deleted:
        check(storage, 1, 100)
    check(storage, 5, 5)
    check(storage, 6, 40)


def delete_now(storage: BookieStorage, ledger_id: int) -> None:
    """Drop a ledger, and leave the logs alone: the collector is busy with compaction."""
    (garbage,) = storage.garbages
    assert garbage.deleted.mark([ledger_id])
    assert garbage.deleted.write()
    garbage.drop([ledger_id])


def test_an_index_that_cannot_be_written_down_keeps_the_sources(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage)
    waiting: list[AskCheckpoint] = []
    compactor.ask_checkpoint = waiting.append

    assert compactor.major() == 0

    assert logs_of(disk)[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert compactor.rounds.is_open
    assert compactor.major() == 0
    assert "not on stable storage" in compactor.rounds.round_counts.gave_up
    check(storage, 1, 100)
    compactor.checkpoint()
    for asked in waiting:
        asked.reply_to.tell(CheckpointEnded(asked.wait_no))
    compactor.ask_checkpoint = compactor.checkpoint_now
    assert compactor.major() > 0
    check(storage, 1, 100)
    check_clean(disk)


def test_an_index_that_fills_up_while_entries_move_is_written_down_in_between() -> None:
    """And if it cannot be, they move on in a later round."""
    disk = SimulatedDisk()
    storage = storage_on(disk, log_size_max=LOG_SIZE, ledger_cache_size=9_000)  # of one page
    storage.open()
    for first in range(0, 100, 10):
        for ledger_id in (1, 2, 3):
            add(storage, ledger_id, first)
    checkpoint(storage)
    delete(storage, 2)
    compactor = Compactor(storage)
    compactor.ask_checkpoint = lambda _asked: None

    assert compactor.major() == 0
    assert compactor.rounds.is_open
    for ledger_id in (1, 3):
        check(storage, ledger_id, 100)

    compactor.ask_checkpoint = compactor.checkpoint_now
    assert compactor.major() > 0
    for ledger_id in (1, 3):
        check(storage, ledger_id, 100)
    check_clean(disk)


# ------------------------------------------------------------------ damage


def test_whatever_byte_of_a_source_is_damaged_nothing_else_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the source stays, as it is, and one line says where."""
    base = SimulatedDisk()
    storage = opened(base, log_size_max=900)
    for first in range(0, 9, 3):
        add(storage, 1, first, count=3)
        add(storage, 2, first, count=3)
    add(storage, 3, count=8)
    checkpoint(storage)
    delete(storage, 2)
    path = base.paths("/l/logs/")[0]
    whole = base.content(path)
    base.process_crash()
    given_up_count = 0
    for at in range(0, len(whole), 3):
        caplog.clear()
        disk = SimulatedDisk()
        disk.__dict__.update(_copied(base))
        disk.set_content(path, bytes([*whole[:at], whole[at] ^ 0x10, *whole[at + 1 :]]))
        storage = opened(disk, log_size_max=900)

        Compactor(storage).major()

        check_clean(disk)
        for first in (3, 6):
            ids = range(first, first + 3)
            assert read_all(storage, 1, ids) == batch_of(1, ids, PAYLOAD_SIZE).body
        if path in disk.paths("/l/logs/"):
            given_up_count += 1
            told = [one for one in caplog.records if one.levelno >= logging.WARNING]
            assert len(told) == 1
            assert path.rpartition("/")[2] in told[0].getMessage() or path in told[0].getMessage()
        else:
            check(storage, 1, 9)  # damage of what is dead, or of nothing
    assert given_up_count > 20


def _copied(disk: SimulatedDisk) -> dict[str, object]:
    return copy.deepcopy(disk.__dict__)


def test_damage_in_one_source_lets_the_others_be_compacted(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    storage = half_dead(disk)
    path = disk.paths("/l/logs/")[2]
    disk.flip_bit(path, 8 * 200)
    before = disk.content(path)
    compactor = Compactor(storage)

    assert compactor.major() == 5

    assert disk.content(path) == before
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert path in told
    assert "at byte" in told
    caplog.clear()
    assert compactor.major() == 0
    assert caplog.records == []
    check_clean(disk)


@pytest.mark.parametrize("is_pointed_at", [False, True])
def test_a_log_whose_last_write_a_kill_cut_off_goes_unless_something_is_read_there(
    caplog: pytest.LogCaptureFixture, is_pointed_at: bool
) -> None:
    """B30: cut at any byte of the last block; what the index has in it is damage, and stays."""
    base = SimulatedDisk()
    storage = opened(base)
    add(storage, 1, count=3)
    if is_pointed_at:
        add(storage, 1, 3, count=3)
    checkpoint(storage)
    if not is_pointed_at:
        add_batches(
            storage.homes, [batch_of(1, range(3, 6), PAYLOAD_SIZE)]
        )  # killed before it was journaled
    path = base.paths("/l/logs/")[0]
    whole = base.content(path)
    start = len(whole) - 3 * 98 - 48
    base.process_crash()
    for size in range(start + 1, len(whole), 7):
        caplog.clear()
        disk = SimulatedDisk()
        disk.__dict__.update(_copied(base))
        disk.set_content(path, whole[:size])
        storage = opened(disk)
        add(storage, 2, count=40)
        checkpoint(storage)

        Compactor(storage, CompactionLimits(major_threshold=1)).major()
        storage.garbages[0].compaction.counts.keep(1, {})  # as if all in it were dead
        Compactor(storage).major()

        is_short = size < start + 48  # no block, so nothing can be in it
        stays = is_pointed_at and not is_short
        assert (1 in logs_of(disk)) is stays
        warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert bool(warnings) is stays
        assert read_all(storage, 1, range(3)) == batch_of(1, range(3), PAYLOAD_SIZE).body
        check_clean(disk)


def test_what_a_cut_off_block_may_hold_is_looked_up_piece_by_piece(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    add(storage, 1, count=3)
    add(storage, 1, 3, count=3)
    checkpoint(storage)
    (path,) = disk.paths("/l/logs/")
    disk.process_crash()
    disk.set_content(path, disk.content(path)[:-1])
    core = opened(disk).garbages[0].compaction
    header = core.torn_block(1)
    assert header is not None
    assert header.first_entry_id == 3

    assert core.look_behind(1, header, 0, 2) == (False, 2)
    assert core.look_behind(1, header, 2, 2) == (True, 4)
    assert core.look_behind(1, header, 4, 2) == (True, 6)
    assert core.look_behind(1, header, 6, 2) == (False, None)


# ------------------------------------------------------------------ a full disk


@pytest.mark.parametrize("operation", ["pwrite", "create", "rename"])
@pytest.mark.parametrize("part", [".compacting", f"/l/{NOTE_NAME}"])
def test_a_hundred_failures_for_want_of_space_leave_no_byte(
    disk: SimulatedDisk, operation: str, part: str
) -> None:
    """B31: at each write of the new log and of the note, a hundred times in all."""
    storage = half_dead(disk)
    met: list[str] = []
    storage._on_no_space = met.append
    compactor = Compactor(storage)
    before, logs = disk.used_size, logs_of(disk)
    failure_count = skip_count = 0
    while failure_count < 100:
        fault = Fault(operation, errno.ENOSPC, skip_count=skip_count, path_part=part)
        disk.faults = [fault]
        gone_count = compactor.major()
        if fault in disk.faults:
            break  # it wrote less often than that
        if gone_count == 0:
            assert compactor.rounds.round_counts.gave_up
            assert disk.used_size == before
            assert logs_of(disk) == logs
            check_clean(disk)
            failure_count += 1
            continue
        before, logs = disk.used_size, logs_of(disk)
        skip_count += 1
        break
    assert failure_count
    assert met == [], "nobody else is told"
    disk.faults = []
    compactor.major()
    check(storage, 1, 100)
    assert disk.used_size < before or logs_of(disk) == [7, 8, 9, 10]


def test_without_room_for_the_copies_nothing_is_begun(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage, room_size=500)
    step_count = disk.operation_count

    assert compactor.major() == 0

    assert "no room" in compactor.rounds.round_counts.gave_up
    assert disk.operation_count == step_count


def test_with_little_room_a_log_at_a_time_makes_more(disk: SimulatedDisk) -> None:
    """On a full disk compaction gives back more than it takes."""
    storage = half_dead(disk)
    compactor = Compactor(storage, room_size=2_500)

    assert compactor.major() == 6

    check(storage, 1, 100)


@pytest.mark.parametrize("operation", ["sync", "sync_dir", "pwrite", "rename", "remove"])
def test_a_disk_that_fails_stops_the_bookie_and_loses_nothing(
    disk: SimulatedDisk, operation: str
) -> None:
    skip_count, has_failed = 0, True
    while has_failed:
        disk = SimulatedDisk()
        storage = half_dead(disk)
        fault = Fault(operation, errno.EIO, skip_count=skip_count, path_part="/l")
        disk.faults = [fault]
        try:
            Compactor(storage).major()
            has_failed = False
        except StorageFailedError:
            pass
        disk.crash(Random(skip_count)) if skip_count % 2 else disk.process_crash()
        storage = opened(disk)
        check(storage, 1, 100)
        skip_count += 1
    assert skip_count > 3


# ------------------------------------------------------------------ several directories, real room


def test_each_ledger_directory_is_compacted_by_itself(disk: SimulatedDisk) -> None:
    """With one note each; the other directory's logs have the same ids."""
    directories = ("/l1", "/l2")
    storage = _storage_in(disk, directories)
    for first in range(0, 100, 10):
        for ledger_id in (1, 2, 3, 4):
            add(storage, ledger_id, first)
    checkpoint(storage)
    for garbage in storage.garbages:
        assert garbage.deleted.mark([3, 4])
        assert garbage.deleted.write()
        garbage.drop([3, 4])
    before = {path: len(disk.paths(f"{path}/logs")) for path in directories}

    assert Compactor(storage).major() == sum(before.values()) - len(directories)

    storage = _storage_in(disk.process_crash(), directories)
    for ledger_id in (1, 2):
        check(storage, ledger_id, 100)
    assert disk.paths("compact") == []


def _storage_in(disk: SimulatedDisk, directories: tuple[str, ...]) -> BookieStorage:
    storage = BookieStorage(
        disk,
        journal_dir="/j",
        ledger_dir=directories,
        bookie_id="bookie-1",
        limits=StorageLimits(log_size_max=LOG_SIZE, segment_size=1 << 20),
    )
    storage.open()
    return storage


@pytest.mark.parametrize(
    ("is_readonly", "is_reserve_held", "room_size"),
    [(False, True, 512 * MIB), (True, True, 1024 * MIB), (True, False, 1008 * MIB)],
)
def test_copies_take_no_reserve_and_make_no_bookie_read_only(
    disk: SimulatedDisk, is_readonly: bool, is_reserve_held: bool, room_size: int
) -> None:
    disk.make_dirs("/l")
    reserve = DiskReserve(disk, "/l", 16 * MIB)
    disk.capacity = 1024 * MIB
    if is_reserve_held:
        disk.capacity += 16 * MIB
        assert reserve.make()
    gate = SpaceGate("b")
    gate.is_readonly = is_readonly
    config = BookieConfig(disk_readonly_free="512 MiB")

    found = room_of("/l", files=disk, reserves=[reserve], gate=gate, config=config)

    assert found == room_size


def test_a_log_whose_end_is_seen_otherwise_meanwhile_is_left_alone(disk: SimulatedDisk) -> None:
    """Seed 4390: it was an assertion, and the bookie's end."""
    storage = opened(disk)
    add(storage, 1, count=3)
    add(storage, 1, 3, count=3)
    checkpoint(storage)
    (path,) = disk.paths("/l/logs/")
    disk.process_crash()
    whole = disk.content(path)
    disk.set_content(path, whole[:-1])
    core = opened(disk).garbages[0].compaction
    header, torn = core.torn_block(1), core._uses.use_of(1).torn
    assert header is not None
    assert torn is not None

    assert core._lost.note(1, [(torn.offset, len(whole))])  # as the scrubber does

    with pytest.raises(CorruptRecordError, match="end has changed"):
        core.look_behind(1, header, 0, 2)
