"""An index made anew over damaged, torn or missing entry logs: it is refused, or denies nothing."""

import errno

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, TwinnedStorage, storage_on
from tests.support.compactions import Compactor
from tests.support.index_rebuilds import INDEX_7, ROOT, check, filled, lose_index, rebuild, tell_all
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CorruptRecordError, EntryUnreadableError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import FOOTER_SIZE, LOG_HEADER_SIZE
from zbk.storage.journal.record import LedgerKeyRecord, SyncedEntriesRecord
from zbk.storage.tools.inspect_entry_log import EntryLogInspection, FoundBlock


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
