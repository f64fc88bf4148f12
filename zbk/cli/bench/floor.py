"""``zbk bench floor``: the machine's speed with the same batches and no protocol at all."""

from typing import Final

import click

from zbk.cli.bench.options import count_option, entry_size_option, shape_options
from zbk.cli.bench.output import fields_of, flattened
from zbk.cli.bench.place import bench_folder, run_floor
from zbk.cli.command import command
from zbk.cli.options import LEDGER_TYPES, choice_option, output_option, type_option
from zbk.cli.output import Format, print_object

PROBE_SIZE: Final = 4096
PROBE_COUNT: Final = 1000


@command(
    "floor",
    ("zbk bench floor --type vd", "three bare processes, two files each, no fsync"),
    ("zbk bench floor --api sync --count 2000 --fsync-probe", "one lone entry after another"),
)
@entry_size_option
@count_option(1_000_000)
@type_option
@choice_option(
    "--api",
    choices=["many", "sync"],
    default="many",
    help_text="Batches like those of append_many, or one entry at a time, as append does.",
)
@shape_options
@click.option(
    "--fsync-probe",
    is_flag=True,
    help="Also measure single fsyncs: of 4 KiB, and of one stored entry.",
)
@output_option
def floor(
    size: int,
    count: int,
    ledger_type: str,
    api: str,
    batch_count: int,
    window: int,
    fsync_probe: bool,
    output: Format,
) -> None:
    """Measure the floor: the same batches sent to three bare processes."""
    from zbk.bench.load import WriteLoad
    from zbk.protocol.entry.words import LedgerType

    is_lone = api == "sync"
    load = WriteLoad(
        entry_size=size,
        entry_count=count,
        ledger_type=LedgerType(LEDGER_TYPES[ledger_type]),
        batch_count=1 if is_lone else batch_count,
        window=1 if is_lone else window,
    )
    with bench_folder() as folder:
        result = run_floor(folder, load, load.batch_count)
        print_object({"measured": "floor"} | fields_of(result), output)
        if fsync_probe:
            print_object({"measured": "fsync"} | _probed(str(folder), size), output)


def _probed(folder: str, size: int) -> dict[str, object]:
    from zbk.bench.fsync import run_fsync
    from zbk.protocol.entry.entry import entry_size
    from zbk.protocol.entry.words import DigestType

    stored_size = entry_size(size, DigestType.XXH3)
    block = run_fsync(folder, size=PROBE_SIZE, count=PROBE_COUNT)
    entry = run_fsync(folder, size=stored_size, count=PROBE_COUNT)
    return flattened("fsync_4_kib", fields_of(block)) | flattened("fsync_entry", fields_of(entry))
