"""The actors of a bookie and its socket, started and stopped in order.

This module decides nothing. It connects the actors and sets the ticker. The storage actor reaches
the journal actors through their doors, because it starts before them.

Source: BookKeeper's ``BookieServer``.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import pykka

from zbk.actors.identity.losses import Losses
from zbk.actors.messages import OptionsChanged
from zbk.actors.process.bookie_access import access_table, follow_access
from zbk.actors.process.bookie_audit import BookieAudit
from zbk.actors.process.bookie_info import BookieStatus
from zbk.actors.process.descriptor_budget import DescriptorBudget
from zbk.actors.serve.access_gate import SetKeys
from zbk.actors.serve.identity_rates import RateLimits
from zbk.actors.serve.journal import (
    JournalActor,
    JournalDoor,
    JournalSyncActor,
    NoteSynced,
    SyncDue,
)
from zbk.actors.serve.ledger_lookups import LookupActor
from zbk.actors.serve.log_sync import LogSyncActor
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import MovedEntries, ReadActor
from zbk.actors.serve.storage import StorageActor
from zbk.actors.serve.storage_door import Quiesce, StorageDoor
from zbk.actors.serve.sync_queue import SyncProgress, SyncQueue
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.upkeep.compaction_rounds import CompactionOptions, limits_of, room_of
from zbk.actors.upkeep.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.upkeep.disk_monitor import limits_of as disk_limits_of
from zbk.actors.upkeep.gc import GcActor, GcDue, GcOptions
from zbk.actors.upkeep.preparer import PrepareDue, PreparerActor
from zbk.actors.upkeep.scrub import LogsLost, ScrubActor, ScrubDue, ScrubParts
from zbk.actors.upkeep.waits import WaitPorts
from zbk.audit.trail import AuditTrail
from zbk.config import MESSAGE_OVERHEAD_SIZE, BookieConfig
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.entry.entry_batch import MESSAGE_SIZE_MIN
from zbk.security.principals import KeyTable
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.disk_space import NoSpaceMet
from zbk.storage.journal.journal import Journal
from zbk.system.clock import monotonic_ms
from zbk.system.files import FileSystem
from zbk.system.ticker import Ticker
from zbk.tracing.setup import request_spans
from zbk.transport.greeting import Identity
from zbk.transport.router import FrontLimits, FrontSecurity, RouterFront

CHECKPOINT_POLL_MS: Final = 250
PREPARE_POLL_MS: Final = 200
NOTE_SYNCED_MS: Final = 500
DISK_POLL_MS: Final = 500
STOP_TIMEOUT_S: Final = 20.0
STOP_ORDER: Final = (
    "disk",
    "scrub",
    "gc",
    "checkpoint",
    "preparer",
    "lookup",
    "log-sync",
    "storage",
    "read",
    "journal-",
    "sync-",
)
"""Prefixes of the names of actors, in the order in which they are stopped."""


class BookieParts(msgspec.Struct, frozen=True):
    """The parts of a bookie that its actors work on."""

    files: FileSystem
    config: BookieConfig
    identity: Identity
    store: MetadataStore
    storage: BookieStorage
    gate: SpaceGate
    losses: Losses
    budget: DescriptorBudget
    security: FrontSecurity | None = None  # None: connections are not encrypted
    trail: AuditTrail | None = None  # the audit log; None: there is none


class BookieActors:
    """The actors of one bookie. ``start`` comes first; its calls of ``at_end`` name the end."""

    def __init__(
        self,
        parts: BookieParts,
        *,
        on_mode: Callable[[], None],
        stop_bookie: Callable[[BaseException], None],
    ) -> None:
        self.parts = parts
        self._on_mode = on_mode  # after each change between read-only and writable
        self._stop_bookie = stop_bookie
        self._actors: dict[str, pykka.ActorRef[Any]] = {}
        config = parts.config
        self._config = config  # with the live options in use
        self._storage_door = StorageDoor(_rates_of(config))
        self._journal_doors: list[JournalDoor] = []
        self.front = self._front()
        self._access = access_table(parts.store, parts.security)
        self._ticker = Ticker("zbk-bookie-ticker")
        self._live_ticks: dict[str, tuple[int, Callable[[], None]]] = {}  # by option
        trail = parts.trail
        self.audit = None if trail is None else BookieAudit(trail.note, self.front)
        self.status = BookieStatus(
            parts.files, parts.config, parts.identity, self.front, parts.storage, parts.losses
        )
        if trail is not None:
            self.status.audit_counts = trail.counts

    def start(self, at_end: Callable[[Callable[[], None]], None]) -> None:
        """Start everything; the bookie serves clients when this returns.

        ``at_end`` gets the calls that stop the parts, to be made in the opposite order.
        """
        at_end(self.front.stop)
        at_end(self._stop_actors)
        at_end(self._ticker.stop)
        parts, actors, status = self.parts, self._actors, self.status
        progresses = [SyncProgress() for _ in parts.storage.journals]
        actors["read"] = self._start_reader()
        actors["lookup"] = LookupActor.start(
            LedgerStore(parts.store), lambda news: self._tell("storage", news), self._stop_bookie
        )
        actors["storage"] = self._start_storage(status, progresses)
        actors["log-sync"] = LogSyncActor.start(actors["storage"], self._stop_bookie)
        queues = [
            self._start_journal(number, journal, progresses[number])
            for number, journal in enumerate(parts.storage.journals)
        ]
        actors["preparer"] = PreparerActor.start(
            parts.storage, space=parts.gate, stop_bookie=self._stop_bookie
        )
        parts.storage.when_logs_grow(lambda: self._tell("preparer", PrepareDue()))
        actors["checkpoint"] = self._start_checkpoints()
        actors["gc"] = self._start_collector()
        actors["scrub"] = self._start_scrubber()
        if any(view.lost_logs for view in parts.storage.scrubs):
            actors["scrub"].tell(LogsLost())
        actors["disk"] = self._start_disk_monitor()
        if self._access is not None:
            at_end(follow_access(parts.store, lambda news: self._tell("storage", news)))
        status.watch(actors, queues)
        self._start_ticking()
        self.front.start()

    def quiesce(self, is_quiet: threading.Event) -> None:
        """Set ``is_quiet`` when everything received before is on stable storage and answered.

        Raises:
            pykka.ActorDeadError: the storage actor has stopped.
        """
        self._actors["storage"].tell(Quiesce(is_quiet))

    def set_keys(self, keys: KeyTable) -> None:
        """Replace the principals. Any thread; it does not block.

        The storage actor first: a connection that the front admits must not be refused there.
        """
        if self._access is not None:
            self._tell("storage", SetKeys(keys))
        self.front.set_keys(keys)

    def change_options(self, config: BookieConfig) -> None:
        """Use other live options. Any thread, one at a time; it does not block."""
        self._config = config
        self._storage_door.queue.change(_rates_of(config))
        for name in ("checkpoint", "gc", "scrub", "disk"):
            self._tell(name, OptionsChanged(config))
        self._set_live_ticks()

    # ------------------------------------------------------------------ one after the other

    def _front(self) -> RouterFront:
        parts, config = self.parts, self.parts.config
        limits = FrontLimits(
            message_size_max=max(MESSAGE_SIZE_MIN, config.entry_size_max) + MESSAGE_OVERHEAD_SIZE,
            connections=parts.budget.connections,
            backlog=parts.budget.backlog,
            peer_idle_ms=config.connection_idle_ms,
            read_size_max=config.read_size_max,
        )
        return RouterFront(
            config.listen,
            parts.identity,
            limits,
            self._storage_door.receive,
            self._stop_bookie,
            request_spans(parts.identity.bookie_id),
            parts.security,
        )

    def _start_reader(self) -> "pykka.ActorRef[ReadActor]":
        storage = self.parts.storage
        moved = MovedEntries(
            lambda resolved: storage.home_of(resolved).is_gone(resolved),
            lambda again: self._tell("storage", again),
        )
        incarnation = self.parts.identity.incarnation
        return ReadActor.start(
            lambda resolved: storage.home_of(resolved).fetch(resolved),
            self.front.send,
            incarnation,
            self._stop_bookie,
            moved,
        )

    def _start_storage(
        self, status: BookieStatus, progresses: list[SyncProgress]
    ) -> "pykka.ActorRef[StorageActor]":
        parts, config, actors = self.parts, self.parts.config, self._actors
        serve_parts = ServeParts(
            journals=lambda: self._journal_doors,
            progresses=progresses,
            reader=actors["read"],
            look_up=lambda question: self._tell("lookup", question),
            sync_logs=lambda message: self._tell("log-sync", message),
            send=self.front.send,
            space=parts.gate,
            ticker=self._ticker,
            status=status.answer,
            access=self._access,
            audit=self.audit,
        )
        return StorageActor.start(
            parts.storage,
            serve_parts,
            ServeLimits(config.entry_size_max, config.read_size_max),
            incarnation=parts.identity.incarnation,
            stop_bookie=self._stop_bookie,
            door=self._storage_door,
        )

    def _start_journal(self, number: int, journal: Journal, progress: SyncProgress) -> SyncQueue:
        """Start the two actors of a journal."""
        actors, send = self._actors, self.front.send
        queue = SyncQueue(journal, actors["storage"], send, progress, number)
        syncer = actors[f"sync-{number}"] = JournalSyncActor.start(queue, self._stop_bookie)
        door = JournalDoor(queue)
        actors[f"journal-{number}"] = JournalActor.start(
            queue,
            syncer,
            self.parts.gate,
            unsynced_size_max=self.parts.config.journal_unsynced_size_max,
            stop_bookie=self._stop_bookie,
            door=door,
        )
        self._journal_doors.append(door)
        return queue

    def _start_checkpoints(self) -> "pykka.ActorRef[CheckpointActor]":
        config = self.parts.config
        return CheckpointActor.start(
            self.parts.storage,
            self._actors["storage"],
            interval_ms=config.checkpoint_interval_ms,
            journal_size=config.checkpoint_journal_size,
            stop_bookie=self._stop_bookie,
        )

    def _start_collector(self) -> "pykka.ActorRef[GcActor]":
        parts, config = self.parts, self.parts.config
        return GcActor.start(
            parts.storage.garbages,
            parts.store,
            GcOptions(parts.identity.instance_id, config.gc_confirm_delay_ms, self._compaction()),
            self._wait_ports(),
            self._stop_bookie,
        )

    def _compaction(self) -> CompactionOptions:
        parts, config = self.parts, self.parts.config

        def room_size(path: str) -> int:
            return room_of(
                path,
                files=parts.files,
                reserves=parts.storage.reserves,
                gate=parts.gate,
                config=self._config,
            )

        return CompactionOptions(limits_of(config), config.compaction_rate_size, room_size)

    def _start_scrubber(self) -> "pykka.ActorRef[ScrubActor]":
        parts = self.parts
        scrub_parts = ScrubParts(
            views=parts.storage.scrubs,
            damaged=parts.storage.damaged,
            reports=UnderreplicationStore(parts.store),
            ports=self._wait_ports(),
        )
        return ScrubActor.start(
            scrub_parts,
            bookie_id=parts.identity.bookie_id,
            rate_size=parts.config.scrub_rate_size,
            stop_bookie=self._stop_bookie,
        )

    def _wait_ports(self) -> WaitPorts:
        actors = self._actors
        return WaitPorts(actors["storage"], actors["checkpoint"], self._ticker, monotonic_ms)

    def _start_disk_monitor(self) -> "pykka.ActorRef[DiskMonitorActor]":
        """Return the monitor after its first look: the mode is known before clients come."""
        parts = self.parts
        monitor = DiskMonitorActor.start(
            parts.storage,
            parts.files,
            disk_limits_of(parts.config),
            parts.gate,
            self._on_mode,
            self._stop_bookie,
        )

        def tell(path: str) -> None:
            with suppress(pykka.ActorDeadError):
                monitor.tell(NoSpaceMet(path))

        parts.gate.watch(tell)
        monitor.ask(MeasureDue())
        return monitor

    def _start_ticking(self) -> None:
        actors, every = self._actors, self._ticker.every
        every(CHECKPOINT_POLL_MS, lambda: actors["checkpoint"].tell(CheckpointDue()))
        every(PREPARE_POLL_MS, lambda: actors["preparer"].tell(PrepareDue()))
        every(NOTE_SYNCED_MS, lambda: self._tell_all("journal-", NoteSynced()))
        every(DISK_POLL_MS, lambda: actors["disk"].tell(MeasureDue()))
        self._set_live_ticks()

    def _set_live_ticks(self) -> None:
        """Begin, change or end the calls at intervals that are live options."""
        calls: dict[str, Callable[[], None]] = {
            "sync_interval_ms": lambda: self._tell_all("sync-", SyncDue()),
            "gc_interval_ms": lambda: self._tell("gc", GcDue()),
            "scrub_interval_ms": lambda: self._tell("scrub", ScrubDue()),
        }
        for name, call in calls.items():
            interval_ms: int = getattr(self._config, name)
            before_ms, before = self._live_ticks.get(name, (0, call))
            if interval_ms == before_ms:
                continue
            if before_ms:
                self._ticker.cancel(before)
            if interval_ms:
                self._ticker.every(interval_ms, call)
            self._live_ticks[name] = (interval_ms, call)

    # ------------------------------------------------------------------ telling and stopping

    def _tell(self, name: str, message: object) -> None:
        with suppress(pykka.ActorDeadError):  # the bookie stops
            self._actors[name].tell(message)

    def _tell_all(self, prefix: str, message: NoteSynced | SyncDue) -> None:
        for name, ref in self._actors.items():
            if name.startswith(prefix):
                ref.tell(message)

    def _stop_actors(self) -> None:
        for prefix in STOP_ORDER:
            for name in [name for name in self._actors if name.startswith(prefix)]:
                self._actors[name].stop(timeout=STOP_TIMEOUT_S)


def _rates_of(config: BookieConfig) -> RateLimits:
    return RateLimits(
        config.identity_request_rate, config.identity_rate_size, config.identity_fence_rate
    )
