"""What may be stored again: what is damaged, in any way, and nothing else."""

import errno

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import (
    KEY,
    TwinnedStorage,
    batch_with_other_bytes,
    part_to_mend,
    read_all,
    storage_on,
)
from tests.support.scrubbing import scrub
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import DuplicateEntryError, EntryUnreadableError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE
from zbk.storage.entry_logs.location import split_location
from zbk.storage.journal.record import EntriesRecord
from zbk.storage.replay import add_batches

BATCH = batch_of(7, range(10), 30)
LOG = "/l/logs/00000001.log"


def stored(*batches: EntryBatch) -> tuple[SimulatedDisk, BookieStorage]:
    """Return storage that has these batches, a block each, behind one of another ledger."""
    disk = SimulatedDisk()
    storage = storage_on(disk)
    storage.open()
    for ledger_id in (6, 7):
        storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
    add_batches(storage.homes, [batch_of(6, range(5))])
    for batch in batches or (BATCH,):
        add_batches(storage.homes, [batch])
    return disk, storage


def offset_of(storage: BookieStorage, entry_id: int) -> int:
    resolved = storage.homes.ledger(7).resolve([entry_id], 1)
    assert resolved is not None
    return split_location(resolved.locations[0])[1]


def flip(disk: SimulatedDisk, offset: int) -> None:
    disk.flip_bit(LOG, 8 * offset + offset % 8)


def test_a_checked_fetch_ends_where_a_block_is_damaged() -> None:
    disk, storage = stored(BATCH.select([0, 1]), BATCH.select([2, 3, 4]))
    flip(disk, offset_of(storage, 3) + 30)  # in its payload
    checked = storage.homes.ledger(7).resolve(range(5), 1 << 20, is_checked=True)
    plain = storage.homes.ledger(7).resolve(range(5), 1 << 20)
    beside = storage.homes.ledger(7).resolve([2], 1 << 20, is_checked=True)
    assert checked is not None
    assert plain is not None
    assert beside is not None

    assert storage.home_of(checked).fetch(checked) == (2, BATCH.select([0, 1]).body)
    assert storage.home_of(plain).fetch(plain)[0] == 5, "only its digest tells that of an entry"
    with pytest.raises(EntryUnreadableError, match="entry 2 is unreadable: its block"):
        storage.home_of(beside).fetch(beside)


def test_copies_that_are_whole_are_not_stored_again() -> None:
    _, storage = stored()
    assert storage.homes.ledger(BATCH.ledger_id).part_to_mend(BATCH) is None
    assert part_to_mend(storage, BATCH.select([3, 5])) is None


def test_what_is_not_here_is_stored() -> None:
    _, storage = stored(BATCH.select([2, 3, 7]))
    part = storage.homes.ledger(BATCH.ledger_id).part_to_mend(BATCH)
    assert part is not None
    assert [*part.entry_ids] == [0, 1, 4, 5, 6, 8, 9]
    later = batch_of(7, range(20, 22))
    assert storage.homes.ledger(later.ledger_id).part_to_mend(later) is later


def test_other_bytes_beside_a_whole_copy_are_refused() -> None:
    _, storage = stored()
    with pytest.raises(DuplicateEntryError, match="entry 9"):
        part_to_mend(storage, batch_with_other_bytes(BATCH))


def test_whatever_byte_of_its_block_is_damaged_an_entry_is_stored_again() -> None:
    """Header of the block, prefix, payload, digest: of this entry, or of one beside it."""
    disk, storage = stored(BATCH.select([0, 1]), BATCH.select([2, 3, 4]))
    content = disk.content(LOG)
    start = offset_of(storage, 2) - BLOCK_HEADER_SIZE
    for at in range(start, len(content)):
        flip(disk, at)
        part = part_to_mend(storage, BATCH.select([0, 1, 2, 3, 4]))
        assert part is not None, at
        assert [*part.entry_ids] == [2, 3, 4], at
        disk.set_content(LOG, content)


def test_a_repaired_entry_is_read_survives_a_crash_and_is_damaged_no_more() -> None:
    """The scrubber has nothing left to say: nobody misses what lies in the old place."""
    disk = SimulatedDisk()
    twinned = TwinnedStorage(disk, log_size_max=2_000)
    twinned.open()
    for first in range(0, 60, 10):
        twinned.add(7, range(first, first + 10), 30)
    twinned.sync()
    twinned.finish_checkpoint()
    wanted = [*range(60)]
    flip(disk, offset_of(twinned.storage, 14) + 45)
    damaged = scrub(twinned.storage)
    assert [(one.first_entry_id, one.last_entry_id) for one in damaged.ranges] == [(10, 19)]

    part = part_to_mend(twinned.storage, batch_of(7, range(60), 30))

    assert part is not None
    assert [*part.entry_ids] == [*range(10, 20)]
    add_batches(twinned.storage.homes, [part])
    twinned.storage.journal.append([EntriesRecord(part)])
    twinned.storage.journal.sync()
    twinned.kill()
    twinned.open()
    assert read_all(twinned.storage, 7, wanted) == batch_of(7, range(60), 30).body
    assert part_to_mend(twinned.storage, batch_of(7, range(60), 30)) is None
    twinned.finish_checkpoint()
    assert not scrub(twinned.storage).is_damage_found


def test_a_lost_log_or_one_that_cannot_be_read_is_stored_again() -> None:
    disk, storage = stored()
    disk.faults = [Fault("pread", errno.EIO, 0, "/logs/") for _ in range(1_000)]
    part = storage.homes.ledger(BATCH.ledger_id).part_to_mend(BATCH)
    assert part is not None
    assert [*part.entry_ids] == [*range(10)]

    disk.faults = []
    storage.close()
    disk.remove_at_rest(LOG)
    part = storage.homes.ledger(BATCH.ledger_id).part_to_mend(BATCH)
    assert part is not None
    assert [*part.entry_ids] == [*range(10)]


def test_the_header_of_a_large_block_is_found() -> None:
    large = batch_of(7, range(300), 1_000)
    disk, storage = stored(large)
    assert storage.homes.ledger(large.ledger_id).part_to_mend(large) is None
    assert part_to_mend(storage, large.select([299])) is None
    flip(disk, offset_of(storage, 0) + 100)
    part = part_to_mend(storage, large.select([299]))
    assert part is not None
    assert [*part.entry_ids] == [299]
