"""Reading entries at known locations: all of them, in few reads, and nothing else for them."""

import errno
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import batch_of, entries_in, entry_of
from tests.support.entry_logs import open_logs
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import EntryUnreadableError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import DigestType
from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.entry_logs.entry_reader import GAP_SIZE_MAX, LAST_SIZE_GUESS, Resolved, fetch
from zbk.storage.entry_logs.location import entry_locations

NO_LIMIT = 1 << 60


class Stored:
    """Entries of one ledger, stored in batches, with others in between."""

    def __init__(self, *, log_size_max: int = 1 << 26) -> None:
        self.disk = SimulatedDisk()
        self.logs: EntryLogs = open_logs(self.disk, log_size_max=log_size_max)
        self.locations: dict[int, int] = {}
        self.entries: dict[int, bytes] = {}
        self.reads: list[tuple[int, int]] = []

    def store(self, batch: EntryBatch, *, is_own: bool = True) -> None:
        base = self.logs.append([batch])[0]
        if is_own:
            locations = entry_locations(base, batch.sizes)
            self.locations |= zip(batch.entry_ids, locations, strict=True)
            self.entries |= entries_in(batch)

    def read(self, location: int, size: int) -> bytes:
        self.reads.append((location, size))
        return self.logs.read(location, size)

    def fetch(
        self, entry_ids: Sequence[int] | None = None, size_max: int = NO_LIMIT
    ) -> tuple[int, bytes]:
        ids = sorted(self.locations) if entry_ids is None else entry_ids
        locations = array("Q", [self.locations[e] for e in ids])
        return fetch(self.read, Resolved(1, ids, locations, size_max))

    def body(self, entry_ids: Sequence[int]) -> bytes:
        return b"".join(self.entries[e] for e in entry_ids)


def test_a_batch_is_one_read() -> None:
    stored = Stored()
    stored.store(batch_of(1, range(1000), 100))

    assert stored.fetch() == (1000, stored.body(range(1000)))
    assert len(stored.reads) == 1


def test_near_batches_are_one_read_and_the_others_in_between_are_left_out() -> None:
    stored = Stored()
    for n in range(10):
        stored.store(batch_of(1, range(n * 10, n * 10 + 10)))
        stored.store(batch_of(2, range(n * 10, n * 10 + 10)), is_own=False)

    assert stored.fetch() == (100, stored.body(range(100)))
    assert len(stored.reads) == 1


def test_batches_far_apart_are_read_by_themselves() -> None:
    stored = Stored()
    for n in range(3):
        stored.store(batch_of(1, range(n * 10, n * 10 + 10)))
        stored.store(batch_of(2, range(n, n + 1), GAP_SIZE_MAX), is_own=False)

    assert stored.fetch() == (30, stored.body(range(30)))
    assert len(stored.reads) == 3
    assert all(size < GAP_SIZE_MAX // 2 for _, size in stored.reads)


def test_entries_in_several_logs_and_out_of_order_are_found() -> None:
    stored = Stored(log_size_max=3000)
    for first in (50, 0, 20, 10, 40, 30):
        stored.store(batch_of(1, range(first, first + 10)))

    assert stored.fetch() == (60, stored.body(range(60)))


def test_some_of_the_entries_of_a_batch_can_be_read() -> None:
    stored = Stored()
    stored.store(batch_of(1, range(100)))

    assert stored.fetch([3, 4, 50, 99]) == (4, stored.body([3, 4, 50, 99]))


@pytest.mark.parametrize("payload_size", [0, LAST_SIZE_GUESS - 60, LAST_SIZE_GUESS, 300_000])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_entries_of_any_size_are_read_whole(payload_size: int, count: int) -> None:
    stored = Stored()
    stored.store(batch_of(1, range(count), payload_size))
    stored.store(batch_of(1, range(count, count + 1), 10))
    stored.store(batch_of(1, range(count + 1, count + 2), payload_size))

    assert stored.fetch() == (count + 2, stored.body(range(count + 2)))


@given(
    sizes=st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=12), min_size=1, max_size=5),
    size_max=st.integers(0, 4000),
)
def test_the_size_limits_the_answer_but_one_entry_comes_always(
    sizes: list[list[int]], size_max: int
) -> None:
    stored = Stored()
    entry_id = 0
    for batch_sizes in sizes:
        entries = [entry_of(1, entry_id + n, bytes(size)) for n, size in enumerate(batch_sizes)]
        ids = range(entry_id, entry_id + len(entries))
        stored.store(EntryBatch.of(1, ids, [len(e) for e in entries], b"".join(entries)))
        entry_id += len(entries)

    count, body = stored.fetch(size_max=size_max)

    assert 1 <= count <= entry_id
    assert body == stored.body(range(count))
    assert len(body) <= size_max or count == 1
    if count < entry_id:
        assert len(stored.body(range(count + 1))) > size_max, "as many as the limit allows"


def test_entries_with_different_digests_may_stand_side_by_side() -> None:
    stored = Stored()
    pieces: list[bytes] = []
    for entry_id, digest_type in enumerate([DigestType.XXH3, DigestType.NONE, DigestType.MAC] * 3):
        digest = digest_function(digest_type, b"pw", 1)
        pieces.append(encode_entries(1, [entry_id], -1, 0, [b"x" * 30], digest_type, digest)[0])
    stored.store(EntryBatch.of(1, range(9), [len(p) for p in pieces], b"".join(pieces)))

    assert stored.fetch() == (9, b"".join(pieces))


# ---------------------------------------------------------------- what cannot be read


def damage(stored: Stored, entry_id: int, offset: int) -> None:
    path = stored.disk.paths(".log")[0]
    content = stored.disk.content(path)
    at = content.find(stored.entries[entry_id])
    stored.disk.flip_bit(path, 8 * (at + offset))


@pytest.mark.parametrize("offset", [0, 3, 4, 5, 6, 8, 15, 16, 23])
@pytest.mark.parametrize("payload_size", [20, None], ids=["uniform", "mixed"])
def test_a_damaged_prefix_is_an_error_and_the_entries_before_it_are_answered(
    offset: int, payload_size: int | None
) -> None:
    stored = Stored()
    stored.store(batch_of(1, range(10), payload_size))
    damage(stored, 6, offset)

    assert stored.fetch() == (6, stored.body(range(6)))
    assert stored.fetch([7, 8, 9]) == (3, stored.body([7, 8, 9]))
    with pytest.raises(EntryUnreadableError):
        stored.fetch([6, 7])


def test_a_size_that_reaches_into_the_next_entry_is_an_error() -> None:
    stored = Stored()
    stored.store(batch_of(1, range(3), 20))
    damage(stored, 1, 0)  # bit 0 of the payload size: 20 becomes 21

    assert stored.fetch() == (1, stored.body([0]))
    with pytest.raises(EntryUnreadableError):
        stored.fetch([1, 2])


def test_a_size_that_reaches_over_a_whole_entry_is_an_error() -> None:
    stored = Stored()
    stored.store(batch_of(1, range(4), 20))
    path = stored.disk.paths(".log")[0]
    content = bytearray(stored.disk.content(path))
    at = content.find(stored.entries[1])
    content[at : at + 4] = (20 + len(stored.entries[2])).to_bytes(4, "little")
    stored.disk.set_content(path, bytes(content))

    assert stored.fetch() == (1, stored.body([0]))


def test_a_location_of_another_entry_is_an_error() -> None:
    stored = Stored()
    stored.store(batch_of(1, range(3)))
    stored.store(batch_of(2, range(7, 8)), is_own=False)
    stored.locations[1] = stored.locations[2]
    with pytest.raises(EntryUnreadableError, match="other bytes"):
        stored.fetch([1])
    stored.locations[1] = stored.locations[0] + 1
    with pytest.raises(EntryUnreadableError, match="other bytes"):
        stored.fetch([1])


@pytest.mark.parametrize("cut_size", [1, 30, 60, 100])
def test_a_log_that_ends_early_is_an_error(cut_size: int) -> None:
    stored = Stored()
    stored.store(batch_of(1, range(3), 20))
    path = stored.disk.paths(".log")[0]
    stored.disk.set_content(path, stored.disk.content(path)[:-cut_size])

    count, body = stored.fetch()

    assert body == stored.body(range(count))
    assert count == 2 - (cut_size > 68)
    with pytest.raises(EntryUnreadableError):
        stored.fetch([2])


def test_a_missing_log_is_an_error() -> None:
    """B3: the index names the entry, so it is not absent."""
    stored = Stored(log_size_max=600)
    for n in range(10):
        stored.store(batch_of(1, range(n * 5, n * 5 + 5), 20))
    stored.disk.remove_at_rest(stored.disk.paths(".log")[1])

    count, body = stored.fetch()

    assert 0 < count < 50
    assert body == stored.body(range(count))
    with pytest.raises(EntryUnreadableError):
        stored.fetch(range(count, 50))


def test_a_failed_read_is_an_error() -> None:
    def failing(_location: int, _size: int) -> bytes:
        raise OSError(errno.EIO, "simulated")

    with pytest.raises(EntryUnreadableError, match="simulated"):
        fetch(failing, Resolved(1, range(3), array("Q", [1, 2, 3]), NO_LIMIT))
