"""``zbk bookie gc``: has a bookie drop what was deleted, and compact entry logs, now."""

from typing import Literal

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.options import duration_option, metadata_option, output_option
from zbk.cli.output import Format, print_object, readable
from zbk.cli.session import Session
from zbk.system.clock import monotonic_s


@click.command(
    "gc",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie gc ID", "after many ledgers were deleted"),
        ("zbk bookie gc ID --major", "and have the space of entry logs back that are partly dead"),
        ("zbk bookie gc ID -o json", "what it did, for machines"),
    ],
)
@click.argument("bookie_id", metavar="ID")
@click.option(
    "--minor",
    "compaction",
    flag_value="minor",
    help="Compact entry logs that are nearly dead, too.",
)
@click.option(
    "--major",
    "compaction",
    flag_value="major",
    help="Compact all entry logs that it pays for, too.",
)
@duration_option("--timeout", "timeout_ms", default="10min", help_text="Time to wait for the end.")
@metadata_option
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
    """Ask a bookie to drop what was deleted.

    The bookie runs; the command waits for the end of a round, and tells what it did. Ledgers that
    were deleted are dropped, and entry logs that hold nothing else are removed. A ledger goes when
    the metadata store has said twice, some seconds apart, that there is no such ledger. The entry
    log that is being written stays, and so do logs that also hold ledgers that live: dead_size is
    what deleted ledgers take up in them. Compaction copies what lives in such logs to a new one and
    removes them; `zbk bookie show` tells what it would win. It keeps to the bookie's rate, and may
    take as long as a disk is large: when the command gives up waiting, the bookie goes on.
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
