"""A scan of an entry log finds every whole block; damage hides nothing else."""

import errno

import pytest

from tests.support.entry_logs import DIRECTORY, LOG_1, batches, open_logs, scan_of
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, LOG_HEADER_SIZE
from zbk.storage.entry_logs.location import split_location
from zbk.storage.entry_logs.scan import SEARCH_SIZE, Block, Damage, EntryLogScan


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
