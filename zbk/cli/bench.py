"""``zbk bench``: measure writes, reads and syncs, and the floor that they are compared with."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zbk.cli.command import LazyCommand, LazyGroup, ZbkCommand
from zbk.cli.options import LEDGER_TYPES, metadata_option, output_option
from zbk.cli.output import Format, note, print_object
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.bench.floor import FloorResult
    from zbk.bench.load import WriteLoad, WriteResult
    from zbk.client.api import Client

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_size = click.option(
    "--size",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Bytes of payload in an entry.",
)
_type = click.option(
    "--type",
    "ledger_type",
    type=click.Choice(list(LEDGER_TYPES), case_sensitive=False),
    default="pd",
    show_default=True,
    help="pd waits for fsync, vd for the page cache.",
)


def _count(default: int, what: str = "How many entries.") -> Callable[[FunctionT], FunctionT]:
    return click.option(
        "--count", type=click.IntRange(min=1), default=default, show_default=True, help=what
    )


def _shape_options(command: FunctionT) -> FunctionT:
    for option in (
        click.option(
            "--batch",
            "batch_count",
            type=click.IntRange(min=1, max=65_536),
            default=1_000,
            show_default=True,
            help="Entries in one append_many.",
        ),
        click.option(
            "--window",
            type=click.IntRange(min=1),
            default=64,
            show_default=True,
            help="Calls of append_many that may be unanswered.",
        ),
    ):
        command = option(command)
    return command


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
@_size
@_count(1_000_000)
@_type
@click.option(
    "--api",
    type=click.Choice(["many", "async", "sync"]),
    default="many",
    show_default=True,
    help="append_many, append_async with a future an entry, or append.",
)
@_shape_options
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
        with _folder() as folder, _cluster(session, metadata, folder) as client:
            if against_floor:
                _warm(folder, load)
            result = run_write(client, load)
        print_object(_write_fields(result), output)
        if against_floor:  # on a machine as zbk found it: its cluster's files are gone
            with _folder() as folder:
                _warm(folder, load)
                floor = _run_floor(folder, load, round(result.entries_per_wire_batch))
            ratios.append(result.entries_per_s / floor.entries_per_s)
            print_object(_floor_fields(floor) | {"ratio_to_floor": ratios[-1]}, output)
    if len(ratios) > 1:
        print_object({"ratio_to_floor_median": sorted(ratios)[len(ratios) // 2]}, output)


@click.command(
    "read",
    cls=ZbkCommand,
    examples=[
        ("zbk bench read", "an entry at a time"),
        ("zbk bench read --batches", "reader.read_batches"),
    ],
)
@_size
@_count(1_000_000)
@click.option("--batches", "is_in_batches", is_flag=True, help="Read in batches.")
@click.option("--ledger", "ledger_id", type=click.IntRange(min=0), help="Read this closed ledger.")
@metadata_option
@output_option
@click.pass_obj
def read(
    session: Session,
    size: int,
    count: int,
    is_in_batches: bool,
    ledger_id: int | None,
    metadata: str | None,
    output: Format,
) -> None:
    """Write a ledger, read it from end to end, and tell rates and costs of the reading."""
    from zbk.bench.load import WriteLoad, run_read, run_write

    with _folder() as folder, _cluster(session, metadata, folder) as client:
        if ledger_id is None:
            load = WriteLoad(entry_size=size, entry_count=count)
            ledger_id = run_write(client, load).ledger_id
        result = run_read(client, ledger_id, size, is_in_batches=is_in_batches)
    print_object(_fields(result), output)


@click.command(
    "sync",
    cls=ZbkCommand,
    examples=[("zbk bench sync --entries 1000", "sync() after every 1000 entries")],
)
@_size
@_count(500, "How many times to sync.")
@click.option(
    "--entries",
    "entries_per_sync",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Entries appended before each sync.",
)
@metadata_option
@output_option
@click.pass_obj
def sync(
    session: Session,
    size: int,
    count: int,
    entries_per_sync: int,
    metadata: str | None,
    output: Format,
) -> None:
    """Append to a VD ledger and sync, in turn, and tell the latencies."""
    from zbk.bench.load import run_sync

    with _folder() as folder, _cluster(session, metadata, folder) as client:
        result = run_sync(
            client, entry_size=size, sync_count=count, entries_per_sync=entries_per_sync
        )
    print_object(_fields(result), output)


@click.command(
    "floor",
    cls=ZbkCommand,
    examples=[("zbk bench floor --type vd", "three bare processes, two files each, no fsync")],
)
@_size
@_count(1_000_000)
@_type
@_shape_options
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
    with _folder() as folder:
        print_object(_floor_fields(_run_floor(folder, load, batch_count)), output)
        if fsync_probe:
            probe = run_fsync(str(folder), size=4096, count=2000)
            print_object(_flat("fsync_4_kib", _fields(probe)), output)


@click.group(
    "bench",
    cls=LazyGroup,
    lazy={
        "write": LazyCommand(
            f"{__name__}:write", "Write one ledger and tell rates, latencies and costs."
        ),
        "read": LazyCommand(
            f"{__name__}:read",
            "Write a ledger, read it from end to end, and tell rates and costs of the reading.",
        ),
        "sync": LazyCommand(
            f"{__name__}:sync", "Append to a VD ledger and sync, in turn, and tell the latencies."
        ),
        "floor": LazyCommand(
            f"{__name__}:floor",
            "Run the floor: the same batches to three bare processes, no protocol at all.",
        ),
        "repair": LazyCommand(
            "zbk.cli.bench_repair:repair",
            "Kill a bookie and tell how fast autorecovery makes its ledgers whole again.",
        ),
    },
    examples=[("zbk bench write --size 1024 --against-floor", "1 KiB, and the ratio to the floor")],
)
def bench() -> None:
    """Measure writes, reads, syncs, repairs and the floor."""


# ------------------------------------------------------------------ where


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="zbk-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cluster(session: Session, metadata: str | None, folder: Path) -> "Iterator[Client]":
    """Give a client of the cluster named, or of a temporary one."""
    if metadata is not None:
        with session.open_client(metadata) as client:
            yield client
        return
    from zbk.cluster.local import LocalCluster

    note("starting a temporary cluster of three bookies")
    with (
        LocalCluster(folder / "cluster") as cluster,
        session.open_client(cluster.metadata_uri) as client,
    ):
        yield client


def _warm(folder: Path, load: "WriteLoad") -> None:
    from zbk.bench.warm import warm_page_cache
    from zbk.protocol.entry import entry_size
    from zbk.protocol.words import DigestType

    stored_size = entry_size(load.entry_size, DigestType.XXH3) * load.entry_count
    warm_page_cache(str(folder), 2 * load.write_quorum_size * stored_size)  # journal and entry log


def _run_floor(folder: Path, load: "WriteLoad", batch_entry_count: int) -> "FloorResult":
    from zbk.bench.floor import run
    from zbk.config import ClientConfig
    from zbk.protocol.entry import entry_size
    from zbk.protocol.words import DigestType, LedgerType

    stored_size = entry_size(load.entry_size, DigestType.XXH3)
    in_calls_size = load.window * load.batch_count * stored_size
    return run(
        str(folder),
        entry_size=load.entry_size,
        entry_count=load.entry_count,
        batch_entry_count=max(1, batch_entry_count),
        stored_entry_size=stored_size,
        window_size=min(ClientConfig().window_size, in_calls_size),
        is_synced=load.ledger_type is LedgerType.PD_JOURNAL,
    )


# ------------------------------------------------------------------ what is printed


def _write_fields(result: "WriteResult") -> dict[str, Any]:
    fields = _fields(result)
    return {"measured": "zbk"} | fields


def _floor_fields(result: "FloorResult") -> dict[str, Any]:
    return {"measured": "floor"} | _fields(result)


def _fields(result: object) -> dict[str, Any]:
    """Return the fields of a result, nested ones with their name in front, figures rounded."""
    import msgspec

    flat: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(result).items():
        if isinstance(value, dict):
            prefix = "" if name in ("load", "cost") else name
            flat |= _flat(prefix, value)
        else:
            flat[name] = _rounded(value)
    return flat


def _flat(prefix: str, fields: dict[str, Any]) -> dict[str, Any]:
    start = f"{prefix}_" if prefix else ""
    return {f"{start}{name}": _rounded(value) for name, value in fields.items()}


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
