"""``zbk bookie readonly``: the manual read-only switch of a bookie."""

import click

from zbk.cli.command import command
from zbk.cli.options import bookie_id_argument, metadata_option, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.store import cluster_store


@command(
    "readonly",
    ("zbk bookie readonly ID on", "before its entries are copied to others"),
    ("zbk bookie readonly ID off", "it takes new entries again"),
    ("zbk bookie readonly ID", "show the switch"),
)
@bookie_id_argument
@click.argument("state", metavar="[on|off]", type=click.Choice(["on", "off", ""]), default="")
@metadata_option
@output_option
def readonly(bookie_id: str, state: str, metadata: str | None, output: Format) -> None:
    """Switch a bookie to read-only, or back.

    A read-only bookie takes no new entries and no copies, and serves what it has, so a bookie that
    was drained does not fill again. The switch is in the metadata: a restart keeps it, and free
    space on the disks does not end it. The bookie need not run. `zbk bookie ls` shows the state of
    running bookies, which also follows from full disks.
    """
    from zbk.metadata.records.bookies import BookieRegistry

    with cluster_store(metadata) as store:
        registry = BookieRegistry(store)
        if state:
            registry.switch_readonly(bookie_id, is_readonly=state == "on")
        switched = registry.is_switched_readonly(bookie_id)
    print_object({"bookie_id": bookie_id, "readonly_switch": "on" if switched else "off"}, output)
