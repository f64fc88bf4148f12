from pathlib import Path

import msgspec
import pytest

from benchmarks.__main__ import main
from benchmarks.matrix import cases
from benchmarks.measuring import run_case
from benchmarks.results import save
from tests.support.bench_lines import lines_of


def test_the_list_has_every_case_and_the_time_that_all_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--list"]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [*(case.name for case in cases()), "together"]


def test_a_first_look_leaves_out_what_has_no_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--quick"]) == 0

    printed = capsys.readouterr().out
    assert "recovery" in printed
    assert "long-run" not in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "nothing"], "no case 'nothing'; there are many-pd-100, "),
        (["--rounds", "0"], "is not a number, 1 or more"),
        (["--long-run", "soon"], "duration"),
    ],
)
def test_a_mistake_is_told_in_words(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)

    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_report_alone_is_made_of_the_results_that_there_are(tmp_path: Path) -> None:
    for case in cases():
        if case.name in {"load-pd", "load-vd", "tail"}:
            save(run_case(case, 1, run=lines_of), tmp_path)

    assert main(["--report-only", "--output", str(tmp_path)]) == 0

    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["latency.svg"]
    assert "a tailing reader" in (tmp_path / "report.md").read_text()


def test_a_case_runs_and_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "tail", "--output", str(tmp_path)]) == 0

    assert "a tailing reader" in capsys.readouterr().out
    assert (tmp_path / "tail.json").exists()


def test_saved_results_of_two_folders_stand_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = (one for one in cases() if one.name == "tail")
    before = run_case(case, 2, run=lines_of)
    figure = case.rows[0].zbk
    low, high = before.spread[figure]
    after = msgspec.structs.replace(
        before,
        median=before.median | {figure: 1.5 * before.median[figure]},
        spread=before.spread | {figure: (1.5 * low, 1.5 * high)},
    )
    for name, result in (("before", before), ("after", after), ("same", before)):
        save(result, tmp_path / name)

    def compared(name: str) -> list[str]:
        given = ["--compare", str(tmp_path / "before"), "--output", str(tmp_path / name)]
        assert main(given) == 0
        line = capsys.readouterr().out.splitlines()[2]
        return [cell.strip() for cell in line.strip("|").split("|")]

    assert [compared("after")[place] for place in (0, 3, 6)] == [case.rows[0].title, "+50%", "yes"]
    assert [compared("same")[place] for place in (3, 6)] == ["+0%", "no"]
    assert sorted(path.name for path in (tmp_path / "after").iterdir()) == ["tail.json"]


def test_folders_without_a_result_of_the_same_case_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--compare", str(tmp_path), "--output", str(tmp_path)]) == 1
    assert "have no result of the same case" in capsys.readouterr().err
