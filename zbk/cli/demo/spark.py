"""``zbk demo spark``: run the story of ``pyspark_zbk.demo`` and show it.

The only module of zbk that imports its Spark package, and only when the command runs: zbk works
without Spark.
"""

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import click

from zbk.cli.command import command
from zbk.cli.demo.narrator import (
    demo_folder,
    demo_options,
    json_fields,
    narrate,
    rate_of,
    verdict_text,
)
from zbk.cli.options import choice_option, output_option
from zbk.cli.output import Format, note, size_text
from zbk.cli.progress import saying

if TYPE_CHECKING:
    from pyspark_zbk.demo_steps import Loaded, Step

FIRST_COMPARED = "version 1"
FIRST_TIMED = "VD_BYPASS_JOURNAL"
VALUE_LENGTH_MAX = 60


@command(
    "demo spark",
    ("zbk demo spark", "the lines of Python's own library, with their numbers"),
    ("zbk demo spark trips.parquet", "your file: CSV, JSON lines, Parquet or text"),
)
@click.argument(
    "path",
    metavar="[FILE|DIR]",
    required=False,
    type=click.Path(exists=True, path_type=Path, resolve_path=True),
)
@choice_option(
    "--format",
    "file_format",
    choices=["csv", "json", "parquet", "text"],
    help_text="Of FILE, or of the files in DIR.  [default: as their names say]",
)
@demo_options
@output_option
def demo_spark(
    path: Path | None,
    file_format: str | None,
    zookeeper: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Show what Spark does with zbk: a bulk load with a failing attempt, and reading it back.

    Starts three bookies and a Spark session, loads FILE or DIR into a data set while one task
    attempt is made to fail, inspects the data set meanwhile and afterwards, and compares the rows
    read back with the input. Then it deletes what the failed attempt left, times VD against PD
    ledgers, overwrites the data set and reads its old version. The exit code is 0 if everything is
    the same, 1 if not.
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

    session.java_home()  # fails now if there is none
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
    """Show the story; return whether everything was as it must be, to its end."""
    from pyspark_zbk.demo_steps import Dropped, difference_of

    def is_same(told: "list[Step]") -> bool:
        return isinstance(told[-1], Dropped) and not any(map(difference_of, told))

    return narrate(
        steps,
        output,
        lines_of=_lines,
        json_of=json_fields,
        is_same=is_same,
        end_lines=_end_lines,
    )


def _check_packages() -> None:
    from zbk.errors import MissingDependencyError

    for name in ("pyspark", "pyarrow", "pyspark_zbk"):
        if importlib.util.find_spec(name) is None:  # does not import it
            raise MissingDependencyError(f"{name} is not installed", "pip install 'zbk[spark]'")


def _lines(  # noqa: C901, PLR0912 - one case for each kind of step
    step: "Step",
) -> Iterator[str]:
    from pyspark_zbk import demo_steps as story

    match step:
        case story.ClusterStarted():
            yield f"zbk demo spark: {step.bookie_count} bookies on this machine"
            store = step.metadata.partition(":")[0]
            yield f"   READY in {step.seconds:.1f} s; metadata in {store}"
        case story.SparkStarted():
            yield f"   Spark {step.version}, {step.master}, started in {step.seconds:.1f} s"
        case story.FrameRead():
            yield f"\n1  Input: {step.description}"
            yield f"   {step.row_count:,} rows of {step.schema}, hash {step.hash}"
            yield "\n2  Append, each task attempt to its own VD ledger; one attempt fails half way"
        case story.LookedMeanwhile():
            for one in step.ledgers:
                place = f"partition {one.partition}, attempt {one.attempt}"
                yield f"   meanwhile: ledger {one.ledger_id}, {one.state}, of {place}"
            yield f"   and yet a reader is told: {step.difference or step.refusal}"
        case story.Loaded():
            yield from _loaded_lines(step)
        case story.Compared():
            rate, verdict = rate_of(step.row_count, step.seconds), verdict_text(step.difference)
            yield f"   {step.what}: {step.row_count:,} rows, {rate}, hash {step.hash}: {verdict}"
            for name, value in step.aggregates.items() if step.what == FIRST_COMPARED else ():
                yield f"      {name} = {shortened(value)}"
        case story.LeftoverCollected():
            ids = ", ".join(str(one.ledger_id) for one in step.leftover)
            deleted = f"ledger {ids} deleted" if ids else "nothing: it had not written anything yet"
            yield "\n4  Collect what the failed attempt has left"
            yield f"   {step.difference or deleted}"
        case story.Timed():
            if step.ledger_type == FIRST_TIMED:
                yield "\n5  The same rows in small entries, into ledgers of each type; best of two"
            rate = rate_of(step.row_count, step.seconds)
            yield (
                f"   {step.ledger_type}: {step.seconds:.1f} s, {rate} rows, "
                f"{step.entry_count:,} entries, {size_text(step.size)}"
            )
        case story.Dropped():
            yield (
                f"   version {step.version} dropped, "
                f"the {step.deleted_count} ledgers that it alone had deleted"
            )
        case _:
            assert_never(step)


def _loaded_lines(step: "Loaded") -> Iterator[str]:
    if step.kind == "overwrite":
        yield "\n6  Overwrite with a tenth of the rows"
    yield (
        f"   version {step.version}: {step.row_count:,} rows in {step.ledger_count} ledgers, "
        f"{size_text(step.size)}, after {step.seconds:.1f} s"
    )
    for one in step.leftover:
        place = f"partition {one.partition}, attempt {one.attempt}"
        yield f"   ledger {one.ledger_id} of {place}, {one.state}, is in no version"
    if step.kind == "append":
        yield "\n3  Read back by Spark"


def _end_lines(_told: "list[Step]", seconds: float) -> Iterator[str]:
    yield f"\nAll rows read back are what was written, exactly once. {seconds:.1f} s in total."
    yield "Next:  zbk up                            a cluster that stays"
    yield "       python spark/jobs/bulk_load.py FILE NAME     in another terminal"


def shortened(text: str) -> str:
    """Return a value, cut to the width of a line."""
    shown = text if text.isprintable() else repr(text)
    return shown if len(shown) <= VALUE_LENGTH_MAX else shown[: VALUE_LENGTH_MAX - 3] + "..."
