"""Which pages were written: exact until there are too many runs, then never too little."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zbk.storage.page_extents import EXTENT_COUNT_MAX, PageExtents

page_sets = st.lists(st.sets(st.integers(0, 60), max_size=8), max_size=8)


@given(steps=page_sets)
def test_extents_agree_with_a_set_of_pages(steps: list[set[int]]) -> None:
    extents = PageExtents()
    twin: set[int] = set()
    for pages in steps:
        extents.add(sorted(pages))
        twin |= pages
        assert {page for page in range(65) if extents.holds(page)} == twin
        for page in range(65):
            assert extents.next_page(page) == min((p for p in twin if p >= page), default=None)
    runs = list(extents)
    assert all(first <= last and not sparse for first, last, sparse in runs)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(runs))


@given(st.sets(st.integers(0, 1000), min_size=EXTENT_COUNT_MAX, max_size=120))
def test_too_many_runs_become_sparse_and_hold_no_less(pages: set[int]) -> None:
    extents = PageExtents()

    extents.add(pages)

    assert len(extents) <= EXTENT_COUNT_MAX
    assert all(extents.holds(page) for page in pages)
    for page in range(1001):
        if extents.holds(page) and not extents.is_sparse_at(page):
            assert page in pages


def test_what_is_far_apart_stays_exact() -> None:
    extents = PageExtents()
    extents.add([*range(0, 2 * EXTENT_COUNT_MAX, 2), 10**9])

    assert not extents.is_sparse_at(10**9)
    assert not extents.holds(10**9 - 1)
    assert any(is_sparse for _, _, is_sparse in extents)


def test_extents_can_be_made_anew_from_what_they_say() -> None:
    extents = PageExtents()
    extents.add([1, 2, 9])

    assert list(PageExtents(extents)) == list(extents) == [(1, 2, False), (9, 9, False)]
