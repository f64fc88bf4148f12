"""A page of the index: golden bytes, round trip, every cut, every flipped bit, and holes."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.digest import checksum
from zbk.storage.index_page import (
    PAGE_ENTRY_COUNT,
    PAGE_LOCATIONS_SIZE,
    PAGE_SIZE,
    Page,
    decode_page,
    encode_page,
    page_offset,
)


def encoded(locations: "array[int]", ledger_id: int = 7, page_no: int = 2) -> bytes:
    view, trailer = encode_page(locations, ledger_id, page_no)
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

    assert decode_page(encoded(page), 7, 2, "x") == page


def test_every_cut_is_short() -> None:
    whole = encoded(page_with({0: 5}))
    for short in cut(whole, stride=13):
        with pytest.raises(ShortRecordError):
            decode_page(short, 7, 2, "x")


def test_every_flipped_bit_is_seen() -> None:
    whole = encoded(page_with({0: 5, 1023: 2**63}))
    for _, damaged in flipped(whole, stride=31):
        with pytest.raises(CorruptRecordError):
            decode_page(damaged, 7, 2, "x")
    for bit, damaged in flipped(whole[-16:]):
        with pytest.raises(CorruptRecordError):
            decode_page(whole[:-16] + damaged, 7, 2, f"{bit}")


@pytest.mark.parametrize(("ledger_id", "page_no"), [(8, 2), (7, 3)])
def test_a_page_in_the_wrong_place_is_seen(ledger_id: int, page_no: int) -> None:
    with pytest.raises(CorruptRecordError, match="is damaged"):
        decode_page(encoded(page_with({0: 5})), ledger_id, page_no, "x")


def test_zeros_are_damage_unless_there_may_be_a_hole() -> None:
    with pytest.raises(CorruptRecordError):
        decode_page(bytes(PAGE_SIZE), 7, 2, "x")
    with pytest.raises(ShortRecordError):
        decode_page(b"", 7, 2, "x")
    for size in (0, 100, PAGE_SIZE):
        assert decode_page(bytes(size), 7, 2, "x", may_be_hole=True) is None
    with pytest.raises(CorruptRecordError):
        decode_page(bytes(100) + b"x" + bytes(PAGE_SIZE - 101), 7, 2, "x", may_be_hole=True)


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


def test_a_shared_page_is_copied_before_it_changes() -> None:
    page = Page()
    page.put(0, numbers(1, 2))
    shared = page.take()

    page.put(1, numbers(2, 3))
    page.put(2, numbers(3, 4))

    assert shared == numbers(1, 2)
    assert page.locations == numbers(1, 4)


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

    page.trim(is_clean=False)

    assert (page.start, page.locations) == (10, numbers(20, 25))
    page.put_ahead(numbers(10, 20) + array("Q", bytes(8 * (PAGE_ENTRY_COUNT - 10))))
    assert page.between(0, 16) == numbers(10, 25) + array("Q", [0])


def test_what_changed_while_it_was_flushed_is_kept() -> None:
    page = Page()
    page.put(0, numbers(10, 20))
    page.take()
    page.put(4, numbers(0, 1))

    page.trim(is_clean=False)

    assert (page.start, page.locations[0]) == (4, 0)
    assert len(page.locations) == 6


def test_a_whole_page_stays_to_be_read() -> None:
    page = Page()
    page.put(0, numbers(0, PAGE_ENTRY_COUNT))
    page.take()

    page.trim(is_clean=True)

    assert page.between(0, PAGE_ENTRY_COUNT) == numbers(0, PAGE_ENTRY_COUNT)


def test_a_forgotten_page_does_not_say_that_an_entry_is_absent() -> None:
    page = Page(numbers(10, 20))

    page.forget()

    for first in (0, 5, PAGE_ENTRY_COUNT - 1):
        with pytest.raises(AssertionError, match="in the file only"):
            page.between(first, first + 1)
