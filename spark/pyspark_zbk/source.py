"""Format ``zbk``: the entrance for Spark.

Spark creates one ``DefaultSource`` per query, in a planning process, asks it for a schema, pickles
it, and asks copies of it for readers and writers, in other processes. The version to read is
determined once, with the schema: two actions on one frame see the same data. The same holds for the
end of a log that is read as a frame.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSource

import zbk
from pyspark_zbk.options import Connection, Options, Use
from pyspark_zbk.plain_errors import told_plainly

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from pyspark_zbk.log_reader import LogFound


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """The version that a frame reads: small and plain, because it goes into every task."""

    connection: Connection
    name: str
    version: int
    load_id: str  # distinguishes it from the same number in a later data set of this name
    schema: bytes


class DefaultSource(DataSource):
    """A data set of zbk to read or write, or a log to read."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zbk"

    @told_plainly
    def schema(self) -> "StructType":
        """Return the schema of the version to read; every column is nullable."""
        from pyspark_zbk.ledgers_view import VIEW_SCHEMA, is_ledgers_view
        from pyspark_zbk.schemas import chosen, spark_schema

        if self._is_of_log:
            # only the options show whether this is a frame or a stream
            is_frame = "endingOffsets" in Options(self.options)
            options = self._options_for(Use.READ_LOG if is_frame else Use.READ_STREAM)
            return chosen(self._log_found.schema, options.columns)
        options = self._options_for(Use.READ)
        stored = spark_schema(self._pinned.schema)
        return chosen(VIEW_SCHEMA if is_ledgers_view(options) else stored, options.columns)

    @told_plainly
    def reader(self, schema: "StructType") -> "DataSourceReader":
        """Return the reader of the version that ``schema`` determined."""
        from pyspark_zbk.ledgers_view import LedgersReader, is_ledgers_view
        from pyspark_zbk.reader import FilteringReader, ZbkReader

        if self._is_of_log:
            from pyspark_zbk.log_options import log_options
            from pyspark_zbk.log_reader import LogReader

            wanted = log_options(self._options_for(Use.READ_LOG), is_stream=False)
            return LogReader(wanted, self._log_found, schema)
        options = self._options_for(Use.READ)
        snapshot = self._snapshot()
        if is_ledgers_view(options):
            return LedgersReader(snapshot, schema)
        wants_filters = options.flag("pushFilters", default=False)
        reader_type = FilteringReader if wants_filters else ZbkReader
        return reader_type(options, self._pinned.connection, snapshot, schema)

    @told_plainly
    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Begin a load and return its writer."""
        from pyspark_zbk.writer import ZbkWriter

        return ZbkWriter(self._options_for(Use.WRITE), schema, overwrite=overwrite)

    @told_plainly
    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a growing log."""
        from pyspark_zbk.log_options import log_options
        from pyspark_zbk.stream_reader import LogStreamReader

        wanted = log_options(self._options_for(Use.READ_STREAM), is_stream=True)
        return LogStreamReader(wanted, self._log_found.connection, schema)

    @told_plainly
    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: "StructType", overwrite: bool
    ) -> "DataSourceStreamWriter":
        """Return the writer of one micro-batch."""
        from pyspark_zbk.stream_writer import ZbkStreamWriter

        return ZbkStreamWriter(self._options_for(Use.WRITE_STREAM), schema, overwrite=overwrite)

    def _options_for(self, use: Use) -> Options:
        options = Options(self.options)
        options.check_use(use)
        return options

    @property
    def _is_of_log(self) -> bool:
        return "log" in Options(self.options)

    @cached_property
    def _log_found(self) -> "LogFound":
        """The log to read, looked up once."""
        from pyspark_zbk.log_options import log_name
        from pyspark_zbk.log_reader import find_log

        options = Options(self.options)
        return find_log(options.connection, log_name(options))

    @cached_property
    def _pinned(self) -> Pinned:
        """The version to read, looked up once; pickled copies keep it."""
        from pyspark_zbk.clients import located, planning_client

        options = self._options_for(Use.READ)
        name = options.data_set
        number = options.number("version", 0) if "version" in options else None
        connection = options.connection
        with planning_client(connection) as client:
            snapshot = zbk.DataSets(client, connection.password()).read(name, number)
            return Pinned(
                connection=located(connection, client),
                name=name,
                version=snapshot.version.version,
                load_id=snapshot.version.load_id,
                schema=snapshot.schema,
            )

    def _snapshot(self) -> zbk.Snapshot:
        """Return the version's ledgers. They may be many, and pickled copies do not keep them."""
        from pyspark_zbk.clients import planning_client

        pinned = self._pinned
        with planning_client(pinned.connection) as client:
            data_sets = zbk.DataSets(client, pinned.connection.password())
            snapshot = data_sets.read(pinned.name, pinned.version)
        if snapshot.version.load_id != pinned.load_id:
            raise zbk.DataSetConflictError(
                pinned.name, "was dropped and made anew since it was loaded: load it again"
            )
        return snapshot
