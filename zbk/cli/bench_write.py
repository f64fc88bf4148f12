"""``zbk bench write``, ``sync`` and ``floor``: what adds cost, beside what the machine gives."""

import click

from zbk.cli.bench_options import (
    count_option,
    shape_options,
    size_option,
    type_option,
    zookeeper_option,
)
from zbk.cli.bench_output import fields_of, flattened
from zbk.cli.bench_place import bench_client, bench_folder, run_floor, warm
from zbk.cli.command import ZbkCommand
from zbk.cli.options import LEDGER_TYPES, metadata_option, output_option
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session


@click.command(
    "write",
    cls=ZbkCommand,
    examples=[
        ("zbk bench write", "a million entries of 100 bytes, fsynced"),
        ("zbk bench write --type vd --size 1024 --count 300000", "volatile, 1 KiB"),
        ("zbk bench write --api sync --count 2000", "one append after another"),
        ("zbk bench write --against-floor", "and the share of what the machine can do"),
    ],
)
@size_option
@count_option(1_000_000)
@type_option
@click.option(
    "--api",
    type=click.Choice(["many", "async", "sync"]),
    default="many",
    show_default=True,
    help="append_many, append_async with a future an entry, or append.",
)
@shape_options
@click.option(
    "--against-floor",
    is_flag=True,
    help="Then run the floor with the same batches, and print the ratio.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=100),
    default=1,
    show_default=True,
    help="Run as often, zbk and floor in turn; the median ratio counts.",
)
@zookeeper_option
@metadata_option
@output_option
@click.pass_obj
def write(  # noqa: PLR0917 - click passes all of them by name
    session: Session,
    size: int,
    count: int,
    ledger_type: str,
    api: str,
    batch_count: int,
    window: int,
    against_floor: bool,
    rounds: int,
    use_zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Write one ledger and tell rates, latencies and costs.

    Without --metadata (or ZBK_METADATA) a temporary cluster of three bookies is started for it,
    a new one for each round.
    """
    from zbk.bench.load import Api, WriteLoad, run_write
    from zbk.protocol.words import LedgerType

    is_lone = api == "sync"  # one entry in one call at a time, and so in the floor
    load = WriteLoad(
        entry_size=size,
        entry_count=count,
        ledger_type=LedgerType(LEDGER_TYPES[ledger_type]),
        api=Api(api),
        batch_count=1 if is_lone else batch_count,
        window=1 if is_lone else window,
    )
    ratios = []
    for _ in range(rounds):
        with (
            bench_folder() as folder,
            bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client,
        ):
            if against_floor:
                warm(folder, load)
            result = run_write(client, load)
        print_object({"measured": "zbk"} | fields_of(result), output)
        if against_floor:  # on a machine as zbk found it: its cluster's files are gone
            with bench_folder() as folder:
                warm(folder, load)
                floor = run_floor(folder, load, round(result.entries_per_wire_batch))
            ratios.append(result.entries_per_s / floor.entries_per_s)
            print_object(
                {"measured": "floor"} | fields_of(floor) | {"ratio_to_floor": ratios[-1]}, output
            )
    if len(ratios) > 1:
        print_object({"ratio_to_floor_median": sorted(ratios)[len(ratios) // 2]}, output)


@click.command(
    "sync",
    cls=ZbkCommand,
    examples=[("zbk bench sync --entries 1000", "sync() after every 1000 entries")],
)
@size_option
@count_option(500, "How many times to sync.")
@click.option(
    "--entries",
    "entries_per_sync",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Entries appended before each sync.",
)
@zookeeper_option
@metadata_option
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
    """Append to a VD ledger and sync, in turn, and tell the latencies."""
    from zbk.bench.load import run_sync

    with (
        bench_folder() as folder,
        bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client,
    ):
        result = run_sync(
            client, entry_size=size, sync_count=count, entries_per_sync=entries_per_sync
        )
    print_object(fields_of(result), output)


@click.command(
    "floor",
    cls=ZbkCommand,
    examples=[("zbk bench floor --type vd", "three bare processes, two files each, no fsync")],
)
@size_option
@count_option(1_000_000)
@type_option
@shape_options
@click.option("--fsync-probe", is_flag=True, help="Also measure one fsync after another.")
@output_option
def floor(
    size: int,
    count: int,
    ledger_type: str,
    batch_count: int,
    window: int,
    fsync_probe: bool,
    output: Format,
) -> None:
    """Run the floor: the same batches to three bare processes, no protocol at all."""
    from zbk.bench.fsync import run_fsync
    from zbk.bench.load import WriteLoad
    from zbk.protocol.words import LedgerType

    load = WriteLoad(
        entry_size=size,
        entry_count=count,
        ledger_type=LedgerType(LEDGER_TYPES[ledger_type]),
        batch_count=batch_count,
        window=window,
    )
    with bench_folder() as folder:
        print_object(
            {"measured": "floor"} | fields_of(run_floor(folder, load, batch_count)), output
        )
        if fsync_probe:
            probe = run_fsync(str(folder), size=4096, count=2000)
            print_object(flattened("fsync_4_kib", fields_of(probe)), output)
