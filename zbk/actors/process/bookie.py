"""A bookie: its actors, its socket and its registration, started and stopped in order.

Start       identity -> lock -> history -> incarnation -> storage (replay, fsync) -> claim of the
            incarnation -> actors -> socket -> registration. The bookie serves nothing before the
            replayed journal is on stable storage and the cluster knows of this start (``history``).
            Clients cannot find it before it serves.
Stop        registration -> the socket takes no more requests -> all requests are synced and
            answered -> actors -> a last checkpoint, so that the next start has nothing to replay
            -> storage -> metadata.
Failure     the socket closes and the process ends; the journal has what was promised.
Unclean     after a stop that may have lost unsynced data, after a wipe, or if files are missing,
            the bookie answers neither yes nor no about earlier ledgers (``losses``).
Full disk   no failure: the bookie is read-only, also in its registration, until there is space. A
            start uses the reserve before it fails.

Source: BookKeeper's ``Bookie`` and ``BookieServer``.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import pykka

from zbk.actors.identity.bookie_key import BookieKey
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.identity import check_identity, in_service, service_note
from zbk.actors.identity.ledger_secrets import secret_of
from zbk.actors.identity.losses import Losses
from zbk.actors.identity.readonly_switch import watch_switch
from zbk.actors.identity.service import settle
from zbk.actors.process.bookie_actors import BookieActors, BookieParts
from zbk.actors.process.bookie_metrics import BookieMetrics
from zbk.actors.process.descriptor_budget import plan_descriptors
from zbk.actors.process.start_parts import StartParts, closed_storage, failing, traceback_of
from zbk.actors.process.supervisor import Failed, StopRequested, SupervisorActor
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.last_checkpoint import take_last_checkpoint
from zbk.audit.trail import AuditCounts
from zbk.config import NO_SECURITY, BookieConfig, SecurityConfig
from zbk.errors import (
    BookieError,
    LostHistoryError,
    MemoryExhaustedError,
    NoSpaceError,
    StorageFailedError,
    ZbkError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.registration import Registration, RegistrationState
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import BookieRegistration
from zbk.protocol.ledger.features import FEATURES
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.identity import lock_directory
from zbk.system.boot import boot_id
from zbk.system.clock import monotonic_ms, wall_ms
from zbk.system.descriptors import descriptor_limit
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem, OsFiles
from zbk.system.memory import lift_memory_limit, limit_memory
from zbk.system.waking_event import WakingEvent
from zbk.version import __version__

LOG = EventLog("zbk.bookie")

QUIESCE_TIMEOUT_S: Final = 20.0


class Bookie:
    """One bookie in this process."""

    def __init__(
        self,
        config: BookieConfig,
        files: FileSystem | None = None,
        *,
        is_wiped_on_purpose: bool = False,
        http: str = "",
        security: SecurityConfig = NO_SECURITY,
        audit_counts: AuditCounts | None = None,
    ) -> None:
        """``http``: the URL of its metrics, for its registration.

        ``audit_counts``: those of the process, which may have had other bookies before.
        """
        self.config = config
        self._security = security
        self._http = http
        self.audit_counts: Final = audit_counts or AuditCounts()
        """The counts of records of this process in the audit log."""
        self._is_wiped_on_purpose = is_wiped_on_purpose
        self._budget = plan_descriptors(descriptor_limit(), config)
        self._losses: Losses | None = None
        self._is_clean = False  # nothing failed, and all promises are on stable storage
        self._files: FileSystem = files or OsFiles()
        self.ended = WakingEvent()
        self._mode_lock = threading.Lock()
        self._supervisor = SupervisorActor.start(self.ended)
        self._closing: list[Callable[[], None]] = []
        self._actors: BookieActors | None = None
        self._registered: Registration | None = None
        self._gate: SpaceGate | None = None
        self._error: BaseException | None = None  # of a part that cannot continue
        self._is_quiet = threading.Event()  # all requests are answered, or cannot be
        self.failure: BaseException | None = None  # that ended it
        self.wanted_expansion: BookieConfig | None = None  # of the next one in the process

    # ------------------------------------------------------------------ any thread

    def fail(self, error: BaseException) -> None:
        """Record that a part of the bookie cannot continue, and stop the bookie."""
        if isinstance(error, MemoryError):
            lift_memory_limit()  # stopping needs some memory
            error = MemoryExhaustedError(self.config.memory_max)
        if not isinstance(self._error, StorageFailedError):
            self._error = error
        self._is_quiet.set()
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(Failed(error))

    def request_stop(self, reason: str = "request") -> None:
        """Ask the bookie to stop in good order."""
        with suppress(pykka.ActorDeadError):
            self._supervisor.tell(StopRequested(reason))

    def request_expansion(self, config: BookieConfig) -> None:
        """Ask the bookie to stop, and its process to continue with more directories."""
        self.wanted_expansion = config
        self.request_stop("expansion of its storage")

    @property
    def losses(self) -> Losses:
        """The losses of the bookie. Only after its start."""
        assert self._losses is not None, "start comes first"
        return self._losses

    def goes_with(self, close: Callable[[], None]) -> None:
        """Call ``close`` when the bookie stops, before any part of it stops."""
        self._closing.append(close)

    def metrics(self) -> BookieMetrics:
        """Return what reads its metrics and checks its health; comes after ``start``."""
        actors, registered = self._actors, self._registered
        assert actors is not None, "start comes first"
        assert registered is not None, "start comes first"
        parts = actors.parts
        metrics = BookieMetrics(actors.status, actors.front, parts.storage, parts.store, registered)
        self._closing.append(metrics.close)
        return metrics

    def change_options(self, config: BookieConfig) -> None:
        """Use other live options. After ``start``; a bookie that stops ignores them."""
        if self._actors is not None:
            self._actors.change_options(config)

    def unsynced_ledgers(self) -> list[UnsyncedLedger]:
        """Return the ledgers of which a loss of power takes entries now; comes after ``start``."""
        assert self._actors is not None, "start comes first"
        return self._actors.status.unsynced_ledgers()

    # ------------------------------------------------------------------ start

    def start(self) -> BookieRegistration:
        """Start everything; return the registration after clients can find this bookie.

        Raises:
            ZbkError: it cannot start; the parts that were started are stopped again.
        """
        try:
            return self._start()
        except BaseException as error:
            if isinstance(error, LostHistoryError):
                LOG.critical("bookie.history_lost", "%(error)s", error=error)
            self._doubt(error)
            self._take_down()
            raise

    def _start(self) -> BookieRegistration:
        config, key = self.config, BookieKey(self.config, self._security)
        if reduced := self._budget.reduced(config):
            LOG.info("bookie.limits_reduced", "%(reduced)s", reduced=reduced)
        store = open_store(
            config.metadata, session_timeout_ms=config.session_timeout_ms, must_exist=True
        )
        self._closing.append(store.close)
        cookie = check_identity(self._files, store, config)
        note = service_note(self._files, config)
        for path in in_service(self._files, config):
            self._closing.append(lock_directory(self._files, path).close)
        gate = self._gate = SpaceGate(cookie.bookie_id)
        registry = BookieRegistry(store, session_timeout_ms=config.session_timeout_ms)
        trail = key.open_trail(cookie.bookie_id, self.audit_counts, self._closing.append)
        start = StartParts(store, registry, cookie, gate, note, key.front_security(store), trail)
        storage, history = self._open_storage(start)
        with failing(storage, self.config):
            history.claim()
        actors = self._start_actors(start, storage, history.incarnation)
        self._closing.append(key.follow(store, registry, cookie.bookie_id, actors.set_keys))
        self._closing.append(watch_switch(store, cookie.bookie_id, gate, self._on_mode).cancel)
        registration = BookieRegistration(
            bookie_id=cookie.bookie_id,
            address=config.advertise or actors.front.endpoint,
            incarnation=history.incarnation,
            is_readonly=gate.refuses_adds,
            started_ms=wall_ms(),
            version=__version__,
            rack=config.rack,
            http=self._http or msgspec.UNSET,
            features=FEATURES,
        )
        registration = key.described(registration, actors.front)
        self._registered = registry.register(registration, self._on_registration)
        self._closing.append(self._registered.close)
        if config.memory_max:
            limit_memory(config.memory_max)
            self._closing.append(lift_memory_limit)
        self._on_mode()  # the mode may have changed since
        return registration

    def _open_storage(self, start: StartParts) -> tuple[BookieStorage, BookieHistory]:
        """Return open storage, and the history with this start counted.

        A start that finds no space is retried with the reserves, one after the other.
        """
        storage = closed_storage(self._files, self.config, start, self._budget)
        if not storage.make_reserves():
            start.gate.met_no_space(storage.ledger_dirs[0])
        for _ in storage.reserves:
            try:
                return self._try_to_open(start, storage)
            except NoSpaceError as error:
                LOG.warning(
                    "bookie.no_space_to_start",
                    "there is no space to start, retrying with the reserve: %(error)s",
                    error=error,
                )
                storage.release_reserve(error.path)  # the write may not be one of storage
                storage = closed_storage(self._files, self.config, start, self._budget)
        return self._try_to_open(start, storage)

    def _try_to_open(
        self, start: StartParts, storage: BookieStorage
    ) -> tuple[BookieStorage, BookieHistory]:
        started_ms, note = monotonic_ms(), start.note
        ledgers = LedgerStore(start.store)
        losses = self._losses = Losses(
            self._files, storage.limbo, storage.ledger_dirs, self.config.boot_id or boot_id()
        )
        next_ledger_id = partial(ledgers.next_ledger_id, is_fresh=True)
        journal_dirs = enumerate(self.config.journal_dirs)
        history = BookieHistory(
            self._files,
            start.registry,
            start.cookie.bookie_id,
            journals={number: path for number, path in journal_dirs if path not in note.paths},
            ledger_dirs=storage.ledger_dirs,
            losses=losses,
            next_ledger_id=next_ledger_id,
        )
        with failing(storage, self.config):
            history.check(is_wiped_on_purpose=self._is_wiped_on_purpose)
            history.count_up()
        try:
            losses.find(next_ledger_id, is_wiped_on_purpose=self._is_wiped_on_purpose)
            settle(self._files, self.config, note, losses, next_ledger_id)
            losses.find_lost_files(storage.owner, next_ledger_id)
            losses.begin_serving()
            replayed = storage.open(partial(secret_of, ledgers), was_killed=losses.was_killed)
        except ZbkError:
            storage.close()
            raise
        self._closing.append(self._end_serving)
        self._closing.append(storage.close)
        self._closing.append(lambda: self._checkpoint_last(storage))
        LOG.info(
            "storage.open",
            "storage open: %(record_count)d journal records replayed, %(cut_record_count)d of a "
            "torn tail cut, in %(duration_ms)d ms",
            record_count=replayed.record_count,
            cut_record_count=replayed.cut_record_count,
            duration_ms=monotonic_ms() - started_ms,
        )
        return storage, history

    def _start_actors(
        self, start: StartParts, storage: BookieStorage, incarnation: int
    ) -> BookieActors:
        parts = BookieParts(
            self._files,
            self.config,
            start.identity(self.config, incarnation),
            start.store,
            storage,
            start.gate,
            self.losses,
            self._budget,
            start.security,
            start.trail,
        )
        actors = BookieActors(parts, on_mode=self._on_mode, stop_bookie=self.fail)
        self._actors = actors
        actors.start(self._closing.append)
        return actors

    def _on_mode(self) -> None:
        """Report to new clients and in the registration whether the bookie is read-only."""
        if self._gate is None or self._actors is None:
            return
        with self._mode_lock:  # of the disk monitor and of the switch
            self._actors.front.admission.is_readonly = self._gate.refuses_adds
            if self._registered is not None:
                self._registered.want_readonly(is_readonly=self._gate.refuses_adds)

    def _on_registration(self, state: RegistrationState) -> None:
        LOG.info("bookie.registration", "registration: %(state)s", state=state)
        if state is RegistrationState.FAILED:
            self.fail(BookieError("another process holds this bookie's registration"))

    # ------------------------------------------------------------------ stop

    def run_until_ended(self) -> int:
        """Wait for a request to stop or a failure; stop everything and return the exit code.

        The code is 0, or 1 after a failure. ``failure`` is set if that was the reason to stop.
        """
        self.ended.wait()
        error = self.failure = self._supervisor.proxy().error.get()
        if error is not None:
            LOG.critical(
                "bookie.failed",
                "the bookie stops: %(error)s",
                error=error,
                exc_info=traceback_of(error),
            )
            self._doubt(error)
        else:
            self._quiesce()
        self._take_down()
        return 0 if self._is_clean else 1

    def _quiesce(self) -> None:
        """Leave the cluster, take no more requests, keep the promises under way."""
        if self._registered is not None:
            self._registered.close()
        if self._actors is not None:
            with suppress(pykka.ActorDeadError):
                self._actors.quiesce(self._is_quiet)
                if not self._is_quiet.wait(QUIESCE_TIMEOUT_S):
                    LOG.warning(
                        "bookie.stop_timed_out", "stopped without waiting longer for the disk"
                    )
        self._is_clean = True

    def _take_down(self) -> None:
        while self._closing:
            close = self._closing.pop()
            try:
                close()
            except ZbkError as error:  # expected after a failed disk
                self._is_clean = False
                self._doubt(error)
                LOG.error("bookie.close_failed", "while closing: %(error)s", error=error)
            except Exception:
                self._is_clean = False
                LOG.exception("bookie.close_broken", "a part of the bookie did not close")
        self._supervisor.stop()

    def _doubt(self, error: BaseException) -> None:
        """Record a failed write, whose data the next start would otherwise trust."""
        is_disk = isinstance(error, StorageFailedError) and not isinstance(error, NoSpaceError)
        if is_disk and self._losses is not None:
            self._losses.doubt()

    def _checkpoint_last(self, storage: BookieStorage) -> None:
        if self._is_clean and self._error is None and not take_last_checkpoint(storage):
            LOG.info(
                "bookie.no_last_checkpoint",
                "stopped without a last checkpoint: the next start replays the journal",
            )

    def _end_serving(self) -> None:
        """Record after the last sync that nothing can be lost any more, or that it may be."""
        if self._error is not None:
            if self.failure is None:  # it came after the request to stop
                LOG.critical(
                    "bookie.stop_failed",
                    "while stopping: %(error)s",
                    error=self._error,
                    exc_info=traceback_of(self._error),
                )
            self._is_clean = False
            self._doubt(self._error)
        elif self._is_clean:
            self.losses.end_serving()
