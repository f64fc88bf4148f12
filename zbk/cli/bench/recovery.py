"""``zbk bench recovery`` and ``restart``: how long it takes until what died is made up for."""

import click

from zbk.cli.bench.options import count_option, zookeeper_option
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_folder
from zbk.cli.command import ZbkCommand
from zbk.cli.options import output_option, parse_size_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.progress import saying

numbered_size_option = click.option(
    "--size",
    type=click.IntRange(min=8),
    default=100,
    show_default=True,
    help="Bytes of payload in an entry; the first 8 are its id.",
)


@click.command(
    "recovery",
    cls=ZbkCommand,
    examples=[("zbk bench recovery", "a million entries, and a thousand adds unanswered")],
)
@numbered_size_option
@count_option(1_000_000, "How many entries are acknowledged before the writer dies.")
@click.option(
    "--outstanding",
    "outstanding_count",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="How many adds are unanswered when it dies.",
)
@zookeeper_option
@output_option
def recovery(
    size: int, count: int, outstanding_count: int, use_zookeeper: bool, output: Format
) -> None:
    """Kill a writer in the middle of its adds and tell how long it takes to recover its ledger.

    In a temporary cluster. Every acknowledged entry is read back afterwards: one that is missing is
    an error.
    """
    from zbk.bench.recovery import RecoveryLoad, run_recovery

    load = RecoveryLoad(
        entry_size=size, acknowledged_count=count, outstanding_count=outstanding_count
    )
    note("starting a temporary cluster of three bookies")
    with bench_folder() as folder, saying() as on_progress:
        result = run_recovery(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "recovery"} | fields_of(result), output)


@click.command(
    "restart",
    cls=ZbkCommand,
    examples=[("zbk bench restart --journal 100MiB", "less to replay")],
)
@click.option(
    "--journal",
    "journal_size",
    metavar="SIZE",
    default="500MiB",
    show_default=True,
    callback=parse_size_option,
    help="Bytes of journal behind the last checkpoint of the bookie that is killed.",
)
@numbered_size_option
@zookeeper_option
@output_option
def restart(journal_size: int, size: int, use_zookeeper: bool, output: Format) -> None:
    """Kill a bookie and tell how long its next start takes until it serves reads.

    In a temporary cluster of one bookie, whose checkpoints are put off. The time runs from the
    start of the new process until a client has the last entry that the old one acknowledged.
    """
    from zbk.bench.restart import RestartLoad, run_restart

    load = RestartLoad(entry_size=size, journal_size_min=journal_size)
    note("starting a temporary cluster of one bookie")
    with bench_folder() as folder, saying() as on_progress:
        result = run_restart(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "restart"} | fields_of(result), output)
