"""``zbk bookie unsynced``: the ledgers of which a loss of power takes most now."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zbk.cli.admin_options import bookie_token_option
from zbk.cli.command import command
from zbk.cli.options import choice_option, cluster_options, integer_option, output_option
from zbk.cli.output import Format, note, print_rows, readable
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.actors.serve.unsynced_ledgers import Order

TIMEOUT_S: Final = 5.0
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
@bookie_token_option
@cluster_options
@output_option
@click.pass_obj
def unsynced(
    session: Session,
    order: "Order",
    limit: int,
    bookie_token_file: Path | None,
    metadata: str | None,
    output: Format,
) -> None:
    """List the ledgers with the most un-synced entries.

    These are entries of VD ledgers that are acknowledged and not on stable storage, at the bookie
    that has most of them: a loss of power takes them there. The list makes nothing durable; `zbk
    ledger sync` does. Bookies report through their admin APIs, so one without --http reports none,
    nor does one that requires another token.
    """
    import msgspec

    from zbk.admin.access import read_token
    from zbk.errors import UnavailableError
    from zbk.health.cluster_survey import http_url
    from zbk.health.unsynced_ledgers import unsynced_in_cluster

    with session.open_client(metadata) as client:
        urls = {one.bookie_id: http_url(one) for one in client.list_bookies()}
    token = read_token(bookie_token_file) if bookie_token_file else ""
    found = unsynced_in_cluster(urls, order, limit, token, TIMEOUT_S)
    for bookie_id, why in sorted(found.silent.items()):
        note(f"zbk: bookie {bookie_id} reports none: {why}")
    if urls and len(found.silent) == len(urls):
        raise UnavailableError("no bookie reports its un-synced ledgers to this machine")
    rows = [
        msgspec.structs.asdict(one) | {"bookies": found.holders[one.ledger_id]}
        for one in found.ledgers
    ]
    print_rows(rows if output == "json" else map(readable, rows), COLUMNS, output)
