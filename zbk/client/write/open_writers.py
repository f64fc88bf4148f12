"""The writers that a client has open, and the few actors that serve them.

Any thread.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from zbk.client.cluster.metadata_actor import MetadataActors
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import SharedCondition
from zbk.client.write.ledger_writer import CallTerms, LedgerWriter
from zbk.client.write.mailbox import AppendMailbox
from zbk.client.write.traced_appends import TracedAppends
from zbk.client.write.writer_actor import (
    Join,
    LookAround,
    WritableChanged,
    WriterActor,
    WriterDoor,
)
from zbk.client.write.writer_body import WriterBody, WriterSetup
from zbk.client.write.writer_metadata import WriterMetadata
from zbk.client.write.writer_totals import WriterTotals
from zbk.config import ClientConfig
from zbk.durability.level import level_of
from zbk.errors import BusyError, ClientClosedError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.entry.digest import digest_function, ledger_key
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write.core_parts import VolatileTerms
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.sync_policy import SyncEvery
from zbk.protocol.write.unsynced_total import UnsyncedTotal
from zbk.protocol.write.writer import WriterCore
from zbk.system.clock import monotonic_s
from zbk.system.ticker import Ticker
from zbk.transport.dealer import BookiePool

if TYPE_CHECKING:
    from zbk.tracing.client_spans import ClientSpans

CONNECT_WAIT_MS_MAX: Final = 2_000
"""Milliseconds that a new writer waits for the slowest bookie of its ensemble to be connected."""

LOOK_MS: Final = 1_000
"""Milliseconds between two checks for writers whose handles were dropped."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a client that all its writers share."""

    config: ClientConfig
    pool: BookiePool
    ledgers: LedgerStore
    tasks: UnderreplicationStore
    placer: BookiePlacer
    metadata_actors: MetadataActors
    ticker: Ticker
    check_usable: Callable[[], None]
    spans: "ClientSpans | None"


class OpenWriters:
    """Starts writers, and ends those that are left when the client ends."""

    def __init__(self, parts: SharedParts) -> None:
        self._parts = parts
        self._budget = AppendBudget(parts.config.all_pending_size_max)
        self._limits = _limits_of(parts.config)
        self._terms = CallTerms(
            parts.config.entry_size_max,
            parts.config.default_timeout_ms / 1000,
            parts.check_usable,
            parts.spans,
        )
        self._lock = threading.Lock()
        self.totals = [WriterTotals() for _ in range(parts.config.writer_actor_count)]
        self._doors: list[WriterDoor | None] = [None] * parts.config.writer_actor_count
        self._unsynced_total = UnsyncedTotal(parts.config.all_unsynced_size_max, len(self._doors))
        self._is_stopped = False

    def __len__(self) -> int:
        """Return how many writers are open."""
        return sum(door.writer_count for door in self._doors if door is not None)

    @property
    def pending_size(self) -> int:
        """Bytes of appends that are not acknowledged, of all writers."""
        return self._budget.size

    def unsynced(self, now_ms: int) -> tuple[int, int]:
        """Return how much one ledger has that is acknowledged and not durable, at most.

        The two values, bytes and milliseconds since the sending, may be those of two ledgers.
        """
        found = [one for door in self._doors if door is not None for one in door.unsynced()]
        size = max((size for size, _ in found), default=0)
        return size, max((now_ms - sent_ms for _, sent_ms in found), default=0)

    def stop_all(self) -> None:
        """Abandon every writer that is open: its ledger is left to recovery."""
        with self._lock:
            self._is_stopped = True
            doors = [door for door in self._doors if door is not None]
        for door in doors:
            door.stop()

    def writable_changed(self) -> None:
        """Report to every writer that bookies have begun or ceased to take new entries."""
        for door in self._doors:
            if door is not None:
                door.leave_message(WritableChanged())

    def start(
        self, metadata: LedgerMetadata, password: bytes, sync_every: SyncEvery | None = None
    ) -> LedgerWriter:
        """Start the writer of an empty ledger that is this client's to write.

        Raises:
            BusyError: the process can have no more threads.
            ClientClosedError: the client is being closed.
        """
        return self.start_all([metadata], password, sync_every)[0]

    def start_all(
        self,
        metadatas: Sequence[LedgerMetadata],
        password: bytes,
        sync_every: SyncEvery | None = None,
    ) -> list[LedgerWriter]:
        """Start the writers of empty ledgers at once; as ``start`` otherwise."""
        begun = [self._begin(metadata, password, sync_every) for metadata in metadatas]
        wait_ms = min(self._parts.config.connect_timeout_ms, CONNECT_WAIT_MS_MAX)
        deadline_s = monotonic_s() + wait_ms / 1000
        for connected, _writer in begun:
            # else entries that are acknowledged before the last bookie is connected miss there
            connected.wait(max(0.0, deadline_s - monotonic_s()))
        return [writer for _connected, writer in begun]

    def _begin(
        self, metadata: LedgerMetadata, password: bytes, sync_every: SyncEvery | None
    ) -> tuple[threading.Event, LedgerWriter]:
        """Return a writer, and an event for when its bookies are connected or have failed."""
        parts, config = self._parts, self._parts.config
        core = self._core(metadata, password, sync_every)
        door = self._door_of(metadata.ledger_id)

        def rouse(is_lone: bool) -> None:
            door.rouse(body, is_lone=is_lone)

        mailbox = AppendMailbox(config.pending_size_max, rouse, self._budget)
        current = WriterMetadata(
            metadata, parts.ledgers, parts.tasks, parts.placer, parts.metadata_actors
        )
        setup = WriterSetup(
            metadata=current,
            ledger_key=ledger_key(password, metadata.ledger_id),
            core=core,
            mailbox=mailbox,
            pool=parts.pool,
            request_timeout_ms=config.request_timeout_ms,
            condition=SharedCondition(),
            sink=door,
            totals=self.totals[metadata.ledger_id % len(self.totals)],
            traced=None if parts.spans is None else TracedAppends(parts.spans),
        )
        connected = threading.Event()
        body = WriterBody(setup, door.tell_writer, door.forget, connected)
        if not door.leave_message(Join(body)):
            body.end(ClientClosedError())
            raise ClientClosedError
        writer = LedgerWriter(
            current,
            core,
            mailbox,
            setup.condition,
            partial(door.tell_writer, body),
            partial(door.end_writer, body),
            self._terms,
        )
        # a writer whose handle was dropped without a close must end
        weakref.finalize(writer, _drop, mailbox, door, body).atexit = False
        return connected, writer

    def _door_of(self, ledger_id: int) -> WriterDoor:
        """Return the door of a ledger's actor; start the actor if none runs."""
        number = ledger_id % len(self._doors)
        with self._lock:
            if self._is_stopped:
                raise ClientClosedError
            door = self._doors[number]
            if door is not None and door.is_open:
                return door
            try:
                return self._make_door(number)
            except RuntimeError as error:  # as Python has it when there can be no more threads
                raise BusyError(f"no thread for a writer: {error}; see `ulimit -u`") from error

    def _make_door(self, number: int) -> WriterDoor:
        before = self._doors[number]
        made = WriterDoor(self._parts.pool)
        WriterActor.start(made, self._parts.pool)
        self._doors[number] = made  # not before: other threads leave messages for every door
        if before is None:
            self._parts.ticker.every(LOOK_MS, partial(self._look_around, number))
        return made

    def _look_around(self, number: int) -> None:
        door = self._doors[number]
        if door is not None and door.dropped:
            door.leave_message(LookAround())

    def _core(
        self, metadata: LedgerMetadata, password: bytes, sync_every: SyncEvery | None
    ) -> WriterCore:
        part = self._unsynced_total.parts[metadata.ledger_id % len(self._doors)]
        return WriterCore(
            metadata.ledger_id,
            metadata.quorum,
            level_of(metadata.ledger_type),
            ensemble=metadata.last_fragment.bookies,
            digest_type=metadata.digest_type,
            digest=digest_function(metadata.digest_type, password, metadata.ledger_id),
            limits=self._limits,
            volatile=VolatileTerms(part, sync_every),
        )


def _limits_of(config: ClientConfig) -> WriterLimits:
    return WriterLimits(
        window_size=config.window_size,
        backlog_size=config.backlog_size,
        unsynced_size_max=config.unsynced_size_max,
        batch_size_max=config.batch_size_max,
        batch_count_max=config.batch_count_max,
        quorum_grace_ms=config.quorum_grace_ms,
        metadata_grace_ms=2 * config.session_timeout_ms,
        slow_bookie_ms=config.slow_bookie_ms,
        explicit_lac_ms=config.explicit_lac_ms,
    )


def _drop(mailbox: AppendMailbox, door: WriterDoor, body: WriterBody) -> None:
    """Record that the application has dropped a handle. The garbage collector, in any thread."""
    mailbox.abandon()
    door.dropped.append(body)
