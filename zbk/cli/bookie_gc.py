"""``zbk bookie gc``: has a bookie drop what was deleted, now."""

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.options import metadata_option, output_option, parse_duration_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session
from zbk.system.clock import monotonic_s


@click.command(
    "gc",
    cls=ZbkCommand,
    examples=[
        ("zbk bookie gc ID", "after many ledgers were deleted"),
        ("zbk bookie gc ID -o json", "what it did, for machines"),
    ],
)
@click.argument("bookie_id", metavar="ID")
@click.option(
    "--timeout",
    "timeout_ms",
    metavar="DURATION",
    default="10min",
    show_default=True,
    callback=parse_duration_option,
    help="How long to wait for the end.",
)
@metadata_option
@output_option
@click.pass_obj
def gc(
    session: Session, bookie_id: str, timeout_ms: int, metadata: str | None, output: Format
) -> None:
    """Have a bookie drop what was deleted.

    The bookie runs; the command waits for the end of a round, and tells what it did. Ledgers that
    were deleted are dropped, and entry logs that hold nothing else are removed. A ledger goes when
    the metadata store has said twice, some seconds apart, that there is no such ledger. The entry
    log that is being written stays, and so do logs that also hold ledgers that live: dead_size is
    what deleted ledgers take up in them.
    """
    start_s = monotonic_s()
    with session.open_client(metadata) as client:
        status = client.collect_garbage(bookie_id, timeout=timeout_ms / 1000)
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
        "seconds": round(monotonic_s() - start_s, 3),
    }
    print_object(shown, output)
