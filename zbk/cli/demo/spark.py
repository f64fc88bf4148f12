"""``zbk demo spark``: run the story of ``pyspark_zbk.demo`` and show it.

The one place where zbk imports its Spark package, and it does so when the command runs: zbk works
without Spark.
"""

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.demo.folder import demo_folder
from zbk.cli.options import output_option
from zbk.cli.output import Format, note, print_json, rate_text, size_text
from zbk.cli.progress import saying

if TYPE_CHECKING:
    from pyspark_zbk.demo_steps import (
        Compared,
        LeftoverCollected,
        Loaded,
        LookedMeanwhile,
        Step,
        Timed,
    )

Say = Callable[[str], None]

FIRST_COMPARED = "version 1"
FIRST_TIMED = "VD_JOURNAL"
VALUE_LENGTH_MAX = 60


@click.command(
    "demo spark",
    cls=ZbkCommand,
    examples=[
        ("zbk demo spark", "the lines of Python's own library, with their numbers"),
        ("zbk demo spark trips.parquet", "your file: CSV, JSON lines, Parquet or text"),
    ],
)
@click.argument(
    "path",
    metavar="[FILE|DIR]",
    required=False,
    type=click.Path(exists=True, path_type=Path, resolve_path=True),
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "json", "parquet", "text"]),
    help="Of FILE, or of the files in DIR.  [default: as their names tell]",
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
def demo_spark(
    path: Path | None,
    file_format: str | None,
    zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Show what Spark does with zbk: a bulk load of which an attempt fails, and reading it back.

    Starts three bookies and a Spark session, loads FILE or DIR into a data set while one task
    attempt is made to fail, looks at the data set meanwhile and after, and compares what comes back
    with the input. Then it deletes what the failed attempt left, times VD against PD ledgers,
    overwrites the data set and reads its old version. Ends with 0 if all is the same, with 1 if
    not.
    """
    _check_packages()
    from pyspark_zbk import session
    from pyspark_zbk.demo import quiet_session, tell
    from pyspark_zbk.demo_input import Files, LibraryLines
    from pyspark_zbk.inputs import Source
    from pyspark_zbk.job_errors import is_expected, plain
    from zbk.cli.signals import end_like_ctrl_c
    from zbk.cluster.local import LocalCluster
    from zbk.cluster.scratch import scratch_root
    from zbk.errors import ZbkError
    from zbk.system.standard_error import stderr_to

    session.java_home()  # if there is none, it says so now
    source = Files(Source(format=file_format or "").at(str(path))) if path else LibraryLines()
    end_like_ctrl_c()
    with (
        demo_folder("zbk-demo-spark-") as folder,
        scratch_root(metadata) as root,
        saying() as on_progress,
    ):
        cluster = LocalCluster(
            folder / "cluster", use_zookeeper=zookeeper and not root, metadata=root
        )
        marks = folder / "marks"
        marks.mkdir()
        steps = tell(
            source,
            cluster,
            marks,
            lambda: quiet_session(stderr_to(folder / "spark.log")),
            on_progress=on_progress,
        )
        try:
            is_same = show(steps, output)
        except Exception as error:
            if isinstance(error, ZbkError | OSError) or not is_expected(error):
                raise
            text, code = plain(error)
            note(f"zbk: {text}")
            raise click.exceptions.Exit(code) from error
        if not is_same:
            raise click.exceptions.Exit(1)


def show(steps: "Iterable[Step]", output: Format) -> bool:
    """Show the story as it goes; return whether all was as it must be, to its end."""
    import msgspec

    from pyspark_zbk.demo_steps import Dropped, difference_of
    from zbk.system.clock import monotonic_s

    say: Say = click.echo if output == "table" else lambda _: None
    started_s = monotonic_s()
    told: list[Step] = []
    for step in steps:
        told.append(step)
        _say_step(say, step)
    seconds = monotonic_s() - started_s
    is_same = isinstance(told[-1], Dropped) and not any(map(difference_of, told))
    if output == "json":
        print_json(
            {
                "is_same": is_same,
                "seconds": round(seconds, 3),
                "steps": [_json_step(msgspec.to_builtins(step)) for step in told],
            }
        )
    if is_same:
        say(f"\nAll rows read back are what was written, exactly once. {seconds:.1f} s in all.")
        say("Next:  zbk up                            a cluster that stays")
        say("       python spark/jobs/bulk_load.py FILE NAME     in another terminal")
    else:
        note("zbk: what was read back is NOT what was written")
    return is_same


def _check_packages() -> None:
    from zbk.errors import MissingDependencyError

    for name in ("pyspark", "pyarrow", "pyspark_zbk"):
        if importlib.util.find_spec(name) is None:  # looks, and does not import
            raise MissingDependencyError(f"{name} is not installed", "pip install 'zbk[spark]'")


# ------------------------------------------------------------------ for people


def _say_step(say: Say, step: "Step") -> None:
    from pyspark_zbk import demo_steps as story

    match step:
        case story.ClusterStarted():
            say(f"zbk demo spark: {step.bookie_count} bookies on this machine")
            say(f"   READY in {step.seconds:.1f} s; metadata in {step.metadata.partition(':')[0]}")
        case story.SparkStarted():
            say(f"   Spark {step.version}, {step.master}, started in {step.seconds:.1f} s")
        case story.FrameRead():
            say(f"\n1  Input: {step.description}")
            say(f"   {step.row_count:,} rows of {step.schema}, hash {step.hash}")
            say("\n2  Append, every task attempt its own VD ledger; one attempt fails half way")
        case story.LookedMeanwhile():
            _say_looked(say, step)
        case story.Loaded():
            _say_loaded(say, step)
        case story.Compared():
            _say_compared(say, step)
        case story.LeftoverCollected():
            _say_collected(say, step)
        case story.Timed():
            _say_timed(say, step)
        case story.Dropped():
            say(
                f"   version {step.version} dropped, "
                f"the {step.deleted_count} ledgers that it alone had deleted"
            )
        case _:
            assert_never(step)


def _say_looked(say: Say, step: "LookedMeanwhile") -> None:
    for one in step.ledgers:
        say(
            f"   meanwhile: ledger {one.ledger_id}, {one.state}, of partition {one.partition}, "
            f"attempt {one.attempt}"
        )
    say(f"   and yet a reader is told: {step.difference or step.refusal}")


def _say_loaded(say: Say, step: "Loaded") -> None:
    if step.kind == "overwrite":
        say("\n6  Overwrite with a tenth of the rows")
    say(
        f"   version {step.version}: {step.row_count:,} rows in {step.ledger_count} ledgers, "
        f"{size_text(step.size)}, after {step.seconds:.1f} s"
    )
    for one in step.leftover:
        say(
            f"   ledger {one.ledger_id} of partition {one.partition}, attempt {one.attempt}, "
            f"{one.state}, is in no version"
        )
    if step.kind == "append":
        say("\n3  Read back by Spark")


def _say_compared(say: Say, step: "Compared") -> None:
    verdict = f"DIFFERENT: {step.difference}" if step.difference else "the same"
    rate = rate_text(step.row_count / step.seconds) if step.seconds else "-"
    say(f"   {step.what}: {step.row_count:,} rows, {rate}, hash {step.hash}: {verdict}")
    if step.what == FIRST_COMPARED:
        for name, value in step.aggregates.items():
            say(f"      {name} = {shortened(value)}")


def _say_collected(say: Say, step: "LeftoverCollected") -> None:
    say("\n4  Collect what the failed attempt has left")
    ids = ", ".join(str(one.ledger_id) for one in step.leftover)
    what = f"ledger {ids} deleted" if step.leftover else "nothing: it had not written anything yet"
    say(f"   {step.difference or what}")


def _say_timed(say: Say, step: "Timed") -> None:
    if step.ledger_type == FIRST_TIMED:
        say("\n5  The same rows in small entries, into ledgers of each type; the best of two loads")
    rate = rate_text(step.row_count / step.seconds) if step.seconds else "-"
    say(
        f"   {step.ledger_type}: {step.seconds:.1f} s, {rate} rows, {step.entry_count:,} entries, "
        f"{size_text(step.size)}"
    )


def shortened(text: str) -> str:
    """Return a value as it fits into a line."""
    shown = text if text.isprintable() else repr(text)
    return shown if len(shown) <= VALUE_LENGTH_MAX else shown[: VALUE_LENGTH_MAX - 3] + "..."


# ------------------------------------------------------------------ for programs


def _json_step(value: dict[str, Any]) -> dict[str, Any]:
    return {"step": value.pop("type"), **value}
