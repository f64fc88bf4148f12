"""``zbk bookie recover`` and ``zbk bookie decommission``: move a bookie's entries to others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.config_file import own_security
from zbk.cli.confirmation import check_can_ask, is_confirmed, yes_option
from zbk.cli.copy_progress import CopyGauge, copying
from zbk.cli.options import (
    bookie_id_argument,
    cluster_options,
    duration_option,
    integer_option,
    output_option,
    password_option,
)
from zbk.cli.output import Format, note, print_rows
from zbk.cli.store import cluster_address
from zbk.protocol.entry.words import LEDGER_ID_MAX

if TYPE_CHECKING:
    from zbk.auditor.cluster_connection import ClusterConnection
    from zbk.auditor.ledger_repairer import RepairWatcher
    from zbk.auditor.manual import BookieMove, Decommission, LedgerMoved, MoveOptions

COLUMNS = ["ledger_id", "outcome", "fragments", "entries", "size", "why"]
LOSS_COLUMNS = ["ledger_id", "first_entry_id", "last_entry_id", "entries", "why"]
PLAN_COLUMNS = ["ledger_id", "state", "fragments", "entries"]

_grace_option = duration_option(
    "--grace",
    "--open-ledger-grace-ms",
    "grace_ms",
    default="30s",
    help_text="Time that a writer has to replace the bookie before its ledger is fenced.",
)


@command(
    "recover",
    ("zbk bookie recover ID --dry-run", "the ledgers with data there"),
    ("zbk bookie recover ID", "the bookie is gone for good; autorecovery is off"),
    ("zbk bookie recover ID --to OTHER --ledger 7", "one ledger, to one bookie"),
)
@bookie_id_argument
@click.option("--to", metavar="ID", default="", help="Copy to this bookie.  [default: placement]")
@integer_option("--ledger", "ledger_id", low=0, high=LEDGER_ID_MAX, help_text="This ledger only.")
@click.option("--dry-run", is_flag=True, help="Only list the ledgers that would be moved.")
@_grace_option
@password_option
@cluster_options
@output_option
def recover(
    bookie_id: str,
    to: str,
    ledger_id: int | None,
    dry_run: bool,
    grace_ms: int,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Copy a bookie's entries to other bookies.

    Ledger by ledger, another bookie receives a copy of the entries and replaces the bookie in the
    metadata. A ledger that is being written is fenced and closed if its writer does not replace the
    bookie in time; if the bookie still runs, its open ledgers are skipped. Safe beside
    autorecovery, and safe to run again. The exit code is 3 if ledgers remain.
    """
    from zbk.errors import BookieInUseError

    options = _options(to, ledger_id, grace_ms, password)
    with _connection(metadata) as connection:
        if dry_run:
            print_rows(_plan_rows(_move(connection, bookie_id, options)), PLAN_COLUMNS, output)
            return
        left: list[int] = []
        with _moving(connection, bookie_id, options) as move:
            rows = _rows(move.run(), left)
            print_rows(rows, COLUMNS, output, is_live=output == "json")
    if left:
        raise BookieInUseError(bookie_id, f"{len(left)} ledgers could not be moved; see why above")


@command(
    "decommission",
    ("zbk bookie decommission ID", "after the bookie was stopped; it never comes back"),
    ("zbk bookie decommission ID -o json", "one object per ledger, for programs"),
    ("zbk bookie decommission ID --force", "its disks are lost; shows what is given up, and asks"),
)
@bookie_id_argument
@click.option(
    "--force",
    is_flag=True,
    help="Give up entries that no other bookie can provide, after they were shown and confirmed.",
)
@yes_option
@_grace_option
@password_option
@cluster_options
@output_option
def decommission(
    bookie_id: str,
    force: bool,
    yes: bool,
    grace_ms: int,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Remove a stopped bookie from service, for good.

    Its entries are copied to other bookies. When no ledger names it any more, its cookie is
    removed, so the bookie can never start again with its old directories. Refused while it runs,
    and while entries have no other replica. With --force these entries, ledger by ledger, are
    listed and given up: the ledger keeps its length, and reads of them fail. An open ledger that
    cannot be closed without the bookie is not given up: delete it.
    """
    from zbk.auditor.manual import Decommission

    if force:
        check_can_ask(yes=yes)
    options = _options("", None, grace_ms, password)
    with _connection(metadata) as connection:
        with _moving(connection, bookie_id, options) as move:
            leaving = Decommission(move, connection, bookie_id)
            rows = _rows(leaving.run(), [])
            print_rows(rows, COLUMNS, output, is_live=output == "json")
        if force and not _give_up(leaving, bookie_id, output, yes=yes):
            return
        leaving.finish()
    note(f"zbk: bookie {bookie_id} is out of service")


# ------------------------------------------------------------------ private


def _options(to: str, ledger_id: int | None, grace_ms: int, password: bytes) -> "MoveOptions":
    from zbk.auditor.manual import MoveOptions
    from zbk.protocol.repair.repair_effects import RepairLimits

    return MoveOptions(
        to=to,
        ledger_id=ledger_id,
        password=password or None,
        limits=RepairLimits(grace_ms=grace_ms),
    )


def _connection(metadata: str | None) -> "ClusterConnection":
    from zbk.auditor.cluster_connection import ClusterConnection

    return ClusterConnection(cluster_address(metadata), own_security().for_clients)


def _move(
    connection: "ClusterConnection",
    bookie_id: str,
    options: "MoveOptions",
    watcher: "RepairWatcher | None" = None,
) -> "BookieMove":
    from zbk.auditor.manual import BookieMove

    move = BookieMove(connection, bookie_id, options, watcher=watcher)
    move.check()
    return move


@contextmanager
def _moving(
    connection: "ClusterConnection", bookie_id: str, options: "MoveOptions"
) -> "Iterator[BookieMove]":
    """Yield a move that shows its progress."""
    from zbk.auditor.ledger_repairer import RepairWatcher

    class _Watcher(RepairWatcher):
        def __init__(self, gauge: CopyGauge) -> None:
            self.copied = gauge.copied  # type: ignore[method-assign] # the same signature

    total_count = sum(f.entry_count for f in _move(connection, bookie_id, options).plan())
    with copying(f"moving from {bookie_id}", total_count) as gauge:
        yield _move(connection, bookie_id, options, _Watcher(gauge))


def _give_up(leaving: "Decommission", bookie_id: str, output: Format, *, yes: bool) -> bool:
    """List what is lost, and give it up if that is confirmed; return whether it was."""
    losses = leaving.losses()
    if not losses:
        return True
    lost = [(one.ledger_id, entries) for one in losses for entries in one.lost]
    rows = (
        {
            "ledger_id": ledger_id,
            "first_entry_id": entries.first_entry_id,
            "last_entry_id": entries.last_entry_id,
            "entries": entries.count,
            "why": entries.reason,
        }
        for ledger_id, entries in lost
    )
    print_rows(rows, LOSS_COLUMNS, output)
    count = sum(entries.count for _ledger_id, entries in lost)
    ledger_count = len({ledger_id for ledger_id, _entries in lost})
    warning = f"{count} entries of {ledger_count} ledgers are given up; they are listed above"
    question = f"Take bookie {bookie_id} out of service without them?"
    if not is_confirmed(question, yes=yes, warning=warning):
        return False
    leaving.give_up(losses)
    return True


def _plan_rows(move: "BookieMove") -> Iterator[dict[str, Any]]:
    for found in move.plan():
        yield {
            "ledger_id": found.ledger_id,
            "state": found.state,
            "fragments": found.fragment_count,
            "entries": found.entry_count,
        }


def _rows(moved: "Iterator[LedgerMoved]", left: list[int]) -> Iterator[dict[str, Any]]:
    for one in moved:
        if one.outcome not in ("moved", "deleted"):
            left.append(one.ledger_id)
        yield {
            "ledger_id": one.ledger_id,
            "outcome": one.outcome,
            "fragments": one.fragment_count,
            "entries": one.entry_count,
            "size": one.size,
            "why": one.why,
        }
