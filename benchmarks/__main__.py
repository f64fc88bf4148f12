"""``python -m benchmarks``: run the cases, save the results, draw the pictures, write the report.

    python -m benchmarks --quick                  # a first look, in 2 minutes; saves nothing
    python -m benchmarks                          # all cases, under 15 minutes; writes README.md
    python -m benchmarks --only length,recovery   # only these; the report keeps the others
    python -m benchmarks --compare FOLDER         # the saved results there, beside these

Exit code 1: a command failed. A missed goal is a result, not a failure.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.case import Case
from benchmarks.matrix import LONG_RUN_SECONDS, ROUND_COUNT, cases, planned_seconds
from benchmarks.measuring import run_case
from benchmarks.peer_results import load_peers
from benchmarks.report import comparison, put, report, table
from benchmarks.results import load, save
from zbk.config.units import parse_duration_ms
from zbk.errors import ZbkError

HERE: Final = Path(__file__).resolve().parent
QUICK_DIVISOR: Final = 10
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with these arguments and return the exit code."""
    options = _parse(arguments)
    every = cases(options.long_run)
    chosen = _chosen(every, options.only, is_quick=options.quick)
    round_count = 1 if options.quick else options.rounds
    if options.list:
        for case in chosen:
            print(f"{case.name:<24} {case.seconds:>4} s a round  {case.title}")
        print(f"{'together':<24} {planned_seconds(chosen, round_count):>4} s")
        return 0
    if options.quick and options.output is None:
        with tempfile.TemporaryDirectory(prefix="zbk-benchmarks-") as gone:
            return _measure(every, chosen, Path(gone), round_count, is_quick=True)
    folder: Path = options.output or HERE / "results"
    if options.compare:
        return _compare(chosen, options.compare, folder)
    if options.report_only:
        _write_report(every, folder)
        return 0
    code = _measure(every, chosen, folder, round_count, is_quick=options.quick)
    _write_report(every, folder)
    return code


def _chosen(every: Sequence[Case], names: Sequence[str], *, is_quick: bool) -> list[Case]:
    """Return the named cases; without names all, or for a first look all with goals."""
    if names:
        return [case for case in every if case.name in names]
    return [case for case in every if case.rows or not is_quick]


def _measure(
    every: Sequence[Case],
    chosen: Sequence[Case],
    folder: Path,
    round_count: int,
    *,
    is_quick: bool,
) -> int:
    """Run cases, save each result, print the table, and return the exit code."""
    divisor = QUICK_DIVISOR if is_quick else 1
    for number, case in enumerate(chosen, 1):
        _say(f"{number}/{len(chosen)} {case.name}: {case.title}")
        result = run_case(case, round_count, divisor)
        save(result, folder)
        _say(f"    {result.seconds:.0f} s {result.failure}")
        for verdict in result.verdict:
            _say(f"    {verdict.reached:<6} {verdict.row}: {verdict.goal}")
    results = load(folder, every)
    took_s = sum(results[case.name].seconds for case in chosen)
    _say(f"{took_s:.0f} s, {planned_seconds(chosen, round_count)} s were planned")
    if is_quick:
        _say("a first look at a tenth of the work: goals are for the whole")
    print(table([case for case in chosen if case.rows], results, load_peers(folder)))
    return 1 if any(results[case.name].failure for case in chosen) else 0


def _compare(chosen: Sequence[Case], before: Path, after: Path) -> int:
    """Print saved results of two folders beside each other; return the exit code."""
    results = load(before, chosen), load(after, chosen)
    if not results[0].keys() & results[1].keys():
        _say(f"{before} and {after} have no result of the same case")
        return 1
    print(comparison(chosen, *results))
    return 0


def _write_report(every: Sequence[Case], folder: Path) -> None:
    """Draw the pictures and write the report: into README.md, or beside results elsewhere."""
    from benchmarks.pictures import draw_all  # noqa: PLC0415 - loads matplotlib

    results = load(folder, every)
    is_here = folder.resolve() == HERE / "results"
    pictures, page = (HERE / "pictures", HERE / "README.md") if is_here else (
        folder / "pictures", folder / "report.md"
    )  # fmt: skip
    peers = load_peers(folder)
    draw_all(results, pictures, peers)
    put(page, report(every, results, peers, "pictures"))
    _say(f"the report is in {page}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description="zbk beside its floor: medians, spread, pictures."
    )
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help="a tenth of all cases with goals, once; kept only with --output",
    )
    add(
        "--only",
        type=_names,
        default=[],
        metavar="NAME[,NAME]",
        help="these cases; --list has the names",
    )
    add("--list", action="store_true", help="print the cases and their times, and run nothing")
    add("--rounds", type=_count, default=ROUND_COUNT, help="of each case (%(default)s)")
    add(
        "--long-run",
        type=_seconds,
        default=LONG_RUN_SECONDS,
        metavar="DURATION",
        help=f"time of the run over time ({LONG_RUN_SECONDS}s); e.g. 10m",
    )
    add("--output", type=Path, metavar="FOLDER", help="for results (benchmarks/results)")
    add(
        "--compare", type=Path, metavar="FOLDER",
        help="run nothing: print the results that were saved there beside those of --output",
    )  # fmt: skip
    add("--report-only", action="store_true", help="draw and write from the saved results")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    known = [case.name for case in cases()]
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no case {name!r}; there are {', '.join(known)}")
    return names


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 1 or more")
    return int(text)


def _seconds(text: str) -> int:
    try:
        return max(1, parse_duration_ms(text) // 1000)
    except ZbkError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
