"""``zbk autorecovery status`` and ``whoisauditor``: its state, and its auditor."""

import sys
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, duration_text, print_object, time_text
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from msgspec import UnsetType

    from zbk.metadata.stores.store import MetadataStore


@command(
    "status",
    ("zbk autorecovery status", "the auditor, lost bookies, ledgers to repair"),
    ("zbk autorecovery status -o json", "for programs"),
)
@metadata_option
@output_option
def status(metadata: str | None, output: Format) -> None:
    """Show the auditor, lost bookies and repair tasks."""
    with cluster_store(metadata) as store:
        print_object(_status(store, output), output)


@command("whoisauditor", ("zbk autorecovery whoisauditor", "exit code 3 if there is none"))
@metadata_option
@output_option
def whoisauditor(metadata: str | None, output: Format) -> None:
    """Name the process that audits now.

    Its host and process id, or its bookie. The exit code is 3 if no process audits.
    """
    from zbk.metadata.records.election import read_auditor

    with cluster_store(metadata) as store:
        vote = read_auditor(store)
    if vote is None:
        click.echo("no process audits: start `zbk autorecovery run`", err=True)
        sys.exit(3)
    if output == "json":
        found = {"auditor": vote.candidate_id, "elected": time_text(vote.elected_ms)}
        print_object(found, output)
    else:
        click.echo(vote.candidate_id)


def _status(store: "MetadataStore", output: Format) -> dict[str, Any]:
    from zbk.metadata.records.auditor_notes import AuditorNotes
    from zbk.metadata.records.election import read_auditor
    from zbk.metadata.records.underreplication import UnderreplicationStore

    tasks = UnderreplicationStore(store)
    vote = read_auditor(store)
    told = AuditorNotes(store).status()
    found: dict[str, Any] = {
        "enabled": tasks.is_enabled(),
        "auditor": None if vote is None else vote.candidate_id,
        "underreplicated_count": sum(1 for _ in tasks.list()),
        "in_repair_count": len(tasks.locked_ids()),
        "unrepairable_count": sum(1 for _ in tasks.list_unrepairable()),
        "lost_bookie_delay_ms": tasks.lost_bookie_delay_ms(),
    }
    if told is not None:
        is_json = output == "json"
        found |= {
            "lost_bookies": list(told.lost) if is_json else " ".join(told.lost) or "none",
            "not_reported_yet": list(told.pending) if is_json else " ".join(told.pending) or "none",
            **_delay_left(told.delay_ends_ms, is_json=is_json),
            "brake": told.brake,
            "doing": told.doing,
            "last_audit": told.done,
            "last_audit_ended": time_text(told.done_ms) if told.done_ms else "",
            "told_by": told.candidate_id,
            "told": time_text(told.told_ms),
        }
    return found


def _delay_left(ends_ms: "int | UnsetType", *, is_json: bool) -> dict[str, Any]:
    """Return the time left until the ledgers of the only lost bookie are reported."""
    from zbk.system.clock import wall_ms

    left_ms = max(0, ends_ms - wall_ms()) if isinstance(ends_ms, int) else None
    if is_json:
        return {"delay_left_ms": left_ms}
    if left_ms is None:
        return {}
    return {"delay_left": f"{duration_text(left_ms)}; at once: zbk autorecovery trigger"}
