"""The commands of ``zbk log`` that only look."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.log.options import log_argument, parse_position
from zbk.cli.options import metadata_option, output_option, password_option
from zbk.cli.output import (
    Format,
    flush,
    print_bytes,
    print_object,
    print_rows,
    time_text,
)
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.client.api import Client
    from zbk.protocol.log.metadata import LogMetadata


@click.command(
    "cat",
    cls=ZbkCommand,
    examples=[
        ("zbk log cat orders --lines", "what `append` wrote"),
        ("zbk log cat orders --lines --from 12:7", "from entry 7 of ledger 12 on"),
        ("zbk log cat orders --lines --follow", "and what is still to come"),
    ],
)
@log_argument
@click.option("--from", "start", metavar="LEDGER:ENTRY", help="Where to begin. [default: first]")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on with entries to come.")
@click.option("--lines", is_flag=True, help="Write a newline behind each payload.")
@password_option
@metadata_option
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

    It stops at what is confirmed now; with --follow it goes on, from owner to owner, until Ctrl-C.
    """
    position = None if start is None else parse_position(start)
    end = b"\n" if lines else b""
    with session.open_client(metadata) as client:
        batches = (
            client.tail_log(name, position, password=password).batches()
            if is_following
            else client.read_log_batches(name, position, password=password)
        )
        for batch in batches:
            print_bytes(b"".join(itertools.chain.from_iterable((p, end) for p in batch)))
            if is_following:
                flush()


@click.command(
    "ls",
    cls=ZbkCommand,
    examples=[("zbk log ls", "all of them"), ("zbk log ls -o json", "an object a line")],
)
@metadata_option
@output_option
@click.pass_obj
def ls(session: Session, metadata: str | None, output: Format) -> None:
    """List the logs."""
    columns = ["log", "ledger_count", "begin", "last_ledger_id", "created"]
    with session.open_client(metadata) as client:
        print_rows((_summary(found) for found in _logs(client)), columns, output)


@click.command(
    "show",
    cls=ZbkCommand,
    examples=[
        ("zbk log show orders", "for people"),
        ("zbk log show orders -o json", "for programs"),
    ],
)
@log_argument
@metadata_option
@output_option
@click.pass_obj
def show(session: Session, name: str, metadata: str | None, output: Format) -> None:
    """Show the ledgers that a log is made of."""
    with session.open_client(metadata) as client:
        found = client.get_log_metadata(name)
        ledgers = [_ledger(client, ledger_id) for ledger_id in found.ledger_ids]
    value = _summary(found) | {"truncated_ledger_count": found.first_index}
    if output == "json":
        print_object(value | {"ledgers": ledgers}, output)
        return
    print_object(value, output)
    click.echo()
    print_rows(ledgers, ["ledger_id", "state", "last_entry_id", "length", "created"], output)


# ------------------------------------------------------------------ private


def _logs(client: "Client") -> "Iterator[LogMetadata]":
    from zbk.errors import NoSuchLogError

    for name in client.list_logs():
        try:
            yield client.get_log_metadata(name)
        except NoSuchLogError:  # deleted since it was listed
            continue


def _summary(found: "LogMetadata") -> dict[str, Any]:
    return {
        "log": found.name,
        "ledger_count": len(found.ledger_ids),
        "begin": None if found.begin is None else str(found.begin),
        "last_ledger_id": found.last_ledger_id,
        "created": time_text(found.created_ms),
    }


def _ledger(client: "Client", ledger_id: int) -> dict[str, Any]:
    from zbk.errors import NoSuchLedgerError

    try:
        found = client.get_ledger_metadata(ledger_id)
    except NoSuchLedgerError:  # truncated since the list was read, or deleted by hand
        return {
            "ledger_id": ledger_id,
            "state": "DELETED",
            "last_entry_id": None,
            "length": None,
            "created": None,
        }
    return {
        "ledger_id": ledger_id,
        "state": str(found.state),
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "created": time_text(found.created_ms),
    }
