"""Entry logs: what was appended can be read; full ones are sealed; damage hides nothing."""

import errno
from random import Random

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.entry_logs import DIRECTORY, open_logs, scan_of, shared_log
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError, StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.entry_logs.entry_log import EntryLogs, log_ids, log_path
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, LOG_HEADER_SIZE
from zbk.storage.entry_logs.location import split_location
from zbk.storage.entry_logs.scan import SEARCH_SIZE, Block, Damage, EntryLogScan

LOG_1 = log_path(DIRECTORY, 1)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def batches(count: int) -> list[EntryBatch]:
    return [batch_of(n % 3, range(n * 10, n * 10 + 5)) for n in range(count)]


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


# ---------------------------------------------------------------- scan


def blocks_of(disk: SimulatedDisk, log_id: int = 1) -> list[Block | Damage]:
    return list(scan_of(disk, log_id).blocks())


def test_a_scan_yields_every_block(disk: SimulatedDisk) -> None:
    some = batches(6)
    logs = open_logs(disk)
    bases = logs.append(some)

    found = blocks_of(disk)

    assert all(isinstance(block, Block) and block.is_intact for block in found)
    assert [block.offset for block in found] == [split_location(base)[1] for base in bases]
    assert [b.header.first_entry_id for b in found if isinstance(b, Block)] == [
        batch.first_entry_id for batch in some
    ]


def sealed_log(disk: SimulatedDisk) -> list[EntryBatch]:
    logs = open_logs(disk, log_size_max=2000)
    some = batches(20)
    bases = [logs.append([batch])[0] for batch in some]
    return [b for b, base in zip(some, bases, strict=True) if split_location(base)[0] == 1]


def test_whatever_byte_is_damaged_no_ledger_of_a_log_is_forgotten() -> None:
    """B33: a damaged header or map is never a log without ledgers."""
    original = SimulatedDisk()
    some = sealed_log(original)
    content = original.content(LOG_1)
    wanted = scan_of(original, 1).size_by_ledger()
    headers = [block.offset - BLOCK_HEADER_SIZE for block in blocks_of(original)]
    disk = SimulatedDisk()
    disk.make_dirs(DIRECTORY)
    disk.open(LOG_1, create=True)
    for at in range(0, len(content), 3):
        disk.set_content(LOG_1, content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])

        assert scan_of(disk, 1).size_by_ledger() == wanted, "map or scan: one of them is whole"

        found = blocks_of(disk)
        blocks = [block for block in found if isinstance(block, Block)]
        damaged_headers = [h for h in headers if h <= at < h + BLOCK_HEADER_SIZE]
        assert len(blocks) == len(some) - len(damaged_headers)
        end = blocks[-1].offset + blocks[-1].header.body_size
        if LOG_HEADER_SIZE <= at < end and not damaged_headers:
            assert [block.is_intact for block in blocks].count(False) == 1
        if damaged_headers or at < LOG_HEADER_SIZE:
            assert any(isinstance(one, Damage) for one in found)


def test_without_a_map_the_bytes_are_counted_block_by_block(disk: SimulatedDisk) -> None:
    sealed_log(disk)
    wanted = scan_of(disk, 1).size_by_ledger()
    content = disk.content(LOG_1)
    for cut_size in (1, 20, 41, 60):
        disk.set_content(LOG_1, content[:-cut_size])
        assert scan_of(disk, 1).size_by_ledger() == wanted


@pytest.mark.parametrize("shift", [-BLOCK_HEADER_SIZE, *range(-7, 3)])
def test_a_block_behind_much_damage_is_found_wherever_it_begins(
    disk: SimulatedDisk, shift: int
) -> None:
    """The search reads a piece at a time: a header may begin in one and end in the next."""
    open_logs(disk).append(batches(1))
    content = disk.content(LOG_1)
    begin = LOG_HEADER_SIZE + 1 + SEARCH_SIZE + shift
    damage = bytes(begin - LOG_HEADER_SIZE)
    disk.set_content(LOG_1, content[:LOG_HEADER_SIZE] + damage + content[LOG_HEADER_SIZE:])

    lost, *found = blocks_of(disk)

    assert lost == Damage(LOG_HEADER_SIZE, len(damage), is_tail=False)
    (block,) = found
    assert isinstance(block, Block)
    assert (block.offset, block.is_intact) == (begin + BLOCK_HEADER_SIZE, True)


def test_a_torn_tail_is_reported_and_hides_nothing_before_it(disk: SimulatedDisk) -> None:
    some = batches(4)
    bases = open_logs(disk).append(some)
    content = disk.content(LOG_1)
    last_offset = split_location(bases[-1])[1]
    for size in range(last_offset - BLOCK_HEADER_SIZE, len(content), 7):
        disk.set_content(LOG_1, content[:size] + bytes(500))

        found = blocks_of(disk)

        whole = [b for b in found if isinstance(b, Block) and b.is_intact]
        assert len(whole) == 3
        assert isinstance(found[-1], Damage)
        assert found[-1].is_tail


def test_a_damaged_block_header_does_not_hide_the_blocks_behind_it(disk: SimulatedDisk) -> None:
    some = batches(4)
    bases = open_logs(disk).append(some)
    header_offset = split_location(bases[1])[1] - BLOCK_HEADER_SIZE
    disk.flip_bit(LOG_1, 8 * header_offset + 77)

    found = blocks_of(disk)

    damage = [one for one in found if isinstance(one, Damage)]
    assert damage == [Damage(header_offset, BLOCK_HEADER_SIZE + some[1].size, is_tail=False)]
    assert len(found) == 4


def test_an_entry_that_holds_a_log_does_not_add_blocks(disk: SimulatedDisk) -> None:
    other = SimulatedDisk()
    open_logs(other, last_log_id=8).append(batches(3))
    stolen = other.content(log_path(DIRECTORY, 9))
    bases = open_logs(disk).append([EntryBatch.of(1, range(1), [len(stolen)], stolen), *batches(1)])
    disk.flip_bit(LOG_1, 8 * (split_location(bases[0])[1] - 20))

    found = [one for one in blocks_of(disk) if isinstance(one, Block)]

    assert [block.header.first_entry_id for block in found] == [0]
    assert found[0].header.ledger_id == 0


def test_a_log_of_another_bookie_is_refused(disk: SimulatedDisk) -> None:
    open_logs(disk).append(batches(1))

    with pytest.raises(CookieMismatchError):
        list(EntryLogScan(disk, DIRECTORY, 1, b"bookie-2").blocks())


def test_a_log_that_cannot_be_read_is_an_error(disk: SimulatedDisk) -> None:
    open_logs(disk).append(batches(1))
    with pytest.raises(CorruptRecordError, match="cannot be read"):
        scan_of(disk, 2).size_by_ledger()
    disk.faults = [Fault("pread", errno.EIO)]
    with pytest.raises(CorruptRecordError, match="cannot be read"):
        scan_of(disk, 1).size_by_ledger()
