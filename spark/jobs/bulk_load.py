r"""Load files into a data set of zbk, all or nothing.

    python spark/jobs/bulk_load.py events.csv events
    spark-submit --master spark://host:7077 spark/jobs/bulk_load.py s3a://b/day=1/ events \
        --format parquet --metadata zk://zk1:2181/zbk --json load.json

Each task writes its own ledger; when all are closed, one compare-and-swap makes them a version of
the data set. Before that, no reader sees any of the rows.
"""

import time
from typing import Any
from uuid import uuid4

import click

import zbk
from pyspark_zbk.inputs import Source
from pyspark_zbk.job import Job, job_options, main, note, source_options
from pyspark_zbk.options import size_of
from pyspark_zbk.session import rows_at_most

_WRITER_OPTIONS = {
    "ledger_type": "ledgerType",
    "ensemble_size": "ensembleSize",
    "write_quorum_size": "writeQuorumSize",
    "ack_quorum_size": "ackQuorumSize",
    "digest_type": "digestType",
    "entry_bytes": "entryBytes",
    "load_ttl": "loadTtl",
}


@click.command("bulk_load")
@click.argument("path", metavar="INPUT")
@click.argument("data_set", metavar="DATASET")
@source_options
@click.option(
    "--mode",
    type=click.Choice(["append", "overwrite"]),
    default="append",
    show_default=True,
    help="overwrite: the new version has only these rows; older versions stay.",
)
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1),
    help="Number of tasks, and ledgers, of the load.",
)
@click.option(
    "--ledger-type",
    type=click.Choice(["VD_BYPASS_JOURNAL", "VD_JOURNAL", "PD_JOURNAL"], case_sensitive=False),
    help="[default: VD_BYPASS_JOURNAL]",
)
@click.option("--ensemble-size", metavar="N", type=click.IntRange(1), help="[default: 3]")
@click.option("--write-quorum-size", metavar="N", type=click.IntRange(1), help="[default: 3]")
@click.option("--ack-quorum-size", metavar="N", type=click.IntRange(1), help="[default: 2]")
@click.option("--digest-type", type=click.Choice(["XXH3", "MAC", "NONE"], case_sensitive=False))
@click.option("--entry-bytes", metavar="SIZE", help="Size at which batches are cut. [default: 1m]")
@click.option(
    "--row-size-max",
    metavar="SIZE",
    help="Largest size of a row, such as 4k: Spark then counts small rows instead of measuring.",
)
@click.option("--load-ttl", metavar="TIME", help="Time limit of the load. [default: 24h]")
@job_options
def bulk_load(
    job: Job,
    path: str,
    data_set: str,
    source: Source,
    mode: str,
    partitions: int | None,
    row_size_max: str | None,
    **writing: Any,  # noqa: ANN401 - by ``_WRITER_OPTIONS``
) -> None:
    """Load INPUT (CSV, JSON lines, Parquet or text) into the data set DATASET, all or nothing.

    INPUT is anything that Spark can read: a file, a folder, a pattern, s3a://... CSV is read with a
    header, and with types inferred from its values; text has one column, value.
    """
    source = source.at(path, is_here=job.is_local)
    options = job.zbk_options | {
        _WRITER_OPTIONS[name]: str(value) for name, value in writing.items() if value is not None
    }
    row_size = None if row_size_max is None else size_of("row-size-max", row_size_max, 1)
    with job.spark(f"zbk bulk_load {data_set}") as spark:
        # its last word identifies the version
        who = f"bulk_load {spark.sparkContext.applicationId} {uuid4().hex}"
        note(f"loading {path} ({source.format}) into data set {data_set}, mode {mode}")
        frame = source.frame(spark)
        if partitions is not None:
            frame = frame.repartition(partitions)
        started_s = time.monotonic()
        with rows_at_most(spark, row_size):
            frame.write.format("zbk").options(**options, who=who).mode(mode).save(data_set)
        seconds = time.monotonic() - started_s
    job.tell(
        {
            "job": "bulk_load",
            "input": path,
            "format": source.format,
            "data_set": data_set,
            "mode": mode,
            **_what_was_loaded(job, data_set, who),
            "seconds": round(seconds, 3),
        }
    )


def _what_was_loaded(job: Job, name: str, who: str) -> dict[str, Any]:
    """Return the version of the load; empty if it cannot be found.

    The rows are visible: an error here would only make a scheduler load them again.
    """
    try:
        with job.data_sets() as data_sets:
            return _version_of(data_sets, name, who)
    except zbk.ZbkError as error:
        note(f"the load is committed, but its version cannot be looked up: {error}")
        return {}


def _version_of(data_sets: zbk.DataSets, name: str, who: str) -> dict[str, Any]:
    """Return the version of the load; empty if it was dropped meanwhile."""
    versions = data_sets.history(name).versions
    ours = next((one for one in versions if one.who == who), None)
    if ours is None:
        return {}
    ledgers = [
        one for one in data_sets.read(name, ours.version).ledgers if one.load_id == ours.load_id
    ]
    return {
        "version": ours.version,
        "load_id": ours.load_id,
        "row_count": sum(one.row_count for one in ledgers),
        "size": sum(one.size for one in ledgers),
        "ledger_count": len(ledgers),
    }


if __name__ == "__main__":
    main(bulk_load)
