"""What the owner of the index says while entries move: which are read there, and which move."""

from array import array

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, storage_on
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.location import location_of, split_location
from zbk.storage.entry_logs.runs import Run
from zbk.storage.gc.compaction import Compaction
from zbk.storage.gc.compaction_note import CompactionPlan
from zbk.storage.gc.live_counts import LiveCounts
from zbk.storage.replay import add_batches

LEDGER_ID = 1
FILLER_ID = 2
PAYLOAD_SIZE = 50
LOG_SIZE = 4_000
IDS = range(10)
SOURCE = 1
TARGET = 1_000


class Moving:
    """Ten entries in log 1, of which some are stored once more, in a later log."""

    def __init__(self, *again: int) -> None:
        self.disk = SimulatedDisk()
        self.storage = storage_on(self.disk, log_size_max=LOG_SIZE)
        self.storage.open()
        for ledger_id in (LEDGER_ID, FILLER_ID):
            self.storage.homes.place(ledger_id).home.cache.set_ledger_key(
                ledger_id, KEY, LedgerType.PD_JOURNAL
            )
        self._add(LEDGER_ID, IDS)
        self.old = self.locations
        assert {split_location(one)[0] for one in self.old} == {SOURCE}
        self.run = Run(LEDGER_ID, IDS, array("I", [98] * len(IDS)), self.old, memoryview(b""))
        self._add(FILLER_ID, range(60))  # it fills the log
        for entry_id in again:
            self._add(LEDGER_ID, [entry_id])

    @property
    def core(self) -> Compaction:
        (garbage,) = self.storage.garbages
        return garbage.compaction

    @property
    def locations(self) -> "array[int]":
        """Where the index points now."""
        return self.core._cache.handle(LEDGER_ID).locations_of(IDS)

    def copies(self) -> Run:
        """Return the run in the new log."""
        places = array("Q", [location_of(TARGET, 98 * at + 200) for at in IDS])
        return Run(LEDGER_ID, IDS, self.run.sizes, places, memoryview(b""))

    def delete(self) -> None:
        (garbage,) = self.storage.garbages
        assert garbage.deleted.mark([LEDGER_ID])
        assert garbage.deleted.write()

    def _add(self, ledger_id: int, entry_ids: range | list[int]) -> None:
        add_batches(self.storage.homes, [batch_of(ledger_id, entry_ids, PAYLOAD_SIZE)])


@pytest.mark.parametrize(
    ("again", "is_pointed_at"),
    [((), True), (range(9), True), (range(1, 10), True), ((4,), True), (IDS, False)],
    ids=["none", "all but the last", "all but the first", "one", "all"],
)
def test_a_run_is_pointed_at_while_one_entry_of_it_is(
    again: tuple[int, ...], is_pointed_at: bool
) -> None:
    moving = Moving(*again)

    assert moving.core.has_pointer(moving.run) is is_pointed_at
    assert list(moving.core.live_places(moving.run)) == [one for one in IDS if one not in again]


@pytest.mark.parametrize("again", [(), (0,), (3, 4), (9,), tuple(IDS)])
def test_only_what_points_at_a_source_is_moved(again: tuple[int, ...]) -> None:
    """What was stored once more meanwhile is elsewhere, and stays there."""
    moving = Moving(*again)
    before, copies = moving.locations, moving.copies()

    assert moving.core.relocate(copies, {SOURCE}) == len(IDS) - len(again)

    expected = [before[one] if one in again else copies.locations[one] for one in IDS]
    assert moving.locations.tolist() == expected


def test_nothing_is_moved_that_points_at_another_log_than_the_sources() -> None:
    moving = Moving()

    assert moving.core.relocate(moving.copies(), {SOURCE + 7}) == 0
    assert moving.locations == moving.old


def test_a_deleted_ledger_has_nothing_to_move_and_nothing_that_is_read() -> None:
    moving = Moving()
    moving.delete()

    assert moving.core.relocate(moving.copies(), {SOURCE}) == 0
    assert not moving.core.has_pointer(moving.run)
    assert list(moving.core.live_places(moving.run)) == []


def test_a_ledger_whose_deletion_no_disk_has_room_to_note_is_moved_like_the_others() -> None:
    """Its index points at the source until it is dropped, and that is no damage."""
    moving = Moving()
    (garbage,) = moving.storage.garbages
    assert garbage.deleted.mark([LEDGER_ID])

    assert moving.core.relocate(moving.copies(), {SOURCE}) == len(IDS)

    assert not moving.core.has_pointer(moving.run)
    assert moving.locations == moving.copies().locations


def test_a_log_that_is_trusted_is_known_until_it_is_forgotten() -> None:
    counts = LiveCounts()
    counts.trust(SOURCE)
    assert counts.is_known(SOURCE)
    assert not counts.is_known(TARGET)

    counts.forget(SOURCE)

    assert not counts.is_known(SOURCE)


def test_a_log_has_a_map_while_it_is_sealed_and_all_of_its_map_is_there() -> None:
    moving = Moving()
    core = moving.core
    current = max(
        split_location(one)[0] for one in core._cache.handle(FILLER_ID).locations_of(range(60))
    )
    assert current > SOURCE
    assert core.has_map(SOURCE)
    assert not core.has_map(current), "it is being written"


def test_sources_that_are_removed_are_forgotten_and_their_bytes_are_freed() -> None:
    moving = Moving()
    core, disk = moving.core, moving.disk
    plan = CompactionPlan(TARGET, (SOURCE,))
    size = len(disk.content(log_path("/l/logs", SOURCE)))
    assert core.note(plan)
    core.finish(plan, core.begin_log(plan))
    core.counts.keep(SOURCE, {LEDGER_ID: 980})

    assert core.forget_sources(plan)
    assert core.remove_sources(plan) == size

    assert not disk.exists(log_path("/l/logs", SOURCE))
    assert not core.counts.is_known(SOURCE)
    assert core.left_sources(plan) == []
    assert core.open_plan is None


def test_a_plan_stays_where_anything_has_failed_before() -> None:
    core = Moving().core
    plan = CompactionPlan(TARGET, (SOURCE,))
    assert core.note(plan)
    core.finish(plan, core.begin_log(plan))
    core._fail_stop.failed("/j", "write", OSError())

    with pytest.raises(StorageFailedError):
        core.give_up(plan)

    assert core.open_plan == plan


def test_after_a_plan_that_is_given_up_its_sources_are_counted_anew_and_another_can_begin() -> None:
    """Some of their entries were moved, perhaps."""
    moving = Moving()
    core = moving.core
    plan = CompactionPlan(TARGET, (SOURCE,))
    assert core.note(plan)
    log = core.begin_log(plan)
    core.finish(plan, log)
    core.counts.keep(SOURCE, {LEDGER_ID: 980})
    core.counts.keep(SOURCE + 1, {FILLER_ID: 98})

    core.give_up(plan)

    assert not core.counts.is_known(SOURCE)
    assert core.counts.is_known(SOURCE + 1)
    assert core.open_plan is None
    assert not moving.disk.exists(core._note.path)
    assert core.note(plan)
    core.abandon()


def test_a_ledger_without_an_index_keeps_its_copies_and_points_nowhere() -> None:
    """Its index was lost with a file, perhaps: it may be made anew from the logs."""
    moving = Moving()
    lost = Run(7, IDS, moving.run.sizes, moving.old, memoryview(b""))

    assert list(moving.core.live_places(lost)) == list(IDS)
    assert not moving.core.has_pointer(lost)
    assert moving.core.relocate(lost, {SOURCE}) == 0
