"""The commands of ``zbk dataset`` that only look."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.dataset.schema import columns_of
from zbk.cli.options import metadata_option, output_option, password_option
from zbk.cli.output import Format, print_object, print_rows, time_text
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.client.dataset.datasets import DataSets
    from zbk.protocol.dataset.dataset import DataSet, Load, Version
    from zbk.protocol.dataset.manifest import ColumnStats, DataLedger

_LOAD_COLUMNS = ["load_id", "kind", "started", "expires", "is_expired", "who"]
_LEDGER_COLUMNS = ["ledger_id", "partition", "attempt", "entry_count", "row_count", "size"]


@click.command(
    "ls",
    cls=ZbkCommand,
    examples=[("zbk dataset ls", "all of them"), ("zbk dataset ls -o json", "an object a line")],
)
@metadata_option
@output_option
@click.pass_obj
def ls(session: Session, metadata: str | None, output: Format) -> None:
    """List the data sets.

    With their last version: how many rows, ledgers and bytes of payload it has, when it was
    committed, and by whom.
    """
    from zbk.client.dataset.datasets import DataSets

    columns = ["dataset", "version", "row_count", "ledger_count", "size", "committed", "who"]
    with session.open_client(metadata) as client:
        print_rows(map(_summary, _data_sets(DataSets(client))), columns, output)


@click.command(
    "show",
    cls=ZbkCommand,
    examples=[
        ("zbk dataset show events", "the last version"),
        ("zbk dataset show events --version 3 --ledgers", "an older one, and its ledgers"),
        ("zbk dataset show events -o json", "for programs"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--version",
    "number",
    metavar="N",
    type=click.IntRange(min=1),
    help="Which version. [default: the last one]",
)
@click.option(
    "--ledgers", "with_ledgers", is_flag=True, help="List its ledgers, with the bounds of columns."
)
@password_option
@metadata_option
@output_option
@click.pass_obj
def show(
    session: Session,
    name: str,
    number: int | None,
    with_ledgers: bool,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Show one version of a data set.

    Its columns, and the loads that are under way in the data set.
    """
    from zbk.client.dataset.datasets import DataSets
    from zbk.system.clock import wall_ms

    with session.open_client(metadata) as client:
        data_sets = DataSets(client, password)
        data_set = data_sets.history(name)
        now_ms = wall_ms()
        loads = [_load(one, now_ms) for one in data_sets.loads(name).values() if _is_open(one)]
        snapshot = None
        if number is not None or data_set.versions:
            snapshot = data_sets.read(name, number)
    value: dict[str, Any] = {
        "dataset": name,
        **_version(None if snapshot is None else snapshot.version),
        "created": time_text(data_set.created_ms),
        "version_count": len(data_set.versions),
    }
    columns = None if snapshot is None else columns_of(snapshot.schema)
    if snapshot is not None and columns is None:
        value["schema"] = snapshot.schema
    ledgers = list(map(_ledger, snapshot.ledgers)) if snapshot is not None and with_ledgers else []
    if output == "json":
        shown = {"columns": columns, "loads": loads} | (
            {"ledgers": ledgers} if with_ledgers else {}
        )
        print_object(value | shown, output)
        return
    print_object(value, output)
    _print_table(columns or [], ["column", "type"])
    _print_table(loads, _LOAD_COLUMNS)
    _print_table(map(_with_bounds, ledgers), [*_LEDGER_COLUMNS, "bounds"])


@click.command(
    "history",
    cls=ZbkCommand,
    examples=[
        ("zbk dataset history events", "the oldest first"),
        ("zbk dataset history events -o json", "an object a line"),
    ],
)
@click.argument("name", metavar="NAME")
@metadata_option
@output_option
@click.pass_obj
def history(session: Session, name: str, metadata: str | None, output: Format) -> None:
    """List the versions of a data set.

    Each one has the rows of those before it, back to the last overwrite.
    """
    from zbk.client.dataset.datasets import DataSets

    columns = [
        "version", "kind", "row_count", "ledger_count", "size", "committed", "who", "load_id",
    ]  # fmt: skip
    with session.open_client(metadata) as client:
        print_rows(map(_version, DataSets(client).history(name).versions), columns, output)


@click.command(
    "loads",
    cls=ZbkCommand,
    examples=[
        ("zbk dataset loads events", "those that are under way"),
        ("zbk dataset loads events --all -o json", "also those that ended not long ago"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option("--all", "is_all", is_flag=True, help="Also those that ended not long ago.")
@metadata_option
@output_option
@click.pass_obj
def loads(session: Session, name: str, is_all: bool, metadata: str | None, output: Format) -> None:
    """List the loads of a data set.

    A load is under way until its driver commits or aborts it. One that its driver has left is
    aborted by others once its time is over; `zbk dataset abort` does not wait for that.
    """
    from zbk.client.dataset.datasets import DataSets
    from zbk.system.clock import wall_ms

    with session.open_client(metadata) as client:
        found = DataSets(client).loads(name).values()
    now_ms = wall_ms()
    rows = [
        _load(one, now_ms) | {"state": str(one.state), "version": one.version}
        for one in sorted(found, key=lambda load: (load.started_ms, load.load_id))
        if is_all or _is_open(one)
    ]
    print_rows(rows, ["load_id", "state", *_LOAD_COLUMNS[1:], "version"], output)


# ------------------------------------------------------------------ private


def _data_sets(data_sets: "DataSets") -> "Iterator[DataSet]":
    from zbk.errors import NoSuchDataSetError

    for name in data_sets.list():
        try:
            yield data_sets.history(name)
        except NoSuchDataSetError:  # dropped since it was listed
            continue


def _summary(found: "DataSet") -> dict[str, Any]:
    return {"dataset": found.name, **_version(found.current)}


def _version(found: "Version | None") -> dict[str, Any]:
    """Return a version's fields; ``None`` each, where no load was committed yet."""
    return {
        "version": found and found.version,
        "kind": found and str(found.kind),
        "row_count": found and found.row_count,
        "ledger_count": found and found.ledger_count,
        "size": found and found.size,
        "committed": found and time_text(found.committed_ms),
        "who": found and found.who,
        "load_id": found and found.load_id,
    }


def _is_open(load: "Load") -> bool:
    return load.state == "OPEN"


def _load(load: "Load", now_ms: int) -> dict[str, Any]:
    return {
        "load_id": load.load_id,
        "kind": str(load.kind),
        "started": time_text(load.started_ms),
        "expires": time_text(load.expires_ms),
        "is_expired": load.is_expired(now_ms),
        "who": load.who,
        "stream": load.stream or None,
        "batch_id": load.batch_id if load.stream else None,
    }


def _ledger(ledger: "DataLedger") -> dict[str, Any]:
    return {
        "ledger_id": ledger.ledger_id,
        "partition": ledger.partition,
        "attempt": ledger.attempt,
        "entry_count": ledger.entry_count,
        "row_count": ledger.row_count,
        "size": ledger.size,
        "load_id": ledger.load_id,
        "columns": {name: _stats(stats) for name, stats in ledger.columns.items()},
    }


def _stats(stats: "ColumnStats") -> dict[str, Any]:
    return {"null_count": stats.null_count, "low": stats.low, "high": stats.high}


def _with_bounds(ledger: dict[str, Any]) -> dict[str, Any]:
    bounds = {
        name: f"{stats['low']}..{stats['high']}"
        for name, stats in ledger["columns"].items()
        if stats["low"] is not None
    }
    return ledger | {"bounds": bounds}


def _print_table(
    rows: "Iterator[dict[str, Any]] | list[dict[str, Any]]", columns: list[str]
) -> None:
    """Print a table below what was printed before, if it has rows."""
    found = list(rows)
    if found:
        click.echo()
        print_rows(found, columns, "table")
