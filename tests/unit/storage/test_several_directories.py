"""Storage over two journal directories and two ledger directories: routing, marks, crashes."""

import errno
from collections.abc import Callable, Hashable, Iterator
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, read_all, storage_on
from tests.support.crash_points import left_by_crashes
from tests.support.several_directories import (
    JOURNALS,
    LEDGERS,
    SeveralTwin,
    filled,
    home,
    opened,
)
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import (
    CorruptJournalError,
    CorruptRecordError,
    NoSpaceError,
    NoSuchLedgerError,
    StorageFailedError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.checkpoint import DirectoryFlush
from zbk.storage.journal.record import EntriesRecord, FenceRecord, LedgerKeyRecord
from zbk.storage.journal.segment import NO_POSITION
from zbk.storage.replay import add_batches

pytestmark = pytest.mark.usefixtures("same_nonce")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


# ---------------------------------------------------------------- where things live


def test_a_ledger_is_in_one_ledger_directory_and_in_one_journal(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()

    index_files = {path: path.split("/")[1] for path in disk.paths(".idx")}
    assert sorted(index_files.values()) == ["l1", "l1", "l2", "l2"]
    assert {home(twin.storage, ledger_id) for ledger_id in range(4)} == set(LEDGERS)
    assert twin.storage.ledgers() == [0, 1, 2, 3]
    assert twin.storage.ledger_count == 4
    twin.check()


def test_a_ledger_stays_where_it_is_when_its_directory_is_avoided(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    before = [home(twin.storage, ledger_id) for ledger_id in range(4)]
    twin.finish_checkpoint()
    twin.storage.homes.avoid(["/l1"])

    twin.add(0, range(5, 9))
    twin.add(4, range(3))
    twin.add(6, range(3))

    assert before[0] == "/l1"
    assert [home(twin.storage, ledger_id) for ledger_id in range(4)] == before
    assert home(twin.storage, 4) == home(twin.storage, 6) == "/l2"
    twin.check()


def test_new_ledgers_go_somewhere_even_if_all_directories_are_avoided(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    storage.homes.avoid(LEDGERS)

    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)

    assert storage.homes.info(1) is not None


@pytest.mark.parametrize("is_stopped_well", [False, True])
def test_a_bypass_ledger_is_found_again_in_the_directory_that_has_its_entries(
    disk: SimulatedDisk, *, is_stopped_well: bool
) -> None:
    """The choice by its id leads to another directory; the journal has its key, and no entry."""
    storage = opened(disk)
    storage.homes.avoid(["/l1"])
    storage.homes.place(0).home.cache.set_ledger_key(0, KEY, LedgerType.VD_BYPASS_JOURNAL)
    ledger, batch = storage.homes.ledger(0), batch_of(0, range(5))
    ledger.index.prepare(batch.entry_ids)
    ledger.home.add([batch], [ledger.index], bypass_ids={0})
    key = LedgerKeyRecord(0, KEY, LedgerType.VD_BYPASS_JOURNAL)
    storage.journals.by_number[0].append([key])
    if is_stopped_well:  # without a last checkpoint, as on a full disk
        storage.close()
    disk.process_crash()

    storage = opened(disk)

    assert home(storage, 0) == "/l2"
    assert read_all(storage, 0, range(5)) == batch.body


def test_a_ledger_that_is_nowhere_is_in_no_directory(disk: SimulatedDisk) -> None:
    storage = opened(disk)

    assert storage.homes.info(7) is None
    with pytest.raises(NoSuchLedgerError):
        storage.homes.ledger(7).resolve(range(1), 100)


def test_a_deleted_ledger_is_taken_in_by_no_directory(disk: SimulatedDisk) -> None:
    """B16: whichever directory a late record would choose."""
    twin = filled(disk)
    assert twin.storage.mark_deleted([0])
    assert all(garbage.deleted.write() for garbage in twin.storage.garbages)
    assert sum(garbage.drop([0]) for garbage in twin.storage.garbages) == 1
    twin.kill()

    found = twin.open()

    assert found.orphan_count > 0
    assert twin.storage.is_deleted(0)
    assert twin.storage.ledgers() == [1, 2, 3]


def test_where_a_ledger_lives_is_found_again_when_it_was_forgotten(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbk.storage.ledger_homes.HOME_COUNT_MAX", 1)
    twin = filled(disk)
    twin.add(0, range(5, 9))
    twin.add(1, range(5, 9))
    twin.sync()

    twin.check()


# ---------------------------------------------------------------- crashes


def interleavings(first: list[int], second: list[int]) -> Iterator[list[int]]:
    if not first or not second:
        yield first + second
        return
    for rest in interleavings(first[1:], second):
        yield [first[0], *rest]
    for rest in interleavings(first, second[1:]):
        yield [second[0], *rest]


def steps_of(flush: DirectoryFlush) -> list[Callable[[], None]]:
    def apply() -> None:  # as one step: each more makes several times as many orders
        flush.apply_index()
        flush.write_census()

    return [flush.sync_entry_logs, flush.write_index, apply, flush.write_mark]


@pytest.mark.parametrize("is_power_lost", [True, False])
def test_a_crash_behind_any_step_of_flushes_in_any_order_loses_nothing(
    *, is_power_lost: bool
) -> None:
    """B39: each mark follows its own flush, and segments wait for the marks of all directories."""
    orders = list(interleavings([0] * 4, [1] * 4))
    assert len(orders) == 70
    tried: set[Hashable] = set()  # what was left: what follows is the same on all alike
    for number, order in enumerate(orders):
        for left in left_by_flushes(order):
            if is_power_lost:
                left.lose_power(Random(number))
            else:
                left.kill()
            state = left.state()
            if state in tried:
                continue
            tried.add(state)
            left.open()
            left.check()


def left_by_flushes(order: list[int]) -> list[SeveralTwin]:
    """Return what a crash before the flushes leaves, and one after each step of them, in order."""
    twin = filled(SimulatedDisk())
    twin.finish_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5, 8))
        twin.fence(ledger_id)
    twin.sync()
    checkpoint = twin.storage.begin_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(8, 10))  # behind the mark
    twin.sync()
    steps = [steps_of(one) for one in checkpoint.flushes]
    left = [twin.copy()]
    for directory in order:
        steps[directory].pop(0)()
        if len(left) == len(order):
            checkpoint.remove_journals()
        left.append(twin.copy())
    return left


@pytest.mark.parametrize("seed", range(6))
def test_a_power_loss_at_any_operation_of_a_checkpoint_loses_nothing(seed: int) -> None:
    """B35, B39: with two journals and two ledger directories."""
    twin = filled(SimulatedDisk())
    twin.finish_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5, 8))
    twin.sync()
    check_after_power_losses(twin, twin.finish_checkpoint, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_loss_at_any_operation_of_a_start_loses_nothing(seed: int) -> None:
    twin = filled(SimulatedDisk())
    twin.kill()
    check_after_power_losses(twin, twin.open, seed)


def check_after_power_losses(twin: SeveralTwin, call: Callable[[], object], seed: int) -> None:
    """Lose power at each step of a call, and at its end: what was promised is there."""
    left = left_by_crashes(twin.disk, call, twin.copy)
    for step, one in enumerate(left, 1):
        one.lose_power(Random(1_000 * seed + step))
        one.open()
        one.check()
    assert len(left) > 10


def test_segments_stay_until_the_marks_of_all_ledger_directories_have_passed(
    disk: SimulatedDisk,
) -> None:
    """B39: the mark of one directory says nothing of another one's entries."""
    twin = filled(disk)
    for n in range(20):  # several segments
        twin.add(0, range(100 * n + 5, 100 * n + 100))
        twin.add(1, range(100 * n + 5, 100 * n + 100))
    twin.sync()
    before = disk.paths(".journal")
    checkpoint = twin.storage.begin_checkpoint()
    first, second = checkpoint.flushes
    for step in steps_of(first):
        step()
    with pytest.raises(AssertionError):
        checkpoint.remove_journals()
    assert disk.paths(".journal") == before
    assert twin.storage.last_mark != twin.storage.journals.positions()

    for step in steps_of(second):
        step()
    checkpoint.remove_journals()

    assert len(disk.paths(".journal")) == 2
    assert checkpoint.removed_count == len(before) - 2
    assert twin.storage.last_mark == twin.storage.journals.positions()


def test_each_journal_has_a_mark_of_its_own(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()
    first, second = twin.storage.last_mark
    twin.add(1, range(5, 50))  # in the second journal
    twin.sync()
    twin.finish_checkpoint()

    assert twin.storage.last_mark[0] == first
    assert twin.storage.last_mark[1] > second


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("path_part", ["/j1", "/j2", "/l1", "/l2"])
@pytest.mark.parametrize("operation", ["pwrite", "sync"])
def test_a_failed_write_names_its_directory_and_ends_everything(
    disk: SimulatedDisk, operation: str, path_part: str
) -> None:
    """One failed fsync, of whichever directory, is the end of all promises."""
    twin = filled(disk)
    disk.faults = [Fault(operation, errno.EIO, path_part=path_part)]

    def go_on() -> None:
        for ledger_id in range(4):
            twin.add(ledger_id, range(5, 8))
        twin.sync()
        twin.finish_checkpoint()

    with pytest.raises(StorageFailedError) as failed:
        go_on()

    assert failed.value.args[0].startswith(path_part)
    for ledger_id in range(4):
        with pytest.raises(StorageFailedError):
            twin.add(ledger_id, range(10, 12))


def test_no_space_in_one_directory_is_met_by_its_own_ledgers_only(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    storage = twin.storage
    (one, *_) = [n for n in range(4) if home(storage, n) == "/l1"]
    (other, *_) = [n for n in range(4) if home(storage, n) == "/l2"]
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="/l1")]

    with pytest.raises(NoSpaceError):
        add_batches(storage.homes, [batch_of(one, range(5, 8))])
    add_batches(storage.homes, [batch_of(other, range(5, 8))])

    assert storage.homes.ledger(one).index.last_entry_id == 4
    assert storage.homes.ledger(other).index.last_entry_id == 7


@pytest.mark.parametrize("full", LEDGERS)
def test_a_checkpoint_that_finds_no_space_in_one_directory_may_be_begun_again(
    disk: SimulatedDisk, full: str
) -> None:
    """The flush of the other directory was begun already, and in the way of the next attempt."""
    twin = SeveralTwin(disk, ledger_cache_size=64 * 1024)
    twin.open()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5))
    twin.finish_checkpoint()
    (other, *_) = [n for n in range(4) if home(twin.storage, n) != full]
    (growing, *_) = [n for n in range(4) if home(twin.storage, n) == full]
    twin.add(other, range(5, 9))
    # for the flush that makes room, and for the checkpoint
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part=f"{full}/index") for _ in range(2)]
    first = 5
    while len(disk.faults) == 2:
        twin.add(growing, range(first, first + 1024), 1)
        first += 1024
    with pytest.raises(NoSpaceError):
        twin.storage.begin_checkpoint()
    assert disk.faults == []

    twin.add(other, range(9, 12))
    twin.sync()
    twin.finish_checkpoint()

    twin.check()
    twin.lose_power(Random(1))
    twin.storage.open()
    twin.check()


# ---------------------------------------------------------------- out of service


def test_without_a_ledger_directory_the_others_ledgers_are_served(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    homes = {n: home(twin.storage, n) for n in range(4)}
    twin.finish_checkpoint()
    twin.kill()

    storage = opened(disk, ["/l1"])

    for ledger_id, where in homes.items():
        if where == "/l2":
            wanted = b"".join(twin.promised[ledger_id].entries.values())
            assert read_all(storage, ledger_id, range(5)) == wanted
        else:
            assert storage.homes.info(ledger_id) is None
    assert storage.ledger_dirs == ["/l2"]


def test_what_the_journals_have_of_a_lost_directory_is_taken_in_by_another(
    disk: SimulatedDisk,
) -> None:
    twin = filled(disk)
    twin.kill()

    storage = opened(disk, ["/l1"])

    assert storage.ledgers() == [0, 1, 2, 3]
    for ledger_id in range(4):
        wanted = b"".join(twin.promised[ledger_id].entries.values())
        assert read_all(storage, ledger_id, range(5)) == wanted


def test_without_a_journal_all_records_go_to_the_other(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()
    twin.kill()
    before = [path for path in disk.paths(".journal") if path.startswith("/j1")]

    storage = opened(disk, ["/j1"])

    assert storage.journals.of(0) == storage.journals.of(1) == 0
    storage.journal.append([FenceRecord(0), FenceRecord(1)])
    storage.journal.sync()
    for ledger_id in range(4):
        assert read_all(storage, ledger_id, range(5))
    assert [path for path in disk.paths(".journal") if path.startswith("/j1")] == before


def test_a_ledger_with_its_key_in_one_journal_and_entries_in_another_is_whole(
    disk: SimulatedDisk,
) -> None:
    """Keys go first: whichever journal is replayed before, nothing is taken for deleted."""
    for key_in, entries_in in ((0, 1), (1, 0)):
        disk = SimulatedDisk()
        storage = opened(disk)
        journals = list(storage.journals)
        journals[key_in].append([LedgerKeyRecord(9, KEY, LedgerType.PD_JOURNAL)])
        batch = batch_of(9, range(5))
        journals[entries_in].append([EntriesRecord(batch), FenceRecord(9)])
        for journal in journals:
            journal.sync()
        disk.crash(Random(1))

        storage = opened(disk)

        assert read_all(storage, 9, range(5)) == batch.body
        info = storage.homes.info(9)
        assert info is not None
        assert info.is_fenced


def test_a_journal_that_comes_back_empty_begins_at_its_start(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()
    twin.kill()
    storage = opened(disk, ["/j1"])
    storage.close()
    for path in [one for one in disk.paths("") if one.startswith("/j1/")]:
        disk.remove_at_rest(path)

    storage = opened(disk)

    assert len(storage.journals) == 2
    assert NO_POSITION not in storage.last_mark
    for ledger_id in range(4):
        assert read_all(storage, ledger_id, range(5))


@pytest.mark.parametrize("wiped", JOURNALS)
def test_a_journal_that_was_emptied_is_missed(disk: SimulatedDisk, wiped: str) -> None:
    """B40: a wiped one of two is no fresh one."""
    twin = filled(disk)
    twin.finish_checkpoint()
    twin.kill()
    for path in [one for one in disk.paths(".journal") if one.startswith(wiped)]:
        disk.remove_at_rest(path)

    with pytest.raises(CorruptJournalError, match="last log mark is missing"):
        opened(disk)


@pytest.mark.parametrize("wiped", LEDGERS)
def test_a_ledger_directory_that_was_emptied_is_missed(disk: SimulatedDisk, wiped: str) -> None:
    """B40: without its mark all of the journals is needed, and their beginning is gone."""
    twin = filled(disk)
    for _ in range(3):
        for ledger_id in range(4):
            last = twin.storage.homes.ledger(ledger_id).index.last_entry_id
            twin.add(ledger_id, range(last + 1, last + 200))
        twin.sync()
        twin.finish_checkpoint()
    twin.kill()
    for path in [one for one in disk.paths("") if one.startswith(f"{wiped}/")]:
        disk.remove_at_rest(path)

    with pytest.raises(CorruptJournalError, match="missing without a mark"):
        opened(disk)


def test_a_mark_of_another_number_of_journals_is_refused(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()
    twin.kill()

    with pytest.raises(CorruptRecordError, match="it is of 2 journals; the bookie has 1"):
        storage_on(disk, journal_dir="/j1", ledger_dir=LEDGERS).open()
