"""The commands of ``zbk dataset`` that change something."""

from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.completion import complete_names
from zbk.cli.confirmation import is_confirmed, yes_option
from zbk.cli.options import (
    cluster_options,
    integer_option,
    name_argument,
    output_option,
    password_option,
)
from zbk.cli.output import Format, note, print_object, print_rows
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.client.dataset.datasets import Collected

EXIT_REFUSED = 1


@command(
    "drop",
    ("zbk dataset drop events", "all of it; asks for confirmation"),
    ("zbk dataset drop events --version 3 --yes", "one old version, in a script"),
)
@name_argument
@integer_option(
    "--version",
    "number",
    metavar="N",
    help_text="Drop this version only; the last version cannot be dropped.",
)
@yes_option
@cluster_options
@output_option
@click.pass_obj
def drop(
    session: Session,
    name: str,
    number: int | None,
    yes: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Drop a data set, or one of its versions.

    A data set is dropped with all of its versions and ledgers; its open loads end with an error.
    A version loses only the ledgers that no other version lists: `zbk dataset gc` deletes them.
    """
    from zbk.client.dataset.datasets import DataSets

    with session.open_client(metadata) as client:
        data_sets = DataSets(client)
        data_set = data_sets.history(name)
        what = f"data set {name} ({len(data_set.versions)} versions)"
        if number is not None:
            what = f"version {number} of data set {name}"
        if not is_confirmed(f"Drop {what}?", yes=yes):
            return
        shown: dict[str, Any] = {"dataset": name, "version": number, "is_dropped": True}
        if number is None:
            shown["deleted_ledger_count"] = data_sets.drop(name)
        else:
            data_sets.drop_version(name, number)
    print_object(shown, output)
    if number is not None:
        note(f"zbk: `zbk dataset gc {name}` deletes the ledgers that only this version had")


@command(
    "abort",
    ("zbk dataset loads events", "the open loads"),
    ("zbk dataset abort events LOAD_ID", "one of them; asks for confirmation"),
)
@name_argument
@click.argument("load_id", metavar="LOAD_ID")
@yes_option
@password_option
@cluster_options
@output_option
@click.pass_obj
def abort(
    session: Session,
    name: str,
    load_id: str,
    yes: bool,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Abort a load whose driver is gone.

    The load can never become visible after that, and its ledgers are deleted. A driver that still
    runs gets an error when it commits. A committed load stays, and the exit code is 1.
    """
    from zbk.client.dataset.datasets import DataSets
    from zbk.system.clock import wall_ms

    with session.open_client(metadata) as client:
        data_sets = DataSets(client, password)
        ticket = data_sets.ticket(name, load_id)
        load = data_sets.loads(name).get(load_id)
        warning = ""
        if load is not None and load.state == "OPEN" and not load.is_expired(wall_ms()):
            warning = f"load {load_id}, of {load.who}, has time left: its driver may be running"
        question = f"Abort load {load_id} of data set {name}?"
        if not is_confirmed(question, yes=yes, warning=warning):
            return
        aborted = data_sets.abort(ticket)
    state = None if aborted.state is None else str(aborted.state)
    print_object(
        {
            "dataset": name,
            "load_id": load_id,
            "state": state,
            "deleted_ledger_count": aborted.deleted_count,
        },
        output,
    )
    if state == "COMMITTED":
        note(f"zbk: load {load_id} is committed, and stays: `zbk dataset history {name}`")
        click.get_current_context().exit(EXIT_REFUSED)


@command(
    "gc",
    ("zbk dataset gc events", "one data set"),
    ("zbk dataset gc --all --dry-run", "the ledgers that could be deleted"),
    ("zbk dataset gc --all -o json", "all, also dropped ones; one object per data set"),
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_names)
@click.option("--all", "is_all", is_flag=True, help="All data sets, also dropped ones.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Change nothing.")
@password_option
@cluster_options
@output_option
@click.pass_obj
def gc(
    session: Session,
    name: str | None,
    is_all: bool,
    is_dry_run: bool,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Delete ledgers that no version needs.

    Those of failed attempts, of aborted loads and of dropped versions. Loads whose time is over are
    aborted; open loads, and all ledgers that a version lists, stay.
    """
    from zbk.client.dataset.datasets import DataSets

    if (name is None) is not is_all:
        raise click.UsageError("Give the NAME of a data set, or --all.")
    columns = [
        "dataset", "is_dropped", "seen_count", "leftover_count", "deleted_count", "expired_count",
        "aborted_count", "live_count",
    ]  # fmt: skip
    refused: list[Collected] = []

    def row(found: "Collected") -> dict[str, Any]:
        if found.refused:
            refused.append(found)
        return _collected(found, is_dry_run=is_dry_run)

    with session.open_client(metadata) as client:
        data_sets = DataSets(client, password)
        if name is None:
            print_rows(map(row, data_sets.collect_all(is_dry_run=is_dry_run)), columns, output)
        else:
            print_rows([row(data_sets.collect(name, is_dry_run=is_dry_run))], columns, output)
    for one in refused:
        note(f"zbk: data set {one.name!r} was left as it is: {one.refused}")
    if refused:
        click.get_current_context().exit(EXIT_REFUSED)


def _collected(found: "Collected", *, is_dry_run: bool) -> dict[str, Any]:
    return {
        "dataset": found.name,
        "is_dropped": found.is_dropped,
        "is_dry_run": is_dry_run,
        "seen_count": found.seen_count,
        "leftover_count": len(found.leftover),
        "deleted_count": found.deleted_count,
        "expired_count": len(found.expired),
        "aborted_count": found.aborted_count,
        "live_count": found.live_count,
        "leftover": list(found.leftover),
        "refused": found.refused or None,
    }
