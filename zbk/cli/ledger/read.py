"""The commands of ``zbk ledger`` that only look."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.options import (
    integer_option,
    ledger_id_argument,
    metadata_option,
    option_group,
    output_option,
    password_option,
)
from zbk.cli.output import (
    Format,
    bytes_value,
    flush,
    note,
    preview,
    print_bytes,
    print_object,
    print_rows,
    time_text,
)
from zbk.cli.session import Session
from zbk.errors import EXIT_DAMAGE
from zbk.protocol.entry.words import ENTRY_ID_MAX

if TYPE_CHECKING:
    from zbk.client.api import Client
    from zbk.client.read.ledger_reader import LedgerReader
    from zbk.protocol.entry.read_batch import ReadBatch
    from zbk.protocol.ledger.metadata import LedgerMetadata

range_options = option_group(
    integer_option(
        "--first",
        metavar="ENTRY",
        low=0,
        high=ENTRY_ID_MAX,
        default=0,
        help_text="The first entry to read.",
    ),
    integer_option(
        "--last",
        metavar="ENTRY",
        low=0,
        high=ENTRY_ID_MAX,
        help_text="The last entry to read. [default: the last one confirmed]",
    ),
    click.option(
        "--bookie", "bookie_id", metavar="ID", help="Read only the replicas that this bookie holds."
    ),
    click.option(
        "-f",
        "--follow",
        "is_following",
        is_flag=True,
        help="Continue with entries to come, until the ledger is closed.",
    ),
)


@click.command(
    "cat",
    cls=ZbkCommand,
    examples=[
        ("zbk ledger cat 7 --lines", "what `append --lines` wrote"),
        ("zbk ledger cat 7 > data.bin", "what `append --chunk` wrote"),
        ("zbk ledger cat 7 --lines --follow", "and what is still to come"),
    ],
)
@ledger_id_argument
@range_options
@click.option("--lines", is_flag=True, help="Write a newline behind each payload.")
@password_option
@metadata_option
@click.pass_obj
def cat(
    session: Session,
    *,
    ledger_id: int,
    first: int,
    last: int | None,
    bookie_id: str | None,
    is_following: bool,
    lines: bool,
    password: bytes,
    metadata: str | None,
) -> None:
    """Write a ledger's payloads to standard output."""
    _check_follow(is_following, last, bookie_id)
    end = b"\n" if lines else b""
    with session.open_client(metadata) as client:
        reader = client.open_ledger(ledger_id, password)
        batches = reader.tail(first).batches() if is_following else None
        for batch in batches or _batches(reader, first, last, bookie_id):
            print_bytes(b"".join(itertools.chain.from_iterable((p, end) for p in batch)))
            if is_following:
                flush()


@click.command(
    "read",
    cls=ZbkCommand,
    examples=[
        ("zbk ledger read 7 --last 9", "the first ten entries"),
        ("zbk ledger read 7 -o json", "an object a line, payloads in base64"),
        ("zbk ledger read 7 --follow", "entries as they come"),
    ],
)
@ledger_id_argument
@range_options
@password_option
@metadata_option
@output_option
@click.pass_obj
def read(
    session: Session,
    *,
    ledger_id: int,
    first: int,
    last: int | None,
    bookie_id: str | None,
    is_following: bool,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """List a ledger's entries.

    Only what is confirmed can be read: on a vd ledger, what was synced.
    """
    _check_follow(is_following, last, bookie_id)
    with session.open_client(metadata) as client:
        reader = client.open_ledger(ledger_id, password)
        batches = reader.tail(first).batches() if is_following else None
        entries = _entries(batches or _batches(reader, first, last, bookie_id), output)
        print_rows(entries, ["entry_id", "size", "payload"], output, is_live=is_following)


@click.command(
    "ls",
    cls=ZbkCommand,
    examples=[
        ("zbk ledger ls", "all of them"),
        ("zbk ledger ls --state open -o json", "the open ones, an object a line"),
    ],
)
@click.option(
    "--state",
    type=click.Choice(["open", "in_recovery", "closed"], case_sensitive=False),
    help="Only ledgers in this state.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Stop after so many.")
@metadata_option
@output_option
@click.pass_obj
def ls(
    session: Session,
    state: str | None,
    limit: int | None,
    metadata: str | None,
    output: Format,
) -> None:
    """List the ledgers.

    Those whose metadata are damaged are named on standard error, and the exit code says so.
    """
    damaged: list[int] = []
    columns = ["ledger_id", "state", "type", "quorum", "last_entry_id", "length", "created"]
    with session.open_client(metadata) as client:
        rows = (
            _summary(found)
            for found in _ledgers(client, damaged)
            if state is None or found.state == state.upper()
        )
        print_rows(itertools.islice(rows, limit), columns, output)
    if damaged:
        click.get_current_context().exit(EXIT_DAMAGE)


@click.command(
    "show",
    cls=ZbkCommand,
    examples=[("zbk ledger show 7", "for people"), ("zbk ledger show 7 -o json", "for programs")],
)
@ledger_id_argument
@metadata_option
@output_option
@click.pass_obj
def show(session: Session, ledger_id: int, metadata: str | None, output: Format) -> None:
    """Show what the metadata say of a ledger.

    State, sizes, type, last entry, and the bookies that hold it. Repair and missing: what is
    reported to be missing of it, or to be checked; `zbk ledger check` asks the bookies.
    """
    from zbk.cli.ledger.missing import task_shown

    with session.open_client(metadata) as client:
        found = client.get_ledger_metadata(ledger_id)
        task = client.get_underreplicated(ledger_id)
    value: dict[str, Any] = {
        "ledger_id": found.ledger_id,
        "state": str(found.state),
        "type": str(found.ledger_type),
        "digest": str(found.digest_type),
        "ensemble_size": found.ensemble_size,
        "write_quorum_size": found.write_quorum_size,
        "ack_quorum_size": found.ack_quorum_size,
        "has_writer": found.has_writer,
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "created": time_text(found.created_ms),
        "custom_metadata": {
            key: bytes_value(text) if output == "json" else text
            for key, text in found.custom_metadata.items()
        },
        **task_shown(task, output),
    }
    fragments = [
        {"first_entry_id": fragment.first_entry_id, "bookies": list(fragment.bookies)}
        for fragment in found.fragments
    ]
    if output == "json":
        print_object(value | {"fragments": fragments}, output)
        return
    print_object(value, output)
    click.echo()
    print_rows(fragments, ["first_entry_id", "bookies"], output)


# ------------------------------------------------------------------ private


def _check_follow(is_following: bool, last: int | None, bookie_id: str | None) -> None:
    if is_following and (last is not None or bookie_id is not None):
        raise click.UsageError("--follow goes with neither --last nor --bookie.")


def _batches(
    reader: "LedgerReader", first: int, last: int | None, bookie_id: str | None
) -> "Iterator[ReadBatch]":
    if last is None:
        last = reader.last_add_confirmed
        if last < first:  # nothing, or nothing from there on
            return iter(())
    return reader.read_batches(first, last, bookie_id=bookie_id)


def _entries(batches: "Iterator[ReadBatch]", output: Format) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for entry_id, payload in zip(batch.entry_ids, batch, strict=True):
            yield {
                "entry_id": entry_id,
                "size": len(payload),
                "payload": bytes_value(payload) if output == "json" else preview(payload),
            }


def _ledgers(client: "Client", damaged: list[int]) -> "Iterator[LedgerMetadata]":
    """Yield the metadata of all ledgers but those whose metadata are damaged."""
    from zbk.errors import DamageError, NoSuchLedgerError

    for ledger_id in client.list_ledgers():
        try:
            yield client.get_ledger_metadata(ledger_id)
        except NoSuchLedgerError:  # deleted since it was listed
            continue
        except DamageError as error:
            damaged.append(ledger_id)
            note(f"zbk: ledger {ledger_id}: its metadata are damaged: {error}")


def _summary(found: "LedgerMetadata") -> dict[str, Any]:
    return {
        "ledger_id": found.ledger_id,
        "state": str(found.state),
        "type": str(found.ledger_type),
        "quorum": f"{found.ensemble_size}/{found.write_quorum_size}/{found.ack_quorum_size}",
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "created": time_text(found.created_ms),
    }
