"""Logs of one ledger: who gets one, what a sync of one covers, and that none is left out."""

import errno
from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import batch_of
from tests.support.entry_logs import DIRECTORY, OWNER, scan_of
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.entry_log import EntryLogs, log_ids, log_path
from zbk.storage.entry_logs.location import split_location
from zbk.storage.entry_logs.own_logs import OwnLogLimits, OwnLogs

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

T = TypeVar("T")
SIZE_MIN = 400
BYPASS = {1, 2, 3, 4, 5}


class LosesAll(Random):
    """A loss of power that takes everything that was not synced."""

    def choice(self, seq: "SupportsLenAndGetItem[T]") -> T:
        return seq[0]  # the share of nothing


def logs_on(
    disk: SimulatedDisk, *, mode: str = "bypass", count_max: int = 2, log_size_max: int = 1 << 20
) -> EntryLogs:
    logs = EntryLogs(
        disk,
        DIRECTORY,
        owner=OWNER,
        open_files=OpenFiles(disk, 8),
        fail_stop=FailStop(),
        log_size_max=log_size_max,
        own_logs=OwnLogLimits(mode, count_max, SIZE_MIN),  # type: ignore[arg-type]
    )
    logs.open(0)
    return logs


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def large(ledger_id: int, first: int = 0) -> EntryBatch:
    return batch_of(ledger_id, range(first, first + 5), 100)


def small(ledger_id: int, first: int = 0) -> EntryBatch:
    return batch_of(ledger_id, range(first, first + 1), 20)


def ids_of(bases: Sequence[int]) -> list[int]:
    return [split_location(base)[0] for base in bases]


def ledgers_in(disk: SimulatedDisk, log_id: int) -> set[int]:
    return set(scan_of(disk, log_id).size_by_ledger())


def test_a_large_ledger_has_its_own_log_and_the_others_share_one(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)

    bases = logs.append([large(1), small(2), large(9), large(1, 5), small(9, 5)], BYPASS)

    first, shared, _, _, _ = found = ids_of(bases)
    assert found == [first, shared, shared, first, shared]
    assert ledgers_in(disk, first) == {1}
    assert ledgers_in(disk, shared) == {2, 9}
    assert logs.own_log_of(1) == first
    assert logs.own_log_of(2) is None
    for batch, base in zip([large(1), small(2)], bases, strict=False):
        assert logs.read(base, len(batch.body)) == batch.body


def test_a_small_ledger_gets_its_own_log_when_it_has_grown(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)

    used = [ids_of(logs.append([small(1, number)], BYPASS))[0] for number in range(20)]

    assert used == sorted(used)
    assert len(set(used)) == 2
    assert used.count(used[0]) > 2


@pytest.mark.parametrize(("mode", "count"), [("never", 1), ("bypass", 2), ("always", 3)])
def test_the_mode_says_which_ledgers_have_one(disk: SimulatedDisk, mode: str, count: int) -> None:
    logs = logs_on(disk, mode=mode, count_max=8)

    bases = logs.append([large(1), large(8), small(9)], BYPASS)

    assert len(set(ids_of(bases))) == count


def test_the_ledger_written_longest_ago_gives_its_place_and_does_not_take_it_back(
    disk: SimulatedDisk,
) -> None:
    logs = logs_on(disk)
    own = [ids_of(logs.append([large(ledger_id)], BYPASS))[0] for ledger_id in (1, 2)]
    logs.append([small(1, 5)], BYPASS)

    (third,) = ids_of(logs.append([large(3)], BYPASS))
    (again,) = ids_of(logs.append([large(2, 5)], BYPASS))

    assert len({*own, third, again}) == 4
    assert scan_of(disk, own[1]).map_of_ledgers() is not None, "the log of ledger 2 is sealed"
    assert logs.own_log_of(2) is None
    assert ledgers_in(disk, again) == {2}, "the shared log"
    assert not logs.is_own(again)
    assert set(logs.open_sizes()) == {own[0], third, again}


@given(order=st.lists(st.integers(1, 30), max_size=300), count_max=st.integers(0, 4))
def test_ledgers_in_any_order_open_one_log_each_at_most(order: list[int], count_max: int) -> None:
    own = OwnLogs(OwnLogLimits("bypass", count_max, SIZE_MIN))
    opened: list[int] = []
    open_ids: set[int] = set()
    for ledger_id in order:
        if own.admit(ledger_id, SIZE_MIN, has_room=True) and ledger_id not in open_ids:
            opened.append(ledger_id)
            open_ids.add(ledger_id)
        open_ids -= set(own.surplus())
        assert len(open_ids) <= count_max
    assert len(opened) == len(set(opened))


def test_a_sync_of_one_log_leaves_the_others_in_the_page_cache(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)
    one, other = ids_of(logs.append([large(1), large(2)], BYPASS))

    logs.begin_sync([one]).run()
    disk.crash(LosesAll())

    assert ledgers_in(disk, one) == {1}
    assert disk.content(log_path(DIRECTORY, other)) == b""


def test_a_sync_includes_one_of_the_same_log_that_has_not_run(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)
    (own,) = ids_of(logs.append([large(1)], BYPASS))
    checkpoint = logs.begin_sync()
    sync = logs.begin_sync([own])
    assert not sync.is_done

    sync.run()
    disk.crash(LosesAll())

    assert ledgers_in(disk, own) == {1}
    assert checkpoint.is_done


def test_a_sync_of_everything_has_full_logs_of_all_ledgers(disk: SimulatedDisk) -> None:
    logs = logs_on(disk, log_size_max=1_500)
    bases: list[int] = []
    batches = [large(ledger_id, 5 * n) for n in range(6) for ledger_id in (1, 2, 9)]
    for batch in batches:
        bases += logs.append([batch], BYPASS)

    logs.sync()
    disk.crash(LosesAll())

    again = logs_on(disk)
    for batch, base in zip(batches, bases, strict=True):
        assert again.read(base, len(batch.body)) == batch.body


@pytest.mark.parametrize("number", range(3))
def test_without_space_for_one_log_nothing_is_appended_to_any(
    disk: SimulatedDisk, number: int
) -> None:
    logs = logs_on(disk)
    logs.append([large(1), large(2), small(9)], BYPASS)
    before = logs.open_sizes()
    order = [small(1, 50), small(2, 50), small(9, 50)]
    path = log_path(DIRECTORY, ids_of(logs.append(order, BYPASS))[number])
    after = logs.open_sizes()
    assert all(after[log_id] > before[log_id] for log_id in before)
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part=path)]

    with pytest.raises(NoSpaceError):
        logs.append([small(1, 60), small(2, 60), small(9, 60)], BYPASS)

    assert logs.open_sizes() == after
    for log_id, size in after.items():
        assert len(disk.content(log_path(DIRECTORY, log_id))) == size
    disk.faults = []
    bases = logs.append([small(1, 60), small(2, 60), small(9, 60)], BYPASS)
    for ledger_id, base in zip((1, 2, 9), bases, strict=True):
        batch = small(ledger_id, 60)
        assert logs.read(base, len(batch.body)) == batch.body


def test_the_log_of_a_deleted_ledger_is_complete_and_needs_no_mark(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)
    one, other = ids_of(logs.append([large(1), large(2)], BYPASS))
    deleted = LedgerRanges().with_ids([1])
    assert not logs.is_own_of(one, deleted), "it is still written"

    logs.end_own([1])

    assert logs.is_own_of(one, deleted)
    assert not logs.is_own_of(other, deleted)
    assert one not in logs.open_sizes()
    sync = logs.begin_sync()  # a checkpoint that began before it is removed
    logs.remove([one])
    sync.run()
    assert one not in log_ids(disk, DIRECTORY)


def test_a_mark_does_not_cover_logs_that_were_open(disk: SimulatedDisk) -> None:
    logs = logs_on(disk)
    one, two, shared = ids_of(logs.append([large(1), large(2), small(9)], BYPASS))
    at = logs.begin_mark()
    logs.end_own([1])
    logs.append([large(3)], BYPASS)
    logs.marked(at)
    assert [log_id for log_id in (one, two, shared) if log_id in logs.left] == []
    assert at.least_sizes[two] > 500
    assert at.least_sizes[shared] == 0
    assert at.last_log_size > 0

    logs.marked(logs.begin_mark())

    assert [log_id for log_id in (one, two, shared) if log_id in logs.left] == [one]


def test_a_ledger_gets_no_own_log_while_many_wait_for_their_sync(disk: SimulatedDisk) -> None:
    """Each has a descriptor."""
    logs = logs_on(disk, count_max=1)
    for ledger_id in range(1, 6):
        logs.append([large(ledger_id)], BYPASS)
    open_count = disk.open_count
    assert open_count <= 4

    logs.sync()
    assert disk.open_count < open_count
    assert ids_of(logs.append([large(77)], {77}))[0] == logs.own_log_of(77)


def own_logs_of(logs: EntryLogs, ledger_ids: Iterable[int]) -> set[int]:
    return {one for one in ledger_ids if logs.own_log_of(one) is not None}


def test_a_ledger_that_gives_way_in_the_append_that_it_is_part_of_makes_no_new_log(
    disk: SimulatedDisk,
) -> None:
    """Nothing would have completed that log, and it took a descriptor for ever."""
    logs = logs_on(disk)
    one, two = ids_of(logs.append([large(1), large(2)], BYPASS))

    first, second, third, more = ids_of(
        logs.append([large(1, 5), large(2, 5), large(3), large(1, 10)], BYPASS)
    )

    assert second != two
    assert {first, third, more}.isdisjoint({two, second})
    assert scan_of(disk, two).map_of_ledgers() is not None, "the log of ledger 2 is sealed"
    assert not logs.is_own(second), "the shared log"
    assert (first, more) == (one, one)
    assert own_logs_of(logs, BYPASS) == {1, 3}
    assert set(logs.open_sizes()) == {one, second, third}


@given(
    turns=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=40), max_size=12),
    count_max=st.integers(0, 4),
)
def test_appends_of_any_ledgers_leave_few_own_logs_open(
    turns: list[list[int]], count_max: int
) -> None:
    disk = SimulatedDisk()
    logs = logs_on(disk, count_max=count_max)
    ledger_ids = set(range(1, 31))
    seen: dict[int, int] = {}
    own: dict[int, set[int]] = {}
    for turn in turns:
        batches = []
        for ledger_id in turn:
            batches.append(large(ledger_id, seen.get(ledger_id, 0)))
            seen[ledger_id] = seen.get(ledger_id, 0) + 5
        bases = logs.append(batches, ledger_ids)
        for batch, base in zip(batches, bases, strict=True):
            assert logs.read(base, len(batch.body)) == batch.body
            if logs.is_own(log_id := split_location(base)[0]):
                own.setdefault(batch.ledger_id, set()).add(log_id)
        assert len(own_logs_of(logs, ledger_ids)) <= count_max
        assert len(logs.open_sizes()) <= count_max + 1, "with the shared log"
        assert disk.open_count <= 3 * count_max + 10
    assert all(len(log_ids) == 1 for log_ids in own.values())


def test_one_append_of_more_ledgers_than_may_have_own_logs_makes_no_more_of_them(
    disk: SimulatedDisk,
) -> None:
    """Each one had a descriptor that was not counted."""
    logs = logs_on(disk, count_max=4)
    ledger_ids = range(1, 41)

    for turn in range(3):
        logs.append([large(one, 5 * turn) for one in ledger_ids], ledger_ids)

        assert len(own_logs_of(logs, ledger_ids)) == 4
        assert disk.open_count <= 2 * 4 + 2
    logs.sync()
    assert disk.open_count <= 4 + 1
    logs.append([large(one, 15) for one in (50, 51)], {50, 51})
    assert own_logs_of(logs, (50, 51)) == {50, 51}, "others give their places as before"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), OutOfDescriptorsError("/l", "open", "24")]
)
def test_a_log_that_could_not_be_made_leaves_nothing_at_the_log_that_gets_its_id(
    disk: SimulatedDisk, error: Exception
) -> None:
    """Found by seed 106006773: collections took the other log for one that is being written."""
    logs = logs_on(disk)

    def refuse(_log_id: int, _ledger_id: int) -> None:
        raise error

    logs.on_made = refuse
    with pytest.raises(NoSpaceError):
        logs.append([small(9)])
    assert logs.open_sizes() == {1: 0}, "a scrub may have listed it"
    logs.on_made = lambda _log_id, _ledger_id: None

    (own_id,) = ids_of(logs.append([large(1)], BYPASS))
    at = logs.begin_mark()
    assert at.least_sizes[own_id] == logs.open_sizes()[own_id] > 0
    logs.end_own([1])
    logs.sync()
    assert logs.open_sizes() == {}
    logs.remove([own_id])
    assert log_ids(disk, DIRECTORY) == []
    assert ids_of(logs.append([small(9)])) == [own_id + 1]


def test_a_log_that_could_not_be_made_leaves_its_id_to_compaction(disk: SimulatedDisk) -> None:
    """A census with it would show the next start a lost log, and put healthy ledgers in limbo."""
    logs = logs_on(disk, count_max=4)
    logs.append([large(1)], BYPASS)
    disk.faults.append(Fault("create", errno.ENOSPC, path_part=DIRECTORY))
    with pytest.raises(NoSpaceError):
        logs.append([large(2)], BYPASS)
    taken_id = logs.take_id()  # compaction gives it up, or makes a whole log
    assert taken_id not in logs.open_sizes()

    (own_id,) = ids_of(logs.append([large(3)], BYPASS))
    at = logs.begin_mark()

    assert set(at.least_sizes) == at.open_ids == {1, own_id} == set(log_ids(disk, DIRECTORY))
    logs.marked(at)
    assert taken_id in logs.left
    (again_id,) = ids_of(logs.append([large(2)], BYPASS))
    assert logs.open_sizes().keys() == {1, own_id, again_id}
