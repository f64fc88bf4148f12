import click
import pytest

from benchmarks.case import Case, Step
from benchmarks.experiments.__main__ import experiments
from benchmarks.matrix import LONG_RUN_SECONDS, ROUND_COUNT, SECONDS_MAX, cases, planned_seconds
from benchmarks.measuring import run_case
from benchmarks.pictures import PICTURES
from tests.support.bench_lines import lines_of
from zbk.cli.bench.group import bench

CASES = cases()
STEPS = [pytest.param(step, id=f"{case.name}-{step.name}") for case in CASES for step in case.steps]


def test_all_of_it_is_planned_to_take_less_than_twenty_minutes() -> None:
    assert planned_seconds(CASES, ROUND_COUNT) <= SECONDS_MAX - 30


def test_the_long_run_is_planned_as_long_as_it_is_asked_to_be() -> None:
    longer = cases(LONG_RUN_SECONDS + 100)

    assert planned_seconds(longer, 1) == planned_seconds(CASES, 1) + 100


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]

    assert len(names) == len(set(names))


def test_pictures_need_cases_that_there_are() -> None:
    needed = {name for picture in PICTURES for name in picture.needs}

    assert needed <= {case.name for case in CASES}


@pytest.mark.parametrize("step", STEPS)
def test_zbk_knows_every_command(step: Step) -> None:
    words = step.command(10)[1 if step.is_experiment else 2 :]
    group = experiments if step.is_experiment else bench
    command = group.get_command(click.Context(group), words[0])
    assert command is not None

    command.make_context(words[0], [*words[1:], "-o", "json"])  # a usage error would be raised here


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_row_finds_its_figures(case: Case) -> None:
    result = run_case(case, 2, run=lines_of)

    assert result.failure == ""
    for row in case.rows:
        assert row.step in result.commands
        assert {row.zbk, row.floor, row.ratio} - {""} <= set(result.median)
        assert row.ways
    assert [verdict.reached for verdict in result.verdict].count("failed") == 0
