"""``zbk bench read``: what reads cost."""

import click

from zbk.cli.bench_options import count_option, size_option, zookeeper_option
from zbk.cli.bench_output import fields_of
from zbk.cli.bench_place import bench_client, bench_folder
from zbk.cli.command import ZbkCommand
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session


@click.command(
    "read",
    cls=ZbkCommand,
    examples=[
        ("zbk bench read", "an entry at a time"),
        ("zbk bench read --batches", "reader.read_batches"),
    ],
)
@size_option
@count_option(1_000_000)
@click.option("--batches", "is_in_batches", is_flag=True, help="Read in batches.")
@click.option("--ledger", "ledger_id", type=click.IntRange(min=0), help="Read this closed ledger.")
@zookeeper_option
@metadata_option
@output_option
@click.pass_obj
def read(
    session: Session,
    size: int,
    count: int,
    is_in_batches: bool,
    ledger_id: int | None,
    use_zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Write a ledger, read it from end to end, and tell rates and costs of the reading."""
    from zbk.bench.load import WriteLoad, run_read, run_write

    with (
        bench_folder() as folder,
        bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client,
    ):
        if ledger_id is None:
            load = WriteLoad(entry_size=size, entry_count=count)
            ledger_id = run_write(client, load).ledger_id
        result = run_read(client, ledger_id, size, is_in_batches=is_in_batches)
    print_object(fields_of(result), output)
