"""A driver of its own process that loads a frame, and may not live to see the end of it.

python -m tests.support.spark_driver METADATA NAME FORMAT MODE ROWS TTL
"""

import sys

from pyspark_zbk import session
from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS
from tests.support.spark_sources import SOURCES


def main() -> None:
    """Load ROWS rows."""
    metadata, name, source, mode, row_count, ttl = sys.argv[1:]
    options = {"spark.driver.extraJavaOptions": QUICK_JAVA, **QUICK_SETTINGS}
    with session.start("driver", master="local[2]", settings=options, log_level="OFF") as spark:
        for one in SOURCES:
            spark.dataSource.register(one)
        frame = spark.range(0, int(row_count), 1, 2)
        writer = frame.write.format(source).mode(mode).option("metadata", metadata)
        writer.option("loadTtl", ttl).save(name)


if __name__ == "__main__":
    main()
