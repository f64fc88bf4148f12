"""Writing: one ledger per task attempt, and one compare-and-swap that makes them visible.

    __init__   driver     options, schema and cluster are checked; the load is begun
    write      task       Arrow batches become entries of a VD ledger; synced and closed before the
                          answer: workers are killed without warning
    commit     driver     another process, another copy: the load becomes a version
    abort      driver     likewise; Spark also calls it after a commit that raised: only a load that
                          is not committed is deleted

Only plain values pass between these. A ledger's entry 0 is the schema, each other entry one record
batch, cut at ``entryBytes``. A task without rows creates no ledger.

Source: the seed's motivation, section Close-to-open.
"""

import getpass
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

import zbk
from pyspark_zbk.clients import close_clients, located, planning_client, task_client
from pyspark_zbk.entries import entries_of
from pyspark_zbk.options import LedgerShape, Options
from pyspark_zbk.plain_errors import told_plainly
from pyspark_zbk.schemas import (
    arrow_schema,
    collated_columns,
    conformed,
    spark_schema,
    stored_schema,
)
from pyspark_zbk.stats import ColumnBounds
from zbk.config.units import KIB, MIB

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BATCH_SIZE: Final = 7 * MIB // 2
"""Bytes of one message to a bookie, and of a task in flight: three entries of the default size.

A message costs each bookie, and the client, as much time as some hundreds of kilobytes in it.
"""

GATHER_SIZE: Final = BATCH_SIZE - 32 * KIB
"""Bytes of payloads that the client gets in one call: with the heads of entries, one message."""

UNSYNCED_SIZE: Final = 3 * BATCH_SIZE // 2
"""Bytes that a task keeps until they are durable: while one message is synced, the next is sent."""

ATTEMPT_COUNT_MAX: Final = 5
"""Attempts at a commit or an abort whose answer was lost, or that others overtook, before Spark
gets the error."""

PAUSE_S: Final = 0.2  # before the second attempt; twice as long before each one after it

LOAD_TTL_MS: Final = 24 * 3_600_000


class LedgerWritten(WriterCommitMessage):
    """The message of a task attempt to the driver: its closed ledger, or ``None`` without rows.

    With the application's id, which Spark gives to tasks and not to planners.
    """

    def __init__(self, ledger: zbk.DataLedger | None, application_id: str) -> None:
        self.ledger = ledger
        self.application_id = application_id


class LoadWriter:
    """The common part of loads, for a frame or for a micro-batch."""

    def __init__(self, options: Options, schema: "StructType", *, overwrite: bool) -> None:
        self._stored_schema = stored_schema(schema)
        self._shape = options.shape
        self._entry_size_max = options.entry_size_max
        self._connection = options.connection
        with planning_client(self._connection) as client:
            self._connection = located(self._connection, client)
            data_sets = self.data_sets(client)
            _check(client, data_sets, self._shape)
            self._kind = zbk.LoadKind.OVERWRITE if overwrite else zbk.LoadKind.APPEND
            self._name = options.data_set
            self._given_who = options.text("who")
            self._who = self._given_who or _who()
            self._ttl_ms = options.duration_ms("loadTtl", LOAD_TTL_MS)
            _check_schema(data_sets, self._name, self._stored_schema, self._kind)
            self.prepare(data_sets)

    def prepare(self, data_sets: zbk.DataSets) -> None:
        """Prepare the load before any task starts, after all checks."""

    def committer(self, application_ids: Iterable[str]) -> str:
        """Return the author of the commit: the option, or a text with the application's id."""
        application_id = next(filter(None, application_ids), "")
        return self._given_who or f"{self._who} {application_id}".rstrip()

    def data_sets(self, client: zbk.Client) -> zbk.DataSets:
        """Return the data sets for a client of this process."""
        return zbk.DataSets(client, self._connection.password())

    def fill(
        self, ticket: zbk.LoadTicket, iterator: "Iterator[pa.RecordBatch]"
    ) -> zbk.DataLedger | None:
        """Write all batches of one task attempt into a ledger of a load; ``None``: no rows."""
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return None
        partition, attempt = (
            (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        )
        try:
            return self._fill(ticket, chain([first], batches), partition, attempt)
        except zbk.ZbkError:
            close_clients()
            raise

    def _fill(
        self,
        ticket: zbk.LoadTicket,
        batches: "Iterator[pa.RecordBatch]",
        partition: int,
        attempt: int,
    ) -> zbk.DataLedger:
        client = task_client(
            self._connection,
            pending_size_max=BATCH_SIZE,  # given to the client and not sent
            window_size=BATCH_SIZE,  # not yet answered by an ack quorum
            batch_size_max=BATCH_SIZE,
            backlog_size=BATCH_SIZE,  # not yet answered by the slowest bookie
            unsynced_size_max=UNSYNCED_SIZE,
        )
        ledger = self.data_sets(client).create_ledger(
            ticket, partition=partition, attempt=attempt, **self._shape.keywords()
        )
        try:
            filler = _Filler(ledger, spark_schema(self._stored_schema), self._entry_size_max)
            for batch in batches:
                filler.add(batch)
            filler.wait()
            ledger.sync()
        except BaseException:
            with suppress(zbk.ZbkError):  # no manifest lists a failed attempt
                ledger.close(accept_loss=True)
            raise
        ledger.close()
        return zbk.DataLedger(
            ledger_id=ledger.ledger_id,
            entry_count=filler.entry_count,
            row_count=filler.row_count,
            size=filler.size,
            load_id=ticket.load_id,
            partition=partition,
            attempt=attempt,
            columns=filler.bounds.stats(),
        )

    def _insist(self, call: Callable[[zbk.DataSets], object]) -> None:
        """Repeat an idempotent call until it is answered, and not overtaken by others."""
        for number in range(ATTEMPT_COUNT_MAX):
            try:
                with planning_client(self._connection) as client:
                    call(self.data_sets(client))
            except zbk.ZbkError as error:
                may_repeat = error.is_retriable or isinstance(error, zbk.MetadataConflictError)
                if not may_repeat or number + 1 == ATTEMPT_COUNT_MAX:
                    raise
                threading.Event().wait(PAUSE_S * 2**number)
            else:
                return


class ZbkWriter(LoadWriter, DataSourceArrowWriter):
    """One load of a data set."""

    def prepare(self, data_sets: zbk.DataSets) -> None:
        """Begin the load."""
        self._ticket = data_sets.begin(self._name, self._kind, who=self._who, ttl_ms=self._ttl_ms)

    @told_plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> LedgerWritten:
        """Write all batches of one task attempt into a ledger, sync it, close it."""
        return LedgerWritten(self.fill(self._ticket, iterator), application_id())

    @told_plainly
    def commit(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Make the load visible; repeat a commit with an unknown outcome."""
        written = [one for one in messages if isinstance(one, LedgerWritten)]
        ledgers = [one.ledger for one in written if one.ledger]
        who = self.committer(one.application_id for one in written)
        try:
            self._insist(
                lambda data_sets: data_sets.commit(
                    self._ticket, self._stored_schema, ledgers, who=who
                )
            )
        except zbk.MetadataUnavailableError as error:
            if error.outcome == "failed":
                raise
            raise zbk.MetadataUnavailableError(
                error.address,
                f"{error.reason}. The load may be visible all the same: before it is run again, "
                f"look for load {self._ticket.load_id} in `zbk dataset history {self._name}`",
            ) from error

    @told_plainly
    def abort(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Delete the ledgers of all attempts of the load, unless it was committed."""
        del messages  # it lacks failed attempts
        self._insist(lambda data_sets: data_sets.abort(self._ticket))


class _Filler:
    """Writes record batches into a ledger, with a bounded number of bytes in flight."""

    def __init__(self, ledger: zbk.LedgerWriter, schema: "StructType", entry_size_max: int) -> None:
        self._ledger = ledger
        self._schema = arrow_schema(schema)
        self._entry_size_max = entry_size_max
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self._unanswered: deque[Future[range]] = deque()
        self.bounds = ColumnBounds(self._schema, collated_columns(schema))
        self.entry_count = self.row_count = self.size = 0
        self._append(self._schema.serialize().to_pybytes())

    def add(self, batch: "pa.RecordBatch") -> None:
        """Append a batch as one or several entries; wait while too many bytes are in flight."""
        batch = conformed(batch, self._schema)
        self.bounds.add(batch)
        self.row_count += batch.num_rows
        for payload in entries_of(batch, self._entry_size_max):
            self._append(payload)

    def wait(self) -> None:
        """Wait until all entries are acknowledged. Raises the error of a failed append."""
        self._send()
        while self._unanswered:
            self._unanswered.popleft().result()

    def _append(self, payload: bytes) -> None:
        if self._gathered_size + len(payload) > GATHER_SIZE:
            self._send()
        self._gathered.append(payload)
        self._gathered_size += len(payload)
        self.entry_count += 1
        self.size += len(payload)

    def _send(self) -> None:
        while self._unanswered and self._unanswered[0].done():
            self._unanswered.popleft().result()
        if self._gathered:
            self._unanswered.append(self._ledger.append_many(self._gathered))
            self._gathered, self._gathered_size = [], 0


def application_id() -> str:
    """Return the id of this task's Spark application; empty if it is not known."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.getLocalProperty("spark.app.id") or "") if context is not None else ""


def _who() -> str:
    try:
        user = getpass.getuser()
    except KeyError:  # the user of a container may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()} spark"


def _check(client: zbk.Client, data_sets: zbk.DataSets, shape: LedgerShape) -> None:
    """Refuse impossible ledgers, and more bookies than are registered."""
    data_sets.check_options(**shape.keywords())
    there = sum(not one.is_readonly for one in client.list_bookies())
    if there < shape.ensemble_size:
        raise zbk.NotEnoughBookiesError(
            shape.ensemble_size, there, "start more bookies, or give a smaller ensembleSize"
        )


def _check_schema(data_sets: zbk.DataSets, name: str, schema: bytes, kind: zbk.LoadKind) -> None:
    """Refuse an append of another schema before any data moves; the commit checks again."""
    if kind is zbk.LoadKind.OVERWRITE or data_sets.has_schema(name, schema):
        return
    there = data_sets.read(name).schema
    raise zbk.DataSetConflictError(
        name,
        f"has the schema {spark_schema(there).simpleString()}, the frame "
        f"{spark_schema(schema).simpleString()}: make them the same, or use mode overwrite",
    )
