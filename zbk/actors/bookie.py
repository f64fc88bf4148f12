"""A bookie: its actors, its socket, its registration, put together and taken apart in order.

Start       identity -> lock -> incarnation -> storage (replay, fsync) -> actors -> socket ->
            registration. Nothing is served before the replayed journal is on stable storage, and
            nobody can find the bookie before it serves.
Stop        registration -> socket stops taking -> everything taken is synced and answered ->
            actors -> a last checkpoint, so that the next start has nothing to replay -> storage
            -> metadata.
Failure     the socket closes, the process ends; the journal has what was promised.
Unclean     a start after one that may have lost what was not synced, or after a wipe, says of
            ledgers of before neither yes nor no (``losses``).
Full disk   no failure: the bookie is read-only, in its registration, too, until there is space. At
            the start the reserve is tried before it is one.

Source: BookKeeper's ``Bookie`` and ``BookieServer``.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pykka

from zbk.actors.about import About
from zbk.actors.checkpoint import CheckpointActor, CheckpointAsked, CheckpointDue
from zbk.actors.compaction_rounds import CompactionOptions, limits_of, room_of
from zbk.actors.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.gc import GcActor, GcDue
from zbk.actors.identity import check_identity, in_service, service_note
from zbk.actors.journal import (
    JournalActor,
    JournalSyncActor,
    NoteSynced,
    SyncDue,
    SyncProgress,
    SyncQueue,
)
from zbk.actors.last_checkpoint import take_last_checkpoint
from zbk.actors.losses import Losses
from zbk.actors.read import MovedEntries, ReadActor
from zbk.actors.scrub import ScrubActor, ScrubDue
from zbk.actors.service import settle
from zbk.actors.space_gate import SpaceGate
from zbk.actors.storage import Quiesce, Requests, StorageActor
from zbk.actors.supervisor import Failed, StopRequested, SupervisorActor
from zbk.config import MESSAGE_OVERHEAD_SIZE, MIB, BookieConfig, parse_free
from zbk.errors import BookieError, NoSpaceError, StorageFailedError, ZbkError
from zbk.metadata.bookies import BookieRegistry
from zbk.metadata.connect import open_store
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.registration import Registration, RegistrationState
from zbk.metadata.store import MetadataStore
from zbk.metadata.underreplication import UnderreplicationStore
from zbk.metadata.values import BookieRegistration, Cookie
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.disk_space import DiskLimits, NoSpaceMet
from zbk.storage.identity import lock_directory, next_incarnation
from zbk.storage.journal import Journal
from zbk.storage.service_note import ServiceNote
from zbk.system.boot import boot_id
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

    def __init__(
        self,
        config: BookieConfig,
        files: FileSystem | None = None,
        *,
        is_wiped_on_purpose: bool = False,
    ) -> None:
        self._config = config
        self._is_wiped_on_purpose = is_wiped_on_purpose
        self._losses: Losses | None = None
        self._is_clean = False  # nothing failed, and all that was promised is on stable storage
        self._files: FileSystem = files or OsFiles()
        self.ended = threading.Event()
        self._supervisor = SupervisorActor.start(self.ended)
        self._closing: list[Callable[[], None]] = []
        self._front: RouterFront | None = None
        self._storage_actor: pykka.ActorRef[StorageActor] | None = None
        self._registered: Registration | None = None
        self._gate: SpaceGate | None = None
        self.failure: BaseException | None = None  # that ended it

    # ------------------------------------------------------------------ any thread

    def fail(self, error: BaseException) -> None:
        """Note that a part of the bookie can not go on."""
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(Failed(error))

    def request_stop(self) -> None:
        """Ask the bookie to stop in good order."""
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(StopRequested())

    @property
    def losses(self) -> Losses:
        """What it may have lost; there is an answer once the bookie has started."""
        assert self._losses is not None, "start comes first"
        return self._losses

    def goes_with(self, close: Callable[[], None]) -> None:
        """Call ``close`` when the bookie is taken down, before any part of it is."""
        self._closing.append(close)

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
        note = service_note(self._files, config)
        for path in in_service(self._files, config):
            lock = lock_directory(self._files, path)
            self._closing.append(lock.close)
        gate = self._gate = SpaceGate(cookie.bookie_id)
        storage, incarnation = self._open_storage(store, cookie, gate, note)
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

    def _open_storage(
        self, store: MetadataStore, cookie: Cookie, gate: SpaceGate, note: ServiceNote
    ) -> tuple[BookieStorage, int]:
        """Return storage that is open, and the incarnation.

        What finds no space is tried again with the reserves, one after the other.
        """
        storage = self._storage(cookie, gate, note)
        if not storage.make_reserves():
            gate.met_no_space(storage.ledger_dirs[0])
        for _ in storage.reserves:
            try:
                return self._try_to_open(store, storage, note)
            except NoSpaceError as error:
                logger.warning("there is no space to start; trying with the reserve: %s", error)
                storage = self._storage(cookie, gate, note)
        return self._try_to_open(store, storage, note)

    def _try_to_open(
        self, store: MetadataStore, storage: BookieStorage, note: ServiceNote
    ) -> tuple[BookieStorage, int]:
        started_ms = monotonic_ms()
        incarnation = self._next_incarnation(storage)
        losses = self._losses = self._losses_of(storage)
        try:
            next_ledger_id = partial(LedgerStore(store).next_ledger_id, is_fresh=True)
            losses.find(next_ledger_id, is_wiped_on_purpose=self._is_wiped_on_purpose)
            settle(self._files, self._config, note, losses, next_ledger_id)
            losses.begin_serving()
            replayed = storage.open()
        except ZbkError:
            storage.close()
            raise
        self._closing.append(self._end_serving)
        self._closing.append(storage.close)
        self._closing.append(lambda: self._checkpoint_last(storage))
        logger.info(
            "storage open: %d journal records replayed, %d of a torn tail cut, in %d ms",
            replayed.record_count,
            replayed.cut_record_count,
            monotonic_ms() - started_ms,
        )
        return storage, incarnation

    def _next_incarnation(self, storage: BookieStorage) -> int:
        dirs = storage.ledger_dirs
        try:
            return next_incarnation(self._files, *dirs)
        except OSError as error:
            if not is_no_space(error) and len(dirs) == 1:
                raise
            where = next((one for one in dirs if str(error.filename).startswith(one)), dirs[0])
            raise storage.failed(where, error) from error

    def _losses_of(self, storage: BookieStorage) -> Losses:
        config = self._config
        return Losses(self._files, storage.limbo, storage.ledger_dirs, config.boot_id or boot_id())

    def _storage(self, cookie: Cookie, gate: SpaceGate, note: ServiceNote) -> BookieStorage:
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
            out_of_service=note.paths,
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
        about = About(self._files, config, identity, front, storage, self.losses, software=VERSION)
        journal_nos = range(len(storage.journals))
        progresses = [SyncProgress() for _ in journal_nos]
        ticker = Ticker("zbk-bookie-ticker")
        moved = MovedEntries(storage.is_gone, lambda again: _tell(actors, "storage", again))
        actors["read"] = ReadActor.start(storage.fetch, front.send, incarnation, self.fail, moved)
        actors["storage"] = StorageActor.start(
            storage,
            journals=lambda: [actors[f"journal-{number}"] for number in journal_nos],
            reader=actors["read"],
            progresses=progresses,
            ticker=ticker,
            send=front.send,
            space=gate,
            about=about.answer,
            incarnation=incarnation,
            entry_size_max=config.entry_size_max,
            read_size_max=config.read_size_max,
            stop_bookie=self.fail,
        )
        queues = [
            self._start_journal(actors, number, journal, front, gate, progresses[number])
            for number, journal in enumerate(storage.journals)
        ]
        actors["checkpoint"] = CheckpointActor.start(
            storage,
            actors["storage"],
            space=gate,
            interval_ms=config.checkpoint_interval_ms,
            journal_size=config.checkpoint_journal_size,
            stop_bookie=self.fail,
        )
        actors["gc"] = GcActor.start(
            storage.garbages,
            actors["storage"],
            store,
            cluster_id=cookie.instance_id,
            confirm_delay_ms=config.gc_confirm_delay_ms,
            compaction=self._compaction(actors, storage, gate),
            ticker=ticker,
            stop_bookie=self.fail,
        )
        actors["scrub"] = ScrubActor.start(
            storage.scrubs,
            storage.damaged,
            actors["storage"],
            UnderreplicationStore(store),
            bookie_id=cookie.bookie_id,
            rate_size=config.scrub_rate_size,
            ticker=ticker,
            stop_bookie=self.fail,
        )
        actors["disk"] = self._start_disk_monitor(storage, gate)
        about.watch(actors, queues)
        self._storage_actor = actors["storage"]
        self._closing.append(lambda: _stop_actors(actors))
        self._closing.append(ticker.stop)
        self._start_ticking(ticker, actors)
        front.start()
        return front

    def _start_journal(
        self,
        actors: "dict[str, pykka.ActorRef[Any]]",
        number: int,
        journal: Journal,
        front: RouterFront,
        gate: SpaceGate,
        progress: SyncProgress,
    ) -> SyncQueue:
        """Start the two actors of a journal."""
        queue = SyncQueue(journal, actors["storage"], front.send, progress, number)
        syncer = actors[f"sync-{number}"] = JournalSyncActor.start(queue, self.fail)
        actors[f"journal-{number}"] = JournalActor.start(
            journal,
            queue,
            syncer,
            front.send,
            gate,
            self._config.journal_unsynced_size_max,
            self.fail,
        )
        return queue

    def _compaction(
        self, actors: "dict[str, pykka.ActorRef[Any]]", storage: BookieStorage, gate: SpaceGate
    ) -> CompactionOptions:
        room_size = partial(
            room_of, files=self._files, reserves=storage.reserves, gate=gate, config=self._config
        )
        rate_size = self._config.compaction_rate_size
        return CompactionOptions(
            limits_of(self._config),
            rate_size,
            lambda done: _tell(actors, "checkpoint", CheckpointAsked(done)),
            room_size,
        )

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
        ticker.every(NOTE_SYNCED_MS, lambda: _tell_all(actors, "journal-", NoteSynced()))
        ticker.every(DISK_POLL_MS, lambda: actors["disk"].tell(MeasureDue()))
        if self._config.sync_interval_ms:
            ticker.every(
                self._config.sync_interval_ms, lambda: _tell_all(actors, "sync-", SyncDue())
            )
        if self._config.gc_interval_ms:
            ticker.every(self._config.gc_interval_ms, lambda: actors["gc"].tell(GcDue()))
        if self._config.scrub_interval_ms:
            ticker.every(self._config.scrub_interval_ms, lambda: actors["scrub"].tell(ScrubDue()))

    def _on_registration(self, state: RegistrationState) -> None:
        logger.info("registration: %s", state)
        if state is RegistrationState.FAILED:
            self.fail(BookieError("another process holds this bookie's registration"))

    # ------------------------------------------------------------------ stop

    def run_until_ended(self) -> int:
        """Wait until somebody asks to stop or something fails; take everything down.

        Returns the process's exit code: 0, or 1 after a failure, of which ``failure`` tells.
        """
        self.ended.wait()
        error = self.failure = self._supervisor.proxy().error.get()
        if error is not None:
            logger.critical("the bookie stops: %s", error, exc_info=_our_own(error))
            if isinstance(error, StorageFailedError):
                self.losses.doubt()
        else:
            self._is_clean = True
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
                self._is_clean = False
                logger.error("while closing: %s", error)  # noqa: TRY400 - it says what failed
            except Exception:
                self._is_clean = False
                logger.exception("a part of the bookie did not close")
        self._supervisor.stop()

    def _checkpoint_last(self, storage: BookieStorage) -> None:
        if self._is_clean and not take_last_checkpoint(storage):
            logger.info("stopped without a last checkpoint: the next start replays the journal")

    def _end_serving(self) -> None:
        """Note, behind the last sync, that nothing can get lost any more."""
        if self._is_clean:
            self.losses.end_serving()


def _tell(actors: "dict[str, pykka.ActorRef[Any]]", name: str, message: object) -> None:
    with suppress(pykka.ActorDeadError):
        actors[name].tell(message)


def _stop_actors(actors: dict[str, "pykka.ActorRef[Any]"]) -> None:
    for prefix in ("disk", "scrub", "gc", "checkpoint", "storage", "read", "journal-", "sync-"):
        for name in [name for name in actors if name.startswith(prefix)]:
            actors[name].stop(timeout=QUIESCE_TIMEOUT_S)


def _tell_all(
    actors: dict[str, "pykka.ActorRef[Any]"], prefix: str, message: NoteSynced | SyncDue
) -> None:
    for name, ref in actors.items():
        if name.startswith(prefix):
            ref.tell(message)


def _our_own(error: BaseException) -> BaseException | None:
    """Return the error if its traceback is of use: for a bug, not for a full or broken disk."""
    return None if isinstance(error, ZbkError) else error
