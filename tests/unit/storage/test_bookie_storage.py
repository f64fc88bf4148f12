"""A bookie's storage behind its one door: it adds and reads entries and knows duplicates."""

from array import array

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.bookie_storages import (
    KEY,
    NO_LIMIT,
    batch_with_other_bytes,
    disk,
    presence,
    read_all,
    storage,
)
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import EntryUnreadableError, NoSuchLedgerError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.replay import add_batches
from zbk.storage.stored_ledger import Presence

__all__ = ["disk", "storage"]


def test_what_was_added_can_be_read_at_once(storage: BookieStorage) -> None:
    some = [batch_of(1, range(n * 10, n * 10 + 10)) for n in range(5)]
    add_batches(storage.homes, some)

    assert read_all(storage, 1, range(50)) == b"".join(batch.body for batch in some)
    assert storage.ledger_count == 1
    assert storage.ledgers() == [1]


def test_an_answer_ends_at_the_first_absent_entry(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(5)), batch_of(1, range(7, 9))])

    resolved = storage.homes.ledger(1).resolve(range(3, 20), NO_LIMIT)
    assert resolved is not None
    assert resolved.entry_ids == range(3, 5)
    assert storage.homes.ledger(1).resolve(range(5, 9), NO_LIMIT) is None
    assert storage.homes.ledger(1).resolve(range(9, 12), NO_LIMIT) is None
    with pytest.raises(NoSuchLedgerError):
        storage.homes.ledger(2).resolve(range(1), NO_LIMIT)


def test_a_striped_ledger_is_read_by_ids(storage: BookieStorage) -> None:
    ids = array("q", [0, 2, 3, 5, 1500])
    batch = batch_of(1, ids)
    add_batches(storage.homes, [batch])

    assert read_all(storage, 1, ids) == batch.body
    assert read_all(storage, 1, array("q", [2, 5])) == b"".join(
        entries_in(batch)[e] for e in (2, 5)
    )
    resolved = storage.homes.ledger(1).resolve(array("q", [2, 4, 5]), NO_LIMIT)
    assert resolved is not None
    assert list(resolved.entry_ids) == [2]


def test_an_answer_is_limited_by_size(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(3000), 100)])

    resolved = storage.homes.ledger(1).resolve(range(3000), 10_000)
    assert resolved is not None
    assert 10_000 // 148 <= len(resolved.entry_ids) <= 1024, "no more is looked up than needed"
    count, body = storage.home_of(resolved).fetch(resolved)
    assert count == 10_000 // 148
    assert len(body) == count * 148


def test_what_changed_of_a_ledger_is_known(storage: BookieStorage) -> None:
    assert storage.homes.info(2) is None
    storage.homes.place(2).home.cache.set_ledger_key(2, KEY, LedgerType.VD_JOURNAL)
    add_batches(storage.homes, [batch_of(2, range(10))])
    storage.homes.ledger(2).index.set_fenced()
    storage.homes.ledger(2).index.set_explicit_lac(7)
    storage.homes.ledger(2).index.set_last_add_synced(5)

    info = storage.homes.info(2)

    assert info is not None
    assert (info.ledger_key, info.ledger_type) == (KEY, LedgerType.VD_JOURNAL)
    assert (info.is_fenced, info.explicit_lac) == (True, 7)
    assert (info.last_add_synced, info.last_entry_id) == (5, 9)
    assert storage.homes.ledger(2).index.contiguous_until(-1) == 9


def test_held_ranges_can_be_walked_in_parts(storage: BookieStorage) -> None:
    for first, last in ((0, 9), (12, 12), (1000, 1100), (5000, 5001)):
        add_batches(storage.homes, [batch_of(1, range(first, last + 1))])
    everything = [(0, 9), (12, 12), (1000, 1100), (5000, 5001)]

    def held(first: int, ranges: int, entries: int) -> tuple[list[tuple[int, int]], int | None]:
        return storage.homes.ledger(1).held_ranges(
            first, range_count_max=ranges, entry_count_max=entries
        )

    assert held(0, 100, 10**9) == (everything, None)
    assert held(5, 100, 10**9) == ([(5, 9), *everything[1:]], None)
    assert held(0, 2, 10**9) == (everything[:2], 1000)
    assert held(0, 100, 11) == (everything[:2], 1000)
    assert held(1000, 2, 10**9) == (everything[2:], None)
    assert held(6000, 2, 10**9) == ([], None)


# ---------------------------------------------------------------- entries that are here already


def test_the_same_entries_are_recognised_whatever_batch_they_come_in(
    storage: BookieStorage,
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10)), batch_of(1, range(20, 30))])

    assert presence(storage, batch_of(1, range(30, 40))) is Presence.NONE
    assert presence(storage, batch_of(1, range(10, 20))) is Presence.NONE
    assert presence(storage, batch_of(1, range(10))) is Presence.SAME
    assert presence(storage, batch_of(1, range(3, 5))) is Presence.SAME
    assert presence(storage, batch_of(1, array("q", [1, 5, 25]))) is Presence.SAME
    assert presence(storage, batch_of(1, range(5, 25))) is Presence.PART
    assert presence(storage, batch_of(1, array("q", [1, 15]))) is Presence.PART
    with pytest.raises(NoSuchLedgerError):
        presence(storage, batch_of(2, range(1)))


@pytest.mark.parametrize("entry_ids", [range(10), range(5, 10), array("q", [3, 9])])
def test_other_bytes_under_the_same_id_are_told(
    storage: BookieStorage, entry_ids: "range | array[int]"
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10))])

    other = batch_with_other_bytes(batch_of(1, entry_ids))

    assert storage.homes.ledger(other.ledger_id).presence(other) is Presence.OTHER


def test_another_size_under_the_same_id_is_told(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(10), 20)])

    assert presence(storage, batch_of(1, range(10), 21)) is Presence.OTHER


def test_what_is_missing_of_a_batch_can_be_added(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(5, 8))])
    batch = batch_of(1, range(10))

    missing = storage.homes.ledger(batch.ledger_id).missing_part(batch)
    assert list(missing.entry_ids) == [0, 1, 2, 3, 4, 8, 9]
    missing.validate()
    add_batches(storage.homes, [missing])

    assert read_all(storage, 1, range(10)) == batch.body
    assert storage.homes.ledger(batch.ledger_id).presence(batch) is Presence.SAME


def test_a_stored_entry_that_cannot_be_read_cannot_be_compared(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10))])
    disk.remove_at_rest(disk.paths(".log")[0])

    with pytest.raises(EntryUnreadableError):
        presence(storage, batch_of(1, range(10)))
