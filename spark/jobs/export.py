"""Write a version of a data set of zbk as Parquet files.

python spark/jobs/export.py events /data/events
spark-submit spark/jobs/export.py events s3a://bucket/events --version 7 --mode overwrite
"""

import time

import click

from pyspark_zbk.job import Job, job_options, main, note


@click.command("export")
@click.argument("data_set", metavar="DATASET")
@click.argument("path", metavar="OUTPUT")
@click.option("--version", metavar="N", type=click.IntRange(1), help="[default: the last one]")
@click.option("--columns", metavar="A,B", default="", help="[default: all of them]")
@click.option(
    "--mode",
    type=click.Choice(["error", "overwrite", "append"]),
    default="error",
    show_default=True,
    help="Action if OUTPUT exists.",
)
@click.option("--partitions", metavar="N", type=click.IntRange(1), help="Files to write.")
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "gzip", "none"]),
    default="snappy",
    show_default=True,
)
@job_options
def export(
    job: Job,
    data_set: str,
    path: str,
    version: int | None,
    columns: str,
    mode: str,
    partitions: int | None,
    compression: str,
) -> None:
    """Write the data set DATASET as Parquet files to the folder OUTPUT."""
    with job.data_sets() as data_sets:
        snapshot = data_sets.read(data_set, version)
    number = snapshot.version.version
    options = job.zbk_options | {"version": str(number)}
    if columns:
        options["columns"] = columns
    with job.spark(f"zbk export {data_set}") as spark:
        note(f"writing data set {data_set}, version {number}, to {path}")
        frame = spark.read.format("zbk").options(**options).load(data_set)
        if partitions is not None:
            frame = frame.repartition(partitions)
        started_s = time.monotonic()
        frame.write.option("compression", compression).mode(mode).parquet(path)
        seconds = time.monotonic() - started_s
    job.tell(
        {
            "job": "export",
            "data_set": data_set,
            "version": number,
            "output": path,
            "row_count": snapshot.version.row_count,
            "size": snapshot.version.size,
            "seconds": round(seconds, 3),
        }
    )


if __name__ == "__main__":
    main(export)
