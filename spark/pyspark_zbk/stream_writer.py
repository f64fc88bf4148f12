"""Writing a stream into a data set: ``df.writeStream.format("zbk")``, a version per micro-batch.

    __init__   planner    once for the tasks of a micro-batch, and once more for its commit or abort
    write      task       the task takes part in the micro-batch's load, and fills a ledger
    commit     driver     the load that the messages name becomes a version
    abort      driver     likewise; a load that was committed stays

Exactly once: a version is committed together with the number of its micro-batch, under the id of
the query. Spark keeps that id in the checkpoint, so a query that continues from a checkpoint has
the same id, and a new query has another one. A micro-batch that is written again, such as the last
one after a crash, adds nothing: the ledgers of the second write are deleted.

No process drives a load from begin to end, so its first task begins it. The next run of the stream
aborts a load that a killed driver left open.

Output modes: append; and complete, in which each version replaces the one before it.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

import zbk
from pyspark_zbk.clients import task_client
from pyspark_zbk.plain_errors import told_plainly
from pyspark_zbk.writer import LoadWriter, application_id

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"  # of one start of a query

TIDIED_COUNT_MAX: Final = 1_024
"""Limit on the runs of queries that a worker has tidied."""

_tidied: set[tuple[int, str, str]] = set()  # process, data set, run


class MicroBatch(msgspec.Struct, frozen=True):
    """A micro-batch of a query; only the run differs when it is written again."""

    query_id: str
    number: int
    run_id: str

    @classmethod
    def of_this_task(cls) -> "MicroBatch":
        """Return the micro-batch of the current task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a stream is written by tasks"
        query_id, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id, "Spark tells the tasks of every micro-batch"
        assert number, "likewise"
        return cls(query_id, int(number), context.getLocalProperty(RUN_ID) or "")


class BatchWritten(WriterCommitMessage):
    """The message of a task attempt to the driver; without rows there is no ledger."""

    def __init__(
        self,
        batch: MicroBatch,
        ticket: zbk.LoadTicket | None,
        ledger: zbk.DataLedger | None,
        application_id: str,
    ) -> None:
        self.batch = batch
        self.ticket = ticket
        self.ledger = ledger
        self.application_id = application_id


class ZbkStreamWriter(LoadWriter, DataSourceStreamArrowWriter):
    """Writes one micro-batch of a stream into a data set."""

    def prepare(self, data_sets: zbk.DataSets) -> None:
        """Choose the id of the load, which the first task begins."""
        self._load_id = data_sets.new_load_id(self._ttl_ms)

    # ------------------------------------------------------------------ a task

    @told_plainly
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> BatchWritten:
        """Write the rows of one task attempt into a ledger, sync it, close it."""
        micro_batch = MicroBatch.of_this_task()
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return BatchWritten(micro_batch, None, None, application_id())
        data_sets = self.data_sets(task_client(self._connection))
        ticket = self._begin(data_sets, micro_batch)
        self._tidy(data_sets, micro_batch, ticket)
        ledger = self.fill(ticket, chain([first], batches))
        return BatchWritten(micro_batch, ticket, ledger, application_id())

    # ------------------------------------------------------------------ the driver

    @told_plainly
    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make the micro-batch visible; it may already be."""
        written = [one for one in messages if isinstance(one, BatchWritten)]
        ledgers = [one.ledger for one in written if one.ledger is not None]
        if not written or (not ledgers and self._kind is zbk.LoadKind.APPEND):
            return  # a version without rows would only displace an old one
        assert all(one.batch.number == batchId for one in written), "messages of this batch"
        tickets = [one.ticket for one in written if one.ticket is not None][:1]
        who = self.committer(one.application_id for one in written)

        def commit(data_sets: zbk.DataSets) -> None:
            if not tickets:  # once: a repeated commit would begin a load that it has committed
                tickets.append(self._begin(data_sets, written[0].batch))
            data_sets.commit(tickets[0], self._stored_schema, ledgers, who=who)

        self._insist(commit)

    @told_plainly
    def abort(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803
        """Delete the ledgers of the micro-batch, unless it was committed.

        Without a message from any task the load is not known here: the next write of the
        micro-batch aborts it.
        """
        del batchId
        written = [one for one in messages if isinstance(one, BatchWritten)]
        for ticket in {one.ticket for one in written if one.ticket is not None}:
            self._insist(lambda data_sets, ticket=ticket: data_sets.abort(ticket))  # type: ignore[misc]  # the ticket of this turn

    # ------------------------------------------------------------------ private

    def _begin(self, data_sets: zbk.DataSets, batch: MicroBatch) -> zbk.LoadTicket:
        return data_sets.begin(
            self._name,
            self._kind,
            who=self._who,
            ttl_ms=self._ttl_ms,
            stream=batch.query_id,
            batch_id=batch.number,
            load_id=self._load_id,
        )

    def _tidy(self, data_sets: zbk.DataSets, batch: MicroBatch, ticket: zbk.LoadTicket) -> None:
        """Abort loads that earlier runs of the query left open; once per run in this process.

        A later batch than this one is no leftover: then this task is one.
        """
        key = (os.getpid(), self._name, batch.run_id)
        if key in _tidied:
            return
        for load in data_sets.loads(self._name).values():
            if (
                load.state is zbk.LoadState.OPEN
                and load.stream == batch.query_id
                and load.batch_id <= batch.number
                and load.load_id != ticket.load_id
            ):
                data_sets.abort(
                    zbk.LoadTicket(
                        name=self._name,
                        data_set_id=load.data_set_id,
                        load_id=load.load_id,
                        kind=load.kind,
                        base_version=load.base_version,
                    )
                )
        if len(_tidied) >= TIDIED_COUNT_MAX:
            _tidied.clear()
        _tidied.add(key)
