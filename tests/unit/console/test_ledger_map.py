"""The map of a ledger draws what the data say, escapes what it shows, and is bounded."""

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.unit.console.conftest import drawn
from zbk.console import ledger_map, svg
from zbk.console.ledger_map import entry_map, fragment_map

NAME = '<b>&"'
FRAGMENTS = [
    {"first_entry_id": 0, "last_entry_id": 99, "bookies": ["a", "b"]},
    {"first_entry_id": 100, "last_entry_id": None, "bookies": ["a", NAME]},
]


def bookie(name: str, last: int | None, **fields: object) -> dict[str, Any]:
    known = {"bookie_id": name, "is_registered": True, "last_entry_id": last}
    return known | {"last_add_synced": None, "missing": [], "unknown_from": None} | fields


BOOKIES = [bookie("a", 1_299), bookie("b", None, is_registered=False), bookie(NAME, 1_250)]


def numbers(figure: object, kind: str, field: str) -> list[float]:
    return [float(one.get(field) or 0) for one in drawn(figure, kind)]


def titles(figure: object, kind: str) -> list[str | None]:
    return [one.findtext("title") for one in drawn(figure, kind)]


def test_a_map_has_a_block_for_each_bookie_of_each_fragment() -> None:
    blocks = drawn(fragment_map(FRAGMENTS, BOOKIES), "block")
    assert len(blocks) == 4
    assert [one.get("class") for one in blocks].count("block lost") == 1
    xs = [float(one.get("x") or 0) for one in blocks]
    assert xs[0] == xs[2]  # the same fragment, on two bookies
    assert xs[1] == xs[3] > xs[0]


def test_the_axis_of_a_map_names_the_last_entry() -> None:
    def ticks(*fragments: object) -> list[str | None]:
        return [one.text for one in drawn(fragment_map(fragments, BOOKIES), "tick")]

    assert ticks(*FRAGMENTS) == ["1,299", "0", "100"]
    closed = {"first_entry_id": 0, "last_entry_id": 12_345, "bookies": ["a"]}
    assert ticks(closed) == ["12,345", "0"]
    empty = {"first_entry_id": 0, "last_entry_id": -1, "bookies": ["a"]}
    assert ticks(empty) == ["0"]
    short = {"first_entry_id": 12_340, "last_entry_id": 12_345, "bookies": ["b"]}
    xs = sorted(numbers(fragment_map([closed, short, short, short], BOOKIES), "tick", "x"))
    assert all(b - a > 64 for a, b in pairwise(xs))  # none covers another


def test_a_map_of_many_fragments_is_bounded() -> None:
    many = [{"first_entry_id": n, "last_entry_id": n, "bookies": ["a"]} for n in range(10_000)]
    assert len(drawn(fragment_map(many, BOOKIES), "block")) == ledger_map.BLOCK_COUNT_MAX


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ([(10, 19)], ["a: lacks entries 10 to 19"]),
        ([(90, 119)], ["a: lacks entries 90 to 99", "a: lacks entries 100 to 119"]),
        ([(5, 5), (2_000, 2_100)], ["a: lacks entries 5 to 5"]),
        ([], []),
    ],
)
def test_missing_entries_are_hatched_where_they_are(
    missing: list[tuple[int, int]], expected: list[str]
) -> None:
    figure = fragment_map(FRAGMENTS, [bookie("a", 1_299, missing=missing)])
    assert titles(figure, "hole") == expected
    assert all("url(#hatch)" in (one.get("style") or "") for one in drawn(figure, "hole"))
    block = drawn(figure, "block")[0]
    left = float(block.get("x") or 0)
    right = left + float(block.get("width") or 0)
    for x, width in list(
        zip(numbers(figure, "hole", "x"), numbers(figure, "hole", "width"), strict=True)
    )[:1]:
        assert left <= x <= x + width <= right + 0.2
        assert width >= 3  # a single entry stays visible


def test_what_was_not_checked_is_unknown_and_not_whole() -> None:
    silent = fragment_map(FRAGMENTS, [bookie("a", 1_299, unknown_from=0)])
    assert titles(silent, "unknown") == [
        "a: not known from 0 to 99", "a: not known from 100 to 1,299",
    ]  # fmt: skip
    partly = fragment_map(FRAGMENTS, [bookie("a", 1_299, unknown_from=700)])
    assert titles(partly, "unknown") == ["a: not known from 700 to 1,299"]


def test_marks_stand_in_their_order_with_their_names_apart() -> None:
    rows = [bookie("a", 1_299, last_add_synced=699), bookie(NAME, 1_250, last_add_synced=-1)]
    marks = {"LAC": 1_298, "LAS": 699, "LAP": 1_299}
    figure = fragment_map(FRAGMENTS, rows, marks)
    xs = {str(one.get("class")): float(one.get("x1") or 0) for one in drawn(figure, "mark ")}
    assert xs["mark LAS"] < xs["mark LAC"] < xs["mark LAP"]
    assert numbers(figure, "sync", "x1") == [xs["mark LAS"]]  # none where nothing is synced
    assert numbers(figure, "gap", "x") == [xs["mark LAS"]]
    (width,) = numbers(figure, "gap", "width")
    assert width == pytest.approx(xs["mark LAP"] - xs["mark LAS"], abs=0.2)
    named = [one for one in drawn(figure, "tick end") if (one.text or "").startswith("LA")]
    ends = sorted((float(one.get("x") or 0), len(one.text or "")) for one in named)
    assert all(b[0] - a[0] >= 6 * b[1] for a, b in pairwise(ends))
    assert all(x <= svg.WIDTH for x, _ in ends)


def test_an_open_ledger_without_entries_has_marks_at_its_start() -> None:
    empty = [{"first_entry_id": 0, "last_entry_id": None, "bookies": ["a"]}]
    figure = fragment_map(empty, [bookie("a", -1)], {"LAC": -1, "LAP": -1})
    assert {one.text for one in drawn(figure, "tick end")} == {"LAC none", "LAP none"}


def test_a_striped_ledger_looks_striped() -> None:
    striped = fragment_map(FRAGMENTS, BOOKIES, is_striped=True)
    assert len(drawn(striped, "block striped")) == 3


def test_single_entries_have_a_cell_for_each_copy_that_is_due() -> None:
    rows = [
        {"bookie_id": "a", "copies": ["stored", "", "missing"]},
        {"bookie_id": NAME, "copies": ["unknown", "not synced", ""]},
        {"bookie_id": "c", "copies": ["", "on a lost bookie", "not yet there"]},
    ]
    figure = entry_map({"first_entry_id": 7, "last_entry_id": 9, "rows": rows})
    assert titles(figure, "block") == ["a: entry 7 stored", "c: entry 8 on a lost bookie"]
    assert titles(figure, "hole") == ["a: entry 9 missing"]
    assert titles(figure, "unknown") == [f"{NAME}: entry 7 unknown"]
    assert len(drawn(figure, "coming")) == 1
    assert [one.text for one in drawn(figure, "tick")] == ["7", "8", "9"]


def test_maps_without_data_are_empty() -> None:
    nothing = {"first_entry_id": 0, "last_entry_id": -1, "rows": []}
    for figure in (fragment_map([], []), entry_map(nothing)):
        assert ET.fromstring(str(figure)).get("aria-label")  # noqa: S314 - our own
