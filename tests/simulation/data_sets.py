"""Clients of a data set: the real ``DataSets`` over simulated metadata and bookies.

``DataSets`` blocks. What it does to metadata is one operation of the simulation; what takes time on
bookies is done between: the loader writes each data ledger, and the manifest, with the writers of
the simulation, and ``DataSets.commit`` is then given the manifest that is written already.

    SimulatedLoader             loads one after the other, each of one or two ledgers: appends,
                                overwrites, a stream's micro-batches; commits them, or aborts
    SimulatedDataSetCollector   deletes what nobody wants, and aborts loads whose time is over
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from tests.simulation.data_set_client import DataSetMetadataClient, Made, WrittenManifest
from tests.simulation.data_set_oracle import DataSetOracle
from tests.simulation.kernel import MS, Node
from tests.simulation.world import World
from tests.simulation.writer_body import WriterBody
from tests.support.history import hash_of
from zbk.client.dataset.datasets import Aborted, Collected
from zbk.client.dataset.ledgers import DATA_SET_TAG, LOAD_TAG, NAME_TAG, LoadTicket
from zbk.errors import (
    DataSetConflictError,
    LoadAbortedError,
    NoSuchDataSetError,
    ZbkError,
)
from zbk.protocol.dataset.dataset import DataSet, LoadKind, LoadState
from zbk.protocol.dataset.manifest import DataLedger, encode_manifest
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum

NAME: Final = "events"
SCHEMA: Final = b"of the simulation"
STREAM: Final = "stream"
LONG_TTL: Final = 1_000_000_000
ATTEMPT_COUNT_MAX: Final = 6
"""Of one step of a load: then it is given up, and aborted."""


class SimulatedLoader:
    """One process that loads, until it has no more to load or faults stop."""

    def __init__(
        self, world: World, name: str, quorum: Quorum, oracle: DataSetOracle, number: int
    ) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        self.is_over = False
        self._oracle = oracle
        self._number = number
        self._client = DataSetMetadataClient(world, name, quorum, oracle)
        self._sets = self._client.data_sets()
        self._left_count = 1 + world.tape.draw(3)
        self._failure_count = 0
        self._writer: WriterBody | None = None
        self._ticket: LoadTicket | None = None
        self._tags: dict[str, bytes] = {}
        self._ledgers: list[DataLedger] = []
        self._wanted_count = 0
        self.node.after(world.tape.draw(20) * 10 * MS, self._begin)

    def crash(self) -> None:
        """End the process: its load stays OPEN, or is visible."""
        self.node.trace("the loader dies")
        self.node.die()
        self._stop()

    # ------------------------------------------------------------------ a load

    def _begin(self) -> None:
        tape = self.world.tape
        if not self._left_count or self.world.is_ending:
            self._stop()
            return
        self._failure_count, self._ledgers = 0, []
        self._wanted_count = 1 + tape.draw(2)
        kind = tape.pick((LoadKind.APPEND, LoadKind.OVERWRITE))
        stream = STREAM if tape.draw(3) == 1 else ""
        batch_id = tape.draw(3) if stream else -1
        ttl = tape.pick((LONG_TTL, 150_000)) + self._number  # no two ids are ever the same

        def begin() -> LoadTicket:
            return self._sets.begin(
                NAME, kind, who=self.node.name, ttl_ms=ttl, stream=stream, batch_id=batch_id
            )

        def begun(outcome: LoadTicket | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                self._again(self._begin, self._stop)
                return
            self._left_count -= 1
            self._ticket = outcome
            self._oracle.begun(outcome, stream, batch_id)
            self.node.trace(f"loads: {kind} on version {outcome.base_version}")
            self._make()

        self._submit(begin, begun)

    def _make(self) -> None:
        """Write the next data ledger."""
        ticket = self._ticket
        assert ticket is not None, "it has begun"
        partition, attempt = len(self._ledgers), self._failure_count

        def make() -> Made:
            made = self._sets.create_ledger(ticket, partition=partition, attempt=attempt)
            return cast("Made", made)

        def written(metadata: LedgerMetadata, payloads: Sequence[bytes]) -> None:
            tags = metadata.custom_metadata
            self._tags = {tag: tags[tag] for tag in (DATA_SET_TAG, NAME_TAG, LOAD_TAG)}
            self._ledgers.append(_data_ledger(ticket, metadata, payloads, partition, attempt))
            if len(self._ledgers) < self._wanted_count:
                self._make()
            elif self.world.tape.draw(6) == 1:
                self._abort()
            else:
                self._write_manifest()

        def payloads() -> list[bytes]:
            count = 1 + self.world.tape.draw(3)
            return [f"{self.node.name} {partition} {attempt} {n}".encode() for n in range(count)]

        self._write(make, payloads, written, self._make)

    def _write_manifest(self) -> None:
        """Write a manifest, then commit it."""
        ticket = self._ticket
        assert ticket is not None, "it has begun"
        payloads = encode_manifest(ticket.data_set_id, ticket.load_id, SCHEMA, self._ledgers)

        def make() -> Made:
            return cast("Made", self._client.create_ledger(custom_metadata=self._tags))

        def written(metadata: LedgerMetadata, payloads: Sequence[bytes]) -> None:
            self._oracle.payloads[metadata.ledger_id] = payloads
            self._commit(ticket, WrittenManifest(metadata.ledger_id, payloads))

        self._write(make, lambda: payloads, written, self._write_manifest)

    def _commit(self, ticket: LoadTicket, manifest: WrittenManifest) -> None:
        ledgers = list(self._ledgers)
        self._oracle.offered(ticket, ledgers)

        def commit() -> DataSet:
            self._client.written = manifest
            try:
                return self._sets.commit(ticket, SCHEMA, ledgers)
            finally:
                self._client.written = None

        def done(outcome: DataSet | ZbkError) -> None:
            if isinstance(outcome, DataSet):
                self._oracle.told_committed(ticket)
                self._next()
            elif isinstance(outcome, LoadAbortedError | DataSetConflictError):
                is_conflict = isinstance(outcome, DataSetConflictError)
                what = "an overwrite was overtaken" if is_conflict else "a commit meets an abort"
                self.world.sometimes[f"data set: {what}"] += 1
                self._oracle.told_invisible(ticket)
                self._next()
            else:
                self.node.trace(f"may or may not have committed: {outcome!r}")
                self.world.sometimes["data set: a commit is tried again"] += 1
                self._again(self._write_manifest, self._next)

        self._submit(commit, done)

    def _abort(self) -> None:
        ticket = self._ticket
        assert ticket is not None, "it has begun"

        def done(outcome: Aborted | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                self._again(self._abort, self._next)
                return
            if outcome.state is LoadState.ABORTED:
                self.world.sometimes["data set: a load is aborted"] += 1
                self._oracle.told_invisible(ticket)
            self._next()

        self._submit(lambda: self._sets.abort(ticket), done)

    def _next(self) -> None:
        self.node.after(self.world.tape.draw(8) * 20 * MS, self._begin)

    # ------------------------------------------------------------------ one ledger

    def _write(
        self,
        make: Callable[[], Made],
        payloads_of: Callable[[], Sequence[bytes]],
        written: Callable[[LedgerMetadata, Sequence[bytes]], None],
        again: Callable[[], None],
    ) -> None:
        """Make a ledger, write it and close it."""
        world = self.world
        begun = world.history.invoke(world.kernel.now_ms, self.node.name, "create")

        def made(outcome: Made | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                world.history.end(begun, world.kernel.now_ms, "info", error=outcome)
                self._again(again, self._abort)
                return
            metadata, payloads = outcome.metadata, payloads_of()
            ledger_id = metadata.ledger_id
            world.history.end(begun, world.kernel.now_ms, "ok", ledger_id=ledger_id)
            writer = self._writer = WriterBody(world, self.node, metadata)

            def closed(error: ZbkError | None) -> None:
                self._writer = None
                if error is None:
                    written(metadata, payloads)
                else:
                    self._again(again, self._abort)

            def flushed(error: ZbkError | None) -> None:
                if error is None:
                    writer.close(closed)
                else:
                    writer.give_up()
                    closed(error)

            adds = [
                world.history.invoke(
                    world.kernel.now_ms,
                    self.node.name,
                    "add",
                    ledger_id=ledger_id,
                    value_hash=hash_of(payload),
                )
                for payload in payloads
            ]
            writer.append(adds, list(payloads))
            if not writer.is_over:
                writer.flush(flushed)

        self._submit(make, made)

    # ------------------------------------------------------------------ steps

    def _submit(self, operation: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.world.metadata.submit(self.node, operation, done)

    def _again(self, step: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._failure_count += 1
        if self._failure_count > ATTEMPT_COUNT_MAX:
            step = self._stop if give_up == self._abort and self._failure_count > 9 else give_up
        self.node.after((1 + self.world.tape.draw(8)) * 20 * MS, step)

    def _stop(self) -> None:
        self.is_over = True
        if self._writer is not None:
            self._writer.give_up()
            self._writer = None


class SimulatedDataSetCollector:
    """A client that tidies the data set now and then, until faults stop."""

    def __init__(self, world: World, name: str, quorum: Quorum, oracle: DataSetOracle) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        self.is_over = False
        self._sets = DataSetMetadataClient(world, name, quorum, oracle).data_sets()
        self._later()

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self.is_over = True

    def _later(self) -> None:
        self.node.after((1 + self.world.tape.draw(8)) * 60 * MS, self._collect)

    def _collect(self) -> None:
        if self.world.is_ending:
            self.is_over = True
            return
        self.world.metadata.submit(self.node, lambda: self._sets.collect(NAME), self._collected)

    def _collected(self, outcome: Collected | ZbkError) -> None:
        sometimes = self.world.sometimes
        if isinstance(outcome, Collected):
            sometimes["data set: a leftover is deleted"] += outcome.deleted_count
            sometimes["data set: a load whose time is over is aborted"] += outcome.aborted_count
        elif not isinstance(outcome, NoSuchDataSetError):
            self.node.trace(f"could not collect: {outcome!r}")
        self._later()


def _data_ledger(
    ticket: LoadTicket,
    metadata: LedgerMetadata,
    payloads: Sequence[bytes],
    partition: int,
    attempt: int,
) -> DataLedger:
    return DataLedger(
        ledger_id=metadata.ledger_id,
        entry_count=len(payloads),
        row_count=len(payloads),
        size=sum(map(len, payloads)),
        load_id=ticket.load_id,
        partition=partition,
        attempt=attempt,
    )
