"""``zbk bookie unsynced``: the ledgers of which a loss of power takes most now."""

from typing import TYPE_CHECKING, Final

import click

from zbk.cli.command import command
from zbk.cli.options import choice_option, integer_option, metadata_option, output_option
from zbk.cli.output import Format, note, print_rows, readable
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.actors.serve.unsynced_ledgers import Order

COLUMNS: Final = ["ledger_id", "unsynced_size", "entry_count", "age", "bookies"]


@command(
    "unsynced",
    ("zbk bookie unsynced", "of all bookies, the largest first"),
    ("zbk bookie unsynced --order age --limit 5", "which writers have not synced for longest"),
)
@choice_option(
    "--order", choices=("size", "age"), default="size", help_text="What is largest in the first."
)
@integer_option(
    "--limit", "limit", metavar="N", low=1, high=100, default=20, help_text="Ledgers to list."
)
@metadata_option
@output_option
@click.pass_obj
def unsynced(
    session: Session, order: "Order", limit: int, metadata: str | None, output: Format
) -> None:
    """List the ledgers with the most un-synced entries.

    These are entries of VD ledgers that are acknowledged and not on stable storage, at the bookie
    that has most of them: a loss of power takes them there. The list makes nothing durable; `zbk
    ledger sync` does. Bookies report through their admin APIs, so one beyond loopback, or one
    without --http, reports none.
    """
    import msgspec

    from zbk.errors import UnavailableError
    from zbk.health.cluster_survey import http_url
    from zbk.health.unsynced_ledgers import unsynced_in_cluster

    with session.open_client(metadata) as client:
        urls = {one.bookie_id: http_url(one) for one in client.list_bookies()}
    found = unsynced_in_cluster(urls, order, limit)
    for bookie_id, why in sorted(found.silent.items()):
        note(f"zbk: bookie {bookie_id} reports none: {why}")
    if urls and len(found.silent) == len(urls):
        raise UnavailableError("no bookie reports its un-synced ledgers to this machine")
    rows = [
        msgspec.structs.asdict(one) | {"bookies": found.holders[one.ledger_id]}
        for one in found.ledgers
    ]
    print_rows(rows if output == "json" else map(readable, rows), COLUMNS, output)
