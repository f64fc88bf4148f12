"""Replay of a damaged journal: what was promised and cannot be read is refused, and not cut."""

import pytest

from tests.support.damage import flipped
from tests.support.journals import (
    DIRECTORY,
    OWNER,
    SEGMENT_1,
    SEGMENT_SIZE,
    entries_record,
    replay,
    replay_all,
    written,
)
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptJournalError, StorageFailedError
from zbk.storage.journal.record import EntriesRecord, JournalRecord
from zbk.storage.journal.segment import (
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    SegmentHeader,
    decode_copies,
    encode_header,
    segment_path,
)


def test_damage_to_any_record_that_a_later_group_followed_is_refused() -> None:
    """B37: damage before whole records is not a torn tail."""
    records: list[JournalRecord] = [entries_record(n, count=8) for n in range(8)]
    for victim in range(len(records)):
        disk = SimulatedDisk()
        journal = written(disk, records)
        assert journal.position.segment_id > 1
        before = {path: disk.content(path) for path in disk.paths()}
        path, offset = _place_of(disk, records[victim])
        content = bytearray(before[path])
        content[offset] ^= 1
        disk.set_content(path, bytes(content))

        with pytest.raises(CorruptJournalError, match="was synced and cannot be read"):
            replay_all(disk)

        before[path] = bytes(content)
        assert {p: disk.content(p) for p in disk.paths()} == before, "nothing was touched"


def _place_of(disk: SimulatedDisk, record: JournalRecord) -> tuple[str, int]:
    assert isinstance(record, EntriesRecord)
    for path in disk.paths(".journal"):
        found = disk.content(path).find(record.batch.body)
        if found >= 0:
            return path, found
    raise AssertionError("the record is nowhere")


def test_no_flipped_bit_of_a_closed_journal_goes_unseen() -> None:
    records: list[JournalRecord] = [entries_record(n) for n in range(4)]
    original = SimulatedDisk()
    written(original, records, segment_size=8 * SEGMENT_SIZE)
    content = original.content(SEGMENT_1).rstrip(b"\0")
    refused_count = 0
    for _, damaged in flipped(content, stride=37):
        disk = SimulatedDisk()
        disk.make_dirs(DIRECTORY)
        disk.open(SEGMENT_1, create=True)
        disk.set_content(SEGMENT_1, damaged)
        try:
            found, _ = replay_all(disk)
        except CorruptJournalError:
            refused_count += 1
            continue
        assert found == records, "the header and the last note may be damaged, the records not"
    assert refused_count > 8 * sum(record.size for record in records) // 37 - 2


@pytest.mark.parametrize("unit", [512, 4096])
def test_no_sector_lost_or_swapped_in_a_closed_journal_goes_unseen(unit: int) -> None:
    records: list[JournalRecord] = [entries_record(n, count=5) for n in range(4)]
    original = SimulatedDisk()
    written(original, records, segment_size=8 * SEGMENT_SIZE)
    content = original.content(SEGMENT_1)
    sectors = [content[at : at + unit] for at in range(0, len(content), unit)]
    last = len(content.rstrip(b"\0")) // unit
    cases = [[*sectors[:n], bytes(unit), *sectors[n + 1 :]] for n in range(last)]
    cases += [[*sectors[:n], b"\xa5" * unit, *sectors[n + 1 :]] for n in range(last)]
    cases += [
        [*sectors[:n], sectors[m], *sectors[n + 1 : m], sectors[n], *sectors[m + 1 :]]
        for n in range(last)
        for m in range(n + 1, last, 3)
    ]
    for case in cases:
        disk = SimulatedDisk()
        disk.make_dirs(DIRECTORY)
        disk.open(SEGMENT_1, create=True)
        disk.set_content(SEGMENT_1, b"".join(case))
        try:
            found, _ = replay_all(disk)
        except CorruptJournalError:
            continue
        assert found == records


def test_the_last_group_has_no_evidence_unless_the_journal_was_idle_or_closed(
    disk: SimulatedDisk,
) -> None:
    """The limit of what can be told: written down, so that nobody takes it for more."""
    journal = written(disk, [entries_record(1), entries_record(2)], is_noted=False)
    at = SEGMENT_HEADER_SIZE + entries_record(1).size + 100
    disk.flip_bit(SEGMENT_1, 8 * at)

    assert replay_all(disk)[0] == [entries_record(1)]
    assert journal.synced_position.sequence == 2


def test_a_missing_segment_in_the_middle_is_refused(disk: SimulatedDisk) -> None:
    """B37: segments are numbered by a counter, so that a gap shows, whatever the clock says."""
    written(disk, [entries_record(n, count=30) for n in range(4)])
    disk.remove_at_rest(segment_path(DIRECTORY, 2))

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_a_journal_without_its_beginning_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(n, count=30) for n in range(4)])
    disk.remove_at_rest(SEGMENT_1)

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_a_journal_that_was_cut_is_shorter_than_its_header_says(disk: SimulatedDisk) -> None:
    """B37: at the end of a record, too, where nothing looks torn and no evidence is left."""
    written(disk, [entries_record(1), entries_record(2)])
    size = SEGMENT_HEADER_SIZE + entries_record(1).size
    disk.set_content(SEGMENT_1, disk.content(SEGMENT_1)[:size])

    with pytest.raises(CorruptJournalError, match="its end is missing"):
        replay_all(disk)

    assert len(disk.content(SEGMENT_1)) == size, "nothing was touched"


def test_a_journal_whose_headers_say_no_length_is_taken_as_it_is(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)], segment_size=SEGMENT_SIZE)
    content = disk.content(SEGMENT_1)
    header = decode_copies(content)[0]
    assert header is not None
    old = encode_header(OWNER, 1, header.nonce)
    assert decode_copies(old)[0] == SegmentHeader(1, header.owner_hash, header.nonce, 0)
    disk.set_content(SEGMENT_1, (old + content[len(old) :]).rstrip(b"\0"))

    assert replay_all(disk)[0] == [entries_record(1)]


def test_a_missing_marked_segment_is_refused(disk: SimulatedDisk) -> None:
    """B39: a mark that points at a segment which is gone has lost entries."""
    written(disk, [entries_record(1)])

    with pytest.raises(CorruptJournalError, match="last log mark is missing"):
        replay_all(disk, JournalPosition(7, SEGMENT_HEADER_SIZE, 1, 1))


@pytest.mark.parametrize("copy_offset", [0, 4096])
def test_one_damaged_copy_of_a_segments_header_costs_nothing(
    disk: SimulatedDisk, copy_offset: int
) -> None:
    records: list[JournalRecord] = [entries_record(n, count=30) for n in range(4)]
    written(disk, records)
    for path in disk.paths(".journal"):
        disk.flip_bit(path, 8 * (copy_offset + 30))

    assert replay_all(disk)[0] == records


def test_a_marked_segment_without_a_header_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    mark = JournalPosition(1, SEGMENT_HEADER_SIZE, 0, 0)
    assert replay_all(disk, mark)[0] == [entries_record(1)]
    for copy_offset in (0, 4096):
        disk.flip_bit(SEGMENT_1, 8 * (copy_offset + 30))

    with pytest.raises(CorruptJournalError, match="no header"):
        replay_all(disk, mark)


def test_a_lost_header_in_the_middle_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(n, count=30) for n in range(4)])
    for copy_offset in (0, 4096):
        disk.flip_bit(segment_path(DIRECTORY, 2), 8 * (copy_offset + 30))

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_the_journal_of_another_bookie_is_refused_and_left_alone(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    before = disk.content(SEGMENT_1)

    with pytest.raises(CookieMismatchError):
        replay(disk, DIRECTORY, None, lambda _: None, owner=b"bookie-2")

    assert disk.content(SEGMENT_1) == before


def test_a_file_that_cannot_be_read_is_an_error(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    disk.faults = [Fault("pread", 5, skip_count=1)]

    with pytest.raises(StorageFailedError, match="replay"):
        replay_all(disk)
