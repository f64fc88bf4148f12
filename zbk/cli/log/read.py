"""The commands of ``zbk log`` that only read."""

from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.listing import (
    Table,
    Unreadable,
    lines_option,
    print_details,
    print_payloads,
    still_there,
)
from zbk.cli.log.position import parse_position
from zbk.cli.options import cluster_options, name_argument, output_option, password_option
from zbk.cli.output import Format, print_rows, time_text
from zbk.cli.session import Session
from zbk.errors import NoSuchLedgerError, NoSuchLogError

if TYPE_CHECKING:
    from zbk.client.api import Client
    from zbk.protocol.log.metadata import LogMetadata

LEDGER_COLUMNS = ["ledger_id", "state", "last_entry_id", "length", "created"]


@command(
    "cat",
    ("zbk log cat orders --lines", "the lines that `append` wrote"),
    ("zbk log cat orders --lines --from 12:7", "from entry 7 of ledger 12 on"),
    ("zbk log cat orders --lines --follow", "also new lines"),
)
@name_argument
@click.option(
    "--from", "start", metavar="LEDGER:ENTRY", help="The first entry to read. [default: the oldest]"
)
@click.option("-f", "--follow", "is_following", is_flag=True, help="Continue with new entries.")
@lines_option
@password_option
@cluster_options
@click.pass_obj
def cat(
    session: Session,
    name: str,
    start: str | None,
    is_following: bool,
    lines: bool,
    password: bytes,
    metadata: str | None,
) -> None:
    """Write a log's payloads to standard output.

    It stops at the last entry confirmed now; with --follow it continues, from owner to owner, until
    Ctrl-C.
    """
    position = None if start is None else parse_position(start)
    with session.open_client(metadata) as client:
        batches = (
            client.tail_log(name, position, password=password).batches()
            if is_following
            else client.read_log_batches(name, position, password=password)
        )
        print_payloads(batches, lines=lines, is_live=is_following)


@command("ls", ("zbk log ls", "all logs"), ("zbk log ls -o json", "one object per line"))
@cluster_options
@output_option
@click.pass_obj
def ls(session: Session, metadata: str | None, output: Format) -> None:
    """List the logs.

    Logs whose metadata cannot be read are named on standard error, and the exit code is 4.
    """
    unreadable = Unreadable("log")
    columns = ["log", "ledger_count", "begin", "last_ledger_id", "created"]
    with session.open_client(metadata) as client:
        names = client.list_logs()
        found = still_there(names, client.get_log_metadata, NoSuchLogError, unreadable)
        print_rows(map(_summary, found), columns, output)
    unreadable.finish()


@command(
    "show", ("zbk log show orders", "for people"), ("zbk log show orders -o json", "for programs")
)
@name_argument
@cluster_options
@output_option
@click.pass_obj
def show(session: Session, name: str, metadata: str | None, output: Format) -> None:
    """Show the ledgers of a log."""
    with session.open_client(metadata) as client:
        found = client.get_log_metadata(name)
        ledgers = [_ledger(client, ledger_id) for ledger_id in found.ledger_ids]
    value = _summary(found) | {"truncated_ledger_count": found.first_index}
    print_details(value, [Table("ledgers", ledgers, LEDGER_COLUMNS)], output)


# ------------------------------------------------------------------ private


def _summary(found: "LogMetadata") -> dict[str, Any]:
    return {
        "log": found.name,
        "ledger_count": len(found.ledger_ids),
        "begin": None if found.begin is None else str(found.begin),
        "last_ledger_id": found.last_ledger_id,
        "created": time_text(found.created_ms),
    }


def _ledger(client: "Client", ledger_id: int) -> dict[str, Any]:
    try:
        found = client.get_ledger_metadata(ledger_id)
    except NoSuchLedgerError:  # truncated since the list was read, or deleted by hand
        return {**dict.fromkeys(LEDGER_COLUMNS), "ledger_id": ledger_id, "state": "DELETED"}
    return {
        "ledger_id": ledger_id,
        "state": str(found.state),
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "created": time_text(found.created_ms),
    }
