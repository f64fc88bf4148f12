"""``zbk ledger check`` and ``zbk ledger underreplicated``: missing replicas of ledgers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.command import command
from zbk.cli.config_file import own_security
from zbk.cli.options import cluster_options, ledger_id_argument, metadata_option, output_option
from zbk.cli.output import Format, note, print_object, print_rows, time_text
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.metadata.records.repair_tasks import RepairTask
    from zbk.metadata.records.underreplication import UnderreplicationStore
    from zbk.metadata.stores.store import MetadataStore

WATCH_S: Final = 1.0

COLUMNS = ["ledger_id", "state", "owner", "copied", "bookies", "missing", "reported", "why"]


@command(
    "underreplicated",
    ("zbk ledger underreplicated", "the ledgers that wait for repair, or cannot be repaired"),
    ("zbk ledger underreplicated --watch", "their number, each second, until none is left"),
)
@click.option(
    "--watch",
    "is_watching",
    is_flag=True,
    help="Print their number each second, until none is left and no lost bookie is pending.",
)
@metadata_option
@output_option
def underreplicated(is_watching: bool, metadata: str | None, output: Format) -> None:
    """List the ledgers that lack replicas.

    State: waiting, working, or unrepairable: no replica of some entries is left, or the repair
    needs the password; see why. Missing: the entries reported as missing, by bookie; if none are
    named, the repair asks the bookies. "unchecked" is no damage: the writer is gone, and the
    bookies are compared.
    """
    from zbk.metadata.records.repair_tasks import repair_tasks
    from zbk.metadata.records.underreplication import UnderreplicationStore

    with cluster_store(metadata) as store:
        tasks = UnderreplicationStore(store)
        if is_watching:
            columns = ["time", "lost_bookies", "waiting", "working", "unrepairable"]
            print_rows(_counts(store, tasks), columns, output, is_live=True)
        else:
            print_rows((_row(one, output) for one in repair_tasks(tasks)), COLUMNS, output)


@command(
    "check",
    ("zbk ledger check 7", "the entries that each bookie lacks"),
    ("zbk ledger check 7 --report", "autorecovery copies them now"),
    ("zbk ledger check 7 --full", "reads every entry of every replica: slow, finds all damage"),
)
@ledger_id_argument
@click.option("--full", "is_full", is_flag=True, help="Read every entry of every replica.")
@click.option(
    "--report",
    "is_reporting",
    is_flag=True,
    help="Report missing replicas: autorecovery repairs them now, not after its next check.",
)
@cluster_options
@output_option
def check(
    ledger_id: int, is_full: bool, is_reporting: bool, metadata: str | None, output: Format
) -> None:
    """Check that the replicas of a ledger are on the bookies that its metadata name.

    Asks each bookie which entries it holds, which finds every hole, and reads the first and the
    last entry of each fragment. Only --full finds damage in between. Without --report nothing is
    changed. The exit code is 4 if replicas are missing, and 3 if a bookie did not answer.
    """
    from zbk.auditor.check_by_hand import check_by_hand
    from zbk.auditor.cluster_connection import ClusterConnection
    from zbk.cli.ledger.missing import missing_shown
    from zbk.errors import DamageError, UnavailableError

    with cluster_store(metadata) as store:
        address = store.address
    with ClusterConnection(address, own_security().for_clients) as connection:
        found = check_by_hand(connection, ledger_id, is_full=is_full, is_reporting=is_reporting)
    missing, undecided = dict(found.missing), list(found.undecided)
    shown = {
        "ledger_id": ledger_id,
        "state": found.state,
        "is_whole": found.is_whole,
        "missing": missing if output == "json" else _listed(missing),
        "missing_entries": missing_shown(found.missing_entries, output),
        "undecided": undecided if output == "json" else ", ".join(undecided),
    }
    print_object(shown, output)
    if undecided and missing:
        note("zbk: the undecided bookies did not answer; check again when they are back")
    if missing:
        what = missing_shown(found.missing_entries, "table") or ", ".join(missing)
        way_out = "they are reported, and autorecovery copies them"
        if not is_reporting:
            way_out = f"`zbk ledger check {ledger_id} --report` makes autorecovery copy them"
        raise DamageError(f"ledger {ledger_id} lacks replicas at {what}: {way_out}")
    if undecided:
        raise UnavailableError(
            f"ledger {ledger_id}: these bookies did not answer and may lack entries: "
            f"{', '.join(undecided)}; `zbk bookie ls` shows which ones run; check again when they "
            "are back"
        )


# ------------------------------------------------------------------ private


def _listed(missing: dict[str, str]) -> str:
    return ", ".join(f"{bookie} ({reason})" for bookie, reason in missing.items())


def _row(one: "RepairTask", output: Format) -> dict[str, Any]:
    from zbk.cli.ledger.missing import missing_shown

    task, at_work = one.task, one.progress
    return {
        "ledger_id": task.ledger_id,
        "state": one.state,
        "owner": at_work.owner if at_work else "",
        "copied": f"{at_work.copied_count}/{at_work.to_copy_count}" if at_work else "",
        "bookies": ", ".join(task.missing),
        "missing": missing_shown(task.ranges, output),
        "reported": time_text(task.reported_ms),
        "why": one.why,
    }


def _counts(store: "MetadataStore", tasks: "UnderreplicationStore") -> Iterator[dict[str, Any]]:
    import threading

    from zbk.system.clock import wall_ms

    pause = threading.Event()
    while True:
        lost = _lost_bookies(store)
        is_more_to_come = tasks.is_enabled() and _is_auditor_behind(store, lost)
        ids = set(tasks.list())
        working_count = len(ids & tasks.locked_ids())
        yield {
            "time": time_text(wall_ms()),
            "lost_bookies": len(lost),
            "waiting": len(ids) - working_count,
            "working": working_count,
            "unrepairable": sum(1 for _ in tasks.list_unrepairable()),
        }
        if not ids and not is_more_to_come:
            return
        pause.wait(WATCH_S)


def _lost_bookies(store: "MetadataStore") -> set[str]:
    """Return the bookies that have a cookie and are not registered."""
    from zbk.metadata.records.bookies import BookieRegistry

    registry = BookieRegistry(store)
    return registry.cookies().keys() - registry.available().keys() - registry.readonly().keys()


def _is_auditor_behind(store: "MetadataStore", lost: set[str]) -> bool:
    """Return whether the auditor has not yet reported all ledgers of these lost bookies."""
    from zbk.metadata.records.auditor_notes import AuditorNotes
    from zbk.metadata.records.election import read_auditor

    vote = read_auditor(store)
    if vote is None or not lost:
        return False
    told = AuditorNotes(store).status()
    if told is None or told.candidate_id != vote.candidate_id:
        return True
    return bool(told.pending or told.brake or told.doing or not lost <= set(told.lost))
