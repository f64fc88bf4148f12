"""``zbk demo``: run the story of ``zbk.cluster.demo`` and show it."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.demo.narrator import (
    demo_folder,
    demo_options,
    json_fields,
    narrate,
    rate_of,
    verdict_text,
)
from zbk.cli.options import LEDGER_TYPES, output_option
from zbk.cli.output import Format, rate_text, size_text
from zbk.cli.progress import telling

if TYPE_CHECKING:
    from zbk.cluster.demo import LedgerLoaded, Step
    from zbk.cluster.demo_failures import TakenOver

SPARK = "spark"


class DemoCommand(ZbkCommand):
    """``zbk demo``; ``zbk demo spark`` is another story. A file of that name is ``./spark``."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Hand over to the other command if its name is among the arguments."""
        if SPARK not in args:
            return super().make_context(info_name, args, parent, **extra)
        from zbk.cli.demo.spark import demo_spark

        place = args.index(SPARK)
        others = args[:place] + args[place + 1 :]
        return demo_spark.make_context(f"{info_name} {SPARK}", others, parent, **extra)


@click.command(
    "demo",
    cls=DemoCommand,
    examples=[
        ("zbk demo", "more than half a million lines: Python's own library"),
        ("zbk demo access.log --zookeeper", "your file, a real ZooKeeper"),
        ("zbk demo spark", "a bulk load from Spark; see zbk demo spark --help"),
    ],
)
@click.argument(
    "file", metavar="[FILE]", required=False, type=click.Path(exists=True, path_type=Path)
)
@demo_options
@output_option
def demo(file: Path | None, zookeeper: bool, metadata: str | None, output: Format) -> None:
    """Show what zbk does: a story that ends by itself.

    Starts four bookies in a temporary folder, writes FILE into a ledger of each durability level,
    kills a bookie, restarts it, and compares what every bookie holds with the input. Then a bookie
    dies while two ledgers are written, a second client takes a ledger over from its writer, and
    autorecovery copies what the dead bookie held before another bookie is killed. The exit code is
    0 if everything is the same, 1 if not.
    """
    from zbk.cli.signals import end_like_ctrl_c
    from zbk.client.api import connect
    from zbk.cluster.demo import BOOKIE_COUNT, tell
    from zbk.cluster.demo_input import FileInput, StandardLibraryInput
    from zbk.cluster.local import LocalCluster
    from zbk.cluster.scratch import scratch_root

    source = FileInput(file) if file else StandardLibraryInput()
    end_like_ctrl_c()
    with (
        demo_folder("zbk-demo-") as folder,
        scratch_root(metadata) as root,
        telling(unit="") as on_progress,
    ):
        cluster = LocalCluster(
            folder / "cluster",
            bookie_count=BOOKIE_COUNT,
            use_zookeeper=zookeeper and not root,
            metadata=root,
        )
        steps = tell(source, cluster, connect, on_progress=on_progress)
        if not show(steps, cluster.metadata_kind, output):
            raise click.exceptions.Exit(1)


def show(steps: "Iterable[Step]", metadata_kind: str, output: Format) -> bool:
    """Show the story; return whether everything that was read back is what was written."""
    return narrate(
        steps,
        output,
        lines_of=partial(_lines, metadata_kind),
        json_of=_json_step,
        is_same=_is_same,
        end_lines=_end_lines,
    )


def _is_same(told: "list[Step]") -> bool:
    compared = _comparisons(told)
    return bool(compared) and not any(difference for _count, difference in compared)


def _comparisons(told: "list[Step]") -> list[tuple[int, str]]:
    """Return the number of entries, and the difference found, of each comparison."""
    from zbk.cluster.demo import ReadBack
    from zbk.cluster.demo_failures import Compared

    return [
        (step.entry_count, step.difference)
        for step in told
        if isinstance(step, ReadBack | Compared)
    ]


# ------------------------------------------------------------------ for people


def _lines(  # noqa: C901, PLR0912, PLR0915 - one case for each kind of step
    metadata_kind: str, step: "Step"
) -> Iterator[str]:
    import zbk
    from zbk.cluster import demo as story
    from zbk.cluster import demo_failures as failures
    from zbk.cluster import demo_repair as repair

    match step:
        case story.ClusterStarted():
            stores = {
                "sqlite": "an SQLite file (--zookeeper: a real ZooKeeper)",
                "zookeeper": "a real ZooKeeper",
            }
            yield f"zbk {zbk.__version__} demo: a cluster on this machine"
            yield f"   its metadata in {stores.get(metadata_kind, metadata_kind)}"
            for bookie in step.bookies:
                yield f"   bookie {bookie.index}  {bookie.address}  process {bookie.pid}"
            yield f"   READY in {step.seconds:.1f} s"
        case story.InputRead():
            yield f"\n1  Input: {step.description}"
            size = size_text(step.payload_size)
            yield f"   {step.entry_count:,} entries, {size}, hash {step.hash[:16]}"
        case story.LedgerLoaded():
            yield from _loaded_lines(step)
        case story.LedgerSynced():
            open_count = step.lap - step.lac_before
            yield f"   before sync(): last add pushed {step.lap:,}, confirmed {step.lac_before:,}:"
            yield f"      {open_count:,} entries could be lost with the power"
            yield f"   after sync():  last add pushed {step.lap:,}, confirmed {step.lac_after:,}:"
            yield f"      all durable, {step.seconds * 1000:.0f} ms later"
        case story.BookieKilled():
            yield f"\n5  Crash: kill -9 of bookie {step.index}"
        case story.BookieRestarted():
            yield (
                f"   restarted: its journal replayed, registered again after {step.seconds:.1f} s"
                f" (incarnation {step.incarnation})"
            )
            yield "\n6  Read back, each ledger from the replicas of one bookie at a time"
        case story.ReadBack():
            where = "any bookie" if step.index is None else f"bookie {step.index}"
            rate = rate_of(step.entry_count, step.seconds)
            yield (
                f"   {step.ledger_type} ledger {step.ledger_id}, {where}: "
                f"{step.entry_count:,} entries, {rate}, {verdict_text(step.difference)}"
            )
        case failures.KilledWhileWriting():
            ledgers = f"{step.ledger_id} (PD) and {step.volatile_ledger_id} (VD)"
            yield f"\n7  A bookie dies while ledgers {ledgers} are written"
            counts = f"{step.entry_count:,} and {step.volatile_entry_count:,}"
            yield f"   kill -9 of bookie {step.index} after {counts} acknowledged entries"
        case failures.BookieReplaced():
            after = f"{step.seconds * 1000:.0f} ms"
            name = f"{step.ledger_type} ledger {step.ledger_id}"
            yield f"   {name}: another bookie took its place after {after}"
            for fragment in step.fragments:
                entries = f"entries {fragment.first_entry_id:,} to {fragment.last_entry_id:,}"
                yield f"   {entries} are on bookies {' '.join(map(str, fragment.indexes))}"
        case failures.TakenOver():
            yield from _taken_over_lines(step)
        case failures.Compared():
            verdict = verdict_text(step.difference)
            yield f"   read to its end: {step.entry_count:,} entries, {verdict}"
        case repair.LostForGood():
            yield f"\n9  Bookie {step.index} stays dead; autorecovery is started"
            yield f"   {step.ledger_count} ledgers have data there"
        case repair.QueueLength():
            yield f"   {step.seconds:5.1f} s  ledgers to repair: {step.task_count}"
        case repair.MadeWhole():
            bookies = " ".join(map(str, step.indexes))
            yield (
                f"   all {step.ledger_count} have all of their copies again, on bookies {bookies},"
                f" after {step.seconds:.1f} s"
            )
        case repair.SecondLost():
            yield f"\n10  kill -9 of bookie {step.index}, too; all ledgers once more, to their ends"
        case _:
            assert_never(step)


def _loaded_lines(step: "LedgerLoaded") -> Iterator[str]:
    from zbk.bench.percentiles import percentiles

    loaded = step.loaded
    times = percentiles(loaded.latencies_s)
    is_pd = step.ledger_type == "PD_JOURNAL"
    promise = "have fsynced it" if is_pd else "have it in memory"
    if step.ledger_type == "VD_BYPASS_JOURNAL":
        promise += ", written once"
    ledger = f"{step.ledger_type} ledger {step.ledger_id}"
    number = 2 + list(LEDGER_TYPES.values()).index(step.ledger_type)
    yield f"\n{number}  {ledger}: acknowledged when 2 of 3 bookies {promise}"
    yield (
        f"   {loaded.entry_count:,} entries in {loaded.seconds:.1f} s: "
        f"{rate_text(loaded.entries_per_s)}, {loaded.mb_per_s:.1f} MB/s"
    )
    batches = "1 batch" if times.count == 1 else f"{times.count:,} batches"
    yield (
        f"   {batches}, acknowledged after ms: p50 {times.p50_ms:.1f}, p95 {times.p95_ms:.1f}, "
        f"p99 {times.p99_ms:.1f}, max {times.max_ms:.1f}"
    )
    if is_pd:
        yield f"   last add pushed {step.lap:,}, confirmed {step.lac:,}: all of it is durable"


def _taken_over_lines(step: "TakenOver") -> Iterator[str]:
    yield f"\n8  A second client takes PD ledger {step.ledger_id} over while it is written"
    yield f"   fenced, recovered and closed after {step.seconds * 1000:.0f} ms"
    yield f"   its first writer got:\n      {step.refusal}"
    yield (
        f"   {step.acknowledged_count:,} entries were acknowledged to it, "
        f"{step.entry_count:,} are in the ledger"
    )


def _end_lines(told: "list[Step]", seconds: float) -> Iterator[str]:
    count = sum(count for count, _difference in _comparisons(told))
    yield f"\nAll {count:,} entries read back are what was written. {seconds:.1f} s in total."
    yield "Next:  zbk up                      a cluster that stays"
    yield "       zbk ledger append FILE      in another terminal; then:"
    yield "       zbk ledger cat ID --lines"


# ------------------------------------------------------------------ for programs


def _json_step(step: "Step") -> dict[str, Any]:
    import msgspec

    from zbk.bench.percentiles import percentiles
    from zbk.cluster.demo import LedgerLoaded

    value = json_fields(step)
    if isinstance(step, LedgerLoaded):
        loaded = value.pop("loaded")
        latencies = percentiles(loaded.pop("latencies_s"))
        value |= loaded | {
            "entries_per_s": round(step.loaded.entries_per_s),
            "mb_per_s": round(step.loaded.mb_per_s, 3),
            "batch_latency": msgspec.to_builtins(latencies),
        }
    return value
