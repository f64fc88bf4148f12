"""Compare a data set of zbk with its source, or two of its versions: rows, in any order.

    python spark/jobs/verify.py events --source events.csv
    python spark/jobs/verify.py events --version 7 --against 6

Both sides are read once and hashed row by row; the sums of the hashes must be equal. If they
differ, the rows of only one side are counted, a few are shown, and the exit code is 1.
"""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from pyspark_zbk.fingerprint import difference, fingerprint
from pyspark_zbk.inputs import Source
from pyspark_zbk.job import EXIT_DIFFERENT, Job, job_options, main, note, source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@click.command("verify")
@click.argument("data_set", metavar="DATASET")
@click.option("--version", metavar="N", type=click.IntRange(1), help="[default: the last one]")
@click.option("--source", "path", metavar="INPUT", help="Files to compare it with.")
@click.option("--against", metavar="N", type=click.IntRange(1), help="A version to compare with.")
@source_options
@click.option(
    "--examples",
    "example_count",
    metavar="N",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Number of rows to show that only one side has.",
)
@job_options
def verify(
    job: Job,
    data_set: str,
    version: int | None,
    path: str | None,
    against: int | None,
    source: Source,
    example_count: int,
) -> None:
    """Compare the data set DATASET with --source files, or with --against another version."""
    if (path is None) == (against is None):
        raise click.UsageError("give --source or --against: what to compare with")
    if path is not None:
        source = source.at(path, is_here=job.is_local)
    with job.data_sets() as data_sets:
        number = data_sets.read(data_set, version).version.version
    started_s = time.monotonic()
    with job.spark(f"zbk verify {data_set}") as spark:
        left_name = f"{data_set} version {number}"
        right_name = path if path is not None else f"{data_set} version {against}"
        note(f"comparing data set {left_name} with {right_name}")
        left = _version(spark, job, data_set, number)
        right = source.frame(spark) if path else _version(spark, job, data_set, against)
        found = _compared(left, right, example_count)
    job.tell(
        {
            "job": "verify",
            "data_set": data_set,
            "version": number,
            "compared_with": right_name,
            **found,
            "seconds": round(time.monotonic() - started_s, 3),
        }
    )
    if not found["is_same"]:
        note(f"verify: data set {left_name} and {right_name} are NOT the same")
        sys.exit(EXIT_DIFFERENT)


def _version(spark: "SparkSession", job: Job, data_set: str, version: int | None) -> "DataFrame":
    options = job.zbk_options | {"version": str(version)}
    return spark.read.format("zbk").options(**options).load(data_set)


def _compared(left: "DataFrame", right: "DataFrame", example_count: int) -> dict[str, Any]:
    left_columns, right_columns = _columns(left), _columns(right)
    if left_columns != right_columns:
        return {
            "is_same": False,
            "columns": sorted(left_columns - right_columns),
            "other_columns": sorted(right_columns - left_columns),
        }
    ours, theirs = fingerprint(left), fingerprint(right)
    found: dict[str, Any] = {
        "is_same": ours == theirs,
        "row_count": ours.row_count,
        "other_row_count": theirs.row_count,
        "hash": ours.hash,
        "other_hash": theirs.hash,
    }
    if ours != theirs:
        rows = difference(left, right, example_count)
        found |= {
            "only_in_data_set_count": rows.only_left_count,
            "only_in_other_count": rows.only_right_count,
            "only_in_data_set": rows.only_left,
            "only_in_other": rows.only_right,
        }
    return found


def _columns(frame: "DataFrame") -> set[str]:
    """Return names and types, in any order."""
    return {f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields}


if __name__ == "__main__":
    main(verify)
