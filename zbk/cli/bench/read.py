"""``zbk bench read`` and ``tail``: the cost of reads, and the delay of a reader that follows."""

from typing import TYPE_CHECKING

import click

from zbk.cli.bench.options import count_option, entry_size_option, zookeeper_option
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_client, bench_folder
from zbk.cli.command import command
from zbk.cli.options import (
    LEDGER_TYPES,
    cluster_options,
    integer_option,
    output_option,
    type_option,
)
from zbk.cli.output import Format, note, print_object
from zbk.cli.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from zbk.bench.load import WriteLoad
    from zbk.bench.read_load import ReadResult


@command(
    "read",
    ("zbk bench read", "an entry at a time"),
    ("zbk bench read --batches", "reader.read_batches"),
    ("zbk bench read --cold", "from disk"),
)
@entry_size_option
@count_option(1_000_000)
@click.option("--batches", "is_in_batches", is_flag=True, help="Read in batches.")
@click.option(
    "--cold",
    "is_cold",
    is_flag=True,
    help="Restart the temporary cluster's bookies and drop their files from memory first.",
)
@integer_option("--ledger", "ledger_id", low=0, help_text="Read this closed ledger.")
@zookeeper_option
@cluster_options
@output_option
@click.pass_obj
def read(  # noqa: PLR0917 - click passes all of them by name
    session: Session,
    size: int,
    count: int,
    is_in_batches: bool,
    is_cold: bool,
    ledger_id: int | None,
    use_zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Measure read throughput and CPU cost.

    Without --metadata (or ZBK_METADATA) it runs on a temporary cluster of three bookies.
    """
    from zbk.bench.load import WriteLoad
    from zbk.bench.read_load import run_read
    from zbk.bench.write_load import run_write

    load = WriteLoad(entry_size=size, entry_count=count)
    with bench_folder() as folder:
        if is_cold:
            if metadata is not None or ledger_id is not None:
                raise click.UsageError(
                    "--cold excludes --metadata (or ZBK_METADATA) and --ledger: it restarts the "
                    "bookies of its own cluster."
                )
            result = _read_cold(
                session, folder, load, is_in_batches=is_in_batches, use_zookeeper=use_zookeeper
            )
        else:
            with bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client:
                if ledger_id is None:
                    ledger_id = run_write(client, load).ledger_id
                result = run_read(client, ledger_id, size, is_in_batches=is_in_batches)
    print_object({"measured": "read"} | fields_of(result) | {"is_cold": is_cold}, output)


def _read_cold(
    session: Session,
    folder: "Path",
    load: "WriteLoad",
    *,
    is_in_batches: bool,
    use_zookeeper: bool,
) -> "ReadResult":
    """Write a ledger to a cluster, make the cluster cold, and read with a new client."""
    from zbk.bench.cold import make_cold
    from zbk.bench.read_load import run_read
    from zbk.bench.write_load import run_write
    from zbk.cluster.local import LocalCluster

    note("starting a temporary cluster of three bookies")
    with LocalCluster(folder / "cluster", use_zookeeper=use_zookeeper) as cluster:
        with session.open_client(cluster.metadata_uri) as client:
            ledger_id = run_write(client, load).ledger_id
        note("restarting the bookies")
        make_cold(cluster)
        with session.open_client(cluster.metadata_uri) as client:
            return run_read(client, ledger_id, load.entry_size, is_in_batches=is_in_batches)


@command(
    "tail",
    ("zbk bench tail --rate 5000", "five thousand entries a second"),
    ("zbk bench tail --ledgers 1000 --rate 5000", "to a thousand ledgers in turn"),
)
@entry_size_option
@count_option(10_000)
@integer_option(
    "--rate", high=1_000_000, default=1_000, help_text="Entries appended in a second, in total."
)
@integer_option(
    "--ledgers",
    "ledger_count",
    high=10_000,
    default=1,
    help_text="Ledgers that are written in turn, and followed in one thread.",
)
@type_option
@zookeeper_option
@cluster_options
@output_option
@click.pass_obj
def tail(  # noqa: PLR0917 - a parameter for each option
    session: Session,
    size: int,
    count: int,
    rate: int,
    ledger_count: int,
    ledger_type: str,
    use_zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Measure the delay of a tail reader at a given rate.

    The reader is another client in another process. Latency runs from the moment at which the
    writer knows that its LAC covers an entry (pd: the answer to the append; vd: to a sync) until
    the reader has it; an entry that the reader had before counts as 0.
    """
    from zbk.bench.tail import TailLoad, run_tail
    from zbk.protocol.entry.words import LedgerType

    load = TailLoad(
        entry_size=size,
        entry_count=count,
        rate=rate,
        ledger_count=ledger_count,
        ledger_type=LedgerType(LEDGER_TYPES[ledger_type]),
    )
    with (
        bench_folder() as folder,
        bench_client(session, metadata, folder, use_zookeeper=use_zookeeper) as client,
    ):
        result = run_tail(client, load)
    print_object({"measured": "tail"} | fields_of(result), output)
