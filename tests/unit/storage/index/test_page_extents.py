"""Which pages were written, and where: as many slots as there are pages, whatever their numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zbk.storage.index.page_extents import EXTENT_COUNT_MAX, Extent, PageExtents

page_sets = st.lists(st.sets(st.integers(0, 60), max_size=8), max_size=8)


@given(steps=page_sets)
def test_extents_agree_with_a_set_of_pages(steps: list[set[int]]) -> None:
    extents = PageExtents()
    twin: dict[int, int] = {}
    for pages in steps:
        extents.add(sorted(pages))
        twin |= {page: extents.slot_of(page) for page in pages if page not in twin}
        assert {page for page in range(65) if extents.holds(page)} == set(twin)
        for page in range(65):
            assert extents.next_page(page) == min((p for p in twin if p >= page), default=None)
        assert {page: extents.slot_of(page) for page in twin} == twin, "no page ever moves"
        assert len(set(twin.values())) == len(twin), "no two pages share a slot"
        assert extents.slot_end <= extents.slot_count <= max(1, 3 * len(twin))
        extents = PageExtents(extents.placed, extents.slot_count)
    runs = list(extents)
    assert all(first <= last and not sparse for first, last, sparse in runs)
    assert all(a[1] < b[0] for a, b in pairwise(runs))


def test_a_ledger_that_grows_by_itself_has_one_extent_in_order() -> None:
    extents = PageExtents()
    for page in range(5_000):
        extents.add([page])

    assert list(extents.placed) == [Extent(0, 4_999, 0)]
    assert extents.is_in_order


def test_a_page_far_from_all_others_takes_one_slot() -> None:
    extents = PageExtents()
    extents.add([*range(10), (1 << 30) - 1])

    assert extents.slot_of((1 << 30) - 1) == 10
    assert extents.slot_count == 11


def test_runs_that_grow_beside_each_other_take_few_extents() -> None:
    extents = PageExtents()
    for page in range(4_000):
        extents.add([page, 10**6 + page, 2 * 10**6 + page])

    assert len(extents) < 45
    assert extents.slot_count < 3 * 12_000


def test_the_directory_is_in_nobodys_way() -> None:
    extents = PageExtents()
    extents.add([0, 10])
    extents.grow_directory(1)
    extents.add([11, 12, 20])
    extents.grow_directory(2)
    extents.add([1, 2, 13, 21, 22])

    pages = [0, 1, 2, 10, 11, 12, 13, 20, 21, 22]
    slots = [extents.slot_of(page) for page in pages] + extents.directory_slots
    assert len(set(slots)) == len(pages) + 2
    again = PageExtents(extents.placed, extents.slot_count, extents.directory_slots)
    for one in (extents, again):
        one.add([14, 30])
    assert list(again.placed) == list(extents.placed)


def test_an_extent_of_an_older_version_stays_where_it_is_and_grows() -> None:
    """Its pages lie in the slots of their numbers, with holes before, and perhaps in it."""
    extents = PageExtents([Extent(3, 4, 3), Extent(9, 20, 9, is_sparse=True)])
    assert extents.is_in_order

    extents.add([5, 21, 10**6])

    assert list(extents.placed) == [
        Extent(3, 5, 3),
        Extent(9, 21, 9, is_sparse=True),
        Extent(10**6, 10**6, 22),
    ]
    assert extents.is_sparse_at(12)
    assert not extents.is_sparse_at(5)


def test_as_many_extents_as_the_file_has_room_for() -> None:
    extents = PageExtents()
    extents.add(range(0, 2 * EXTENT_COUNT_MAX, 2))

    assert len(extents) == extents.slot_count == EXTENT_COUNT_MAX
