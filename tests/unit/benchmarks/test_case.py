import doctest
import importlib

import pytest

from benchmarks.case import Amount, Bound, Step, at_least, at_most

MEDIAN = {"rate": 90.0, "alone": 100.0}
SPREAD = {"rate": (80.0, 95.0), "alone": (88.0, 110.0)}


@pytest.mark.parametrize("name", ["case", "figures", "machine", "peer_results"])
def test_examples_run(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(f"benchmarks.{name}"))

    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize(
    ("bound", "holds"),
    [
        (at_least("rate", 90.0), True),
        (at_least("rate", 90.1), False),
        (at_most("rate", 90.0), True),
        (at_most("rate", 89.9), False),
        (Bound("rate", lowest_of="alone"), True),
        (Bound("rate", is_least=False, lowest_of="alone"), False),
    ],
)
def test_a_bound_is_kept_by_the_median(bound: Bound, holds: bool) -> None:
    assert bound.holds(MEDIAN, SPREAD) is holds


def test_a_quick_command_does_a_share_of_the_work_and_never_none() -> None:
    step = Step("a", ("write",), (Amount("--count", 1000), Amount("--seconds", 4, "s")))

    assert step.command() == (
        "zbk", "bench", "write", "--count", "1000", "--seconds", "4s", "--zookeeper",
    )  # fmt: skip
    assert step.command(10)[3:7] == ("--count", "100", "--seconds", "1s")


def test_a_command_has_the_time_that_it_loads_beside_its_timeout() -> None:
    short = Step("a", ("write",), (Amount("--count", 1000),))
    long = Step("a", ("write",), (Amount("--seconds", 600, "s"),))

    assert long.seconds_max == short.seconds_max + 600
