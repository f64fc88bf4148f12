"""The writers that a client has open: each an actor, with its mailbox and its place in the ticker.

Any thread.
"""

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pykka

from zbk.client.append_budget import AppendBudget
from zbk.client.ledger_writer import LedgerWriter
from zbk.client.mailbox import AppendMailbox
from zbk.client.placer import BookiePlacer
from zbk.client.writer_actor import (
    ActorSink,
    Drain,
    Tick,
    WritableChanged,
    WriterActor,
    WriterSetup,
)
from zbk.client.writer_metadata import WriterMetadata
from zbk.config import ClientConfig
from zbk.durability.level import level_of
from zbk.errors import BusyError
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.underreplication import UnderreplicationStore
from zbk.protocol.digest import digest_function, ledger_key
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.writer import WriterCore
from zbk.protocol.writer_events import WriterLimits
from zbk.system.ticker import Ticker
from zbk.transport.dealer import BookiePool

CONNECT_WAIT_MS_MAX: Final = 2_000
"""How long a new writer waits for the slowest bookie of its ensemble to be connected."""

SELDOM_TICK_MS: Final = 1_000
"""How often each writer is told that time has passed, whatever it does: all of them together."""


class WriterGround(msgspec.Struct, frozen=True, kw_only=True):
    """What all writers of a client stand on."""

    config: ClientConfig
    pool: BookiePool
    ledgers: LedgerStore
    tasks: UnderreplicationStore
    placer: BookiePlacer
    metadata_actor: "pykka.ActorRef[Any]"
    ticker: Ticker
    check_usable: Callable[[], None]


class OpenWriters:
    """Starts writers, and ends those that are left when the client ends."""

    def __init__(self, ground: WriterGround) -> None:
        self._ground = ground
        self._budget = AppendBudget(ground.config.all_pending_size_max)
        self._lock = threading.Lock()
        self._serial = itertools.count()
        self._actors: dict[int, pykka.ActorRef[WriterActor]] = {}

    def stop_all(self) -> None:
        """Abandon every writer that is open: its ledger is left to recovery."""
        with self._lock:
            actors = list(self._actors.values())
        for actor in actors:
            actor.stop()

    def writable_changed(self) -> None:
        """Tell every writer that bookies have begun or ceased to take new entries."""
        with self._lock:
            actors = list(self._actors.values())
        for actor in actors:
            _tell(actor, WritableChanged())

    def start(self, metadata: LedgerMetadata, password: bytes) -> LedgerWriter:
        """Start the writer of an empty ledger that is this client's to write."""
        ground, config = self._ground, self._ground.config
        core = self._core(metadata, password)
        serial = next(self._serial)
        reference: list[pykka.ActorRef[WriterActor]] = []

        def tick() -> None:
            _tell(reference[0], Tick())

        def forget() -> None:
            ground.ticker.cancel(tick)
            with self._lock:
                self._actors.pop(serial, None)

        sink = ActorSink()

        def rouse(is_lone: bool) -> None:
            if not (is_lone and ground.pool.call_soon(sink.drain)):
                _tell(reference[0], Drain())

        mailbox = AppendMailbox(config.pending_size_max, rouse, self._budget)
        current = WriterMetadata(
            metadata, ground.ledgers, ground.tasks, ground.placer, ground.metadata_actor
        )
        setup = WriterSetup(
            metadata=current,
            ledger_key=ledger_key(password, metadata.ledger_id),
            core=core,
            mailbox=mailbox,
            pool=ground.pool,
            request_timeout_ms=config.request_timeout_ms,
            condition=threading.Condition(),
            connected=threading.Event(),
            sink=sink,
        )
        try:
            reference.append(WriterActor.start(setup, forget))
        except RuntimeError as error:  # as Python has it when there can be no more threads
            raise BusyError(
                f"no thread for the writer of ledger {metadata.ledger_id}, beside those of "
                f"{len(self._actors)} others: {error}; close some, or see `ulimit -u`"
            ) from error
        ground.ticker.every(SELDOM_TICK_MS, tick)
        with self._lock:
            self._actors[serial] = reference[0]
        # entries that an ack quorum has before the last bookie is connected would miss there
        setup.connected.wait(min(config.connect_timeout_ms, CONNECT_WAIT_MS_MAX) / 1000)
        writer = LedgerWriter(
            current,
            core,
            mailbox,
            setup.condition,
            reference[0],
            entry_size_max=config.entry_size_max,
            default_timeout_s=config.default_timeout_ms / 1000,
            check_usable=ground.check_usable,
        )
        # a handle that is dropped and was not closed must not keep a thread for ever
        weakref.finalize(writer, mailbox.abandon).atexit = False
        return writer

    def _core(self, metadata: LedgerMetadata, password: bytes) -> WriterCore:
        config = self._ground.config
        return WriterCore(
            metadata.ledger_id,
            metadata.quorum,
            level_of(metadata.ledger_type),
            ensemble=metadata.last_fragment.bookies,
            digest_type=metadata.digest_type,
            digest=digest_function(metadata.digest_type, password, metadata.ledger_id),
            limits=WriterLimits(
                window_size=config.window_size,
                backlog_size=config.backlog_size,
                batch_size_max=config.batch_size_max,
                batch_count_max=config.batch_count_max,
                quorum_grace_ms=config.quorum_grace_ms,
                metadata_grace_ms=2 * config.session_timeout_ms,
                slow_bookie_ms=config.slow_bookie_ms,
                explicit_lac_ms=config.explicit_lac_ms,
            ),
        )


def _tell(actor: "pykka.ActorRef[WriterActor]", message: Drain | Tick | WritableChanged) -> None:
    try:
        actor.tell(message)
    except pykka.ActorDeadError:
        return  # its mailbox has been ended, and answers for it
