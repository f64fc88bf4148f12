"""``zbk bench repair``: how fast what a dead bookie held is whole again."""

import click

from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_folder
from zbk.cli.command import ZbkCommand
from zbk.cli.options import output_option, parse_duration_option, parse_size_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.progress import telling


@click.command(
    "repair",
    cls=ZbkCommand,
    examples=[
        ("zbk bench repair", "2 GiB in 200 ledgers, as fast as it goes"),
        ("zbk bench repair --writer 10s --rate 16MiB", "what a writer feels of it"),
    ],
)
@click.option(
    "--held",
    "held_size",
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    callback=parse_size_option,
    help="Payload that the bookie holds which is killed, about.",
)
@click.option(
    "--ledgers",
    "ledger_count",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="In how many ledgers, about.",
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
    help="How many bookies there are before one is killed.",
)
@click.option(
    "--rate",
    "rate_size",
    metavar="SIZE",
    callback=parse_size_option,
    help="Copy no more than so many bytes a second.  [default: no limit]",
)
@click.option(
    "--writer",
    "writer_ms",
    metavar="DURATION",
    callback=lambda ctx, parameter, value: (
        0 if value is None else parse_duration_option(ctx, parameter, value)
    ),
    help="Run a writer for so long before, and during the repair, and compare its rates.",
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
    """Kill a bookie and tell how fast autorecovery makes its ledgers whole again.

    In a temporary cluster, with ledgers of two copies. Every repaired copy is read back and its
    digest verified.
    """
    from zbk.bench.repair import RepairLoad, run_repair

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
