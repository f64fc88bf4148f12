"""``zbk inspect entrylog``: the entries and the map of entry logs."""

from collections.abc import Iterator
from pathlib import Path

import click

from zbk.cli.command import command
from zbk.cli.inspect.output import (
    FilePrinter,
    Row,
    fault_row,
    files_argument,
    ledger_option,
    limit_option,
)
from zbk.cli.options import output_option
from zbk.cli.output import Format
from zbk.storage.tools.inspect_entry_log import EntryLogInspection
from zbk.storage.tools.inspection import Fault
from zbk.system.files import OsFiles

COLUMNS = ["kind", "ledger_id", "entry_id"]
MAP_COLUMNS = ["ledger_id", "size"]


@command(
    "entrylog",
    ("zbk inspect entrylog /ledgers/zbk/logs/00000001.log", "a row per entry, then the map"),
    ("zbk inspect entrylog FILE --ledger 7 -o json", "the entries of ledger 7"),
    ("zbk inspect entrylog FILE --limit 0", "only the map and the summary"),
)
@files_argument
@click.option(
    "--bookie",
    "bookie_id",
    metavar="ID",
    help="The owner of the log; needed only if the header is damaged.",
)
@ledger_option
@limit_option
@output_option
def entrylog(
    paths: tuple[Path, ...],
    bookie_id: str | None,
    only_ledger_id: int | None,
    row_count_max: int | None,
    output: Format,
) -> None:
    """Show the entries and the map of entry logs.

    Only a sealed log has a map: the bytes of each ledger in it.
    """
    printer = FilePrinter(output, COLUMNS, row_count_max)
    for path in paths:
        inspection = EntryLogInspection(OsFiles(), str(path), bookie_id)
        printer.rows(path, _rows(inspection, only_ledger_id))
        if inspection.map is not None:
            rows = [
                {"kind": "map", "ledger_id": ledger_id, "size": size}
                for ledger_id, size in inspection.map.items()
                if only_ledger_id in (None, ledger_id)
            ]
            printer.more(path, rows, MAP_COLUMNS)
        owner = inspection.owner_hash
        printer.sum_up(
            path,
            {
                "log_id": inspection.log_id,
                "owner": None if owner is None else f"{owner:016x}",
                "is_sealed": inspection.is_sealed,
                "entry_count": inspection.entry_count,
                "ledger_count": len(inspection.size_by_ledger),
            },
            inspection.verdict,
        )
    printer.end()


def _rows(inspection: EntryLogInspection, only_ledger_id: int | None) -> Iterator[Row]:
    for found in inspection.findings():
        if isinstance(found, Fault):
            yield fault_row(found)
            continue
        ledger_id = found.header.ledger_id
        if only_ledger_id not in (None, ledger_id):
            continue
        for entry in found.entries:
            yield {
                "kind": "entry",
                "offset": entry.offset,
                "size": entry.size,
                "ledger_id": ledger_id,
                "entry_id": entry.entry_id,
            }
