"""``zbk bookie test``: write a few entries to a running bookie, read and delete them."""

import click

from zbk.cli.command import command
from zbk.cli.options import bookie_id_argument, cluster_options, duration_option, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session
from zbk.system.clock import monotonic_s


@command(
    "test",
    ("zbk bookie test ID", "after a repair of its host"),
    ("zbk bookie test ID -o json", "for programs"),
)
@bookie_id_argument
@duration_option("--timeout", "timeout_ms", default="5s", help_text="Time for all of it.")
@cluster_options
@output_option
@click.pass_obj
def self_test(
    session: Session, bookie_id: str, timeout_ms: int, metadata: str | None, output: Format
) -> None:
    """Write to a running bookie, and read it back.

    It gets a few entries, which are deleted afterwards, in a ledger on this bookie alone, with the
    custom metadata purpose=self-test. The command fails if the bookie is read-only.
    """
    start_s = monotonic_s()
    with session.open_client(metadata) as client:
        client.test_bookie(bookie_id, timeout=timeout_ms / 1000)
    seconds = round(monotonic_s() - start_s, 3)
    print_object({"bookie_id": bookie_id, "passed": True, "seconds": seconds}, output)
