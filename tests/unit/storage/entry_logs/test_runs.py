"""Reading a log in pieces: all of it, verified; and nothing that is not as it was written."""

import pytest

from tests.support.batches import batch_of
from tests.support.damage import flipped
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptRecordError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.location import location_of, split_location
from zbk.storage.entry_logs.runs import RUN_COUNT, LogRuns, Piece
from zbk.storage.gc.compaction_log import CompactionLog, merge

OWNER = b"bookie-1"


def log_with(*batches: EntryBatch) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l/logs")
    log = CompactionLog(disk, "/l/logs", 7, owner=OWNER, fail_stop=FailStop())
    for batch in batches:
        log.append([batch])
    log.finish()
    return disk


def pieces_of(disk: SimulatedDisk, size_max: int = 1 << 20) -> list[Piece]:
    return [*LogRuns(disk, "/l/logs", 7, OWNER).pieces(size_max)]


def test_all_entries_come_in_their_order_with_their_places() -> None:
    batches = [
        batch_of(1, range(5)),
        batch_of(2, range(3, 8), 50),
        batch_of(1, [5, 9, 11], 20),
        batch_of(3, range(2_500), 1),
    ]
    disk = log_with(*batches)
    content = disk.content(disk.paths(".log")[0])

    runs = [run for piece in pieces_of(disk, 300) for run in piece.runs]

    assert b"".join(run.body for run in runs) == b"".join(batch.body for batch in batches)
    found = [(run.ledger_id, entry_id) for run in runs for entry_id in run.entry_ids]
    assert found == [(one.ledger_id, entry_id) for one in batches for entry_id in one.entry_ids]
    assert max(run.count for run in runs) == RUN_COUNT
    for run in runs:
        for at in range(run.count):
            _, offset = split_location(run.locations[at])
            assert content[offset : offset + run.sizes[at]] == bytes(run.spans([at])[0])


def test_pieces_are_no_larger_than_they_may_be_but_for_a_large_block() -> None:
    disk = log_with(*(batch_of(1, range(first, first + 2), 50) for first in range(0, 20, 2)))
    assert [piece.size for piece in pieces_of(disk, 400)] == [392] * 5
    assert [piece.size for piece in pieces_of(disk, 100)] == [196] * 10


def test_whatever_bit_is_flipped_nothing_wrong_is_given_out() -> None:
    batches = [batch_of(1, range(3)), batch_of(2, range(2), 5)]
    disk = log_with(*batches)
    (path,) = disk.paths(".log")
    whole = disk.content(path)
    given = [bytes(run.body) for piece in pieces_of(disk) for run in piece.runs]
    for _, damaged in flipped(whole, stride=5):
        disk.set_content(path, damaged)
        try:
            found = [bytes(run.body) for piece in pieces_of(disk) for run in piece.runs]
        except CorruptRecordError as error:
            assert path in str(error)  # noqa: PT017 - it may be raised, or not
            continue
        assert found == given


def test_the_tail_holds_the_last_blocks() -> None:
    disk = log_with(*(batch_of(1, range(first, first + 2), 50) for first in range(0, 20, 2)))
    runs = LogRuns(disk, "/l/logs", 7, OWNER)
    (piece,) = runs.tail(500)
    assert [run.entry_ids for run in piece.runs] == [range(16, 18), range(18, 20)]
    (piece,) = runs.tail(10)
    assert [run.entry_ids for run in piece.runs] == [range(18, 20)]
    (piece,) = runs.tail(1 << 20)
    assert len(piece.runs) == 10


def test_another_bookies_log_is_not_read() -> None:
    disk = log_with(batch_of(1, range(3)))
    with pytest.raises(CorruptRecordError, match="another bookie"):
        next(LogRuns(disk, "/l/logs", 7, b"bookie-2").pieces())


def test_what_came_interleaved_is_merged_and_what_does_not_ascend_is_not() -> None:
    batches = [batch_of(1, [4, 5]), batch_of(2, [0]), batch_of(1, [6]), batch_of(1, [2, 3])]
    (piece,) = pieces_of(log_with(*batches))
    selected = [(run, range(run.count)) for run in piece.runs]

    merged = merge([*selected[:1], (piece.runs[1], ()), *selected[2:]])

    assert [(one.ledger_id, list(one.entry_ids)) for one in merged] == [(1, [4, 5, 6]), (1, [2, 3])]
    assert merged[0].body == batches[0].body + batches[2].body
    some = merge([(piece.runs[0], [1])])
    assert some[0].body == batch_of(1, [5]).body
    assert location_of(7, 80) == piece.runs[0].locations[0]
