"""An index made anew: it has all that the old one had, and says "no" to nothing that is there."""

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from tests.support import several_directories as several
from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, TwinnedStorage, read_all, storage_on
from tests.support.compactions import Compactor
from tests.support.crash_points import left_by_crashes
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    CorruptRecordError,
    EntryUnreadableError,
    InvalidOptionError,
    StorageFailedError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import FOOTER_SIZE, LOG_HEADER_SIZE
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.journal.record import LedgerKeyRecord, SyncedEntriesRecord
from zbk.storage.tools.inspect_entry_log import EntryLogInspection, FoundBlock
from zbk.storage.tools.rebuild import IndexRebuild, RebuildReport
from zbk.storage.tools.rebuild_sources import LedgerSecret

ROOT = "/l/index"
INDEX_7 = f"{ROOT}/00/00/0000000000000007.idx"


LOST_IDS = (7, 9, 70_000)
"""Ledgers of which the journal does not have the beginning, if it is long."""


def filled(*, log_size_max: int = 1 << 20, is_journal_long: bool = False) -> TwinnedStorage:
    """A bookie that was killed: some of what it has is in its index, some in its journal only.

    ``is_journal_long``: so that of ledgers 7, 9 and 70,000 the journal does not have the beginning.
    """
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=log_size_max)
    twin.open()
    for ledger_id in (7, 9, 70_000):
        twin.add(ledger_id, range(3))
        twin.add(ledger_id, range(5, 9))
    twin.fence(9)
    twin.set_lac(7, 4)
    if is_journal_long:
        twin.add(7, range(9, 100))
    twin.finish_checkpoint()
    twin.add(7, range(2_000, 2_004), payload_size=30)
    twin.add(8, range(2))
    twin.fence(70_000)
    twin.sync()
    twin.kill()
    return twin


def ask_nobody(ledger_id: int) -> LedgerSecret | None:
    raise InvalidOptionError("metadata", "", f"who knows ledger {ledger_id}?")


def tell_all(_ledger_id: int) -> LedgerSecret | None:
    return LedgerSecret(KEY, LedgerType.PD_JOURNAL)


def rebuild(
    disk: SimulatedDisk, ask: Callable[[int], LedgerSecret | None] = ask_nobody
) -> RebuildReport | None:
    made = IndexRebuild(
        disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID, ask_others=ask
    )
    return made.run()


def lose_index(disk: SimulatedDisk) -> None:
    """Take the index away, with its folder, and the flush file."""
    for path in [*disk.paths(f"{ROOT}/"), *disk.paths("index.flush")]:
        disk.remove_at_rest(path)
    remove_tree(disk, ROOT)


def check(twin: TwinnedStorage, *fenced_ids: int) -> None:
    """Start the bookie; everything promised is there; these ledgers are fenced from now on."""
    for ledger_id in fenced_ids:
        twin.attempted[ledger_id].is_fenced = True
    twin.open()
    twin.check()
    for ledger_id in fenced_ids:
        info = twin.storage.homes.info(ledger_id)
        assert info is not None
        assert info.is_fenced


def test_an_index_made_anew_is_the_old_one() -> None:
    twin = filled()
    before = {path: twin.disk.content(path) for path in twin.disk.paths(".idx")}

    report = rebuild(twin.disk)

    assert report is not None
    assert (report.moved_count, report.kept_count, report.fenced_ids) == (0, 0, ())
    assert report.added_count == 6  # what only the journal had
    assert report.torn_tails == ()
    after = {path: twin.disk.content(path) for path in twin.disk.paths(".idx")}
    assert {path: after[path] for path in before if path != INDEX_7} == {
        path: content for path, content in before.items() if path != INDEX_7
    }
    assert not twin.disk.paths("/rebuild/")
    check(twin)


def test_of_a_lost_index_all_comes_back_if_the_journal_has_its_beginning() -> None:
    """B8: fences too, and a ledger that was not fenced is not."""
    twin = filled()
    lose_index(twin.disk)

    report = rebuild(twin.disk)

    assert report is not None
    assert (report.fenced_ids, report.ledger_count) == ((), 4)
    assert report.entry_count == report.added_count == 27
    check(twin)


def test_of_a_lost_index_every_entry_comes_back_and_what_nothing_tells_of_is_fenced() -> None:
    """B8: a fence that may have been lost is there."""
    twin = filled(is_journal_long=True)
    lose_index(twin.disk)

    report = rebuild(twin.disk, tell_all)

    assert report is not None
    assert (report.fenced_ids, report.ledger_count) == (LOST_IDS, 4)
    assert report.entry_count == report.added_count == 118
    twin.promised[7].lac = -1  # what nobody can know any more
    check(twin, *LOST_IDS)


def test_a_gap_in_the_journal_may_have_held_a_fence() -> None:
    """B8: then the journal says nothing of who is not fenced."""
    twin = filled()
    lose_index(twin.disk)
    path = twin.disk.paths(".journal")[0]
    twin.disk.flip_bit(path, 8 * (8192 + 97 + 40))  # in the second record, ahead of the mark

    report = rebuild(twin.disk)

    assert report is not None
    assert report.fenced_ids == (7, 8, 9, 70_000)
    check(twin, *report.fenced_ids)


def test_a_lost_header_whose_key_nobody_knows_ends_it_and_changes_nothing() -> None:
    twin = filled(is_journal_long=True)
    lose_index(twin.disk)
    before = twin.disk.paths("/l/")

    with pytest.raises(InvalidOptionError, match="who knows ledger 7"):
        rebuild(twin.disk)
    assert twin.disk.paths("/l/") == before


def test_a_bookie_does_not_start_without_its_index_and_names_the_cure() -> None:
    """B3: with an empty index it would say "no such entry" of all that it has."""
    twin = filled()
    lose_index(twin.disk)

    with pytest.raises(BookieError, match="`zbk bookie rebuild-index`"):
        twin.open()


def test_a_bookie_does_not_start_without_its_entry_logs() -> None:
    twin = filled()
    remove_tree(twin.disk, "/l/logs")

    with pytest.raises(BookieError, match="/l/logs is missing"):
        twin.open()


def test_a_damaged_header_is_made_anew_and_fenced() -> None:
    twin = filled(is_journal_long=True)
    twin.disk.flip_bit(INDEX_7, 77)
    with pytest.raises(CorruptRecordError):
        twin.open()
    twin.kill()

    report = rebuild(twin.disk, tell_all)

    assert report is not None
    assert report.fenced_ids == (7,)
    twin.promised[7].lac = -1
    check(twin, 7)


def test_a_damaged_page_is_made_anew_and_the_ledger_keeps_what_its_header_says() -> None:
    twin = filled()
    twin.disk.flip_bit(INDEX_7, 8 * 1100)

    report = rebuild(twin.disk)

    assert report is not None
    assert report.fenced_ids == ()
    check(twin)


def test_what_only_the_old_index_knows_is_an_error_to_read_and_never_denied() -> None:
    """B3: the bytes are gone; who has had the entry may not say that it never had."""
    twin = filled()
    log = twin.disk.paths("/l/logs/")[0]
    twin.disk.flip_bit(log, 8 * 100)  # in the first block: entries 0 to 2 of ledger 7

    report = rebuild(twin.disk)

    assert report is not None
    assert report.kept_count == 3
    assert report.torn_tails == (), "blocks follow"
    storage = storage_on(twin.disk)
    storage.open()
    resolved = storage.homes.ledger(7).resolve([0], 1 << 20)
    assert resolved is not None, "the index has it"
    storage.close()


@pytest.mark.parametrize("is_header_hit", [False, True])
def test_damage_to_a_log_and_no_index_to_tell_what_was_there_is_refused(
    *, is_header_hit: bool
) -> None:
    """B3: the rebuilt index would not have what the damaged bytes held."""
    twin = filled()
    lose_index(twin.disk)
    log = twin.disk.paths("/l/logs/")[0]
    twin.disk.flip_bit(log, 8 * (40 if is_header_hit else 100))

    with pytest.raises(CorruptRecordError, match="nothing was changed"):
        rebuild(twin.disk, tell_all)

    assert not twin.disk.exists(ROOT)
    assert not twin.disk.exists("/l/rebuild")


def test_a_log_that_cannot_be_read_is_refused() -> None:
    twin = filled()
    lose_index(twin.disk)
    # whoever looks how long the log is meets it first
    twin.disk.faults += [Fault("open", errno.EIO, 0, "/l/logs/") for _ in range(2)]

    with pytest.raises(CorruptRecordError, match="cannot be opened"):
        rebuild(twin.disk, tell_all)


def test_a_log_that_is_gone_is_refused_where_a_header_knew_of_its_entries() -> None:
    twin = filled(log_size_max=900)
    logs = twin.disk.paths("/l/logs/")
    assert len(logs) > 1
    twin.disk.flip_bit(INDEX_7, 8 * 1100)
    for log in logs:
        twin.disk.remove_at_rest(log)

    with pytest.raises(CorruptRecordError, match="nothing was changed"):
        rebuild(twin.disk)


def test_a_sealed_log_has_no_torn_tail() -> None:
    """Its last block is damaged: the log was whole once, as the map behind it shows."""
    twin = filled(log_size_max=900)
    lose_index(twin.disk)
    path = twin.disk.paths("/l/logs/")[0]
    inspection = EntryLogInspection(twin.disk, path, BOOKIE_ID)
    blocks = [one for one in inspection.findings() if isinstance(one, FoundBlock)]
    assert inspection.is_sealed
    assert len(blocks) > 1
    twin.disk.flip_bit(path, 8 * blocks[-1].entries[-1].offset)

    with pytest.raises(CorruptRecordError, match="nothing was changed"):
        rebuild(twin.disk, tell_all)


@pytest.mark.parametrize("part", ["header", "map"])
def test_damage_to_what_holds_no_entry_is_no_loss(part: str) -> None:
    twin = filled(log_size_max=900)
    lose_index(twin.disk)
    path = twin.disk.paths("/l/logs/")[0]
    at = 20 if part == "header" else len(twin.disk.content(path)) - FOOTER_SIZE - 1
    twin.disk.flip_bit(path, 8 * at)

    report = rebuild(twin.disk, tell_all)

    assert report is not None
    assert report.torn_tails == ()
    assert report.kept_count == 0


def test_a_log_of_which_nothing_can_be_read_has_no_torn_tail() -> None:
    """The mark promises it: something was there, and no index is left to tell what."""
    twin = filled()
    lose_index(twin.disk)
    (path,) = twin.disk.paths("/l/logs/")
    whole = twin.disk.content(path)
    twin.disk.set_content(path, whole[:LOG_HEADER_SIZE] + bytes(len(whole) - LOG_HEADER_SIZE))

    with pytest.raises(CorruptRecordError):
        rebuild(twin.disk, tell_all)


def test_the_torn_tail_of_a_log_is_no_damage() -> None:
    twin = filled()
    lose_index(twin.disk)
    log = twin.disk.paths("/l/logs/")[0]
    twin.disk.set_content(log, twin.disk.content(log)[:-10] + b"garbage")

    report = rebuild(twin.disk, tell_all)

    assert report is not None
    assert report.torn_tails == (log,)
    check(twin)  # the journal has what the tail had


def test_damage_to_a_log_of_which_the_journal_has_everything_is_no_loss() -> None:
    """The log was begun after the last mark."""
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=900)
    twin.open()
    twin.add(7, range(10))
    twin.finish_checkpoint()
    before = twin.disk.paths("/l/logs/")
    for first in range(10, 90, 10):
        twin.add(7, range(first, first + 10), payload_size=30)
    twin.sync()
    twin.kill()
    later = [path for path in twin.disk.paths("/l/logs/") if path not in before]
    assert len(later) > 1
    lose_index(twin.disk)
    twin.disk.flip_bit(later[1], 8 * 100)

    report = rebuild(twin.disk, tell_all)

    assert report is not None
    check(twin)


def test_damage_to_a_compacted_log_is_a_loss_although_its_id_is_later_than_the_mark() -> None:
    """B3: the journal has nothing of the entries that compaction moved there."""
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=900)
    twin.open()
    for first in range(0, 30, 3):
        twin.add(7, range(first, first + 3))
        twin.add(8, range(first, first + 3))
    twin.finish_checkpoint()
    (garbage,) = twin.storage.garbages
    assert garbage.deleted.mark([8])
    assert garbage.deleted.write()
    garbage.drop([8])
    assert Compactor(twin.storage).major()
    made = twin.disk.paths("/l/logs/")[-1]
    mark = twin.storage.directories[0].last_mark.mark
    assert mark is not None
    assert made > log_path("/l/logs", mark.entry_log_id)
    twin.sync()
    twin.kill()
    lose_index(twin.disk)
    twin.disk.flip_bit(made, 8 * 100)

    with pytest.raises(CorruptRecordError, match="nothing was changed"):
        rebuild(twin.disk, tell_all)


def test_a_ledger_that_has_lost_entries_which_no_index_had_does_not_leave_limbo() -> None:
    """They were in a log after the last mark, of which neither census nor journal knows more."""
    disk, kind = SimulatedDisk(), LedgerType.VD_BYPASS_JOURNAL
    storage = storage_on(disk)
    storage.open()
    storage.homes.place(7).home.cache.set_ledger_key(7, KEY, kind)
    ledger, batch = storage.homes.ledger(7), batch_of(7, range(5))
    ledger.index.prepare(batch.entry_ids)
    ledger.home.add([batch], [ledger.index], bypass_ids={7})
    storage.journal.append([LedgerKeyRecord(7, KEY, kind), SyncedEntriesRecord(7, 0, 4)])
    storage.journal.sync()
    disk.process_crash()
    disk.remove_at_rest(disk.paths("/l/logs/")[-1])
    storage = storage_on(disk)
    storage.open(was_killed=True)
    assert storage.limbo.limbo.is_miss_unknown(7, kind)
    storage.close()

    report = rebuild(disk, tell_all)

    assert report is not None
    assert report.ledger_count == 1
    assert 7 not in report.whole


def test_a_new_ledger_of_another_directory_stays_there() -> None:
    """Only the logs there have its entries, and no index has it before a checkpoint."""
    disk, kind = SimulatedDisk(), LedgerType.VD_BYPASS_JOURNAL
    storage = several.opened(disk)
    for ledger_id in (0, 2):
        storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, kind)
        ledger, batch = storage.homes.ledger(ledger_id), batch_of(ledger_id, range(5))
        ledger.index.prepare(batch.entry_ids)
        ledger.home.add([batch], [ledger.index], bypass_ids={ledger_id})
        storage.journals.by_number[0].append([LedgerKeyRecord(ledger_id, KEY, kind)])
    assert [several.home(storage, one) for one in (0, 2)] == list(several.LEDGERS)
    disk.process_crash()
    first, second = several.LEDGERS

    for path, other in ((first, second), (second, first)):
        IndexRebuild(
            disk,
            journal_dir=several.JOURNALS,
            ledger_dir=path,
            bookie_id=BOOKIE_ID,
            ask_others=ask_nobody,
            other_ledger_dirs=(other,),
        ).run()

    storage = several.opened(disk)
    assert [several.home(storage, one) for one in (0, 2)] == list(several.LEDGERS)
    for ledger_id in (0, 2):
        assert read_all(storage, ledger_id, range(5)) == batch_of(ledger_id, range(5)).body


def test_a_ledger_whose_index_file_another_directory_has_lost_stays_there() -> None:
    """The journal names it still; the census there has it, and the logs there have its entries."""
    disk = SimulatedDisk()
    twin = several.filled(disk)
    twin.finish_checkpoint()
    assert several.home(twin.storage, 2) == "/l2"
    twin.add(2, range(5, 7))
    twin.sync()
    twin.kill()
    disk.remove_at_rest("/l2/index/00/00/0000000000000002.idx")
    first, second = several.LEDGERS

    for path, other in ((first, second), (second, first)):
        IndexRebuild(
            disk,
            journal_dir=several.JOURNALS,
            ledger_dir=path,
            bookie_id=BOOKIE_ID,
            ask_others=tell_all,
            other_ledger_dirs=(other,),
        ).run()

    twin.open()
    assert several.home(twin.storage, 2) == "/l2"
    assert read_all(twin.storage, 2, range(7))


def test_a_deleted_ledger_stays_away() -> None:
    twin = filled()
    deleted = DeletedLedgers(twin.disk, "/l", owner=BOOKIE_ID.encode(), fail_stop=FailStop())
    deleted.mark([9])
    deleted.write()
    lose_index(twin.disk)

    report = rebuild(twin.disk)

    assert report is not None
    assert report.left_out_ids == (9,)
    del twin.attempted[9], twin.promised[9], twin.written[9]
    check(twin)


def test_a_ledger_that_others_say_was_deleted_stays_away() -> None:
    twin = filled(is_journal_long=True)
    lose_index(twin.disk)

    report = rebuild(twin.disk, lambda one: None if one == 7 else tell_all(one))

    assert report is not None
    assert report.left_out_ids == (7,)
    assert report.fenced_ids == (9, 70_000)


def test_logs_of_another_bookie_are_refused() -> None:
    twin = filled()
    with pytest.raises(CookieMismatchError):
        IndexRebuild(
            twin.disk, journal_dir="/none", ledger_dir="/l", bookie_id="other", ask_others=tell_all
        ).run()
    assert not twin.disk.exists("/l/rebuild")


def test_the_later_copy_of_an_entry_counts() -> None:
    twin = filled()
    lose_index(twin.disk)
    rebuild(twin.disk)
    storage = storage_on(twin.disk)
    storage.open()
    resolved = storage.homes.ledger(7).resolve([0], 1 << 20)
    assert resolved is not None
    first = resolved.locations[0]
    storage.close()

    report = rebuild(twin.disk)

    assert report is not None
    assert (report.moved_count, report.kept_count, report.fenced_ids) == (0, 0, ())
    again = storage_on(twin.disk)
    again.open()
    found = again.homes.ledger(7).resolve([0], 1 << 20)
    assert found is not None
    assert found.locations[0] == first


def test_a_full_disk_leaves_the_old_index() -> None:
    twin = filled()
    twin.disk.capacity = twin.disk.used_size + 10_000

    with pytest.raises(StorageFailedError):
        rebuild(twin.disk)
    assert not twin.disk.exists("/l/rebuild")
    twin.disk.capacity = None
    check(twin)


STEP_COUNT_MAX = 140


@pytest.mark.parametrize("is_index_lost", [False, True])
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_whatever_step_is_the_last_the_next_run_ends_it(
    *, is_index_lost: bool, is_power_lost: bool
) -> None:
    """B35: and in between the bookie starts with a whole index, or not at all."""
    fenced_ids = LOST_IDS if is_index_lost else ()
    whole = filled(is_journal_long=True)
    if is_index_lost:
        lose_index(whole.disk)
    left = left_by_crashes(whole.disk, lambda: rebuild(whole.disk, tell_all), whole.copy)
    assert 20 < len(left) < STEP_COUNT_MAX
    for step, twin in enumerate(left[:-1], 1):
        disk = twin.disk
        if is_power_lost:
            disk.crash(Random(step))
        else:
            disk.process_crash()
        _start_or_refuse(twin, step, is_index_lost=is_index_lost)
        rebuild(disk, tell_all)
        assert not disk.exists("/l/rebuild"), step
        if is_index_lost:
            twin.promised[7].lac = -1
        check(twin, *fenced_ids)


def _start_or_refuse(twin: TwinnedStorage, step: int, *, is_index_lost: bool) -> None:
    """The bookie starts only on an index that is whole: the old one or the new one."""
    storage = storage_on(twin.disk)
    try:
        storage.open()
    except BookieError as error:
        if "rebuild-index" not in str(error):
            raise
        twin.disk.process_crash()
        return
    for ledger_id, known in twin.promised.items():
        for entry_id in known.entries:
            assert storage.homes.ledger(ledger_id).resolve([entry_id], 1 << 20) is not None, (
                step,
                entry_id,
            )
    storage.close()
    assert not is_index_lost or twin.disk.exists(INDEX_7)


def test_an_error_at_any_call_leaves_an_index_to_start_on_or_a_note() -> None:
    for operation in ("pwrite", "sync", "create", "rename", "remove", "sync_dir", "pread"):
        for skip_count in range(60):
            twin = filled()
            twin.disk.faults.append(Fault(operation, errno.EIO, skip_count))
            with suppress(ZbkError):
                rebuild(twin.disk, tell_all)
            was_met = not twin.disk.faults
            twin.disk.process_crash()
            if not was_met:
                break
            _start_or_refuse(twin, skip_count, is_index_lost=False)


def test_reading_what_was_kept_is_an_error() -> None:
    twin = filled()
    log = twin.disk.paths("/l/logs/")[0]
    twin.disk.set_content(log, bytes(200) + twin.disk.content(log)[200:])
    rebuild(twin.disk)

    storage = storage_on(twin.disk)
    storage.open()
    resolved = storage.homes.ledger(7).resolve([0], 1 << 20)
    assert resolved is not None
    with pytest.raises(EntryUnreadableError):
        storage.home_of(resolved).fetch(resolved)
