"""Commands of the experiments; options and exit codes are as those of ``zbk bench``."""

import click

from benchmarks.experiments.recovery import RecoveryLoad, run_recovery
from benchmarks.experiments.repair import RepairLoad, run_repair
from benchmarks.experiments.restart import RestartLoad, run_restart
from zbk.cli.bench.options import count_option, duration_option, zookeeper_option
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_folder
from zbk.cli.command import ZbkCommand
from zbk.cli.options import output_option, parse_size_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.progress import saying, telling

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
    examples=[
        (
            "python -m benchmarks.experiments recovery",
            "a million entries, and a thousand adds unanswered",
        )
    ],
)
@numbered_size_option
@count_option(1_000_000, "Entries that are acknowledged before the writer dies.")
@click.option(
    "--outstanding",
    "outstanding_count",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Adds that are unanswered when it dies.",
)
@zookeeper_option
@output_option
def recovery(
    size: int, count: int, outstanding_count: int, use_zookeeper: bool, output: Format
) -> None:
    """Kill a writer during its adds and measure the time to recover its ledger.

    Runs in a temporary cluster. Every acknowledged entry is read back afterwards; a missing one is
    an error.
    """
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
    examples=[("python -m benchmarks.experiments restart --journal 100MiB", "with less to replay")],
)
@click.option(
    "--journal",
    "journal_size",
    metavar="SIZE",
    default="500MiB",
    show_default=True,
    callback=parse_size_option,
    help="Bytes of journal after the last checkpoint of the killed bookie.",
)
@numbered_size_option
@zookeeper_option
@output_option
def restart(journal_size: int, size: int, use_zookeeper: bool, output: Format) -> None:
    """Kill a bookie and measure the time until its next start serves reads.

    Runs in a temporary cluster of one bookie whose checkpoints are delayed. The time runs from the
    start of the new process until a client has the last entry that the old one acknowledged.
    """
    load = RestartLoad(entry_size=size, journal_size_min=journal_size)
    note("starting a temporary cluster of one bookie")
    with bench_folder() as folder, saying() as on_progress:
        result = run_restart(folder, load, use_zookeeper=use_zookeeper, on_progress=on_progress)
    print_object({"measured": "restart"} | fields_of(result), output)


@click.command(
    "repair",
    cls=ZbkCommand,
    examples=[
        ("python -m benchmarks.experiments repair", "2 GiB in 200 ledgers, without a limit"),
        (
            "python -m benchmarks.experiments repair --writer 10s --rate 16MiB",
            "and the cost to a writer",
        ),
    ],
)
@click.option(
    "--held",
    "held_size",
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    callback=parse_size_option,
    help="Approximate payload that the killed bookie holds.",
)
@click.option(
    "--ledgers",
    "ledger_count",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Approximate number of ledgers.",
)
@click.option(
    "--size",
    "entry_size",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Bytes of payload in an entry.",
)
@click.option(
    "--bookies",
    "bookie_count",
    type=click.IntRange(min=3),
    default=3,
    show_default=True,
    help="Bookies before one is killed.",
)
@click.option(
    "--rate",
    "rate_size",
    metavar="SIZE",
    callback=parse_size_option,
    help="Limit on the bytes copied in a second.  [default: no limit]",
)
@duration_option(
    "--writer",
    "writer_ms",
    "Run a writer for this time before the repair, and during it, and compare its rates.",
)
@output_option
def repair(
    held_size: int,
    ledger_count: int,
    entry_size: int,
    bookie_count: int,
    rate_size: int | None,
    writer_ms: int,
    output: Format,
) -> None:
    """Kill a bookie and measure how fast autorecovery repairs its ledgers.

    Runs in a temporary cluster, with ledgers of two copies. Every repaired copy is read back and
    its digest verified.
    """
    load = RepairLoad(
        held_size=held_size,
        ledger_count=ledger_count,
        entry_size=entry_size,
        bookie_count=bookie_count,
        writer_seconds=writer_ms / 1000,
    )
    note(f"starting a temporary cluster of {bookie_count} bookies")
    with bench_folder() as folder, telling("done") as on_progress:
        result = run_repair(
            folder,
            load,
            options={"replication_rate_size": rate_size or 0, "brake_hold_ms": 500},
            on_progress=on_progress,
        )
    print_object(fields_of(result), output)
