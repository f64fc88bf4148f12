"""An index made anew: it has all that the old one had, and fences what may have been fenced."""

import pytest

from tests.support import several_directories as several
from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, read_all, storage_on
from tests.support.index_rebuilds import (
    INDEX_7,
    LOST_IDS,
    ask_nobody,
    check,
    filled,
    lose_index,
    rebuild,
    tell_all,
)
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import BookieError, CookieMismatchError, CorruptRecordError, InvalidOptionError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.journal.record import LedgerKeyRecord
from zbk.storage.tools.rebuild import IndexRebuild


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
