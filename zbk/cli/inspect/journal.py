"""``zbk inspect journal``: the records of journal files."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

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
from zbk.protocol.entry.digest import checksum
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedEntriesRecord,
    SyncedRecord,
)
from zbk.storage.tools.inspect_journal import Chain, FoundRecord, JournalInspection
from zbk.storage.tools.inspection import Fault, Verdict
from zbk.system.files import OsFiles

COLUMNS = ["kind", "sequence", "ledger_id", "first_entry_id", "last_entry_id", "count"]


@command(
    "journal",
    ("zbk inspect journal /journal/zbk/*.journal", "a row per record"),
    ("zbk inspect journal FILE --ledger 7 -o json", "the records of ledger 7"),
    ("zbk inspect journal FILE --limit 0", "only the summary"),
)
@files_argument
@ledger_option
@limit_option
@output_option
def journal(
    paths: tuple[Path, ...], only_ledger_id: int | None, row_count_max: int | None, output: Format
) -> None:
    """Show the records of journal files.

    If the files are in the order of their names, the command also checks that each continues where
    the one before ends. "open end": after the last record, bytes of an earlier use of the file
    follow.
    """
    printer = FilePrinter(output, COLUMNS, row_count_max)
    before: Chain | None = None
    for path in paths:
        inspection = JournalInspection(OsFiles(), str(path), before)
        printer.rows(path, _rows(inspection, only_ledger_id))
        header = inspection.header
        printer.sum_up(
            path,
            {
                "segment_id": None if header is None else header.segment_id,
                "owner": None if header is None else f"{header.owner_hash:016x}",
                "record_count": inspection.record_count,
                "first_sequence": inspection.first_sequence,
                "last_sequence": None if inspection.end is None else inspection.end.sequence,
                "synced_sequence": inspection.synced_sequence,
                "end_offset": inspection.end_offset,
            },
            inspection.verdict,
        )
        before = None if inspection.verdict is Verdict.DAMAGED else inspection.end
    printer.end()


def _rows(inspection: JournalInspection, only_ledger_id: int | None) -> Iterator[Row]:
    for found in inspection.findings():
        if isinstance(found, Fault):
            yield fault_row(found)
            continue
        row = _row(found)
        if only_ledger_id is None or row.get("ledger_id") == only_ledger_id:
            yield row


def _row(found: FoundRecord) -> Row:
    decoded = found.decoded
    place = {
        "offset": found.offset,
        "size": decoded.end_offset - found.offset,
        "sequence": decoded.sequence,
        "synced_sequence": decoded.synced_sequence,
    }
    return place | _record_row(decoded.record)


def _record_row(record: JournalRecord) -> Row:
    match record:
        case EntriesRecord(batch):
            return {
                "kind": "entries",
                "ledger_id": batch.ledger_id,
                "first_entry_id": batch.first_entry_id,
                "last_entry_id": batch.last_entry_id,
                "count": batch.count,
                "detail": "" if batch.is_in_a_row else "with gaps",
            }
        case LedgerKeyRecord(ledger_id, ledger_key, ledger_type):
            return {
                "kind": "ledger key",
                "ledger_id": ledger_id,
                "detail": f"{ledger_type.value}, key digest {checksum(ledger_key):016x}",
            }
        case FenceRecord(ledger_id):
            return {"kind": "fence", "ledger_id": ledger_id}
        case ExplicitLacRecord(ledger_id, lac):
            return {"kind": "explicit LAC", "ledger_id": ledger_id, "detail": f"LAC {lac}"}
        case SyncedRecord():
            return {"kind": "synced"}
        case SyncedEntriesRecord(ledger_id, first_entry_id, last_entry_id, stripe):
            return {
                "kind": "synced entries",
                "ledger_id": ledger_id,
                "first_entry_id": first_entry_id,
                "last_entry_id": last_entry_id,
                "count": record.count,
                "detail": "" if stripe is None else f"due at slot {stripe.slot}",
            }
        case _:
            assert_never(record)
