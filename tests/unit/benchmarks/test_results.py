from pathlib import Path
from typing import Literal

import msgspec
import pytest

from benchmarks.case import Line, Round
from benchmarks.machine import Machine
from benchmarks.matrix import cases
from benchmarks.results import CaseResult, load, result_of, save
from tests.support.bench_lines import floor_line, zbk_line

CASE = next(case for case in cases() if case.name == "many-pd-100")
MACHINE = Machine("Fast One", 2, 8 << 30, "6.1", "3.11.7", "ext4", "abc", 0.5)


def round_of(rate: float, floor: float) -> Round:
    return {"zbk": [zbk_line(entries_per_s=rate), floor_line(entries_per_s=floor)]}


def result(*rounds: Round) -> CaseResult:
    return result_of(CASE, rounds, MACHINE, commands={"zbk": "zbk bench write"}, seconds=3.0)


def test_medians_are_of_each_figure_and_the_spread_is_lowest_and_highest() -> None:
    came = result(round_of(100.0, 200.0), round_of(300.0, 400.0), round_of(200.0, 1000.0))

    assert came.median["zbk"] == 200.0
    assert came.spread["zbk"] == (100.0, 300.0)
    assert came.median["ratio"] == 0.5  # of the ratios, not of the medians


@pytest.mark.parametrize(
    ("rate", "floor", "reached", "by"),
    [
        (500_000.0, 600_000.0, "yes", "figure and ratio"),
        (500_000.0, 5_000_000.0, "yes", "figure"),
        (60.0, 100.0, "yes", "ratio"),
        (59.0, 100.0, "no", ""),
    ],
)
def test_a_goal_is_reached_by_the_figure_or_by_the_ratio(
    rate: float, floor: float, reached: Literal["yes", "no"], by: str
) -> None:
    verdict, *_ = result(round_of(rate, floor)).verdict

    assert (verdict.reached, verdict.by) == (reached, by)


def test_a_result_is_read_back_without_its_histograms(tmp_path: Path) -> None:
    came = result(round_of(1.0, 2.0), round_of(3.0, 4.0))

    save(came, tmp_path)

    assert load(tmp_path, cases()) == {"many-pd-100": came}
    stored: dict[str, list[dict[str, list[Line]]]] = msgspec.json.decode(
        (tmp_path / "many-pd-100.json").read_bytes()
    )
    assert "histogram" not in stored["rounds"][0]["zbk"][0]
    assert stored["rounds"][1]["zbk"][0]["entries_per_s"] == 3.0
