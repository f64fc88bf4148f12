"""Storage over two of each directory, of which one is out of service, emptied or back again."""

from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, disk, read_all, storage_on
from tests.support.several_directories import JOURNALS, LEDGERS, filled, home, opened
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptJournalError, CorruptRecordError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import EntriesRecord, FenceRecord, LedgerKeyRecord
from zbk.storage.journal.segment import NO_POSITION

__all__ = ["disk"]

pytestmark = pytest.mark.usefixtures("same_nonce")


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
