"""The result of a case, one JSON file each: raw lines, medians, spread, verdicts, machine.

The raw lines lack their histograms, which are ten times the rest; the report needs only their
percentiles.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, Literal

import msgspec

from benchmarks.case import Case, Figures, Line, Round, Row
from benchmarks.machine import Machine
from zbk.conversion import decode_json

LEFT_OUT: Final = frozenset({"histogram"})

Reached = Literal["yes", "no", "failed"]


class Verdict(msgspec.Struct, frozen=True):
    """Whether a row's goal was reached, and by which way, or why not."""

    row: str
    goal: str
    reached: Reached
    by: str


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a case. ``rounds`` are the lines by step; ``spread`` is lowest and highest."""

    case: str
    title: str
    goals: list[str]
    commands: dict[str, str]
    machine: Machine
    seconds: float
    rounds: list[dict[str, list[Line]]]
    median: Figures
    spread: dict[str, tuple[float, float]]
    verdict: list[Verdict]
    failure: str = ""


def result_of(
    case: Case,
    rounds: Sequence[Round],
    machine: Machine,
    *,
    commands: Mapping[str, str],
    seconds: float,
    failure: str = "",
) -> CaseResult:
    """Return medians, spread and verdicts of the rounds; of none if the case failed."""
    figures: list[Figures] = []
    try:
        figures = [] if failure else [case.read(lines) for lines in rounds]
    except KeyError as error:
        failure = f"a command did not print {error}"
    medians = {name: median(one[name] for one in figures) for name in (figures or [{}])[0]}
    spread = {
        name: (min(one[name] for one in figures), max(one[name] for one in figures))
        for name in medians
    }
    return CaseResult(
        case=case.name,
        title=case.title,
        goals=[row.goal for row in case.rows],
        commands=dict(commands),
        machine=machine,
        seconds=round(seconds, 1),
        rounds=[{step: list(map(_kept, lines)) for step, lines in one.items()} for one in rounds],
        median=medians,
        spread=spread,
        verdict=[_verdict(row, medians, spread, failure) for row in case.rows],
        failure=failure,
    )


def save(result: CaseResult, folder: Path) -> None:
    """Write a result to its file, replacing an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = msgspec.to_builtins(result)
    rounds = fields.pop("rounds")
    texts = [f'"{name}": {_json(value, indent=1)}' for name, value in fields.items()]
    texts.append(f'"rounds": [{", ".join(map(_round_text, rounds))}\n]')
    (folder / f"{result.case}.json").write_text("{\n" + ",\n".join(texts) + "\n}\n", "utf-8")


def load(folder: Path, cases: Sequence[Case]) -> dict[str, CaseResult]:
    """Return the results of the cases that have a file, by name."""
    paths = {case.name: folder / f"{case.name}.json" for case in cases}
    return {
        name: decode_json(path.read_bytes(), CaseResult)
        for name, path in paths.items()
        if path.exists()
    }


def _kept(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in LEFT_OUT}


def _round_text(lines: Round) -> str:
    """Return a round as JSON, each line of a command on its own line."""
    steps = [
        f'"{step}": [' + ",".join("\n" + _json(line) for line in printed) + "\n]"
        for step, printed in lines.items()
    ]
    return "{\n" + ",\n".join(steps) + "\n}"


def _json(value: object, indent: int = 0) -> str:
    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=indent) if indent else text).decode()


def _verdict(
    row: Row,
    medians: Mapping[str, float],
    spread: Mapping[str, tuple[float, float]],
    failure: str,
) -> Verdict:
    if failure:
        return Verdict(row.title, row.goal, "failed", failure)
    ways = [
        one.name for one in row.ways if all(bound.holds(medians, spread) for bound in one.bounds)
    ]
    return Verdict(row.title, row.goal, "yes" if ways else "no", " and ".join(ways))
