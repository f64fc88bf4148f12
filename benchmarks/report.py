"""The report: a table as Markdown between two markers of a page, followed by pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.case import Case, Figures, Row, value_text
from benchmarks.machine import Machine
from benchmarks.peer_results import PeerResults, peers_table
from benchmarks.pictures import PICTURES, Picture
from benchmarks.results import CaseResult, Verdict

START: Final = "<!-- results -->"
END: Final = "<!-- /results -->"

COMPARISON_HEAD: Final = (
    "| what | before | after | change | spread before | spread after | told apart |\n"
    "|---|---|---|---|---|---|---|"
)

HEAD: Final = (
    "| what | goal | floor or reference | zbk | ratio | spread of zbk | reached "
    "| peers | command |\n|---|---|---|---|---|---|---|---|---|"
)


class MarkersMissingError(Exception):
    """A page has no markers for the report."""

    def __init__(self, path: Path) -> None:
        """Name the page."""
        super().__init__(f"{path} has no lines {START} and {END}")


def report(
    cases: Sequence[Case],
    results: Mapping[str, CaseResult],
    peers: Sequence[PeerResults],
    pictures: str,
) -> str:
    """Return the report; ``pictures`` is the folder that its links point to."""
    measured = [case for case in cases if case.name in results]
    parts = [
        _machines([results[case.name] for case in measured]),
        table(measured, results, peers),
        _failures([results[case.name] for case in measured]),
        peers_table(peers),
        *(_shown(picture, pictures) for picture in PICTURES if picture.can_be_drawn(results)),
    ]
    return "\n\n".join(part for part in parts if part)


def table(
    cases: Sequence[Case], results: Mapping[str, CaseResult], peers: Sequence[PeerResults]
) -> str:
    """Return the table of all rows of these cases."""
    lines = [HEAD]
    for case in cases:
        result = results[case.name]
        verdicts = {verdict.row: verdict for verdict in result.verdict}
        lines += [
            _line(row, result, verdicts[row.title], peers)
            for row in case.rows
            if row.title in verdicts
        ]
    return "\n".join(lines)


def comparison(
    cases: Sequence[Case], before: Mapping[str, CaseResult], after: Mapping[str, CaseResult]
) -> str:
    """Return a table of the rows that both results have: values, change, and spreads.

    A change counts as told apart if no round of one was within the spread of the other.
    """
    lines = [COMPARISON_HEAD]
    for case in cases:
        if case.name in before and case.name in after:
            both = before[case.name], after[case.name]
            known = [row for row in case.rows if all(row.zbk in one.spread for one in both)]
            lines += [_compared(row, *both) for row in known]
    return "\n".join(lines)


def put(page: Path, text: str) -> None:
    """Put the report into a page, between its markers; a missing page is created.

    Raises:
        MarkersMissingError: the page exists and has no markers.
    """
    old = page.read_text("utf-8") if page.exists() else f"{START}\n{END}\n"
    before, start, rest = old.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise MarkersMissingError(page)
    page.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", "utf-8")


def _compared(row: Row, before: CaseResult, after: CaseResult) -> str:
    old, new = before.median[row.zbk], after.median[row.zbk]
    (old_low, old_high), (new_low, new_high) = before.spread[row.zbk], after.spread[row.zbk]
    is_apart = old_high < new_low or new_high < old_low
    cells = (
        row.title,
        value_text(old, row.unit),
        value_text(new, row.unit),
        f"{new / old - 1:+.0%}" if old else "",
        _spread_text(old_low, old_high, row.unit),
        _spread_text(new_low, new_high, row.unit),
        "yes" if is_apart else "no",
    )
    return f"| {' | '.join(cells)} |"


def _spread_text(low: float, high: float, unit: str) -> str:
    return f"{value_text(low, unit)} .. {value_text(high, unit)}"


def _line(row: Row, result: CaseResult, verdict: Verdict, peers: Sequence[PeerResults]) -> str:
    def text(figure: str) -> str:
        return value_text(result.median[figure], row.unit) if figure in result.median else ""

    low, high = result.spread.get(row.zbk, (0.0, 0.0))
    spread = _spread_text(low, high, row.unit)
    cells = (
        row.title,
        row.goal,
        text(row.floor),
        text(row.zbk),
        _ratio_text(row.ratio, result.median),
        spread if row.zbk in result.spread else "",
        _reached_text(verdict),
        ", ".join(
            f"{peer.name} {value_text(peer.median[row.peer_field], row.unit)}{peer.note}"
            for peer in peers
            if peer.shape == row.peer_shape
        ),
        f"`{result.commands[row.step]}`",
    )
    return f"| {' | '.join(cells)} |"


def _ratio_text(figure: str, median: Figures) -> str:
    if figure not in median:
        return ""
    ratio = median[figure]
    return f"{ratio:.0%}" if ratio < 2 else f"{ratio:.1f} x"


def _reached_text(verdict: Verdict) -> str:
    if verdict.reached == "yes":
        return f"yes ({verdict.by})"
    return "**no**" if verdict.reached == "no" else "**not measured**"


def _shown(picture: Picture, folder: str) -> str:
    link = f"![{picture.title}]({folder}/{picture.name}.svg)"
    return f"### {picture.title}\n\n{link}\n\n{picture.caption}"


def _failures(results: Sequence[CaseResult]) -> str:
    return "\n".join(
        f"* not measured: {result.title}: {result.failure}" for result in results if result.failure
    )


def _machines(results: Sequence[CaseResult]) -> str:
    """Return the machines and commits of the results: usually one."""
    same: dict[Machine, list[CaseResult]] = {}
    for result in results:
        machine = msgspec.structs.replace(result.machine, load_average=0.0)
        same.setdefault(machine, []).append(result)
    parts = []
    for one, its in same.items():
        loads = [result.machine.load_average for result in its]
        parts.append(
            f"{len(its)} cases on {one.cpu_model}, {one.core_count} cores, "
            f"{one.memory_size / (1 << 30):.1f} GiB of memory, Linux {one.kernel}, "
            f"{one.file_system}, Python {one.python}, commit {one.git_commit or 'unknown'}; load "
            f"average before the cases {min(loads):.1f} to {max(loads):.1f}. {_rounds_text(its)}"
        )
    return "\n\n".join(parts)


def _rounds_text(results: Sequence[CaseResult]) -> str:
    """Return the number of rounds, and the cases with another number."""
    counts = [len(result.rounds) for result in results]
    most = max(counts)
    others = [f"`{one.case}` ({len(one.rounds)})" for one in results if len(one.rounds) != most]
    text = f"Rounds: {most}"
    return f"{text}, except for {', '.join(others)}." if others else f"{text}."
