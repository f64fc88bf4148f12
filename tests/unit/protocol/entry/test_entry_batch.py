"""A batch: its structure is checked as a whole, its bytes once, its sizes travel as u32."""

from array import array
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import batch_of, entries_in, entry_of
from zbk.errors import MalformedMessageError
from zbk.protocol.entry.entry import HEADER_SIZE
from zbk.protocol.entry.entry_batch import (
    COUNT_MAX,
    STORED_ENTRY_ID_MAX,
    EntryBatch,
    _has_size_below,
    is_uniform,
    sizes_from_wire,
    sizes_to_wire,
)
from zbk.protocol.ledger.quorum import Quorum

replace = msgspec.structs.replace


def test_a_batch_knows_its_ends() -> None:
    batch = batch_of(7, range(3, 9))

    assert (batch.first_entry_id, batch.last_entry_id, batch.count) == (3, 8, 6)
    assert batch.size == len(batch.body) == sum(batch.sizes)
    assert batch.is_in_a_row


@pytest.mark.parametrize("entry_ids", [range(5), range(9, 10), array("q", [0, 2, 3, 9])])
@pytest.mark.parametrize("payload_size", [0, 100, None])
def test_a_whole_batch_is_accepted(
    entry_ids: "range | array[int]", payload_size: int | None
) -> None:
    batch = batch_of(1, entry_ids, payload_size)

    batch.validate()
    batch.verify()


def test_every_flipped_bit_of_the_body_fails_the_checksum() -> None:
    """B29: also on the way from the writer to a bookie's disk."""
    batch = batch_of(1, range(3))
    for bit in range(8 * batch.size):
        damaged = bytearray(batch.body)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MalformedMessageError):
            replace(batch, body=bytes(damaged)).verify()


BROKEN: dict[str, Callable[[EntryBatch], EntryBatch]] = {
    "no entries": lambda b: replace(b, entry_ids=range(0), sizes=array("I"), body=b""),
    "a size too few": lambda b: replace(b, sizes=b.sizes[:-1]),
    "an id too many": lambda b: replace(b, entry_ids=range(4)),
    "body cut": lambda b: replace(b, body=b.body[:-1]),
    "body too long": lambda b: replace(b, body=b.body + b"x"),
    "a size below a header": lambda b: replace(
        b,
        sizes=array("I", [HEADER_SIZE - 1, b.sizes[1], b.sizes[2] + b.sizes[0] - HEADER_SIZE + 1]),
    ),
    "sizes of first entries swapped": lambda b: replace(
        b, sizes=array("I", [b.sizes[0] + 1, b.sizes[1] - 1, b.sizes[2]])
    ),
    "size of the last entry wrong": lambda b: replace(
        b, sizes=array("I", [b.sizes[0], b.sizes[1] + 1, b.sizes[2] - 1])
    ),
    "ids shifted": lambda b: replace(b, entry_ids=range(1, 4)),
    "last id wrong": lambda b: replace(b, entry_ids=array("q", [0, 1, 5])),
    "another ledger": lambda b: replace(b, ledger_id=2),
    "negative ledger": lambda b: replace(b, ledger_id=-1),
    "negative id": lambda b: replace(b, entry_ids=range(-1, 2)),
    "descending ids": lambda b: replace(b, entry_ids=range(2, -1, -1)),
    "ids not in a row": lambda b: replace(b, entry_ids=range(0, 6, 2)),
    "an id beyond the index": lambda b: replace(
        b, entry_ids=range(STORED_ENTRY_ID_MAX - 1, STORED_ENTRY_ID_MAX + 2)
    ),
}


@pytest.mark.parametrize("payload_size", [40, None])
@pytest.mark.parametrize("name", BROKEN)
def test_a_batch_that_does_not_fit_is_refused(name: str, payload_size: int | None) -> None:
    broken = BROKEN[name](batch_of(1, range(3), payload_size))

    with pytest.raises(MalformedMessageError):
        broken.validate()


def test_a_batch_of_uniform_zero_sizes_is_refused() -> None:
    with pytest.raises(MalformedMessageError):
        EntryBatch.of(1, range(2), [0, 0], b"").validate()


def test_an_entry_of_unknown_format_is_refused() -> None:
    entry = bytearray(entry_of(1, 0))
    entry[4] = 9  # version
    with pytest.raises(MalformedMessageError, match="not the start of an entry"):
        EntryBatch.of(1, range(1), [len(entry)], bytes(entry)).validate()


@given(places=st.sets(st.integers(0, 9), min_size=1).map(sorted))
def test_a_selection_is_a_batch_of_the_same_entries(places: list[int]) -> None:
    whole = batch_of(3, range(100, 110))

    part = whole.select(places)

    part.validate()
    part.verify()
    assert list(part.entry_ids) == [100 + place for place in places]
    everything = entries_in(whole)
    assert entries_in(part) == {e: everything[e] for e in part.entry_ids}
    is_row = places == list(range(places[0], places[0] + len(places)))
    assert part.is_in_a_row == is_row


@given(
    sizes=st.integers(2, 7).flatmap(lambda e: st.tuples(st.just(e), st.integers(1, e - 1))),
    slot=st.integers(0, 6),
    first=st.integers(0, 9),
    count=st.integers(1, 30),
    payload_size=st.sampled_from([0, 5, None]),
)
def test_the_part_of_a_slot_is_the_selection_of_its_entries(
    sizes: tuple[int, int], slot: int, first: int, count: int, payload_size: int | None
) -> None:
    quorum = Quorum(*sizes, 1)
    whole = batch_of(3, range(first, first + count), payload_size)
    held = quorum.entry_ids(slot % sizes[0], first, first + count - 1)
    if not held:
        return

    part = whole.only(held)

    assert part == whole.select([entry_id - first for entry_id in held])
    part.validate()


def test_sizes_on_the_wire_are_little_endian() -> None:
    sizes = array("I", [1, 0x01020304])

    assert sizes_to_wire(sizes) == bytes.fromhex("0100000004030201")
    assert sizes_from_wire(bytes.fromhex("0100000004030201")) == sizes


@given(sizes=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_sizes_come_back_from_the_wire(sizes: list[int]) -> None:
    assert sizes_from_wire(sizes_to_wire(array("I", sizes))).tolist() == sizes


@pytest.mark.parametrize("frame", [b"", b"123", bytes(5), bytes(4 * (COUNT_MAX + 1))])
def test_a_frame_that_is_no_list_of_sizes_is_refused(frame: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        sizes_from_wire(frame)


@given(
    sizes=st.lists(st.one_of(st.integers(38, 42), st.integers(0, 2**31 - 1)), min_size=1),
    limit=st.sampled_from([1, 40]),
)
def test_a_size_below_a_limit_is_found(sizes: list[int], limit: int) -> None:
    assert _has_size_below(limit, array("I", sizes)) == (min(sizes) < limit)


@pytest.mark.parametrize("count", [8191, 8192, 8193])
def test_a_size_below_a_limit_is_found_in_long_batches_too(count: int) -> None:
    sizes = array("I", [40]) * count
    assert not _has_size_below(40, sizes)
    sizes[count // 2] = 39
    assert _has_size_below(40, sizes)


@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_uniform_means_all_the_same(sizes: list[int]) -> None:
    assert is_uniform(array("I", sizes)) == (len(set(sizes)) == 1)
