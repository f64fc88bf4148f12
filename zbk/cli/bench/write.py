"""``zbk bench write``: what adds cost, beside what the machine gives."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from zbk.cli.bench.histogram import print_histogram
from zbk.cli.bench.live import live_line
from zbk.cli.bench.options import (
    count_option,
    load_options,
    shape_options,
    size_option,
    type_option,
    zookeeper_option,
)
from zbk.cli.bench.output import fields_of
from zbk.cli.bench.place import bench_client, bench_folder, run_floor, warm
from zbk.cli.command import ZbkCommand
from zbk.cli.options import LEDGER_TYPES, metadata_option, output_option
from zbk.cli.output import Format, print_object, print_rows
from zbk.cli.session import Session

if TYPE_CHECKING:
    from zbk.bench.load import WriteLoad
    from zbk.bench.samples import Sample
    from zbk.bench.write_load import WriteResult
    from zbk.protocol.entry.words import LedgerType

BOOKIE_COUNT: Final = 3
SLOW_BOOKIE: Final = 2  # the number of the one whose disk is slow
COLLECTING: Final[dict[str, int | str]] = {
    "gc_interval_ms": 3_000,
    "gc_confirm_delay_ms": 500,
    "entry_log_size_max": 128 * 1024 * 1024,
}
"""Options of bookies that give back soon what deleted ledgers took."""


@click.command(
    "write",
    cls=ZbkCommand,
    examples=[
        ("zbk bench write", "a million entries of 100 bytes, fsynced"),
        ("zbk bench write --rate 50000 --batch 50 --seconds 30s", "latency at a rate"),
        ("zbk bench write --api sync --processes 16 --count 2000", "lone appends of many clients"),
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
@load_options
@click.option(
    "--samples",
    "is_sampled",
    is_flag=True,
    help="Print how it went in each second before the result; in JSON as it goes.",
)
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
@click.pass_context
def write(
    context: click.Context,
    /,
    against_floor: bool,
    rounds: int,
    output: Format,
    **options: Any,  # noqa: ANN401 - of the load, of where it runs, of what is told
) -> None:
    """Measure append throughput, latency and CPU cost.

    Without --metadata (or ZBK_METADATA) a temporary cluster of three bookies is started for it,
    a new one for each round.
    """
    _check(context)
    load = _load(options)
    results: list[WriteResult] = []
    ratios: list[float] = []
    for _ in range(rounds):
        with bench_folder() as folder:
            result = _measured(context.obj, folder, load, options, output, is_warm=against_floor)
        results.append(result)
        _print(result, options, output)
        if against_floor:  # on a machine as zbk found it: its cluster's files are gone
            with bench_folder() as folder:
                warm(folder, load)
                floor = run_floor(folder, load, round(result.entries_per_wire_batch))
            ratios.append(result.entries_per_s / floor.entries_per_s)
            print_object(
                {"measured": "floor"} | fields_of(floor) | {"ratio_to_floor": ratios[-1]}, output
            )
    if rounds > 1:
        print_object(_medians(results, ratios), output)


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
    """Refuse options that say two things at once, or nothing.

    Raises:
        click.UsageError: there are some.
    """

    def is_given(name: str) -> bool:
        return context.get_parameter_source(name) not in {ParameterSource.DEFAULT, None}

    options = context.params
    reason = ""
    if is_given("count") and options["seconds_ms"]:
        reason = "--count says how many entries, --seconds how long: give one of them"
    elif is_given("window") and options["rate"]:
        reason = "--window is for as fast as it goes: at a --rate nothing waits for answers"
    elif options["against_floor"] and (options["rate"] or options["seconds_ms"]):
        reason = "--against-floor compares a --count of entries, as fast as it goes"
    elif options["slow_bookie_ms"] and options["slow_disks_ms"]:
        reason = "--slow-bookie is for one bookie, --slow-disks for all: give one of them"
    reason = reason or _why_not_processes(options)
    if options["outstanding"]:
        has_shape = is_given("window") or is_given("batch_count")
        reason = reason or _why_not_outstanding(options, has_shape=has_shape)
    for name in ("slow_bookie", "slow_disks"):
        if options[f"{name}_ms"] and options["metadata"] is not None:
            option = name.replace("_", "-")
            reason = f"--{option} is for a temporary cluster: leave --metadata (ZBK_METADATA) out"
    if reason:
        raise click.UsageError(reason, context)


def _why_not_processes(options: Mapping[str, Any]) -> str:
    if options["process_count"] == 1:
        return ""
    if options["is_sampled"]:
        return "--samples tells of one client: leave --processes out"
    if options["neighbor_type"]:
        return "--neighbor is in the client that writes: leave --processes out"
    if options["slow_bookie_ms"]:
        return "--slow-bookie watches what one client holds: leave --processes out"
    if options["against_floor"]:
        return "--against-floor compares one client: leave --processes out"
    return ""


def _why_not_outstanding(options: Mapping[str, Any], *, has_shape: bool) -> str:
    if options["api"] != "async":
        return "--outstanding is for --api async"
    if has_shape:
        return "--outstanding says how many appends are unanswered: leave --window and --batch out"
    if options["against_floor"]:
        return "--against-floor compares batches: leave --outstanding out"
    if options["rate"] or options["roll_entry_count"]:
        return "--outstanding appends as answers come, to one ledger: leave --rate and --roll out"
    return ""


def _load(options: dict[str, Any]) -> "WriteLoad":
    from zbk.bench.load import Api, WriteLoad
    from zbk.protocol.entry.words import LedgerType

    is_lone = options["api"] == "sync"  # one entry in one call at a time, and so in the floor
    return WriteLoad(
        entry_size=options["size"],
        entry_count=options["count"],
        seconds=options["seconds_ms"] / 1000,
        ledger_type=LedgerType(LEDGER_TYPES[options["ledger_type"]]),
        api=Api(options["api"]),
        batch_count=1 if is_lone else options["batch_count"],
        window=1 if is_lone else options["window"],
        outstanding=options["outstanding"],
        rate=options["rate"],
        ledger_count=options["ledger_count"],
        idle_ledger_count=options["idle_ledger_count"],
        neighbor_type=_ledger_type(options["neighbor_type"]),
        roll_entry_count=options["roll_entry_count"],
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

    slow_ms = options["slow_bookie_ms"]
    rows: list[dict[str, Any]] = []
    with (
        bench_client(
            session,
            options["metadata"],
            folder,
            use_zookeeper=options["use_zookeeper"],
            bookie_options=COLLECTING if load.roll_entry_count else None,
            bookie_programs=slow_programs(slow_ms, options["slow_disks_ms"]),
        ) as client,
        live_line(is_wanted=not options["is_sampled"]) as show,
    ):
        if is_warm:
            warm(folder, load)
        if options["process_count"] > 1:
            from zbk.bench.processes import run_processes

            return run_processes(client, load, options["process_count"])
        on_sample = _printer(rows, output) if options["is_sampled"] else show
        result = run_write(client, load, on_sample=on_sample, is_backlog_watched=slow_ms > 0)
    if rows:
        print_rows(rows, list(rows[0]), output)
    return result


def _ledger_type(name: str | None) -> "LedgerType | None":
    from zbk.protocol.entry.words import LedgerType

    return None if name is None else LedgerType(LEDGER_TYPES[name])


def slow_programs(slow_bookie_ms: int, slow_disks_ms: int) -> dict[int, Sequence[str]] | None:
    """Return the programs of the bookies whose fsyncs take longer, by number."""
    numbers = [SLOW_BOOKIE] if slow_bookie_ms else range(BOOKIE_COUNT)
    delay_ms = slow_bookie_ms or slow_disks_ms
    program = ("-m", "zbk.cli.bench.slow_bookie", "--sync-delay", f"{delay_ms}ms")
    return dict.fromkeys(numbers, program) if delay_ms else None


def _printer(rows: list[dict[str, Any]], output: Format) -> "Callable[[Sample], None]":
    """Return what prints a sample, or keeps it where a table is made of all of them."""

    def take(sample: "Sample") -> None:
        if output == "json":
            print_object({"measured": "sample"} | fields_of(sample), output)
        else:
            rows.append(fields_of(sample))

    return take


def _print(result: "WriteResult", options: dict[str, Any], output: Format) -> None:
    fields = {"measured": "zbk"} | fields_of(result)
    backlog_size_max = fields.pop("backlog_size_max")
    if options["process_count"] > 1:
        fields["process_count"] = options["process_count"]
    if options["slow_bookie_ms"]:
        fields["slow_bookie_ms"] = options["slow_bookie_ms"]
        fields["slow_bookie_backlog_size_max"] = backlog_size_max
    if options["slow_disks_ms"]:
        fields["slow_disks_ms"] = options["slow_disks_ms"]
    if result.neighbor_latency is None:
        del fields["neighbor_type"], fields["neighbor_latency"]
    if output == "json":
        print_object(fields, output)
        return
    buckets = fields.pop("histogram")
    print_object(fields, output)
    print_histogram(buckets)
