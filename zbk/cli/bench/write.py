"""``zbk bench write``: the cost of appends, and their share of what the machine allows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.bench.histogram import print_histogram
from zbk.cli.bench.live import live_line
from zbk.cli.bench.options import load_of, load_options, refuse_if, zookeeper_option
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import BOOKIE_COUNT, bench_client, bench_folder, run_floor, warm
from zbk.cli.command import command
from zbk.cli.options import cluster_options, integer_option, output_option
from zbk.cli.output import Format, print_object, print_rows
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.bench.load import WriteLoad
    from zbk.bench.samples import Sample
    from zbk.bench.write_load import WriteResult

COLLECTING: Final[dict[str, int | str]] = {
    "gc_interval_ms": 3_000,
    "gc_confirm_delay_ms": 500,
    "entry_log_size_max": 128 * 1024 * 1024,
}
"""Options of bookies that soon free the space of deleted ledgers."""


@command(
    "write",
    ("zbk bench write", "a million entries of 100 bytes, fsynced"),
    ("zbk bench write --rate 50000 --batch 50 --seconds 30s", "latency at a rate"),
    ("zbk bench write --api sync --processes 16 --count 2000", "lone appends of many clients"),
    ("zbk bench write --against-floor", "and the share of what the machine can do"),
)
@load_options
@integer_option(
    "--processes",
    "process_count",
    high=256,
    default=1,
    help_text="Client processes that write at the same time, each with its own --ledgers.",
)
@click.option(
    "--samples",
    "is_sampled",
    is_flag=True,
    help="Print the figures of each second before the result; in JSON as they come.",
)
@click.option(
    "--against-floor",
    is_flag=True,
    help="Also run the floor with the same batches, and print the ratio.",
)
@integer_option(
    "--rounds",
    high=100,
    default=1,
    help_text="Number of runs, zbk and floor in turn; the median ratio counts.",
)
@zookeeper_option
@cluster_options
@output_option
@click.pass_context
def write(
    context: click.Context,
    /,
    against_floor: bool,
    rounds: int,
    output: Format,
    **options: Any,  # noqa: ANN401 - of the load, of its place and of the output
) -> None:
    """Measure append throughput, latency and CPU cost.

    Without --metadata (or ZBK_METADATA) each round runs on a new temporary cluster of three
    bookies, or of as many as the --ensemble needs.
    """
    _check(context)
    load = load_of(context)
    results: list[WriteResult] = []
    ratios: list[float] = []
    for _ in range(rounds):
        with bench_folder() as folder:
            result = _measured(context.obj, folder, load, options, output, is_warm=against_floor)
        results.append(result)
        process_count = options["process_count"]
        extra = {"process_count": process_count} if process_count > 1 else {}
        print_result(result, output, extra)
        if against_floor:  # after the files of zbk's cluster are gone
            with bench_folder() as folder:
                warm(folder, load)
                floor = run_floor(folder, load, round(result.entries_per_wire_batch))
            ratios.append(result.entries_per_s / floor.entries_per_s)
            print_object(
                {"measured": "floor"} | fields_of(floor) | {"ratio_to_floor": ratios[-1]}, output
            )
    if rounds > 1:
        print_object(_medians(results, ratios), output)


def print_result(result: "WriteResult", output: Format, extra: dict[str, Any]) -> None:
    """Print the figures of a load and ``extra`` fields; as a table, also its histogram."""
    fields = {"measured": "zbk"} | fields_of(result) | extra
    if result.neighbor_latency is None:
        del fields["neighbor_type"], fields["neighbor_latency"], fields["has_own_neighbor_client"]
    buckets = fields["histogram"] if output == "json" else fields.pop("histogram")
    print_object(fields, output)
    if output == "table":
        print_histogram(buckets)


def _medians(results: "Sequence[WriteResult]", ratios: Sequence[float]) -> dict[str, float]:
    """Return the medians of the rounds, the lower one of two."""
    from statistics import median_low

    found = {
        "entries_per_s_median": median_low(one.entries_per_s for one in results),
        "latency_p50_ms_median": median_low(one.latency.p50_ms for one in results),
        "latency_p99_ms_median": median_low(one.latency.p99_ms for one in results),
    }
    return found | ({"ratio_to_floor_median": median_low(ratios)} if ratios else {})


def _check(context: click.Context) -> None:
    """Refuse options that contradict each other.

    Raises:
        click.UsageError: some do.
    """
    options = context.params
    if options["against_floor"]:
        refuse_if(
            context,
            (
                options["rate"] or options["seconds_ms"],
                "--against-floor compares a --count of entries, as fast as possible",
            ),
            (options["outstanding"], "--against-floor compares batches: omit --outstanding"),
        )
    if options["process_count"] > 1:
        refuse_if(
            context,
            (options["is_sampled"], "--samples reports one client: omit --processes"),
            (options["neighbor_type"], "--neighbor is beside one client: omit --processes"),
            (options["against_floor"], "--against-floor compares one client: omit --processes"),
        )


def _measured(
    session: Session,
    folder: Path,
    load: "WriteLoad",
    options: dict[str, Any],
    output: Format,
    *,
    is_warm: bool,
) -> "WriteResult":
    """Run the load once; print its samples, or show them in a terminal."""
    from zbk.bench.write_load import run_write

    rows: list[dict[str, Any]] = []
    with (
        bench_client(
            session,
            options["metadata"],
            folder,
            use_zookeeper=options["use_zookeeper"],
            bookie_count=max(BOOKIE_COUNT, load.ensemble_size),
            bookie_options=COLLECTING if load.roll_entry_count else None,
        ) as client,
        live_line(is_wanted=not options["is_sampled"]) as show,
    ):
        if is_warm:
            warm(folder, load)
        if options["process_count"] > 1:
            from zbk.bench.processes import run_processes

            return run_processes(client, load, options["process_count"])
        on_sample = _printer(rows, output) if options["is_sampled"] else show
        result = run_write(client, load, on_sample=on_sample)
    if rows:
        print_rows(rows, list(rows[0]), output)
    return result


def _printer(rows: list[dict[str, Any]], output: Format) -> "Callable[[Sample], None]":
    """Return a function that prints a sample, or keeps it for the table of all samples."""

    def take(sample: "Sample") -> None:
        if output == "json":
            print_object({"measured": "sample"} | fields_of(sample), output)
        else:
            rows.append(fields_of(sample))

    return take
