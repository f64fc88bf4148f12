"""The slots of index pages: ids are cut at page borders, and absent entries are found."""

from array import array

from zbk.storage.index.page_slots import find_absent, find_present, page_runs


def test_ids_are_cut_at_page_borders() -> None:
    assert list(page_runs(range(1000, 1030))) == [(0, 0, 24), (1, 24, 30)]
    assert list(page_runs(array("q", [1, 2000, 2047, 2048]))) == [(0, 0, 1), (1, 1, 3), (2, 3, 4)]
    assert list(page_runs(range(0))) == []


def test_zero_bytes_of_two_neighbours_are_no_absent_entry() -> None:
    locations = array("Q", [1, 1 << 56, 5])
    assert bytes(8) in array("Q", [1, 1 << 56]).tobytes()
    assert find_absent(locations) is None
    assert find_absent(array("Q", [1, 1 << 56, 0, 0])) == 2
    assert find_absent(array("Q", [0, 1, 0]), 1) == 2
    assert find_present(array("Q", [5, 0, 1 << 56]), 1) == 2
    assert find_present(array("Q", [5, 0, 0]), 1) is None
