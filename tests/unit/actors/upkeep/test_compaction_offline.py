"""What a crash left of a compaction, and the commands for a bookie that is stopped."""

import pytest

from tests.support.compacted_storage import check_clean, logs_of, opened
from tests.support.simulated_disk import SimulatedDisk
from tests.unit.actors.upkeep.test_compaction_crashes import (
    SMALL_LOG,
    check_small,
    left_by_compaction,
    small_disk,
)
from zbk.storage.gc.compaction_note import NOTE_NAME
from zbk.storage.tools.rebuild import IndexRebuild
from zbk.storage.tools.sanity import SanityCheck


@pytest.fixture(scope="module")
def stages() -> list[SimulatedDisk]:
    """Return disks of bookies that were killed at each step of a compaction."""
    return [disk.process_crash() for disk in left_by_compaction(small_disk())]


def problems_of(disk: SimulatedDisk) -> list[str]:
    check = SanityCheck(disk, journal_dir="/j", ledger_dir="/l", bookie_id="bookie-1")
    return [f"{one.path} {one.reason}" for one in check.problems()]


def test_nothing_that_is_half_done_is_a_problem(stages: list[SimulatedDisk]) -> None:
    found = {
        len(disk.paths(".compacting")) + 2 * len(disk.paths(f"/l/{NOTE_NAME}")) for disk in stages
    }
    assert found >= {0, 2, 3}, "a note alone, and with a log that is being made"
    for disk in stages:
        assert problems_of(disk) == []


def test_a_damaged_note_is_a_problem(stages: list[SimulatedDisk]) -> None:
    disk = next(one for one in stages if f"/l/{NOTE_NAME}" in one.paths())
    whole = disk.content(f"/l/{NOTE_NAME}")
    disk.flip_bit(f"/l/{NOTE_NAME}", 70)
    (problem,) = problems_of(disk)
    assert problem.startswith(f"/l/{NOTE_NAME}")
    disk.set_content(f"/l/{NOTE_NAME}", whole)


def test_an_index_made_anew_in_the_middle_has_everything_and_ends_the_compaction(
    stages: list[SimulatedDisk],
) -> None:
    """B30: what the new index finds in a source must not go with it."""
    for disk in stages:
        IndexRebuild(
            disk,
            journal_dir="/j",
            ledger_dir="/l",
            bookie_id="bookie-1",
            ask_others=lambda _ledger_id: None,
        ).run()
        assert not disk.paths(f"/l/{NOTE_NAME}")
        before = logs_of(disk)

        storage = opened(disk, log_size_max=SMALL_LOG)

        assert storage.garbages[0].compaction.open_plan is None
        assert set(before) <= set(logs_of(disk))
        check_small(storage)
        check_clean(disk)
