from pathlib import Path

import pytest

from benchmarks.case import Amount, Case, Line, Round, Row, Step, at_least, way
from benchmarks.measuring import StepFailedError, run_case, run_step

ROW = Row(
    title="rate",
    goal=">= 10/s",
    step="zbk",
    unit="entries/s",
    zbk="rate",
    ways=(way("figure", at_least("rate", 10.0)),),
)


def rate_of(lines: Round) -> dict[str, float]:
    return {"rate": lines["zbk"][0]["rate"]}


def case_of(*names: str, round_count: int | None = None) -> Case:
    return Case(
        name="case",
        title="a case",
        steps=tuple(Step(name, ("write",)) for name in names),
        read=rate_of,
        rows=(ROW,),
        seconds=1,
        round_count=round_count,
    )


def test_steps_run_in_turn_and_every_second_round_the_other_way_round() -> None:
    ran: list[str] = []

    def run(step: Step, _divisor: int) -> list[Line]:
        ran.append(step.name)
        return [{"rate": 1.0}]

    result = run_case(case_of("zbk", "floor"), 3, run=run)

    assert ran == ["zbk", "floor", "floor", "zbk", "zbk", "floor"]
    assert [list(lines) for lines in result.rounds] == [["zbk", "floor"]] * 3


def test_a_case_may_have_rounds_of_its_own() -> None:
    result = run_case(case_of("zbk", round_count=1), 3, run=lambda *_: [{"rate": 1.0}])

    assert len(result.rounds) == 1


def test_a_case_whose_command_fails_says_why_and_keeps_the_rounds_before() -> None:
    rates = iter([12.0])

    def run(_step: Step, _divisor: int) -> list[Line]:
        for rate in rates:
            return [{"rate": rate}]
        raise StepFailedError("zbk bench write", "exit code 3: no bookies")

    result = run_case(case_of("zbk"), 3, run=run)

    assert result.failure == "zbk bench write: exit code 3: no bookies"
    assert len(result.rounds) == 1
    assert [verdict.reached for verdict in result.verdict] == ["failed"]
    assert result.median == {}


def test_a_command_that_lacks_a_field_ends_its_case() -> None:
    result = run_case(case_of("zbk"), 1, run=lambda *_: [{"other": 1.0}])

    assert result.failure == "a command did not print 'rate'"


def test_a_real_command_gives_its_lines() -> None:
    count = Amount("--count", 20_000)
    floor = Step("floor", ("floor", "--type", "vd"), (count,), is_on_zookeeper=False)

    lines = run_step(floor, 10)

    assert [line["measured"] for line in lines] == ["floor"]
    assert lines[0]["entry_count"] == 2_000


def test_a_real_command_that_is_refused_is_told_with_its_words() -> None:
    with pytest.raises(StepFailedError, match=r"--colour: exit code 2: (.|\n)*No such option"):
        run_step(Step("zbk", ("write", "--colour"), is_on_zookeeper=False), 1)


def test_a_command_that_is_stuck_is_interrupted_and_removes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    endless = Amount("--count", 2_000_000_000)
    stuck = Step("floor", ("floor",), (endless,), is_on_zookeeper=False, timeout_s=1)

    with pytest.raises(StepFailedError, match="not done after 1 s"):
        run_step(stuck, 1)

    assert list(tmp_path.iterdir()) == []
