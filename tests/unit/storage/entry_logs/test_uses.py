"""What entry logs are used for: by map or by scan, kept in bounded memory, told from damage."""

import pytest

from tests.support.batches import batch_of
from tests.support.entry_logs import DIRECTORY, OWNER, open_logs
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.uses import LogUses


def written(log_count: int, ledger_count: int = 2) -> SimulatedDisk:
    """Return a disk with sealed logs of so many ledgers each, and one that is being written."""
    disk = SimulatedDisk()
    disk.make_dirs(DIRECTORY)
    logs = open_logs(disk, log_size_max=ledger_count * 500)
    for log_no in range(log_count + 1):
        logs.append([batch_of(log_no * 10 + n, range(4), 60) for n in range(ledger_count)])
    logs.close()
    return disk


@pytest.mark.parametrize("has_map", [True, False])
def test_ledgers_and_bytes_come_from_the_map_or_from_the_blocks(has_map: bool) -> None:
    disk = written(1)
    (path, _) = disk.paths(".log")
    if not has_map:
        disk.set_content(path, disk.content(path)[: -(2 * 16 + 40)])

    use = LogUses(disk, DIRECTORY, OWNER).use_of(1)

    size = len(batch_of(0, range(4), 60).body)
    assert (list(use.ledger_ids), list(use.sizes)) == ([0, 1], [size, size])
    assert use.is_whole
    assert use.size == len(disk.content(path))
    assert use.dead_size(LedgerRanges().with_ids([1, 2])) == size
    assert not use.is_dead(LedgerRanges().with_ids([1, 2]))
    assert use.is_dead(LedgerRanges().with_ids([0, 1]))


def test_a_log_whose_blocks_end_in_the_middle_is_never_dead() -> None:
    disk = written(1)
    (path, _) = disk.paths(".log")
    disk.set_content(path, disk.content(path)[:-150])

    use = LogUses(disk, DIRECTORY, OWNER).use_of(1)

    assert not use.is_whole
    assert not use.is_dead(LedgerRanges().with_ids(range(100)))


def test_a_log_that_is_not_there_or_of_another_bookie_is_never_dead() -> None:
    disk = written(1)

    for use in (
        LogUses(disk, DIRECTORY, OWNER).use_of(9),
        LogUses(disk, DIRECTORY, b"another").use_of(1),
    ):
        assert not use.is_dead(LedgerRanges().with_ids(range(100)))


def test_no_more_is_kept_in_memory_than_allowed_and_all_is_told() -> None:
    disk = written(6)
    uses = LogUses(disk, DIRECTORY, OWNER, pair_count_max=5)

    for _ in range(2):
        for log_id in range(1, 7):
            ids = list(uses.use_of(log_id).ledger_ids)
            assert ids == [(log_id - 1) * 10, (log_id - 1) * 10 + 1]
            assert sum(len(use.ledger_ids) for use in uses._known.values()) <= 5
    uses.forget(6)
    uses.forget(1)
    assert uses._pair_count == sum(len(use.ledger_ids) for use in uses._known.values())
