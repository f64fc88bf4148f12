"""``zbk bookie gc``: a round of garbage collection and compaction, now."""

from typing import Literal

import click

from zbk.cli.command import command
from zbk.cli.options import bookie_id_argument, cluster_options, duration_option, output_option
from zbk.cli.output import Format, print_object, readable
from zbk.cli.session import Session
from zbk.system.clock import monotonic_s


@command(
    "gc",
    ("zbk bookie gc ID", "after many ledgers were deleted"),
    ("zbk bookie gc ID --major", "also free the space of partly dead entry logs"),
    ("zbk bookie gc ID -o json", "for programs"),
)
@bookie_id_argument
@click.option(
    "--minor",
    "compaction",
    flag_value="minor",
    help="Also compact entry logs that are nearly dead.",
)
@click.option(
    "--major",
    "compaction",
    flag_value="major",
    help="Also compact all entry logs with enough dead bytes.",
)
@duration_option("--timeout", "timeout_ms", default="10min", help_text="Time to wait for the end.")
@cluster_options
@output_option
@click.pass_obj
def gc(
    session: Session,
    bookie_id: str,
    compaction: Literal["minor", "major"] | None,
    timeout_ms: int,
    metadata: str | None,
    output: Format,
) -> None:
    """Ask a running bookie to drop deleted ledgers.

    The command waits for the end of a round and prints its result. The bookie drops a ledger after
    two lookups, some seconds apart, that find no such ledger in the metadata store. Entry logs
    without a live ledger are removed. The current entry log stays, and so do logs with live
    ledgers: dead_size is the space that deleted ledgers take there. Compaction copies the live
    entries of such logs to a new log and removes the old ones; `zbk bookie show` shows how much
    space it would free. Compaction keeps to the bookie's rate limit and may take long. After the
    timeout the bookie continues.
    """
    start_s = monotonic_s()
    with session.open_client(metadata) as client:
        status = client.collect_garbage(
            bookie_id, compaction=compaction or "", timeout=timeout_ms / 1000
        )
    shown = {
        "bookie_id": bookie_id,
        "local_ledgers": status.local_count,
        "listed_ledgers": status.listed_count,
        "candidates": status.candidate_count,
        "dropped": status.dropped_count,
        "removed_logs": status.log_count,
        "freed_size": status.freed_size,
        "dead_size": status.dead_size,
        "gave_up": status.gave_up,
        "compaction": compaction or "",
        "compacted_logs": status.compacted_log_count,
        "compacted_size": status.compacted_size,
        "compaction_gave_up": status.compaction_gave_up,
        "seconds": round(monotonic_s() - start_s, 3),
    }
    print_object(shown if output == "json" else readable(shown), output)
