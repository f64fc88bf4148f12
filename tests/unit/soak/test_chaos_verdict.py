"""The verdict of a chaos campaign."""

import pytest

from tests.chaos.verdict import Verdict, verdict_of


@pytest.mark.parametrize(
    ("violations", "troubles", "verdict"),
    [
        ([], [], Verdict.KEPT),
        (["an entry is lost"], [], Verdict.VIOLATED),
        ([], ["a bookie did not start in time"], Verdict.HARNESS_FAILED),
        (["an entry is lost"], ["a bookie did not start in time"], Verdict.VIOLATED),
    ],
)
def test_troubles_of_the_harness_are_neither_a_violation_nor_a_proof(
    violations: list[str], troubles: list[str], verdict: Verdict
) -> None:
    assert verdict_of(violations, troubles) is verdict


def test_each_verdict_has_an_exit_code_of_its_own() -> None:
    assert [int(one) for one in Verdict] == [0, 1, 3]
