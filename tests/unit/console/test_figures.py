"""Figures are well-formed, escape what they show, and draw what the data say."""

from xml.etree import ElementTree as ET

from tests.unit.console.conftest import drawn
from zbk.console import figures, svg

NAME = '<b>&"'


def test_the_gap_is_what_is_stored_and_not_synced() -> None:
    rows = [
        {"bookie_id": "a", "last_add_synced": 49, "lac": 98, "last_entry_id": 99},
        {"bookie_id": "b", "last_add_synced": None, "lac": None, "last_entry_id": None},
    ]
    figure = figures.gap(rows)
    synced, stored = drawn(figure, "block"), drawn(figure, "atrisk")
    assert len(synced) == len(stored) == 1
    assert float(synced[0].get("width") or 0) * 2 == float(stored[0].get("width") or 0)
    assert "50 at risk" in figure


def cell(number: int, **fields: object) -> dict[str, object]:
    known: dict[str, object] = {"bookie_id": f"b-{number}", "state": "writable", "fsync_ms": 1.0}
    return known | {"queue_ms": 2.0, "disk_share": 0.5, "fsync_trend": [1.0, 2.0]} | fields


def test_a_fleet_has_a_cell_for_each_bookie_with_state_disk_and_queue() -> None:
    silent = {"state": "silent", "queue_ms": None, "disk_share": None, "fsync_ms": None}
    figure = figures.fleet(
        [cell(0), cell(1, disk_share=0.95, queue_ms=4.0), cell(2, bookie_id=NAME, **silent)]
    )
    assert [one.get("class") for one in drawn(figure, "edge")] == [
        "edge writable", "edge writable", "edge silent",
    ]  # fmt: skip
    widths = [float(one.get("width") or 0) for one in drawn(figure, "fill")]
    half_disk, half_queue, whole_queue = widths[:3]
    assert half_disk == half_queue == whole_queue / 2
    assert len(drawn(figure, "full")) == 1
    texts = [one.text for one in drawn(figure, "tick")]
    assert texts[3:] == [
        "disk 95%", "queue 4 ms", "fsync 1 ms", "disk -", "queue -", "fsync -",
    ]  # fmt: skip
    assert "bookies: 2 writable, 1 silent" in figure


def test_the_cells_of_a_large_fleet_are_small() -> None:
    small = figures.fleet([cell(n) for n in range(figures.LARGE_CELL_COUNT_MAX + 1)])
    large = figures.fleet([cell(n) for n in range(figures.LARGE_CELL_COUNT_MAX)])
    assert len(drawn(small, "cell")) == figures.LARGE_CELL_COUNT_MAX + 1
    assert len(small) < len(large)


def test_the_line_of_the_gap_is_within_the_figure() -> None:
    row = {"bookie_id": "a", "last_add_synced": 49, "lac": 199, "last_entry_id": 99}
    (line,) = drawn(figures.gap([row]), "mark")
    assert float(line.get("x1") or 0) <= svg.WIDTH - 90


def test_the_gap_over_time_has_three_lines_and_names_the_entries_at_risk() -> None:
    gaps = [
        {"at_ms": n, "synced": 0, "confirmed": n, "stored": 10 * n, "synced_by": {}}
        for n in range(4)
    ]
    figure = figures.gap_lines(gaps)
    lines = [len(drawn(figure, kind)) for kind in ("line", "confirmed", "synced", "atrisk")]
    assert lines == [1, 1, 1, 1]
    assert "now 30" in figure


def test_the_gap_over_time_has_a_line_for_each_bookie_and_a_tick_for_each_sync() -> None:
    synced = [(10, {"a": 10, "b": 12, "c": 3}), (10, {"a": 10, "b": 12}), (40, {"a": 40, "b": 41})]
    gaps = [
        {"at_ms": n, "synced": until, "confirmed": until, "stored": 50, "synced_by": of}
        for n, (until, of) in enumerate(synced)
    ]
    figure = figures.gap_lines(gaps)
    lines = drawn(figure, "bookie-synced")
    assert [len((one.get("points") or "").split()) for one in lines] == [3, 3, 1]
    titles = [one.findtext("./{*}title") for one in lines]
    assert titles == ["synced at a", "synced at b", "synced at c"]
    ticks = [one.findtext("./{*}title") for one in drawn(figure, "sync") if one.get("x1")]
    assert ticks == ["synced up to entry 40"]


def test_a_heat_map_has_a_cell_for_each_bucket_with_answers() -> None:
    cells = drawn(figures.heat_map([[0, 4, 0], [1, 0, 0]], ["1 ms", "2 ms", "more"], "t"), "heat")
    assert [one.get("fill-opacity") for one in cells] == ["1.00", "0.57"]


def test_a_timeline_has_a_mark_for_each_event() -> None:
    events = [
        {"at_ms": at, "lane": NAME, "kind": kind, "text": NAME}
        for at, kind in ((0, "lost"), (10, "joined"))
    ]
    figure = figures.timeline(events, 0, 10)
    assert [len(drawn(figure, kind)) for kind in ("bad", "good")] == [1, 1]
    assert [one.text for one in drawn(figure, "tick")] == ["00:00:00", "00:00:00 UTC"]


def test_figures_without_data_are_empty() -> None:
    for figure in (
        figures.fleet([]), figures.gap([]), figures.gap_lines([]),
        figures.heat_map([], [], "t"),
        figures.timeline([], 0, 0), figures.area([], "t"), figures.spark([]), figures.bar(9, "t"),
    ):  # fmt: skip
        assert ET.fromstring(str(figure)).get("aria-label")  # noqa: S314 - our own
