"""``zbk inspect index``: the contents of index files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zbk.cli.command import command
from zbk.cli.inspect.output import FilePrinter, Row, fault_row, files_argument, limit_option
from zbk.cli.options import output_option
from zbk.cli.output import Format
from zbk.protocol.entry.digest import checksum
from zbk.storage.index.index_file import LedgerIndex
from zbk.storage.tools.inspect_index import IndexInspection
from zbk.storage.tools.inspection import Fault
from zbk.system.files import OsFiles

COLUMNS = ["kind", "first_entry_id", "last_entry_id", "count", "log_ids"]


@command(
    "index",
    ("zbk inspect index /ledgers/zbk/index/00/00/*.idx", "a row per range of entries"),
    ("zbk inspect index FILE -o json", "for programs"),
)
@files_argument
@limit_option
@output_option
def index(paths: tuple[Path, ...], row_count_max: int | None, output: Format) -> None:
    """Show the contents of index files.

    The ranges of entries that the bookie has, the entry logs that hold them, and whether the ledger
    is fenced. The ledger's key is shown as a digest.
    """
    printer = FilePrinter(output, COLUMNS, row_count_max)
    for path in paths:
        inspection = IndexInspection(OsFiles(), str(path))
        printer.rows(path, _rows(inspection))
        summary: dict[str, Any] = {"ledger_id": inspection.ledger_id}
        if inspection.header is not None:
            summary |= _header(inspection.header)
        summary |= {"page_count": inspection.page_count, "entry_count": inspection.entry_count}
        printer.sum_up(path, summary, inspection.verdict)
    printer.end()


def _header(header: LedgerIndex) -> dict[str, Any]:
    return {
        "is_fenced": header.is_fenced,
        "ledger_type": header.ledger_type.value,
        "key_digest": f"{checksum(header.ledger_key):016x}",
        "explicit_lac": header.explicit_lac,
        "last_add_synced": header.last_add_synced,
        "last_entry_id": header.last_entry_id,
    }


def _rows(inspection: IndexInspection) -> Iterator[Row]:
    for found in inspection.findings():
        if isinstance(found, Fault):
            yield fault_row(found)
            continue
        yield {
            "kind": "range",
            "first_entry_id": found.first_entry_id,
            "last_entry_id": found.last_entry_id,
            "count": found.last_entry_id - found.first_entry_id + 1,
            "log_ids": found.log_ids,
        }
