"""Streams of logs as Spark reads them, without Spark: a query, its cluster, and a log."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql.streaming.datasource import ReadLimit

import zbk
from pyspark_zbk.log_options import Offset, log_options
from pyspark_zbk.log_reader import LogReader, find_log
from pyspark_zbk.log_rows import LOG_SCHEMA
from pyspark_zbk.options import Connection, Options
from pyspark_zbk.stream_reader import LogStreamReader
from tests.support.waiting import wait_until


class Stream:
    """One query over a log: does what Spark does, and keeps what Spark keeps."""

    def __init__(self, connection: Connection, name: str, **options: str) -> None:
        given = Options({"log": name, **options})
        self.reader = LogStreamReader(log_options(given, is_stream=True), connection, LOG_SCHEMA)
        self.at: Offset | None = None

    def begin(self) -> Offset:
        """Return where the next micro-batch starts."""
        if self.at is None:
            self.at = self.reader.initialOffset()
        return self.at

    def batch(self, limit: ReadLimit | None = None) -> list[bytes]:
        """Run one micro-batch; none if there is nothing new."""
        start = self.begin()
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        values = self.values(start, end)
        self.at = end
        return values

    def head(self) -> Offset:
        """Return what Spark reports as the end of the log."""
        head = self.reader.reportLatestOffset()
        assert head is not None, "the cluster answers"
        return head

    def values(self, start: Offset, end: Offset) -> list[bytes]:
        """Return the values between two offsets."""
        return [row["value"] for row in self.rows(start, end)]

    def rows(self, start: Offset, end: Offset) -> list[dict[str, Any]]:
        """Return the rows between two offsets."""
        if start == end:
            return []
        parts = self.reader.partitions(start, end)
        return [
            row for part in parts for rows in self.reader.read(part) for row in rows.to_pylist()
        ]

    def until(self, count: int) -> list[bytes]:
        """Run micro-batches until so many values came."""
        values: list[bytes] = []

        def is_enough() -> bool:
            values.extend(self.batch())
            return len(values) >= count

        wait_until(is_enough, what=f"{count} entries")
        return values

    def resumed(self) -> "Stream":
        """Return the same query in another process: it has only what Spark wrote down."""
        self.reader.stop()
        other = object.__new__(Stream)
        other.reader, other.at = self.reader, self.at
        return other


class World:
    """A cluster, a client, and what was opened on the way."""

    def __init__(self, uri: str, client: zbk.Client) -> None:
        self.client = client
        self.connection = Connection(metadata=uri, client_options={})
        self.streams: list[Stream] = []

    def log(self) -> zbk.Log:
        """Open a log of a new name."""
        return self.client.open_log(f"log-{uuid4().hex[:8]}")

    def stream(self, log: zbk.Log, **options: str) -> Stream:
        """Return a stream of a log from its beginning, unless an option says where."""
        options = {"startingOffsets": "earliest", **options}
        self.streams.append(Stream(self.connection, log.name, **options))
        return self.streams[-1]

    def frame(self, name: str, **options: str) -> list[bytes]:
        """Return the values of a log as a frame holds them."""
        wanted = log_options(Options({"log": name, **options}), is_stream=False)
        reader = LogReader(wanted, find_log(self.connection, name), LOG_SCHEMA)
        return [
            row["value"]
            for part in reader.partitions()
            for rows in reader.read(part)
            for row in rows.to_pylist()
        ]


def fill(log: zbk.Log, numbers: Sequence[int], size: int = 0) -> list[bytes]:
    """Append an entry a number; return them."""
    values = [str(number).encode().ljust(size, b".") for number in numbers]
    log.append_many(values).result()
    return values
