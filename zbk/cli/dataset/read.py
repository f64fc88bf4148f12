"""The commands of ``zbk dataset`` that only read."""

from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.dataset.schema import columns_of
from zbk.cli.listing import Table, Unreadable, print_details, still_there
from zbk.cli.options import (
    cluster_options,
    integer_option,
    name_argument,
    output_option,
    password_option,
)
from zbk.cli.output import Format, print_rows, time_text
from zbk.cli.session import Session
from zbk.errors import NoSuchDataSetError

if TYPE_CHECKING:
    from zbk.protocol.dataset.dataset import DataSet, Load, Version
    from zbk.protocol.dataset.manifest import ColumnStats, DataLedger

LOAD_COLUMNS = ["load_id", "kind", "started", "expires", "is_expired", "who"]
LEDGER_COLUMNS = ["ledger_id", "partition", "attempt", "entry_count", "row_count", "size", "bounds"]
VERSION_COLUMNS = ["row_count", "ledger_count", "size", "committed", "who"]


@command(
    "ls", ("zbk dataset ls", "all data sets"), ("zbk dataset ls -o json", "one object per line")
)
@cluster_options
@output_option
@click.pass_obj
def ls(session: Session, metadata: str | None, output: Format) -> None:
    """List the data sets.

    With the rows, ledgers and bytes of payload of the last version, the time of its commit, and who
    committed it. Data sets whose records cannot be read are named on standard error, and the exit
    code is 4.
    """
    from zbk.client.dataset.datasets import DataSets

    unreadable = Unreadable("data set")
    with session.open_client(metadata) as client:
        data_sets = DataSets(client)
        names = data_sets.list()
        found = still_there(names, data_sets.history, NoSuchDataSetError, unreadable)
        print_rows(map(_summary, found), ["dataset", "version", *VERSION_COLUMNS], output)
    unreadable.finish()


@command(
    "show",
    ("zbk dataset show events", "the last version"),
    ("zbk dataset show events --version 3 --ledgers", "an older one, and its ledgers"),
    ("zbk dataset show events -o json", "for programs"),
)
@name_argument
@integer_option(
    "--version", "number", metavar="N", help_text="Version to show. [default: the last one]"
)
@click.option(
    "--ledgers", "with_ledgers", is_flag=True, help="List its ledgers, with the bounds of columns."
)
@password_option
@cluster_options
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

    With its columns, and the open loads of the data set.
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
    found = snapshot.ledgers if snapshot is not None and with_ledgers else ()
    if output == "json":
        value |= {"columns": columns, "loads": loads}
        tables = [Table("ledgers", list(map(_ledger, found)), ())] if with_ledgers else []
    else:
        tables = [
            Table("columns", columns or [], ["column", "type"]),
            Table("loads", loads, LOAD_COLUMNS),
            Table("ledgers", [_with_bounds(_ledger(one)) for one in found], LEDGER_COLUMNS),
        ]
        tables = [table for table in tables if table.rows]
    print_details(value, tables, output)


@command(
    "history",
    ("zbk dataset history events", "the oldest first"),
    ("zbk dataset history events -o json", "one object per line"),
)
@name_argument
@cluster_options
@output_option
@click.pass_obj
def history(session: Session, name: str, metadata: str | None, output: Format) -> None:
    """List the versions of a data set.

    Each has the rows of those before it, back to the last overwrite.
    """
    from zbk.client.dataset.datasets import DataSets

    columns = ["version", "kind", *VERSION_COLUMNS, "load_id"]
    with session.open_client(metadata) as client:
        print_rows(map(_version, DataSets(client).history(name).versions), columns, output)


@command(
    "loads",
    ("zbk dataset loads events", "the open ones"),
    ("zbk dataset loads events --all -o json", "also those that ended recently"),
)
@name_argument
@click.option("--all", "is_all", is_flag=True, help="Also those that ended recently.")
@cluster_options
@output_option
@click.pass_obj
def loads(session: Session, name: str, is_all: bool, metadata: str | None, output: Format) -> None:
    """List the loads of a data set.

    A load is open until its driver commits or aborts it. If its driver is gone, other loads abort
    it when its time is over; `zbk dataset abort` does not wait for that.
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
    print_rows(rows, ["load_id", "state", *LOAD_COLUMNS[1:], "version"], output)


# ------------------------------------------------------------------ private


def _summary(found: "DataSet") -> dict[str, Any]:
    return {"dataset": found.name, **_version(found.current)}


def _version(found: "Version | None") -> dict[str, Any]:
    """Return a version's fields; each is ``None`` if no load was committed yet."""
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
    return {
        "null_count": stats.null_count,
        "low": _bound(stats.low),
        "high": _bound(stats.high),
    }


def _bound(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return a bound; an infinite one as a text, because JSON has no number for it."""
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _with_bounds(ledger: dict[str, Any]) -> dict[str, Any]:
    bounds = {
        name: f"{stats['low']}..{stats['high']}"
        for name, stats in ledger["columns"].items()
        if stats["low"] is not None
    }
    return ledger | {"bounds": bounds}
