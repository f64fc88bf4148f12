"""A page of the index: golden bytes, round trip, every cut, every flipped bit, and holes."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.byte_order import to_disk
from zbk.storage.index.index_page import (
    PAGE_ENTRY_COUNT,
    PAGE_LOCATIONS_SIZE,
    PAGE_SIZE,
    Page,
    decode_page,
    encode_trailer,
    page_checksum,
    page_offset,
)


def encoded(locations: "array[int]", ledger_id: int = 7, page_no: int = 2) -> bytes:
    view = to_disk(locations)
    trailer = encode_trailer(page_no, page_checksum(view, ledger_id, page_no))
    return bytes(view) + trailer


def page_with(locations: dict[int, int]) -> "array[int]":
    page = array("Q", bytes(PAGE_LOCATIONS_SIZE))
    for slot, location in locations.items():
        page[slot] = location
    return page


@given(
    st.dictionaries(st.integers(0, PAGE_ENTRY_COUNT - 1), st.integers(0, 2**64 - 1), max_size=20)
)
def test_decode_undoes_encode(locations: dict[int, int]) -> None:
    page = page_with(locations)

    assert decode_page(encoded(page), 7, 2, "x", slot=2) == page


def test_every_cut_is_short() -> None:
    whole = encoded(page_with({0: 5}))
    for short in cut(whole, stride=13):
        with pytest.raises(ShortRecordError):
            decode_page(short, 7, 2, "x", slot=2)


def test_every_flipped_bit_is_seen() -> None:
    whole = encoded(page_with({0: 5, 1023: 2**63}))
    for _, damaged in flipped(whole, stride=31):
        with pytest.raises(CorruptRecordError):
            decode_page(damaged, 7, 2, "x", slot=2)
    for bit, damaged in flipped(whole[-16:]):
        with pytest.raises(CorruptRecordError):
            decode_page(whole[:-16] + damaged, 7, 2, f"{bit}", slot=2)


@pytest.mark.parametrize(("ledger_id", "page_no"), [(8, 2), (7, 3)])
def test_a_page_in_the_wrong_place_is_seen(ledger_id: int, page_no: int) -> None:
    with pytest.raises(CorruptRecordError, match="is damaged"):
        decode_page(encoded(page_with({0: 5})), ledger_id, page_no, "x", slot=2)


def test_zeros_are_damage_unless_there_may_be_a_hole() -> None:
    with pytest.raises(CorruptRecordError):
        decode_page(bytes(PAGE_SIZE), 7, 2, "x", slot=2)
    with pytest.raises(ShortRecordError):
        decode_page(b"", 7, 2, "x", slot=2)
    for size in (0, 100, PAGE_SIZE):
        assert decode_page(bytes(size), 7, 2, "x", slot=2, may_be_hole=True) is None
    with pytest.raises(CorruptRecordError):
        decode_page(bytes(100) + b"x" + bytes(PAGE_SIZE - 101), 7, 2, "x", slot=2, may_be_hole=True)


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("index_v1.txt")
    locations = array("Q", range(1, PAGE_ENTRY_COUNT + 1))

    whole = encoded(locations)

    assert whole[:32] == golden["page start"]
    assert whole[-16:] == golden["page trailer"]
    assert checksum(whole).to_bytes(8, "little") == golden["page xxh3"]


def test_pages_lie_one_behind_the_other() -> None:
    assert page_offset(0) == 1024
    assert page_offset(3) - page_offset(2) == PAGE_SIZE == 8208


def numbers(first: int, end: int) -> "array[int]":
    return array("Q", range(first, end))


def test_what_a_flush_has_taken_is_copied_before_it_changes() -> None:
    page = Page()
    page.put(0, numbers(1, 4))
    shared = page.take()

    page.put(3, numbers(4, 6))
    page.put(1, numbers(8, 9))
    page.put_scattered([0, 6], numbers(20, 22))

    assert shared[:3] == numbers(1, 4)
    assert page.locations == array("Q", [20, 8, 3, 4, 5, 0, 21])


def test_what_is_put_behind_what_a_flush_has_taken_copies_nothing() -> None:
    page = Page()
    page.put(0, numbers(1, 4))
    shared = page.take()

    page.put(3, numbers(4, 6))
    page.put(7, numbers(9, 10))
    page.put_scattered([8, 10], numbers(11, 13))

    assert page.locations is shared
    assert shared[:3] == numbers(1, 4)


def test_behind_its_locations_a_page_is_absent() -> None:
    page = Page()
    page.put(3, numbers(7, 9))
    page.put_scattered([6, 8], numbers(1, 3))

    assert page.between(0, 10).tolist() == [0, 0, 0, 7, 8, 0, 1, 0, 2, 0]
    assert page.between(900, 902).tolist() == [0, 0]


def test_what_a_flush_has_brought_to_the_file_is_forgotten() -> None:
    page = Page()
    page.put(0, numbers(10, 20))
    page.take()
    page.put(10, numbers(20, 25))

    page.end_flush(is_kept=False)

    assert (page.start, page.locations) == (10, numbers(20, 25))
    page.put_ahead(numbers(10, 20) + array("Q", bytes(8 * (PAGE_ENTRY_COUNT - 10))))
    assert page.between(0, 16) == numbers(10, 25) + array("Q", [0])


def test_what_changed_while_it_was_flushed_is_kept() -> None:
    page = Page()
    page.put(0, numbers(10, 20))
    page.take()
    page.put(4, numbers(0, 1))

    page.end_flush(is_kept=False)

    assert (page.start, page.locations[0]) == (4, 0)
    assert len(page.locations) == 6


@pytest.mark.parametrize("count", [10, PAGE_ENTRY_COUNT])
def test_a_page_that_is_kept_stays_to_be_read(count: int) -> None:
    page = Page()
    page.put(0, numbers(0, count))
    page.take()

    page.end_flush(is_kept=True)

    assert page.is_full == (count == PAGE_ENTRY_COUNT)
    assert page.between(0, count) == numbers(0, count)


def test_of_the_end_of_a_page_nothing_is_kept_that_the_file_has() -> None:
    page = Page(start=10)
    page.put(10, numbers(20, 25))
    page.take()
    page.put(15, numbers(25, 26))

    page.end_flush(is_kept=True)

    assert (page.start, page.locations) == (15, numbers(25, 26))


def test_a_forgotten_page_does_not_say_that_an_entry_is_absent() -> None:
    page = Page(numbers(10, 20))

    page.forget()

    for first in (0, 5, PAGE_ENTRY_COUNT - 1):
        with pytest.raises(AssertionError, match="in the file only"):
            page.between(first, first + 1)
