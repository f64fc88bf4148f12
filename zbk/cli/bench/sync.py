"""``zbk bench sync``: the time to make a VD ledger durable."""

import click

from zbk.cli.bench.options import count_option, entry_size_option, zookeeper_option
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_client, bench_folder
from zbk.cli.command import command
from zbk.cli.options import cluster_options, integer_option, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session


@command("sync", ("zbk bench sync --entries 1000", "sync() after every 1000 entries"))
@entry_size_option
@count_option(500, "Number of syncs.")
@integer_option(
    "--entries", "entries_per_sync", default=100, help_text="Entries appended before each sync."
)
@zookeeper_option
@cluster_options
@output_option
@click.pass_obj
def sync(
    session: Session,
    size: int,
    count: int,
    entries_per_sync: int,
    use_zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Measure the latency of append and sync of a VD ledger."""
    from zbk.bench.sync_load import run_sync

    with (
        bench_folder() as folder,
        bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client,
    ):
        result = run_sync(
            client, entry_size=size, sync_count=count, entries_per_sync=entries_per_sync
        )
    print_object(fields_of(result), output)
