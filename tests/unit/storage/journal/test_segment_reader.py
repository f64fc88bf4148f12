"""A search for the records of a segment finds the same ones through a window of any size."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.journals import DIRECTORY, OWNER, entries_record, written
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.record import FenceRecord
from zbk.storage.journal.segment import NO_POSITION, SEGMENT_HEADER_SIZE, segment_path
from zbk.storage.journal.segment_reader import SegmentReader
from zbk.system.files import OsFiles


@pytest.mark.parametrize("payload_size", [10_000, 500_000])
def test_a_record_behind_a_long_row_of_zeros_is_found_on_a_real_disk(
    tmp_path: Path, payload_size: int
) -> None:
    directory, files = str(tmp_path), OsFiles()
    journal = Journal(
        files, directory, owner=OWNER, start=NO_POSITION, fail_stop=FailStop(), segment_size=2 << 20
    )
    journal.append([entries_record(1, payload_size=payload_size)])
    hidden_at = journal.position.offset
    journal.append([entries_record(2)])
    journal.close()
    with closing(files.open(segment_path(directory, 1))) as file:
        file.pwrite([bytes(hidden_at - SEGMENT_HEADER_SIZE)], SEGMENT_HEADER_SIZE)

    found = _starts(files, directory, window_size=4096)

    assert found[0] == hidden_at
    assert found == _starts(files, directory, window_size=4 << 20), "all of it is one window"


def _starts(files: OsFiles, directory: str, window_size: int) -> list[int]:
    starts, offset = [], SEGMENT_HEADER_SIZE
    with SegmentReader(files, directory, 1, OWNER, window_size) as reader:
        while (found := reader.find(offset)) is not None:
            starts.append(found[0])
            offset = found[1].end_offset
    return starts


def test_the_search_for_records_does_not_depend_on_the_window(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1), FenceRecord(3)], is_noted=False)
    for window_size in range(100, 300):
        with SegmentReader(disk, DIRECTORY, 1, OWNER, window_size) as reader:
            found = []
            offset = 0
            while (decoded := reader.next_record(offset)) is not None:
                found.append(decoded.record)
                offset = decoded.end_offset

        assert found == [entries_record(1), FenceRecord(3)]
