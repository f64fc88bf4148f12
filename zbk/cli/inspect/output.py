"""The output of ``zbk inspect``: for each file a heading, rows and a summary.

In JSON each row and summary is one object per line, with its ``kind``. Faults are rows, too;
``--ledger`` and ``--limit`` do not hide them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from zbk.cli.options import integer_option
from zbk.cli.output import Format, print_json, print_object, print_rows
from zbk.errors import DamageError
from zbk.protocol.entry.words import LEDGER_ID_MAX
from zbk.storage.tools.inspection import Fault, Verdict

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Row = dict[str, Any]

files_argument = click.argument(
    "paths",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
)

ledger_option = integer_option(
    "--ledger",
    "only_ledger_id",
    metavar="ID",
    low=0,
    high=LEDGER_ID_MAX,
    help_text="Show this ledger only; the whole file is still checked.",
)

limit_option = integer_option(
    "--limit",
    "row_count_max",
    metavar="COUNT",
    low=0,
    help_text="Show at most COUNT rows of each file; the whole file is still checked.",
)


class FilePrinter:
    """Prints files one after another, and counts the damaged ones."""

    def __init__(self, output: Format, columns: Sequence[str], row_count_max: int | None) -> None:
        self._output = output
        self._columns = ["offset", "size", *columns, "detail"]
        self._row_count_max = row_count_max
        self._file_count = 0
        self._damaged_count = 0

    def rows(self, path: Path, rows: Iterable[Row]) -> None:
        """Print rows, up to the limit, and every fault; consume all of them."""
        if self._output == "table" and self._file_count:
            click.echo()
        self._file_count += 1
        if self._output == "table":
            click.echo(f"file {path}")
        print_rows(self._limited(path, rows), self._columns, self._output)

    def more(self, path: Path, rows: Iterable[Row], columns: Sequence[str]) -> None:
        """Print the few rows of another kind."""
        if self._output == "json":
            for row in rows:
                print_json({"file": str(path), **row})
        else:
            print_rows(rows, columns, self._output)

    def sum_up(self, path: Path, summary: Mapping[str, Any], verdict: Verdict) -> None:
        """Print the summary of a file."""
        self._damaged_count += verdict is Verdict.DAMAGED
        shown = {**summary, "verdict": verdict.value}
        if self._output == "json":
            shown = {"file": str(path), "kind": "summary", **shown}
        print_object(shown, self._output)

    def end(self) -> None:
        """Raise ``DamageError`` if any file is damaged."""
        if self._damaged_count:
            raise DamageError(f"{self._damaged_count} of {self._file_count} files are damaged")

    def _limited(self, path: Path, rows: Iterable[Row]) -> Iterator[Row]:
        shown_count = 0
        for row in rows:
            if row["kind"] != "fault":
                if self._row_count_max is not None and shown_count >= self._row_count_max:
                    continue
                shown_count += 1
            if self._output == "json":
                yield {"file": str(path), **{k: v for k, v in row.items() if v not in (None, "")}}
            else:
                yield {**dict.fromkeys(self._columns), **row}


def fault_row(fault: Fault) -> Row:
    """Return the row of a fault."""
    return {
        "kind": "fault",
        "offset": fault.offset,
        "size": fault.size,
        "detail": fault.reason,
    }
