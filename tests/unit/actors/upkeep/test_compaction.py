"""Compaction: what is live moves, what is dead goes, and thresholds and rates are kept to."""

from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import read_all
from tests.support.compacted_storage import (
    LOG_SIZE,
    PAYLOAD_SIZE,
    add,
    check,
    check_clean,
    checkpoint,
    delete,
    disk,
    half_dead,
    logs_of,
    opened,
)
from tests.support.compactions import Compactor
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.upkeep.compaction import CompactionKind, CompactionLimits
from zbk.storage.bookie_storage import BookieStorage, StorageLimits

__all__ = ["disk"]


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
