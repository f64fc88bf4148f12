"""``zbk demo``: run the story of ``zbk.cluster.demo`` and show it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.demo.folder import demo_folder
from zbk.cli.options import output_option
from zbk.cli.output import Format, note, print_json, rate_text, size_text
from zbk.cli.progress import telling

if TYPE_CHECKING:
    from zbk.cluster.demo import ClusterStarted, LedgerLoaded, LedgerSynced, ReadBack, Step
    from zbk.cluster.demo_failures import (
        BookieReplaced,
        Compared,
        KilledWhileWriting,
        TakenOver,
    )
    from zbk.cluster.demo_repair import RepairStep
    from zbk.protocol.entry.words import LedgerType

Say = Callable[[str], None]

SPARK = "spark"


class DemoCommand(ZbkCommand):
    """``zbk demo``; as ``zbk demo spark`` another story. A file of that name is ``./spark``."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Hand over to the other command where its name is among the arguments."""
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
        ("zbk demo", "half a million lines and more: Python's own library"),
        ("zbk demo access.log --zookeeper", "your file, a real ZooKeeper"),
        ("zbk demo spark", "a bulk load from Spark; see zbk demo spark --help"),
    ],
)
@click.argument(
    "file", metavar="[FILE]", required=False, type=click.Path(exists=True, path_type=Path)
)
@click.option("--zookeeper", is_flag=True, help="Start a real ZooKeeper for the metadata.")
@click.option(
    "--metadata",
    metavar="URI",
    envvar="ZBK_METADATA",
    show_envvar=True,
    help="A ZooKeeper that is there already: none is started. The demo keeps to a node of its own.",
)
@output_option
def demo(file: Path | None, zookeeper: bool, metadata: str | None, output: Format) -> None:
    """Show what zbk does: a story that ends by itself.

    Starts four bookies in a temporary folder, writes FILE into a ledger of each durability level,
    kills a bookie, restarts it, and compares what every bookie holds with the input. Then a bookie
    dies while a ledger is written, a second client takes a ledger over from its writer, and
    autorecovery makes whole what the dead bookie held before another one goes. Ends with 0 if all
    is the same, with 1 if not.
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
    """Show the story as it goes; return whether all that was read back is what was written."""
    from zbk.cluster.demo import ReadBack
    from zbk.cluster.demo_failures import Compared
    from zbk.system.clock import monotonic_s

    say: Say = click.echo if output == "table" else lambda _: None
    started_s = monotonic_s()
    told: list[Step] = []
    _say_title(say, metadata_kind)
    for step in steps:
        told.append(step)
        _say_step(say, step)
    seconds = monotonic_s() - started_s
    read_backs = [step for step in told if isinstance(step, ReadBack | Compared)]
    is_same = bool(read_backs) and not any(step.difference for step in read_backs)
    if output == "json":
        value = {
            "is_same": is_same,
            "seconds": round(seconds, 3),
            "steps": [_json_step(step) for step in told],
        }
        print_json(value)
    if is_same:
        _say_end(say, read_backs, seconds)
    else:
        note("zbk: what was read back is NOT what was written")
    return is_same


# ------------------------------------------------------------------ for people


def _say_title(say: Say, metadata_kind: str) -> None:
    import zbk

    stores = {
        "sqlite": "an SQLite file (--zookeeper: a real ZooKeeper)",
        "zookeeper": "a real ZooKeeper",
    }
    store = stores.get(metadata_kind, metadata_kind)
    say(f"zbk {zbk.__version__} demo: a cluster on this machine")
    say(f"   its metadata in {store}")


def _say_step(say: Say, step: "Step") -> None:
    from zbk.cluster import demo as story

    match step:
        case story.ClusterStarted():
            _say_cluster(say, step)
        case story.InputRead():
            size = size_text(step.payload_size)
            say(f"\n1  Input: {step.description}")
            say(f"   {step.entry_count:,} entries, {size}, hash {step.hash[:16]}")
        case story.LedgerLoaded():
            _say_loaded(say, step)
        case story.LedgerSynced():
            _say_synced(say, step)
        case story.BookieKilled():
            say(f"\n4  Crash: kill -9 of bookie {step.index}")
        case story.BookieRestarted():
            say(
                f"   restarted: its journal replayed, registered again after {step.seconds:.1f} s"
                f" (incarnation {step.incarnation})"
            )
            say("\n5  Read back, each ledger from the replicas of one bookie at a time")
        case story.ReadBack():
            _say_read_back(say, step)
        case _:
            _say_failure_step(say, step)


def _say_failure_step(
    say: Say, step: "KilledWhileWriting | BookieReplaced | TakenOver | Compared | RepairStep"
) -> None:
    from zbk.cluster import demo_failures as story

    match step:
        case story.KilledWhileWriting():
            say(f"\n6  A bookie dies while PD ledger {step.ledger_id} is written to three of four")
            say(
                f"   kill -9 of bookie {step.index} after {step.entry_count:,} acknowledged entries"
            )
        case story.BookieReplaced():
            _say_replaced(say, step)
        case story.TakenOver():
            _say_taken_over(say, step)
        case story.Compared():
            verdict = f"DIFFERENT: {step.difference}" if step.difference else "the same"
            say(f"   read to its end: {step.entry_count:,} entries, {verdict}")
        case _:
            _say_repair_step(say, step)


def _say_repair_step(say: Say, step: "RepairStep") -> None:
    from zbk.cluster import demo_repair as story

    match step:
        case story.LostForGood():
            say(f"\n8  Bookie {step.index} stays dead; autorecovery is started")
            say(f"   {step.ledger_count} ledgers have data there")
        case story.QueueLength():
            say(f"   {step.seconds:5.1f} s  ledgers to make whole: {step.task_count}")
        case story.MadeWhole():
            bookies = " ".join(map(str, step.indexes))
            say(
                f"   all {step.ledger_count} have all of their copies again, on bookies {bookies},"
                f" after {step.seconds:.1f} s"
            )
        case story.SecondLost():
            say(f"\n9  kill -9 of bookie {step.index}, too; both ledgers once more, to their ends")
        case _:
            assert_never(step)


def _say_cluster(say: Say, step: "ClusterStarted") -> None:
    for bookie in step.bookies:
        say(f"   bookie {bookie.index}  {bookie.address}  process {bookie.pid}")
    say(f"   READY in {step.seconds:.1f} s")


def _say_loaded(say: Say, step: "LedgerLoaded") -> None:
    from zbk.bench.percentiles import percentiles

    loaded = step.loaded
    times = percentiles(loaded.latencies_s)
    number = 2 if _is_pd(step.ledger_type) else 3
    promise = "when 2 of 3 bookies" + (
        " have fsynced it" if _is_pd(step.ledger_type) else " have it in memory"
    )
    say(f"\n{number}  {step.ledger_type} ledger {step.ledger_id}: acknowledged {promise}")
    say(
        f"   {loaded.entry_count:,} entries in {loaded.seconds:.1f} s: "
        f"{rate_text(loaded.entries_per_s)}, {loaded.mb_per_s:.1f} MB/s"
    )
    batches = "1 batch" if times.count == 1 else f"{times.count:,} batches"
    say(
        f"   {batches}, acknowledged after ms: p50 {times.p50_ms:.1f}, p95 {times.p95_ms:.1f}, "
        f"p99 {times.p99_ms:.1f}, max {times.max_ms:.1f}"
    )
    if _is_pd(step.ledger_type):
        say(f"   last add pushed {step.lap:,}, confirmed {step.lac:,}: all of it is durable")


def _say_synced(say: Say, step: "LedgerSynced") -> None:
    open_count = step.lap - step.lac_before
    say(f"   before sync(): last add pushed {step.lap:,}, confirmed {step.lac_before:,}:")
    say(f"      {open_count:,} entries could be lost with the power")
    say(f"   after sync():  last add pushed {step.lap:,}, confirmed {step.lac_after:,}:")
    say(f"      all durable, {step.seconds * 1000:.0f} ms later")


def _say_read_back(say: Say, step: "ReadBack") -> None:
    verdict = f"DIFFERENT: {step.difference}" if step.difference else "the same"
    rate = rate_text(step.entry_count / step.seconds) if step.seconds else "-"
    where = "any bookie" if step.index is None else f"bookie {step.index}"
    say(
        f"   {step.ledger_type} ledger {step.ledger_id}, {where}: "
        f"{step.entry_count:,} entries, {rate}, {verdict}"
    )


def _say_replaced(say: Say, step: "BookieReplaced") -> None:
    say(f"   another bookie took its place after {step.seconds * 1000:.0f} ms; the writer went on:")
    for fragment in step.fragments:
        bookies = " ".join(map(str, fragment.indexes))
        say(
            f"   entries {fragment.first_entry_id:,} to {fragment.last_entry_id:,} "
            f"are on bookies {bookies}"
        )


def _say_taken_over(say: Say, step: "TakenOver") -> None:
    say(f"\n7  A second client takes PD ledger {step.ledger_id} over while it is written")
    say(f"   fenced, recovered and closed after {step.seconds * 1000:.0f} ms")
    say(f"   its first writer got:\n      {step.refusal}")
    say(
        f"   {step.acknowledged_count:,} entries were acknowledged to it, "
        f"{step.entry_count:,} are in the ledger"
    )


def _say_end(say: Say, read_backs: "list[ReadBack | Compared]", seconds: float) -> None:
    count = sum(step.entry_count for step in read_backs)
    say(f"\nAll {count:,} entries read back are what was written. {seconds:.1f} s in all.")
    say("Next:  zbk up                      a cluster that stays")
    say("       zbk ledger append FILE      in another terminal; then:")
    say("       zbk ledger cat ID --lines")


def _is_pd(ledger_type: "LedgerType") -> bool:
    return ledger_type == "PD_JOURNAL"


# ------------------------------------------------------------------ for programs


def _json_step(step: "Step") -> dict[str, Any]:
    import msgspec

    from zbk.bench.percentiles import percentiles
    from zbk.cluster.demo import LedgerLoaded

    value: dict[str, Any] = msgspec.to_builtins(step, enc_hook=str)
    value["step"] = value.pop("type")
    if isinstance(step, LedgerLoaded):
        loaded = value.pop("loaded")
        del loaded["latencies_s"]
        value |= loaded | {
            "entries_per_s": round(step.loaded.entries_per_s),
            "mb_per_s": round(step.loaded.mb_per_s, 3),
            "batch_latency": msgspec.to_builtins(percentiles(step.loaded.latencies_s)),
        }
    return value
