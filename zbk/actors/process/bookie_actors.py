"""The actors of a bookie and its socket, started and stopped in order.

Nothing is decided here: who knows whom, and what the ticker tells. The storage actor finds the
journal actors through their doors, and they find it by name: they are made one after the other.

Source: BookKeeper's ``BookieServer``.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import pykka

from zbk.actors.identity.losses import Losses
from zbk.actors.process.bookie_info import About
from zbk.actors.process.descriptor_budget import DescriptorBudget
from zbk.actors.serve.journal import (
    JournalActor,
    JournalDoor,
    JournalSyncActor,
    NoteSynced,
    SyncDue,
    SyncProgress,
    SyncQueue,
)
from zbk.actors.serve.ledger_lookups import LookupActor
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import MovedEntries, ReadActor
from zbk.actors.serve.storage import Quiesce, StorageActor, StorageDoor
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.upkeep.compaction_rounds import CompactionOptions, limits_of, room_of
from zbk.actors.upkeep.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.upkeep.gc import GcActor, GcDue, GcOptions
from zbk.actors.upkeep.preparer import AheadActor, AheadDue
from zbk.actors.upkeep.scrub import LogsLost, ScrubActor, ScrubDue, ScrubParts
from zbk.actors.upkeep.waits import WaitPorts
from zbk.config import MESSAGE_OVERHEAD_SIZE, BookieConfig
from zbk.config.units import MIB, parse_free
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.disk_space import DiskLimits, NoSpaceMet
from zbk.storage.journal.journal import Journal
from zbk.system.clock import monotonic_ms
from zbk.system.files import FileSystem
from zbk.system.ticker import Ticker
from zbk.transport.greeting import Identity
from zbk.transport.router import FrontLimits, RouterFront

MESSAGE_SIZE_MIN: Final = 4 * MIB
"""Every bookie takes frames of this size: a client's batches are smaller."""

CHECKPOINT_POLL_MS: Final = 250
AHEAD_POLL_MS: Final = 200
NOTE_SYNCED_MS: Final = 500
DISK_POLL_MS: Final = 500
STOP_TIMEOUT_S: Final = 20.0
STOP_ORDER: Final = (
    "disk",
    "scrub",
    "gc",
    "checkpoint",
    "ahead",
    "lookup",
    "storage",
    "read",
    "journal-",
    "sync-",
)
"""What the names of actors begin with, in the order in which they are stopped."""


class BookieGround(msgspec.Struct, frozen=True):
    """What the actors of a bookie work on."""

    files: FileSystem
    config: BookieConfig
    identity: Identity
    store: MetadataStore
    storage: BookieStorage
    gate: SpaceGate
    losses: Losses
    budget: DescriptorBudget


class BookieActors:
    """Those of one bookie. ``start`` comes first; what it gives to ``at_end`` ends them."""

    def __init__(
        self,
        ground: BookieGround,
        *,
        on_mode: Callable[[], None],
        stop_bookie: Callable[[BaseException], None],
    ) -> None:
        self.ground = ground
        self._on_mode = on_mode  # the bookie is read-only, or no more
        self._stop_bookie = stop_bookie
        self._actors: dict[str, pykka.ActorRef[Any]] = {}
        self._storage_door = StorageDoor()
        self._journal_doors: list[JournalDoor] = []
        self.front = self._front()
        self._ticker = Ticker("zbk-bookie-ticker")
        self.about = About(
            ground.files, ground.config, ground.identity, self.front, ground.storage, ground.losses
        )

    def start(self, at_end: Callable[[Callable[[], None]], None]) -> None:
        """Start everything; clients are heard when this returns.

        ``at_end`` is given what ends a part of it, to be called in the opposite order.
        """
        at_end(self.front.stop)
        at_end(self._stop_actors)
        at_end(self._ticker.stop)
        ground, actors, about = self.ground, self._actors, self.about
        progresses = [SyncProgress() for _ in ground.storage.journals]
        actors["read"] = self._start_reader()
        actors["lookup"] = LookupActor.start(
            LedgerStore(ground.store), lambda news: self._tell("storage", news), self._stop_bookie
        )
        actors["storage"] = self._start_storage(about, progresses)
        queues = [
            self._start_journal(number, journal, progresses[number])
            for number, journal in enumerate(ground.storage.journals)
        ]
        actors["ahead"] = AheadActor.start(
            ground.storage, space=ground.gate, stop_bookie=self._stop_bookie
        )
        actors["checkpoint"] = self._start_checkpoints()
        actors["gc"] = self._start_collector()
        actors["scrub"] = self._start_scrubber()
        if any(view.lost_logs for view in ground.storage.scrubs):
            actors["scrub"].tell(LogsLost())
        actors["disk"] = self._start_disk_monitor()
        about.watch(actors, queues)
        self._start_ticking()
        self.front.start()

    def quiesce(self, is_quiet: threading.Event) -> None:
        """Set ``is_quiet`` when everything received before is on stable storage and answered.

        Raises:
            pykka.ActorDeadError: nothing is received any more.
        """
        self._actors["storage"].tell(Quiesce(is_quiet))

    # ------------------------------------------------------------------ one after the other

    def _front(self) -> RouterFront:
        ground, config = self.ground, self.ground.config
        limits = FrontLimits(
            message_size_max=max(MESSAGE_SIZE_MIN, config.entry_size_max) + MESSAGE_OVERHEAD_SIZE,
            connections=ground.budget.connections,
            backlog=ground.budget.backlog,
            peer_idle_ms=config.connection_idle_ms,
            read_size_max=config.read_size_max,
        )
        return RouterFront(
            config.listen,
            ground.identity,
            limits,
            self._storage_door.receive,
            self._stop_bookie,
        )

    def _start_reader(self) -> "pykka.ActorRef[ReadActor]":
        storage = self.ground.storage
        moved = MovedEntries(
            lambda resolved: storage.home_of(resolved).is_gone(resolved),
            lambda again: self._tell("storage", again),
        )
        incarnation = self.ground.identity.incarnation
        return ReadActor.start(
            lambda resolved: storage.home_of(resolved).fetch(resolved),
            self.front.send,
            incarnation,
            self._stop_bookie,
            moved,
        )

    def _start_storage(
        self, about: About, progresses: list[SyncProgress]
    ) -> "pykka.ActorRef[StorageActor]":
        ground, config, actors = self.ground, self.ground.config, self._actors
        parts = ServeParts(
            journals=lambda: self._journal_doors,
            progresses=progresses,
            reader=actors["read"],
            look_up=lambda question: self._tell("lookup", question),
            send=self.front.send,
            space=ground.gate,
            ticker=self._ticker,
            status=about.answer,
        )
        return StorageActor.start(
            ground.storage,
            parts,
            ServeLimits(config.entry_size_max, config.read_size_max),
            incarnation=ground.identity.incarnation,
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
            self.ground.gate,
            unsynced_size_max=self.ground.config.journal_unsynced_size_max,
            stop_bookie=self._stop_bookie,
            door=door,
        )
        self._journal_doors.append(door)
        return queue

    def _start_checkpoints(self) -> "pykka.ActorRef[CheckpointActor]":
        config = self.ground.config
        return CheckpointActor.start(
            self.ground.storage,
            self._actors["storage"],
            interval_ms=config.checkpoint_interval_ms,
            journal_size=config.checkpoint_journal_size,
            stop_bookie=self._stop_bookie,
        )

    def _start_collector(self) -> "pykka.ActorRef[GcActor]":
        ground, config = self.ground, self.ground.config
        return GcActor.start(
            ground.storage.garbages,
            ground.store,
            GcOptions(ground.identity.instance_id, config.gc_confirm_delay_ms, self._compaction()),
            self._wait_ports(),
            self._stop_bookie,
        )

    def _compaction(self) -> CompactionOptions:
        ground, config = self.ground, self.ground.config
        room_size = partial(
            room_of,
            files=ground.files,
            reserves=ground.storage.reserves,
            gate=ground.gate,
            config=config,
        )
        return CompactionOptions(limits_of(config), config.compaction_rate_size, room_size)

    def _start_scrubber(self) -> "pykka.ActorRef[ScrubActor]":
        ground = self.ground
        parts = ScrubParts(
            views=ground.storage.scrubs,
            damaged=ground.storage.damaged,
            reports=UnderreplicationStore(ground.store),
            ports=self._wait_ports(),
        )
        return ScrubActor.start(
            parts,
            bookie_id=ground.identity.bookie_id,
            rate_size=ground.config.scrub_rate_size,
            stop_bookie=self._stop_bookie,
        )

    def _wait_ports(self) -> WaitPorts:
        actors = self._actors
        return WaitPorts(actors["storage"], actors["checkpoint"], self._ticker, monotonic_ms)

    def _start_disk_monitor(self) -> "pykka.ActorRef[DiskMonitorActor]":
        """Return the monitor; it has looked once, so that the mode is known before clients come."""
        ground, config = self.ground, self.ground.config
        limits = DiskLimits(
            warn=parse_free(config.disk_warn_free),
            readonly=parse_free(config.disk_readonly_free),
            margin_size=config.journal_segment_size + config.disk_reserve_size,
        )
        monitor = DiskMonitorActor.start(
            ground.storage, ground.files, limits, ground.gate, self._on_mode, self._stop_bookie
        )

        def tell(path: str) -> None:
            with suppress(pykka.ActorDeadError):
                monitor.tell(NoSpaceMet(path))

        ground.gate.watch(tell)
        monitor.ask(MeasureDue())
        return monitor

    def _start_ticking(self) -> None:
        config, actors, every = self.ground.config, self._actors, self._ticker.every
        every(CHECKPOINT_POLL_MS, lambda: actors["checkpoint"].tell(CheckpointDue()))
        every(AHEAD_POLL_MS, lambda: actors["ahead"].tell(AheadDue()))
        every(NOTE_SYNCED_MS, lambda: self._tell_all("journal-", NoteSynced()))
        every(DISK_POLL_MS, lambda: actors["disk"].tell(MeasureDue()))
        if config.sync_interval_ms:
            every(config.sync_interval_ms, lambda: self._tell_all("sync-", SyncDue()))
        if config.gc_interval_ms:
            every(config.gc_interval_ms, lambda: actors["gc"].tell(GcDue()))
        if config.scrub_interval_ms:
            every(config.scrub_interval_ms, lambda: actors["scrub"].tell(ScrubDue()))

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
