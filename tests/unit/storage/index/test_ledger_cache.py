"""The ledger cache: a dict with a limit, that flushes, and never says "absent" of damage."""

import errno
from array import array
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.ledger_caches import KEY, PAGE_MEMORY, open_cache, put
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CorruptRecordError, NoSuchLedgerError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.index_file import IndexPath, index_directories
from zbk.storage.index.index_page import page_offset
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.index.page_slots import find_absent, find_present, page_runs


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def location(ledger_id: int, entry_id: int) -> int:
    return 1 << 34 | ledger_id << 24 | entry_id + 1


def put_range(cache: LedgerCache, ledger_id: int, first: int, last: int) -> None:
    put(cache, ledger_id, {e: location(ledger_id, e) for e in range(first, last + 1)})


def test_what_was_put_is_found(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 1000, 3100)

    found = cache.handle(1).locations_of(range(990, 3111))

    assert found[:10] == array("Q", bytes(80))
    assert found[10:-10].tolist() == [location(1, e) for e in range(1000, 3101)]
    assert found[-10:] == array("Q", bytes(80))
    assert cache.handle(1).last_entry_id == 3100


def test_scattered_ids_are_put_and_found(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    ids = [1, 3, 1023, 1024, 1025, 5000]
    put(cache, 1, {e: location(1, e) for e in ids})

    wanted = [*ids, 5001]
    found = cache.handle(1).locations_of(array("q", wanted))

    assert found.tolist() == [*[location(1, e) for e in ids], 0]
    assert cache.handle(1).locations_of(array("q", [0, 2, 4, 2000])).tolist() == [0, 0, 0, 0]


def test_everything_survives_a_flush_and_a_restart(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 2000)
    put_range(cache, 2, 77, 77)
    cache.handle(2).set_fenced()
    cache.handle(1).set_explicit_lac(1990)
    cache.handle(1).set_explicit_lac(5)
    cache.handle(1).set_last_add_synced(1980)
    cache.handle(1).set_last_add_synced(7)
    cache.flush()
    disk.crash(Random(1))

    cache, _ = open_cache(disk)

    assert cache.handle(1).locations_of(range(2001)).tolist() == [
        location(1, e) for e in range(2001)
    ]
    assert cache.info(1) == LedgerInfo(
        1, KEY, LedgerType.PD_JOURNAL, explicit_lac=1990, last_add_synced=1980, last_entry_id=2000
    )
    assert cache.info(2) == LedgerInfo(
        2, KEY, LedgerType.PD_JOURNAL, is_fenced=True, last_entry_id=77
    )
    assert cache.ledgers() == [1, 2]
    assert cache.ledger_count == 2


def test_a_ledger_that_is_not_here_is_not_here(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)

    assert cache.info(1) is None
    for ask in (
        lambda: cache.handle(1).locations_of(range(2)),
        lambda: cache.handle(1).locations_of([0]),
        lambda: cache.handle(1).last_entry_id,
        lambda: cache.handle(1).contiguous_until(-1),
        lambda: cache.handle(1).next_entry_id(0),
        lambda: cache.handle(1).set_fenced(),
        lambda: cache.handle(1).prepare(range(1)),
    ):
        with pytest.raises(NoSuchLedgerError):
            ask()


def test_key_and_type_are_kept_as_they_came_first(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    cache.set_ledger_key(1, KEY, LedgerType.VD_JOURNAL)

    cache.set_ledger_key(1, bytes(16), LedgerType.PD_JOURNAL)

    assert cache.info(1) == LedgerInfo(1, KEY, LedgerType.VD_JOURNAL)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_the_unbroken_run_is_found_over_pages_and_holes(
    disk: SimulatedDisk, is_flushed: bool
) -> None:
    cache, _ = open_cache(disk, memory_size_max=PAGE_MEMORY)
    put_range(cache, 1, 0, 2047)
    put_range(cache, 1, 2049, 2060)
    put_range(cache, 1, 100 * 1024, 100 * 1024 + 5)
    if is_flushed:
        cache.flush()

    assert cache.handle(1).contiguous_until(-1) == 2047
    assert cache.handle(1).contiguous_until(1000) == 2047
    assert cache.handle(1).contiguous_until(2047) == 2047
    assert cache.handle(1).contiguous_until(2048) == 2060
    assert cache.handle(1).contiguous_until(100 * 1024 - 1) == 100 * 1024 + 5
    assert cache.handle(1).contiguous_until(10**9) == 10**9
    assert cache.handle(1).next_entry_id(0) == 0
    assert cache.handle(1).next_entry_id(2048) == 2049
    assert cache.handle(1).next_entry_id(2061) == 100 * 1024
    assert cache.handle(1).next_entry_id(100 * 1024 + 6) is None


def test_memory_and_files_stay_within_their_limits(disk: SimulatedDisk) -> None:
    cache, logs = open_cache(disk, memory_size_max=3 * PAGE_MEMORY, ledger_count_max=4, open_max=2)
    for ledger_id in range(30):
        put_range(cache, ledger_id, 0, 1500)
        assert cache.pages.size <= 3 * PAGE_MEMORY
        assert len(cache.headers) <= 4
    for ledger_id in range(30):
        assert cache.handle(ledger_id).locations_of(range(1501))[-1] == location(ledger_id, 1500)
        assert cache.pages.size <= 3 * PAGE_MEMORY
        assert len(cache.headers) <= 4
        assert disk.open_count <= 2
    assert logs.begun_count == len(logs.runs) > 0


def test_entries_are_synced_before_what_points_at_them_is_written(disk: SimulatedDisk) -> None:
    """B35: no page of the index is written before the entries that it names."""
    cache, logs = open_cache(disk, memory_size_max=PAGE_MEMORY)
    put_range(cache, 1, 0, 1023)
    before = disk.operation_count

    put_range(cache, 1, 1024, 1024)  # makes room

    assert logs.runs == [before]
    assert disk.operation_count > before


def test_a_flush_brings_what_was_there_when_it_began(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    flush = cache.begin_flush()
    put_range(cache, 1, 10, 19)
    cache.handle(1).set_fenced()
    flush.run()
    cache.end_flush(flush)
    assert cache.handle(1).locations_of(range(20))[-1] == location(1, 19)

    after, _ = open_cache(disk.crash(Random(1)))

    info = after.info(1)
    assert info is not None
    assert (info.last_entry_id, info.is_fenced) == (9, False)
    assert after.handle(1).locations_of(range(11)).tolist() == [
        *(location(1, e) for e in range(10)),
        0,
    ]


def test_what_changes_during_a_flush_is_in_the_next_one(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    flush = cache.begin_flush()
    put_range(cache, 1, 10, 19)
    flush.run()
    cache.end_flush(flush)

    cache.flush()

    after, _ = open_cache(disk.crash(Random(1)))
    assert after.handle(1).locations_of(range(20))[-1] == location(1, 19)


def test_room_can_be_made_while_a_flush_is_under_way(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=2 * PAGE_MEMORY)
    put_range(cache, 1, 0, 2047)
    flush = cache.begin_flush()  # and the other thread has not come to it yet
    put_range(cache, 1, 2048, 8000)

    flush.run()
    cache.end_flush(flush)

    assert cache.pages.size <= 2 * PAGE_MEMORY
    assert cache.handle(1).locations_of(range(8001)).tolist() == [
        location(1, e) for e in range(8001)
    ]
    cache.flush()
    after, _ = open_cache(disk.crash(Random(1)))
    assert after.handle(1).locations_of(range(8001)).tolist() == [
        location(1, e) for e in range(8001)
    ]


def test_a_flush_is_due_when_much_of_the_room_is_taken_by_changes(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=8 * PAGE_MEMORY)
    put_range(cache, 1, 0, 6 * 1024 - 1)
    assert not cache.is_flush_due
    put_range(cache, 1, 6 * 1024, 6 * 1024 + 200)
    assert cache.is_flush_due

    cache.flush()

    assert not cache.is_flush_due


# ---------------------------------------------------------------- delete


def test_a_deleted_ledger_is_gone_for_good(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    for ledger_id in (1, 2):
        put_range(cache, ledger_id, 0, 2000)
    cache.flush()
    put_range(cache, 1, 2001, 2005)

    cache.delete(1)
    cache.delete(99)

    assert cache.info(1) is None
    assert (cache.ledgers(), cache.ledger_count) == ([2], 1)
    cache.flush()
    after, _ = open_cache(disk.crash(Random(1)))
    assert (after.ledgers(), after.ledger_count) == ([2], 1)


@pytest.mark.parametrize("is_old", [False, True], ids=["new ledger", "ledger with a file"])
@pytest.mark.parametrize("step", range(4))
def test_a_ledger_deleted_while_it_is_flushed_does_not_come_back(
    disk: SimulatedDisk, step: int, is_old: bool
) -> None:
    """B36: the flush makes no file anew."""
    cache, _ = open_cache(disk)
    if is_old:
        put_range(cache, 1, 0, 9)
        cache.flush()
    put_range(cache, 1, 10, 19)
    put_range(cache, 2, 0, 9)
    flush = cache.begin_flush()
    for number, take in enumerate((flush.sync_entry_logs, flush.write, flush.apply)):
        if number == step:
            cache.delete(1)
        take()
    if step == 3:
        cache.delete(1)
    cache.end_flush(flush)
    assert cache.info(1) is None

    for crash in (disk.process_crash, lambda: disk.crash(Random(1))):
        crash()
        after, _ = open_cache(disk)
        assert after.ledgers() == [2]
        assert disk.paths(".new") == []


def test_a_ledger_made_anew_has_nothing_of_the_deleted_one(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    cache.flush()
    put_range(cache, 1, 10, 19)
    cache.flush()  # the flush file speaks of ledger 1 now
    cache.delete(1)
    put(cache, 1, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(1).locations_of(range(20)).tolist() == [4242] + [0] * 19


def test_a_ledger_made_anew_is_read_from_its_new_file(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=PAGE_MEMORY)
    for ledger_id in (1, 2):
        put_range(cache, ledger_id, 0, 9)
    cache.flush()
    assert cache.handle(1).locations_of(range(9, 10))[0] == location(1, 9)  # its file is open now
    cache.delete(1)
    put(cache, 1, {0: 4242})
    cache.flush()
    assert cache.handle(2).locations_of(range(1))[0] == location(
        2, 0
    )  # takes the one page there is room for

    assert cache.handle(1).locations_of(range(10)).tolist() == [4242] + [0] * 9


class _DeletesMeanwhile(SimulatedDisk):
    """Something else happens while the flush file is synced."""

    meanwhile: Callable[[], None] | None = None

    def fail_on(self, operation: str, path: str) -> None:
        if operation == "sync" and path.endswith("index.flush") and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().fail_on(operation, path)


def test_a_ledger_deleted_while_the_flush_file_is_retired_stays_deleted() -> None:
    """B36: nor does a flush that was finished after the delete."""
    disk = _DeletesMeanwhile()
    cache, _ = open_cache(disk)
    for last in (9, 19):
        for ledger_id in (1, 2, 3):
            put_range(cache, ledger_id, 0, last)
        cache.flush()
    cache.delete(1)  # the flush file speaks of it: it is retired by the next flush
    for ledger_id in (2, 3):
        put_range(cache, ledger_id, 20, 29)
    disk.meanwhile = lambda: cache.delete(2)
    cache.flush()  # and 2 is in the flush file, though it is gone
    put(cache, 2, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(2).locations_of(range(30)).tolist() == [4242] + [0] * 29


def test_a_ledger_made_anew_after_a_restart_has_nothing_of_the_deleted_one(
    disk: SimulatedDisk,
) -> None:
    cache, _ = open_cache(disk)
    for last in (9, 19):  # the second time through the flush file
        put_range(cache, 1, 0, last)
        put_range(cache, 2, 0, last)
        cache.flush()
    cache.delete(1)
    cache, _ = open_cache(disk.process_crash())
    put(cache, 1, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(1).locations_of(range(20)).tolist() == [4242] + [0] * 19


def test_a_file_that_was_being_made_when_the_bookie_died_is_removed(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    disk.faults = [Fault("rename", errno.EIO)]
    with pytest.raises(StorageFailedError):
        cache.flush()
    assert len(disk.paths(".new")) == 1

    cache, _ = open_cache(disk.process_crash())

    assert disk.paths(".new") == []
    assert cache.ledgers() == []


def test_directories_of_deleted_ledgers_are_gone_after_a_start(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    for ledger_id in (1, 0x0100, 0x0101, 0x010000):
        put_range(cache, ledger_id, 0, 0)
    cache.flush()
    for ledger_id in (1, 0x0100, 0x010000):
        cache.delete(ledger_id)
    assert disk.list_dir("/l/index") == ["00", "01"]

    cache, _ = open_cache(disk)

    assert list(index_directories(disk, "/l/index"))[1:] == ["/l/index/00", "/l/index/00/01"]
    put_range(cache, 1, 0, 0)
    cache.flush()
    again, _ = open_cache(disk.crash(Random(1)))
    assert again.ledgers() == [1, 0x0101]


def test_a_damaged_ledger_can_be_deleted(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    cache.flush()
    disk.flip_bit(IndexPath.of("/l/index", 1).path, 80)
    cache, _ = open_cache(disk.process_crash())

    cache.delete(1)

    assert (cache.ledgers(), cache.ledger_count) == ([], 0)


# ---------------------------------------------------------------- damage


def damaged(disk: SimulatedDisk, bit: int) -> LedgerCache:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 3000)
    cache.flush()
    disk.flip_bit(IndexPath.of("/l/index", 1).path, bit)
    return open_cache(disk.process_crash())[0]


@pytest.mark.parametrize("bit", [8 * page_offset(1), 8 * page_offset(2) - 1])
def test_a_damaged_page_is_an_error_and_not_an_absence(disk: SimulatedDisk, bit: int) -> None:
    cache = damaged(disk, bit)

    assert cache.handle(1).locations_of(range(1024))[-1] == location(1, 1023)
    assert cache.handle(1).locations_of(range(2048, 3001))[-1] == location(1, 3000)
    for ask in (
        lambda: cache.handle(1).locations_of(range(1024, 1025)),
        lambda: cache.handle(1).locations_of(range(3001)),
        lambda: cache.handle(1).locations_of(array("q", [5, 1500])),
        lambda: cache.handle(1).contiguous_until(-1),
        lambda: cache.handle(1).next_entry_id(1024),
        lambda: cache.handle(1).prepare(range(2000, 2050)),
    ):
        with pytest.raises(CorruptRecordError):
            ask()
    assert cache.handle(1).last_entry_id == 3000


def test_a_page_lost_to_zeros_is_an_error_and_not_an_absence(disk: SimulatedDisk) -> None:
    cache = damaged(disk, 8 * page_offset(1))
    path = IndexPath.of("/l/index", 1).path
    content = disk.content(path)
    start, end = page_offset(1), page_offset(2)
    disk.set_content(path, content[:start] + bytes(end - start) + content[end:])
    with pytest.raises(CorruptRecordError):
        cache.handle(1).locations_of(range(1500, 1501))
    disk.set_content(path, content[:start])
    with pytest.raises(CorruptRecordError):
        cache.handle(1).locations_of(range(2500, 2501))


def test_a_damaged_header_is_an_error_and_not_an_absence(disk: SimulatedDisk) -> None:
    cache = damaged(disk, 100)

    for ask in (
        lambda: cache.info(1),
        lambda: cache.handle(1).locations_of(range(1)),
        lambda: cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL),
    ):
        with pytest.raises(CorruptRecordError):
            ask()
    assert cache.ledgers() == [1]


def test_a_failed_flush_is_the_end_of_changes_but_not_of_reads(disk: SimulatedDisk) -> None:
    for operation in ("pwrite", "sync", "create", "rename", "sync_dir"):
        disk = SimulatedDisk()
        cache, _ = open_cache(disk)
        put_range(cache, 1, 0, 9)
        disk.faults = [Fault(operation, errno.EIO)]
        with pytest.raises(StorageFailedError):
            cache.flush()

        before = disk.operation_count
        for refused in (
            lambda cache=cache: cache.handle(1).set_fenced(),
            lambda cache=cache: put_range(cache, 1, 10, 19),
            lambda cache=cache: cache.set_ledger_key(2, KEY, LedgerType.PD_JOURNAL),
            lambda cache=cache: cache.delete(1),
        ):
            with pytest.raises(StorageFailedError):
                refused()
        assert disk.operation_count == before
        assert cache.handle(1).locations_of(range(10))[-1] == location(1, 9)


# ---------------------------------------------------------------- small functions


def test_ids_are_cut_at_page_borders() -> None:
    assert list(page_runs(range(1000, 1030))) == [(0, 0, 24), (1, 24, 30)]
    assert list(page_runs(array("q", [1, 2000, 2047, 2048]))) == [(0, 0, 1), (1, 1, 3), (2, 3, 4)]
    assert list(page_runs(range(0))) == []


def test_zero_bytes_of_two_neighbours_are_no_absent_entry() -> None:
    locations = array("Q", [1, 1 << 56, 5])
    assert bytes(8) in array("Q", [1, 1 << 56]).tobytes()
    assert find_absent(locations) is None
    assert find_absent(array("Q", [1, 1 << 56, 0, 0])) == 2
    assert find_absent(array("Q", [0, 1, 0]), 1) == 2
    assert find_present(array("Q", [5, 0, 1 << 56]), 1) == 2
    assert find_present(array("Q", [5, 0, 0]), 1) is None


class CacheMachine(RuleBasedStateMachine):
    """Random puts, looks, flushes and restarts with room for one page; the twin is a dict."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk()
        self.cache, _ = self._open()
        self.twin: dict[int, dict[int, int]] = {}
        self.fenced: set[int] = set()
        self.number = 0

    def _open(self) -> tuple[LedgerCache, object]:
        return open_cache(self.disk, memory_size_max=PAGE_MEMORY, ledger_count_max=1, open_max=1)

    @rule(
        ledger_id=st.integers(0, 2),
        first=st.sampled_from([0, 1000, 1023, 5000]),
        count=st.integers(1, 1100),
        step=st.integers(1, 3),
    )
    def put(self, ledger_id: int, first: int, count: int, step: int) -> None:
        self.number += 1
        entries = {e: self.number << 34 | e + 1 for e in range(first, first + count * step, step)}
        put(self.cache, ledger_id, entries)
        self.twin.setdefault(ledger_id, {}).update(entries)

    @rule(ledger_id=st.integers(0, 2), first=st.integers(0, 6000), count=st.integers(1, 3000))
    def look(self, ledger_id: int, first: int, count: int) -> None:
        if ledger_id not in self.twin:
            assert self.cache.info(ledger_id) is None
            return
        twin = self.twin[ledger_id]
        found = self.cache.handle(ledger_id).locations_of(range(first, first + count))
        assert found.tolist() == [twin.get(e, 0) for e in range(first, first + count)]
        assert self.cache.handle(ledger_id).last_entry_id == max(twin)
        end = next(e for e in range(first, first + 20_000) if e not in twin)
        assert self.cache.handle(ledger_id).contiguous_until(first - 1) == end - 1
        wanted = min((e for e in twin if e >= first), default=None)
        assert self.cache.handle(ledger_id).next_entry_id(first) == wanted

    @rule(ledger_id=st.integers(0, 2))
    def fence(self, ledger_id: int) -> None:
        if ledger_id in self.twin:
            self.cache.handle(ledger_id).set_fenced()
            self.fenced.add(ledger_id)

    @rule(ledger_id=st.integers(0, 2))
    def delete(self, ledger_id: int) -> None:
        self.cache.delete(ledger_id)
        self.twin.pop(ledger_id, None)
        self.fenced.discard(ledger_id)

    @rule(seed=st.integers(0, 2**32))
    def flush_and_restart(self, seed: int) -> None:
        self.cache.flush()
        self.disk.crash(Random(seed))
        self.cache, _ = self._open()
        assert self.cache.ledgers() == sorted(self.twin)
        for ledger_id in self.twin:
            info = self.cache.info(ledger_id)
            assert info is not None
            assert info.is_fenced == (ledger_id in self.fenced)


CacheMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestCacheMachine = CacheMachine.TestCase
