"""A starter for Spark: it has imported what a Python worker of Spark imports, and forks them.

    python -m tests.support.spark_starter FD LISTENER     requests come through these sockets

``tests.support.spark_python`` is the other end.
"""

import signal
import socket
import sys
from typing import Final

from tests.support.warm_starter import run, serve, share_modules

PRELOADED: Final = (
    "encodings.ascii",
    "encodings.idna",
    "pyarrow",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pyspark_zbk",
    "pyspark_zbk.ledgers_view",
    "pyspark_zbk.log_reader",
    "pyspark_zbk.reader",
    "pyspark_zbk.stream_reader",
    "pyspark_zbk.stream_writer",
    "pyspark_zbk.writer",
    "zbk.client.api",
    "zbk.client.log.log",
    "zbk.client.write.open_writers",
    "zbk.metadata.stores.sqlite",
)
"""Not the modules that a worker runs by ``python -m``: these are loaded in each process."""


def main() -> None:
    """Import what is shared, then start workers until the test process closes the socket."""
    first, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    share_modules(PRELOADED)
    request = serve(first, listener)
    if request is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as below the Java of a driver
        run(request.module)


if __name__ == "__main__":
    main()
