"""A driver of its own process that runs a stream, and may not live to see the end of it.

python -m tests.support.spark_stream_driver METADATA LOG DATA_SET CHECKPOINT SINK ENTRIES
"""

import sys
from pathlib import Path

from pyspark_zbk import session
from tests.support import spark_streams
from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS


def main() -> None:
    """Bring what is in LOG into DATA_SET, ENTRIES a micro-batch."""
    metadata, log, data_set, checkpoint, sink, entry_count = sys.argv[1:]
    options = {"spark.driver.extraJavaOptions": QUICK_JAVA, **QUICK_SETTINGS}
    with session.start("driver", master="local[2]", settings=options, log_level="OFF") as spark:
        for one in spark_streams.SINKS:
            spark.dataSource.register(one)
        frame = spark_streams.rows_of_log(spark, metadata, log, maxEntriesPerTrigger=entry_count)
        spark_streams.run(frame, metadata, data_set, Path(checkpoint), sink=sink)


if __name__ == "__main__":
    main()
