"""A scrub of one entry log: whatever byte is damaged is seen, and nothing else is."""

import errno
from array import array

import pytest

from tests.support.batches import batch_of
from tests.support.entry_logs import DIRECTORY, OWNER, open_logs, shared_log
from tests.support.scrubbing import BadDisk
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.upkeep.scrub import DamagedFile
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    FOOTER_SIZE,
    LOG_HEADER_SIZE,
    BlockHeader,
)
from zbk.storage.entry_logs.location import OFFSET_MAX, split_location
from zbk.storage.scrub.scrub_effects import Paid
from zbk.storage.scrub.scrub_log import (
    FAILED_READ_COUNT_MAX,
    SECTOR_SIZE,
    LogScrub,
    is_made_of_entries,
)

PATH = log_path(DIRECTORY, 1)
BATCHES = [batch_of(7, range(4)), batch_of(8, [3, 5, 9], 20), batch_of(7, range(4, 6), 30)]


def sealed_log() -> SimulatedDisk:
    """Return a disk with one whole log, and the next one begun."""
    disk = SimulatedDisk()
    logs = open_logs(disk, log_size_max=700)
    logs.append(BATCHES)
    logs.append([batch_of(9, range(10))])
    assert logs.last_log_id == 2
    return disk


def scrubbed(
    disk: SimulatedDisk, log_id: int = 1, end: int | None = None
) -> tuple[list[DamagedFile], LogScrub]:
    """Return what is wrong with a log."""
    scrub = LogScrub(disk, DIRECTORY, log_id, OWNER, end=end)
    return [step for step in scrub.steps() if not isinstance(step, Paid)], scrub


def in_regions(location: int, scrub: LogScrub) -> bool:
    offset = split_location(location)[1]
    return any(low <= offset < high for low, high in scrub.regions)


def block_offsets() -> list[int]:
    offsets, at = [], LOG_HEADER_SIZE
    for batch in BATCHES:
        offsets.append(at)
        at += BLOCK_HEADER_SIZE + batch.size
    return [*offsets, at]


def test_a_whole_log_is_read_once_and_nothing_is_wrong() -> None:
    disk = sealed_log()
    steps = list(LogScrub(disk, DIRECTORY, 1, OWNER).steps())

    assert all(isinstance(step, Paid) for step in steps)
    size = len(disk.content(PATH))
    assert size <= sum(step.size for step in steps if isinstance(step, Paid)) <= 3 * size


def test_every_damaged_byte_of_a_sealed_log_is_found_and_its_block_is_a_region() -> None:
    """The whole file is covered: header, headers of blocks, bodies, map, footer."""
    content = sealed_log().content(PATH)
    offsets = block_offsets()
    for at in range(len(content)):
        disk = sealed_log()
        disk.flip_bit(PATH, 8 * at + at % 8)

        faults, scrub = scrubbed(disk)

        assert len(faults) == 1, at
        assert faults[0].path == PATH
        if LOG_HEADER_SIZE <= at < offsets[-1]:
            block = max(offset for offset in offsets if offset <= at)
            assert block <= faults[0].offset <= block + BLOCK_HEADER_SIZE, at
            body = range(block + BLOCK_HEADER_SIZE, offsets[offsets.index(block) + 1])
            assert any(low <= body[0] and body[-1] < high for low, high in scrub.regions), at


def test_a_fault_names_the_ledger_where_it_can() -> None:
    disk = sealed_log()
    disk.flip_bit(PATH, 8 * (block_offsets()[1] + BLOCK_HEADER_SIZE + 50))

    faults, _ = scrubbed(disk)

    assert [(one.ledger_id, one.offset) for one in faults] == [
        (8, block_offsets()[1] + BLOCK_HEADER_SIZE)
    ]
    assert "3 entries from 3 on" in faults[0].reason


def test_every_cut_of_a_sealed_log_leaves_only_what_is_whole_outside_of_the_regions() -> None:
    """Without its map a log may be one that a crash cut off: the index decides what is missed."""
    content = sealed_log().content(PATH)
    offsets = block_offsets()
    for size in range(len(content)):
        disk = sealed_log()
        disk.set_content(PATH, content[:size])

        _, scrub = scrubbed(disk)

        whole = max((offset for offset in offsets if offset <= size), default=0)
        assert all(low >= whole for low, _ in scrub.regions), size


def test_the_torn_tail_of_a_log_that_was_not_sealed_is_no_damage() -> None:
    disk = sealed_log()
    path = log_path(DIRECTORY, 2)
    disk.set_content(path, disk.content(path) + b"torn" * 30)

    assert scrubbed(disk, 2)[0] == []


def test_a_log_without_a_header_is_damage_only_if_the_index_points_there() -> None:
    for size in range(LOG_HEADER_SIZE):
        disk = sealed_log()
        disk.set_content(PATH, disk.content(PATH)[:size])

        damage, scrub = scrubbed(disk)

        assert damage == []
        assert scrub.regions == [(0, OFFSET_MAX)]
        assert scrubbed(disk, end=100)[0], "what was written since the start has to be there"


def test_damage_ahead_of_whole_blocks_is_none_of_a_torn_tail() -> None:
    disk = sealed_log()
    content = disk.content(PATH)[: block_offsets()[-1]]  # not sealed
    disk.set_content(PATH, content)
    disk.flip_bit(PATH, 8 * (block_offsets()[0] + BLOCK_HEADER_SIZE + 9))

    assert len(scrubbed(disk)[0]) == 1


def growing_log() -> tuple[SimulatedDisk, int]:
    """Return a disk with one log that is being written, and up to where it was."""
    disk = SimulatedDisk()
    logs = open_logs(disk)
    logs.append(BATCHES)
    log_id, end = shared_log(logs)
    assert (log_id, end) == (1, block_offsets()[-1])
    return disk, end


def test_a_log_that_is_being_written_is_whole_up_to_where_it_was_written() -> None:
    disk, end = growing_log()
    for torn in (b"", b"t", bytes(100), b"zbk" * 60):
        disk.set_content(PATH, disk.content(PATH)[:end] + torn)

        assert scrubbed(disk, end=end)[0] == [], torn


def test_every_damaged_byte_of_a_log_that_is_being_written_is_found() -> None:
    """Of its last block, too, which in a log that a crash left may be torn."""
    disk, end = growing_log()
    content = disk.content(PATH)
    for at in range(end):
        disk.set_content(PATH, content)
        disk.flip_bit(PATH, 8 * at + at % 8)

        faults, scrub = scrubbed(disk, end=end)

        assert len(faults) == 1, at
        if at >= LOG_HEADER_SIZE:
            assert any(low <= at + BLOCK_HEADER_SIZE and at < high for low, high in scrub.regions)


def test_every_cut_of_a_log_that_is_being_written_is_found() -> None:
    disk, end = growing_log()
    content = disk.content(PATH)
    for size in range(LOG_HEADER_SIZE, end):
        disk.set_content(PATH, content[:size])

        faults, scrub = scrubbed(disk, end=end)

        assert len(faults) == 1, size
        assert all(in_regions(at, scrub) for at in range(size, end)), size


def test_a_log_that_was_removed_is_nobodys_fault() -> None:
    disk = sealed_log()
    disk.remove_at_rest(PATH)

    assert scrubbed(disk)[0] == []


def test_a_log_removed_while_it_is_read_is_let_go() -> None:
    disk = sealed_log()
    steps = LogScrub(disk, DIRECTORY, 1, OWNER).steps()
    next(steps)
    open_count = disk.open_count
    disk.remove_at_rest(PATH)

    assert list(steps) == []
    assert disk.open_count == open_count - 1


def test_sectors_that_cannot_be_read_cost_their_blocks_and_no_others() -> None:
    disk = BadDisk()
    logs = open_logs(disk, log_size_max=100_000)
    bases = logs.append([batch_of(7, range(first, first + 4), 2_000) for first in range(0, 40, 4)])
    logs.append([batch_of(7, range(40, 80), 2_000)])
    disk.bad[PATH] = range(3 * SECTOR_SIZE, 4 * SECTOR_SIZE)

    faults, scrub = scrubbed(disk)

    assert {(one.path, one.ledger_id) for one in faults} == {(PATH, 7), (PATH, None)}
    lost = [base for base in bases if in_regions(base, scrub)]
    assert lost == [base for base in bases if 4_096 < split_location(base)[1] < 4 * 4_096]


def test_a_sector_that_is_read_at_the_second_try_is_no_damage() -> None:
    disk = sealed_log()
    disk.faults = [Fault("pread", errno.EIO, 5, "/logs/")]

    faults, scrub = scrubbed(disk)

    assert (faults, scrub.regions, disk.faults) == ([], [], [])


def test_a_log_that_cannot_be_read_at_all_is_given_up_soon() -> None:
    disk = BadDisk()
    logs = open_logs(disk)
    logs.append([batch_of(7, range(1_000), 1_000)])
    disk.bad[PATH] = range(1 << 20)

    faults, scrub = scrubbed(disk)

    assert {one.path for one in faults} == {PATH}
    assert scrub.regions[-1][1] == OFFSET_MAX
    assert disk.bad_read_count <= FAILED_READ_COUNT_MAX + 10


def test_a_sector_that_nobody_needs_is_told_of_too() -> None:
    disk = BadDisk()
    logs = open_logs(disk)
    logs.append([batch_of(7, range(10))])  # not sealed: its end may be torn
    disk.bad[PATH] = range(len(disk.content(PATH)) - 1, len(disk.content(PATH)))

    assert [one.reason for one in scrubbed(disk)[0]] == ["sectors cannot be read"]


def test_a_log_that_cannot_be_opened_is_one_region() -> None:
    disk = sealed_log()
    disk.faults = [Fault("open", errno.EIO, 0, "/logs/")]

    faults, scrub = scrubbed(disk)

    assert "cannot be opened" in faults[0].reason
    assert scrub.regions == [(0, OFFSET_MAX)]


@pytest.mark.parametrize(
    "batch", [batch_of(7, range(5), 20), batch_of(7, range(5)), batch_of(7, [1, 4, 6], 20)]
)
def test_a_body_is_the_entries_that_its_header_says(batch: EntryBatch) -> None:
    good = BlockHeader(7, batch.first_entry_id, batch.count, batch.size, batch.checksum)
    others = [
        BlockHeader(8, batch.first_entry_id, batch.count, batch.size, 0),
        BlockHeader(7, batch.first_entry_id + 1, batch.count, batch.size, 0),
        BlockHeader(7, batch.first_entry_id, batch.count - 1, batch.size, 0),
        BlockHeader(7, batch.first_entry_id, batch.count + 1, batch.size, 0),
        BlockHeader(7, batch.first_entry_id, 0, batch.size, 0),
    ]
    swapped = batch.select([batch.count - 1]).body + batch.select([0]).body
    ids = array("q", [batch.last_entry_id])

    assert is_made_of_entries(batch.body, good)
    assert [is_made_of_entries(batch.body, other) for other in others] == [False] * 5
    assert not is_made_of_entries(swapped, BlockHeader(7, ids[0], 2, len(swapped), 0))
    assert not is_made_of_entries(batch.body[:-1], good)


def test_footer_and_header_sizes_are_those_of_the_format() -> None:
    assert len(sealed_log().content(PATH)) == block_offsets()[-1] + 2 * 16 + FOOTER_SIZE
