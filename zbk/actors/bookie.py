"""A bookie: its actors, its socket, its registration, put together and taken apart in order.

Start       identity -> lock -> incarnation -> storage (replay, fsync) -> actors -> socket ->
            registration. Nothing is served before the replayed journal is on stable storage, and
            nobody can find the bookie before it serves.
Stop        registration -> socket stops taking -> everything taken is synced and answered ->
            actors -> storage -> metadata. There is no last checkpoint: the next start replays
            what the journal has behind the last one.
Failure     the socket closes, the process ends; the journal has what was promised.
Full disk   no failure: the bookie is read-only, in its registration, too, until there is space. At
            the start the reserve is tried before it is one.

Source: BookKeeper's ``Bookie`` and ``BookieServer``.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pykka

from zbk.actors.about import About
from zbk.actors.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.gc import GcActor, GcDue
from zbk.actors.identity import check_identity, directories
from zbk.actors.journal import (
    JournalActor,
    JournalSyncActor,
    NoteSynced,
    SyncDue,
    SyncProgress,
    SyncQueue,
)
from zbk.actors.read import ReadActor
from zbk.actors.space_gate import SpaceGate
from zbk.actors.storage import Quiesce, Requests, StorageActor
from zbk.actors.supervisor import Failed, StopRequested, SupervisorActor
from zbk.config import MESSAGE_OVERHEAD_SIZE, MIB, BookieConfig, parse_free
from zbk.errors import BookieError, NoSpaceError, ZbkError
from zbk.metadata.bookies import BookieRegistry
from zbk.metadata.connect import open_store
from zbk.metadata.registration import Registration, RegistrationState
from zbk.metadata.store import MetadataStore
from zbk.metadata.values import BookieRegistration, Cookie
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.disk_space import DiskLimits, NoSpaceMet
from zbk.storage.identity import lock_directory, next_incarnation
from zbk.system.clock import monotonic_ms, wall_ms
from zbk.system.files import FileSystem, OsFiles, is_no_space
from zbk.system.ticker import Ticker
from zbk.transport.router import Identity, Inbound, RouterFront

logger = logging.getLogger("zbk.bookie")

VERSION: Final = "0.1.0"
MESSAGE_SIZE_MIN: Final = 4 * MIB
"""Every bookie takes frames of this size: a client's batches are smaller."""

CHECKPOINT_POLL_MS: Final = 250
NOTE_SYNCED_MS: Final = 500
DISK_POLL_MS: Final = 500
QUIESCE_TIMEOUT_S: Final = 20.0


class Bookie:
    """One bookie in this process."""

    def __init__(self, config: BookieConfig, files: FileSystem | None = None) -> None:
        self._config = config
        self._files: FileSystem = files or OsFiles()
        self.ended = threading.Event()
        self._supervisor = SupervisorActor.start(self.ended)
        self._closing: list[Callable[[], None]] = []
        self._front: RouterFront | None = None
        self._storage_actor: pykka.ActorRef[StorageActor] | None = None
        self._registered: Registration | None = None
        self._gate: SpaceGate | None = None

    # ------------------------------------------------------------------ any thread

    def fail(self, error: BaseException) -> None:
        """Note that a part of the bookie can not go on."""
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(Failed(error))

    def request_stop(self) -> None:
        """Ask the bookie to stop in good order."""
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(StopRequested())

    # ------------------------------------------------------------------ start

    def start(self) -> BookieRegistration:
        """Start everything; return the registration once others can find this bookie.

        Raises:
            ZbkError: it can not start; what was started has been taken down again.
        """
        try:
            return self._start()
        except BaseException:
            self._take_down()
            raise

    def _start(self) -> BookieRegistration:
        config = self._config
        store = open_store(config.metadata, session_timeout_ms=config.session_timeout_ms)
        self._closing.append(store.close)
        cookie = check_identity(self._files, store, config)
        for path in directories(config):
            lock = lock_directory(self._files, path)
            self._closing.append(lock.close)
        gate = self._gate = SpaceGate(cookie.bookie_id)
        storage, incarnation = self._open_storage(cookie, gate)
        front = self._start_actors(storage, store, cookie, incarnation, gate)
        registration = BookieRegistration(
            bookie_id=cookie.bookie_id,
            address=config.advertise or front.endpoint,
            incarnation=incarnation,
            is_readonly=gate.is_readonly,
            started_ms=wall_ms(),
            version=VERSION,
            rack=config.rack,
        )
        registry = BookieRegistry(store, session_timeout_ms=config.session_timeout_ms)
        self._registered = registry.register(registration, self._on_registration)
        self._closing.append(self._registered.close)
        self._on_mode()  # it may have changed meanwhile
        return registration

    def _open_storage(self, cookie: Cookie, gate: SpaceGate) -> tuple[BookieStorage, int]:
        """Return storage that is open, and the incarnation.

        What finds no space is tried again with the reserves, one after the other.
        """
        storage = self._storage(cookie, gate)
        if not storage.make_reserves():
            gate.met_no_space(self._config.ledger_dir)
        for _ in storage.reserves:
            try:
                return self._try_to_open(storage)
            except NoSpaceError as error:
                logger.warning("there is no space to start; trying with the reserve: %s", error)
                storage = self._storage(cookie, gate)
        return self._try_to_open(storage)

    def _try_to_open(self, storage: BookieStorage) -> tuple[BookieStorage, int]:
        started_ms = monotonic_ms()
        try:
            incarnation = next_incarnation(self._files, self._config.ledger_dir)
        except OSError as error:
            if not is_no_space(error):
                raise
            raise storage.out_of_space(self._config.ledger_dir, error) from error
        try:
            replayed = storage.open()
        except ZbkError:
            storage.close()
            raise
        self._closing.append(storage.close)
        logger.info(
            "storage open: %d journal records replayed, %d of a torn tail cut, in %d ms",
            replayed.record_count,
            replayed.cut_record_count,
            monotonic_ms() - started_ms,
        )
        return storage, incarnation

    def _storage(self, cookie: Cookie, gate: SpaceGate) -> BookieStorage:
        config = self._config
        return BookieStorage(
            self._files,
            journal_dir=config.journal_dir,
            ledger_dir=config.ledger_dir,
            bookie_id=cookie.bookie_id,
            segment_size=config.journal_segment_size,
            log_size_max=config.entry_log_size_max,
            ledger_cache_size=config.ledger_cache_size,
            open_files_max=config.open_files_max,
            reserve_size=config.disk_reserve_size,
            on_no_space=gate.met_no_space,
        )

    def _start_actors(
        self,
        storage: BookieStorage,
        store: MetadataStore,
        cookie: Cookie,
        incarnation: int,
        gate: SpaceGate,
    ) -> RouterFront:
        config = self._config
        actors: dict[str, pykka.ActorRef[Any]] = {}
        identity = Identity(
            instance_id=cookie.instance_id,
            bookie_id=cookie.bookie_id,
            incarnation=incarnation,
            credit_size=config.connection_credit_size,
            entry_size_max=config.entry_size_max,
        )

        def deliver(batch: list[Inbound]) -> None:
            with suppress(pykka.ActorDeadError):
                actors["storage"].tell(Requests(batch))

        front = RouterFront(
            config.listen,
            identity,
            deliver,
            message_size_max=max(MESSAGE_SIZE_MIN, config.entry_size_max) + MESSAGE_OVERHEAD_SIZE,
            peer_count_max=config.connection_count_max,
            on_failure=self.fail,
        )
        self._closing.append(front.stop)
        self._front = front
        about = About(self._files, config, identity, front, storage, software=VERSION)
        progress = SyncProgress()
        ticker = Ticker("zbk-bookie-ticker")
        actors["read"] = ReadActor.start(storage.fetch, front.send, incarnation, self.fail)
        actors["storage"] = StorageActor.start(
            storage,
            journal=lambda: actors["journal"],
            reader=actors["read"],
            progress=progress,
            ticker=ticker,
            send=front.send,
            space=gate,
            about=about.answer,
            incarnation=incarnation,
            entry_size_max=config.entry_size_max,
            read_size_max=config.read_size_max,
            stop_bookie=self.fail,
        )
        queue = SyncQueue(storage.journal, actors["storage"], front.send, progress)
        actors["sync"] = JournalSyncActor.start(queue, self.fail)
        actors["journal"] = JournalActor.start(
            storage.journal,
            queue,
            actors["sync"],
            front.send,
            gate,
            config.journal_unsynced_size_max,
            self.fail,
        )
        actors["checkpoint"] = CheckpointActor.start(
            storage,
            actors["storage"],
            space=gate,
            interval_ms=config.checkpoint_interval_ms,
            journal_size=config.checkpoint_journal_size,
            stop_bookie=self.fail,
        )
        actors["gc"] = GcActor.start(
            storage.garbage,
            actors["storage"],
            store,
            cluster_id=cookie.instance_id,
            confirm_delay_ms=config.gc_confirm_delay_ms,
            ticker=ticker,
            stop_bookie=self.fail,
        )
        actors["disk"] = self._start_disk_monitor(storage, gate)
        about.watch(actors, queue)
        self._storage_actor = actors["storage"]
        self._closing.append(lambda: _stop_actors(actors))
        self._closing.append(ticker.stop)
        self._start_ticking(ticker, actors)
        front.start()
        return front

    def _start_disk_monitor(
        self, storage: BookieStorage, gate: SpaceGate
    ) -> "pykka.ActorRef[DiskMonitorActor]":
        """Return the monitor; it has looked once, so that the mode is known before clients come."""
        config = self._config
        limits = DiskLimits(
            warn=parse_free(config.disk_warn_free),
            readonly=parse_free(config.disk_readonly_free),
            margin_size=config.journal_segment_size + config.disk_reserve_size,
        )
        monitor = DiskMonitorActor.start(
            storage, self._files, limits, gate, self._on_mode, self.fail
        )

        def tell(path: str) -> None:
            with suppress(pykka.ActorDeadError):
                monitor.tell(NoSpaceMet(path))

        gate.watch(tell)
        monitor.ask(MeasureDue())
        return monitor

    def _on_mode(self) -> None:
        """Tell clients whether the bookie is read-only: those that come, and those that look."""
        if self._gate is not None and self._front is not None:
            self._front.is_readonly = self._gate.is_readonly
            if self._registered is not None:
                self._registered.want_readonly(is_readonly=self._gate.is_readonly)

    def _start_ticking(self, ticker: Ticker, actors: dict[str, "pykka.ActorRef[Any]"]) -> None:
        ticker.every(CHECKPOINT_POLL_MS, lambda: actors["checkpoint"].tell(CheckpointDue()))
        ticker.every(NOTE_SYNCED_MS, lambda: actors["journal"].tell(NoteSynced()))
        ticker.every(DISK_POLL_MS, lambda: actors["disk"].tell(MeasureDue()))
        if self._config.sync_interval_ms:
            ticker.every(self._config.sync_interval_ms, lambda: actors["sync"].tell(SyncDue()))
        if self._config.gc_interval_ms:
            ticker.every(self._config.gc_interval_ms, lambda: actors["gc"].tell(GcDue()))

    def _on_registration(self, state: RegistrationState) -> None:
        logger.info("registration: %s", state)
        if state is RegistrationState.FAILED:
            self.fail(BookieError("another process holds this bookie's registration"))

    # ------------------------------------------------------------------ stop

    def run_until_ended(self) -> int:
        """Wait until somebody asks to stop or something fails; take everything down.

        Returns the process's exit code: 0, or 1 after a failure.
        """
        self.ended.wait()
        error = self._supervisor.proxy().error.get()
        if error is not None:
            logger.critical("the bookie stops: %s", error, exc_info=_our_own(error))
        else:
            self._quiesce()
        self._take_down()
        return 0 if error is None else 1

    def _quiesce(self) -> None:
        """Leave the cluster, take nothing more, keep every promise that is under way."""
        if self._registered is not None:
            self._registered.close()
        done = threading.Event()
        if self._storage_actor is not None:
            with suppress(pykka.ActorDeadError):
                self._storage_actor.tell(Quiesce(done.set))
                if not done.wait(QUIESCE_TIMEOUT_S):
                    logger.warning("stopped without waiting longer for the disk")

    def _take_down(self) -> None:
        while self._closing:
            close = self._closing.pop()
            try:
                close()
            except ZbkError as error:  # after a failed disk it can not be otherwise
                logger.error("while closing: %s", error)  # noqa: TRY400 - it says what failed
            except Exception:
                logger.exception("a part of the bookie did not close")
        self._supervisor.stop()


def _stop_actors(actors: dict[str, "pykka.ActorRef[Any]"]) -> None:
    for name in ("disk", "gc", "checkpoint", "storage", "read", "journal", "sync"):
        if name in actors:
            actors[name].stop(timeout=QUIESCE_TIMEOUT_S)


def _our_own(error: BaseException) -> BaseException | None:
    """Return the error if its traceback is of use: for a bug, not for a full or broken disk."""
    return None if isinstance(error, ZbkError) else error
