"""``zbk bookie compaction``: suspend compaction at a running bookie, or resume it."""

from typing import TYPE_CHECKING

import click

from zbk.cli.command import command
from zbk.cli.options import bookie_id_argument, cluster_options, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session
from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from zbk.client.operations.garbage_collection import KindName


@command(
    "compaction",
    ("zbk bookie compaction ID", "show what is suspended"),
    ("zbk bookie compaction ID suspend", "while the disks are needed for something else"),
    ("zbk bookie compaction ID resume --minor", "minor compaction only"),
)
@bookie_id_argument
@click.argument(
    "change", metavar="[suspend|resume]", type=click.Choice(["suspend", "resume", ""]), default=""
)
@click.option("--minor", "kind", flag_value="minor", help="Minor compaction only.")
@click.option("--major", "kind", flag_value="major", help="Major compaction only.")
@cluster_options
@output_option
@click.pass_obj
def compaction(
    session: Session,
    bookie_id: str,
    change: str,
    kind: "KindName | None",
    metadata: str | None,
    output: Format,
) -> None:
    """Suspend compaction at a running bookie, or resume it.

    A suspended kind does not begin, due or requested; one that runs ends after the entry log under
    way. Garbage collection goes on, and removes entry logs that are dead as a whole. A restart of
    the bookie resumes both kinds.
    """
    if kind and not change:
        raise InvalidOptionError(kind, "", "say whether to suspend it or to resume it")
    kinds: list[KindName] = [kind] if kind else ["minor", "major"]
    with session.open_client(metadata) as client:
        suspended = client.switch_compaction(
            bookie_id,
            suspend=kinds if change == "suspend" else (),
            resume=kinds if change == "resume" else (),
        )
    shown = {one: "suspended" if one in suspended else "on" for one in ("minor", "major")}
    print_object({"bookie_id": bookie_id, **shown}, output)
