"""Entry logs: what was appended can be read; full ones are sealed; failures end them."""

import errno
from random import Random

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.entry_logs import DIRECTORY, LOG_1, batches, open_logs, scan_of, shared_log
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.entry_logs.entry_log import EntryLogs, log_ids, log_path
from zbk.storage.entry_logs.location import split_location


def assert_readable(logs: EntryLogs, batch: EntryBatch, base: int) -> None:
    offset = 0
    for entry in entries_in(batch).values():
        assert logs.read(base + offset, len(entry)) == entry
        offset += len(entry)


def test_a_list_of_batches_is_one_write_and_readable_at_once(disk: SimulatedDisk) -> None:
    logs = open_logs(disk)
    logs.append(batches(1))
    before = disk.operation_count
    some = batches(5)

    bases = logs.append(some)

    assert disk.operation_count == before + 1
    for batch, base in zip(some, bases, strict=True):
        assert_readable(logs, batch, base)


def test_nothing_is_made_before_the_first_batch(disk: SimulatedDisk) -> None:
    logs = open_logs(disk)
    logs.sync()

    assert log_ids(disk, DIRECTORY) == []
    assert logs.last_log_id == 0


def test_a_full_log_is_left_and_sealed(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=2000)
    some = batches(20)

    bases = [logs.append([batch])[0] for batch in some]

    ids = log_ids(disk, DIRECTORY)
    assert len(ids) > 3
    assert logs.last_log_id == ids[-1]
    for log_id in ids[:-1]:
        wanted: dict[int, int] = {}
        for batch, base in zip(some, bases, strict=True):
            if split_location(base)[0] == log_id:
                wanted[batch.ledger_id] = wanted.get(batch.ledger_id, 0) + batch.size
        assert scan_of(disk, log_id).size_by_ledger() == wanted
        assert len(disk.content(log_path(DIRECTORY, log_id))) < 2200
    for batch, base in zip(some, bases, strict=True):
        assert_readable(logs, batch, base)


def test_a_batch_larger_than_a_log_makes_its_log_larger(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=500)
    some = [batch_of(1, range(n, n + 1), 2000) for n in range(3)]

    bases = logs.append(some)

    for batch, base in zip(some, bases, strict=True):
        assert_readable(logs, batch, base)


def test_what_is_synced_ahead_is_on_the_disk(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, ahead_size=3000)
    logs.sync_ahead()
    logs.append([batch_of(1, range(1), 2000)])
    logs.sync()  # the name, too: that is not what is done ahead
    before = disk.operation_count
    logs.sync_ahead()
    assert disk.operation_count == before, "that little can wait"

    base = logs.append([batch_of(1, range(1, 2), 2000)])[0]
    logs.sync_ahead()
    synced_count = disk.operation_count
    logs.sync_ahead()
    assert disk.operation_count == synced_count, "it was there already"
    disk.crash(Random(1))

    assert_readable(open_logs(disk), batch_of(1, range(1, 2), 2000), base)


def test_a_new_log_is_synced_ahead_from_its_start(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=10_000, ahead_size=3000)
    for entry_id in range(4):
        logs.append([batch_of(1, range(entry_id, entry_id + 1), 2000)])
    logs.sync_ahead()
    logs.append([batch_of(1, range(4, 5), 2000)])
    assert shared_log(logs)[0] == 2
    before = disk.operation_count
    logs.sync_ahead()
    assert disk.operation_count == before
    logs.append([batch_of(1, range(5, 6), 2000)])
    logs.sync_ahead()
    assert disk.operation_count > before + 1


def test_each_growth_by_what_may_be_unsynced_is_reported_once(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=10_000, ahead_size=3000)
    grown: list[tuple[int, int]] = []
    logs.on_grown = lambda: grown.append(shared_log(logs))

    for entry_id in range(8):
        logs.append([batch_of(1, range(entry_id, entry_id + 1), 2000)])

    log_ids_, offsets = zip(*grown, strict=True)
    assert log_ids_ == (1, 1, 2, 2)
    assert min(offsets) > 3000
    assert offsets[1] - offsets[0] > 3000
    assert offsets[3] - offsets[2] > 3000


def test_what_was_synced_ahead_is_synced_again_where_it_is_promised(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=5000, ahead_size=100)
    some = batches(20)
    bases: list[int] = []
    for batch in some:
        bases += logs.append([batch])
        logs.sync_ahead()
    logs.sync()
    disk.crash(Random(2))

    after = open_logs(disk)
    for batch, base in zip(some, bases, strict=True):
        assert_readable(after, batch, base)


def test_a_sync_ahead_that_fails_is_the_end(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, ahead_size=100)
    logs.append(batches(3))
    disk.faults = [Fault("sync", errno.EIO, path_part=".log")]
    with pytest.raises(StorageFailedError, match="fsync"):
        logs.sync_ahead()
    with pytest.raises(StorageFailedError):
        logs.append(batches(1))


def test_what_cannot_be_opened_is_not_synced_ahead(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, ahead_size=100)
    logs.append(batches(3))
    disk.faults = [Fault("open", errno.EMFILE, path_part=".log")]
    logs.sync_ahead()
    assert disk.faults == []
    logs.append(batches(1))
    logs.sync()


def test_a_restart_begins_a_new_log(disk: SimulatedDisk) -> None:
    open_logs(disk).append(batches(1))
    disk.process_crash()

    logs = open_logs(disk)
    base = logs.append(batches(1))[0]

    assert split_location(base)[0] == 2
    assert open_logs(disk, last_log_id=77).last_log_id == 77


def test_sync_keeps_all_logs_and_their_names_over_a_power_loss(disk: SimulatedDisk) -> None:
    for seed in range(6):
        disk = SimulatedDisk()
        logs = open_logs(disk, log_size_max=2000)
        some = batches(20)
        bases = [logs.append([batch])[0] for batch in some]
        logs.sync()
        logs.append(batches(30))

        disk.crash(Random(seed))

        after = open_logs(disk)
        for batch, base in zip(some, bases, strict=True):
            assert_readable(after, batch, base)


def test_a_sync_covers_what_was_appended_before_it_was_begun(disk: SimulatedDisk) -> None:
    logs = open_logs(disk)
    logs.append(batches(3))
    sync = logs.begin_sync()
    content = disk.content(LOG_1)
    later = logs.begin_sync()
    sync.run()
    before = disk.operation_count
    sync.run()
    later.run()
    assert disk.operation_count == before, "done once, and nothing was new"

    disk.crash(Random(1))
    assert disk.content(LOG_1) == content


@pytest.mark.parametrize("operation", ["pwrite", "sync", "create", "sync_dir"])
def test_after_a_failure_nothing_is_written_any_more(disk: SimulatedDisk, operation: str) -> None:
    logs = open_logs(disk, log_size_max=2000)
    base = logs.append(batches(1))[0]
    disk.faults = [Fault(operation, errno.EIO)]

    def write_much() -> None:
        for batch in batches(20):
            logs.append([batch])
            logs.sync()

    with pytest.raises(StorageFailedError, match="logs"):
        write_much()
    before = disk.operation_count
    for refused in (lambda: logs.append(batches(1)), logs.sync):
        with pytest.raises(StorageFailedError):
            refused()

    assert disk.operation_count == before
    assert_readable(logs, batches(1)[0], base)


def test_a_removed_log_is_gone_for_good(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=2000)
    bases = [logs.append([batch])[0] for batch in batches(20)]
    logs.read(bases[0], 10)
    logs.sync()

    logs.remove([1])
    with pytest.raises(FileNotFoundError):
        logs.read(bases[0], 10)
    disk.crash(Random(0))

    assert 1 not in log_ids(disk, DIRECTORY)
    with pytest.raises(FileNotFoundError):
        open_logs(disk).read(bases[0], 10)


def test_a_log_that_cannot_be_removed_ends_storage(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=2000)
    for batch in batches(20):
        logs.append([batch])
    disk.faults = [Fault("remove", errno.EIO)]

    with pytest.raises(StorageFailedError, match="remove"):
        logs.remove([1])


def test_open_files_are_bounded(disk: SimulatedDisk) -> None:
    logs = open_logs(disk, log_size_max=500, open_max=2)
    some = batches(40)
    bases = [logs.append([batch])[0] for batch in some]
    logs.sync()
    for batch, base in zip(some, bases, strict=True):
        assert_readable(logs, batch, base)

    assert disk.open_count <= 2 + 1
    logs.close()
