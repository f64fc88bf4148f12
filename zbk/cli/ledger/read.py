"""The commands of ``zbk ledger`` that only read."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.ledger.filters import filter_options, ledger_filter
from zbk.cli.listing import (
    ENTRY_COLUMNS,
    Table,
    Unreadable,
    entry_rows,
    lines_option,
    print_details,
    print_payloads,
    still_there,
)
from zbk.cli.options import (
    cluster_options,
    integer_option,
    ledger_id_argument,
    option_group,
    output_option,
    password_option,
)
from zbk.cli.output import Format, bytes_value, print_rows, time_text
from zbk.cli.session import Session
from zbk.errors import NoSuchLedgerError
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX

if TYPE_CHECKING:
    from zbk.client.operations.ledger_copies import LedgerCopy
    from zbk.client.read.ledger_reader import LedgerReader
    from zbk.protocol.entry.read_batch import ReadBatch
    from zbk.protocol.ledger.metadata import LedgerMetadata

COPY_COLUMNS = [
    "bookie_id", "last_add_synced", "last_entry_id", "unsynced_count", "holes", "own_log", "why",
]  # fmt: skip

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
        help="Continue with new entries until the ledger is closed.",
    ),
)


@command(
    "cat",
    ("zbk ledger cat 7 --lines", "the lines that `append --lines` wrote"),
    ("zbk ledger cat 7 > data.bin", "the file that `append --chunk` wrote"),
    ("zbk ledger cat 7 --lines --follow", "also new lines"),
)
@ledger_id_argument
@range_options
@lines_option
@password_option
@cluster_options
@click.pass_obj
def cat(
    session: Session,
    /,
    *,
    ledger_id: int,
    lines: bool,
    password: bytes,
    metadata: str | None,
    **which: Any,  # noqa: ANN401 - the values of `range_options`
) -> None:
    """Write a ledger's payloads to standard output."""
    _check_follow(**which)
    with session.open_client(metadata) as client:
        batches = _batches(client.open_ledger(ledger_id, password), **which)
        print_payloads(batches, lines=lines, is_live=which["is_following"])


@command(
    "read",
    ("zbk ledger read 7 --last 9", "the first ten entries"),
    ("zbk ledger read 7 -o json", "one object per line, payloads in base64"),
    ("zbk ledger read 7 --follow", "entries as they come"),
)
@ledger_id_argument
@range_options
@password_option
@cluster_options
@output_option
@click.pass_obj
def read(
    session: Session,
    /,
    *,
    ledger_id: int,
    password: bytes,
    metadata: str | None,
    output: Format,
    **which: Any,  # noqa: ANN401 - the values of `range_options`
) -> None:
    """List a ledger's entries.

    Only confirmed entries can be read: on a vd ledger, those that were synced.
    """
    _check_follow(**which)
    with session.open_client(metadata) as client:
        batches = _batches(client.open_ledger(ledger_id, password), **which)
        is_live = which["is_following"]
        print_rows(entry_rows(batches, output), ENTRY_COLUMNS, output, is_live=is_live)


@command(
    "ls",
    ("zbk ledger ls --from 1000 --limit 100", "page by page"),
    ("zbk ledger ls --state open --older-than 1d -o json", "one object per line"),
    ("zbk ledger ls --custom job=nightly --larger-than 1GiB", "filters combine"),
    ("zbk ledger ls --owner alice --namespace orders", "whose they are"),
)
@filter_options
@integer_option(
    "--from",
    "first_id",
    metavar="LEDGER",
    low=0,
    high=LEDGER_ID_MAX,
    default=0,
    help_text="The first ledger to read.",
)
@integer_option("--limit", metavar="N", help_text="Stop after N ledgers.")
@cluster_options
@output_option
@click.pass_obj
def ls(
    session: Session,
    /,
    first_id: int,
    limit: int | None,
    metadata: str | None,
    output: Format,
    **options: Any,  # noqa: ANN401 - of filter_options
) -> None:
    """List the ledgers.

    A ledger is listed if it passes all filters. With and without filters, the command reads the
    metadata of one ledger after the other, in the order of ids, until --limit ledgers are found: a
    filter saves lines, not reads. The length of a ledger is known once it is closed.

    Ledgers whose metadata cannot be read are named on standard error, and the exit code is 4.
    """
    wanted = ledger_filter(options)
    unreadable = Unreadable("ledger")
    columns = ["ledger_id", "state", "type", "quorum", "last_entry_id", "length", "created"]
    with session.open_client(metadata) as client:
        ids = client.list_ledgers(first_id)
        rows = (
            _summary(found)
            for found in still_there(ids, client.get_ledger_metadata, NoSuchLedgerError, unreadable)
            if wanted.accepts(found)
        )
        print_rows(itertools.islice(rows, limit), columns, output)
    unreadable.finish()


@command("show", ("zbk ledger show 7", "for people"), ("zbk ledger show 7 -o json", "for programs"))
@ledger_id_argument
@cluster_options
@output_option
@click.pass_obj
def show(session: Session, ledger_id: int, metadata: str | None, output: Format) -> None:
    """Show the metadata of a ledger.

    State, sizes, type, last entry, and the bookies that hold it. Repair and missing: the entries
    that are reported as missing, or as unchecked; `zbk ledger check` asks the bookies. Owner,
    namespace and grants: who may use it, if it was created with a key.

    Of a VD ledger that is open, the bookies of the last fragment are asked, without a sync: the
    entry up to which each has synced, how many it holds after that, the holes in closed fragments,
    and the entry log that has only this ledger. `zbk bookie unsynced` shows bytes.
    """
    from zbk.cli.ledger.grant import access_shown
    from zbk.cli.ledger.missing import task_shown

    with session.open_client(metadata) as client:
        found = client.get_ledger_metadata(ledger_id)
        task = client.get_underreplicated(ledger_id)
        is_asked = found.ledger_type.is_volatile and not found.is_closed
        copies = client.get_ledger_copies(ledger_id) if is_asked else []
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
        **access_shown(found),
        **task_shown(task, output),
    }
    fragments = [
        {"first_entry_id": fragment.first_entry_id, "bookies": list(fragment.bookies)}
        for fragment in found.fragments
    ]
    tables = [Table("fragments", fragments, ["first_entry_id", "bookies"])]
    if is_asked:
        tables.append(Table("copies", [_copy(one, output) for one in copies], COPY_COLUMNS))
    print_details(value, tables, output)


# ------------------------------------------------------------------ private


def _check_follow(
    *, is_following: bool, last: int | None, bookie_id: str | None, first: int
) -> None:
    del first
    if is_following and (last is not None or bookie_id is not None):
        raise click.UsageError("--follow excludes --last and --bookie.")


def _batches(
    reader: "LedgerReader",
    *,
    is_following: bool,
    first: int,
    last: int | None,
    bookie_id: str | None,
) -> "Iterator[ReadBatch]":
    if is_following:
        return reader.tail(first).batches()
    if last is None:
        last = reader.last_add_confirmed
        if last < first:  # no entry, or none from there on
            return iter(())
    return reader.read_batches(first, last, bookie_id=bookie_id)


def _copy(one: "LedgerCopy", output: Format) -> dict[str, Any]:
    import msgspec

    fields = msgspec.structs.asdict(one)
    if output == "json":
        return fields
    holes = [str(first) if first == last else f"{first}-{last}" for first, last in one.holes]
    if one.unknown_from is not None:
        holes.append(f"unknown from {one.unknown_from} on")
    return fields | {"holes": holes}


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
