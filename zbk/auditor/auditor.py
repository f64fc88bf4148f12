"""The auditor's body: carries the effects of ``zbk.protocol.repair.audit.Auditor`` out.

Mailbox   events of the core, from the election's and the metadata store's threads, and from lanes
Answers   nothing; what it finds goes into the metadata store, and into the log
Owns      the core, the election, the watches, three lanes and the pool that they share
Failure   an error that nobody expected ends the auditor: it resigns, so that another one may try;
          ``on_failure`` is told

Threads: ``zbk-auditor`` has the core. A *lane* is a thread that does one step after the other:
looks and notes; scans; checks. A step blocks as long as the metadata store or a bookie takes, which
is bounded by their time-outs.

The metadata store's callbacks may not call it, so a watch only asks the first lane to look; several
changes while a look waits are one.

Source: BookKeeper's ``Auditor``, ``AuditorElector``.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.auditor.audit_status import AuditNews
from zbk.auditor.audit_steps import CONCURRENT_COUNT, AuditSteps
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.config import AutorecoveryConfig
from zbk.errors import ClientClosedError, MetadataUnavailableError, ZbkError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.stores.store import Watch
from zbk.protocol.repair.audit import Auditor
from zbk.protocol.repair.audit_events import (
    AuditSettings,
    BrakeApplied,
    BrakeReleased,
    CheckKind,
    CheckLedgers,
    ChecksRecalled,
    DelaySet,
    Effect,
    Event,
    JobBegun,
    JobEnded,
    JobStalled,
    LookAtBookies,
    Publish,
    ReadLedgers,
    RecallChecks,
    RememberCheck,
    RetryUnrepairable,
    Switched,
    TermBegun,
    TermEnded,
    TimePassed,
    Triggered,
    WakeAt,
)
from zbk.system.clock import monotonic_ms, wall_ms

RETRY_MS: Final = 2_000
"""Pause before a look or a step that failed is done again."""

STOP_TIMEOUT_S: Final = 30.0

LOG = logging.getLogger("zbk.auditor")

Step: TypeAlias = Callable[[], Event | None]

_View: TypeAlias = tuple[frozenset[str], frozenset[str], int | None]
"""Who is lost, whose ledgers are not all reported, and when the delay of the lost one ends."""


class _Stop(msgspec.Struct, frozen=True):
    """The last message."""


class AuditorThread:
    """One process's auditor. Stands for election when it is started."""

    def __init__(
        self,
        connection: ClusterConnection,
        candidate_id: str,
        config: AutorecoveryConfig,
        on_failure: Callable[[BaseException], None],
        *,
        retry_ms: int = RETRY_MS,
    ) -> None:
        self._connection = connection
        self._candidate_id = candidate_id
        self._on_failure = on_failure
        self._core = Auditor(settings_of(config, retry_ms))
        self._inbox: queue.SimpleQueue[Event | _Stop] = queue.SimpleQueue()
        self._wake_ms: int | None = None
        self._is_stopping = threading.Event()
        self._is_look_due = threading.Event()
        self._trigger: int | None = None
        self._watches: list[Watch] = []
        self._election: AuditorElection | None = None
        self._standing = threading.Lock()  # held until the election that tells of terms is known
        self._pool = ThreadPoolExecutor(CONCURRENT_COUNT, thread_name_prefix="zbk-audit-io")
        self._lanes = {
            name: ThreadPoolExecutor(1, thread_name_prefix=f"zbk-audit-{name}")
            for name in ("look", "scan", "check")
        }
        self._steps = AuditSteps(
            connection, self._pool, self._term, is_full=config.ledger_check_full
        )
        self._notes = AuditorNotes(connection.store)
        self._news = AuditNews(candidate_id)
        self._told: _View = (frozenset(), frozenset(), None)
        self._thread = threading.Thread(target=self._run, name="zbk-auditor", daemon=True)

    def start(self) -> None:
        """Stand for election, and audit when elected."""
        self._thread.start()
        store, tasks = self._connection.store, self._connection.tasks
        self._watches = [
            *(
                store.watch_children(path, lambda _names: self._want_look())
                for path in (COOKIES, AVAILABLE, READONLY)
            ),
            tasks.watch_enabled(lambda is_on: self._inbox.put(Switched(is_on))),
            tasks.watch_lost_bookie_delay(lambda delay_ms: self._inbox.put(DelaySet(delay_ms))),
            tasks.watch_trigger(self._on_trigger),
        ]
        with self._standing:
            self._election = AuditorElection(store, self._candidate_id, self._on_term)

    def stop(self) -> None:
        """Resign, and end: what is under way is published no more."""
        self._is_stopping.set()
        if self._election is not None:
            self._election.close()
        for watch in self._watches:
            watch.cancel()
        self._inbox.put(_Stop())
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        for lane in (*self._lanes.values(), self._pool):
            lane.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ other threads

    def _term(self) -> int | None:
        with self._standing:
            election = self._election
        return None if election is None or self._is_stopping.is_set() else election.term()

    def _on_term(self, term: int | None) -> None:
        self._inbox.put(TermEnded() if term is None else TermBegun(term))

    def _on_trigger(self, number: int) -> None:
        is_first, self._trigger = self._trigger is None, number
        if not is_first:
            self._inbox.put(Triggered())

    def _want_look(self) -> None:
        if not self._is_look_due.is_set():
            self._is_look_due.set()
            self._do("look", self._look_unasked)

    def _look_unasked(self) -> Event | None:
        self._is_look_due.clear()
        return self._steps.look(0, None)

    def _do(self, lane: str, step: Step) -> None:
        """Run a step in a lane; its event comes into the mailbox."""

        def run() -> None:
            if self._is_stopping.is_set():
                return
            try:
                event = step()
            except ClientClosedError:  # the store was closed: so are we
                return
            except Exception as error:
                LOG.exception("a step of the audit failed")
                self._on_failure(error)
                return
            if event is not None:
                self._inbox.put(event)

        with suppress(RuntimeError):  # the lane is shut down: so are we
            self._lanes[lane].submit(run)

    # ------------------------------------------------------------------ the auditor's thread

    def _run(self) -> None:
        try:
            while True:
                event = self._next()
                if isinstance(event, _Stop):
                    return
                if isinstance(event, TermBegun):
                    self._news.begin_term()
                for effect in self._core.handle(event, monotonic_ms()):
                    self._carry_out(effect)
                if self._view != self._told and self._term() is not None:
                    self._tell_status()
        except Exception as error:
            LOG.exception("the auditor failed")
            self._on_failure(error)

    def _next(self) -> Event | _Stop:
        if self._wake_ms is None:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(0, self._wake_ms - monotonic_ms()) / 1000)
        except queue.Empty:
            if monotonic_ms() >= self._wake_ms:
                self._wake_ms = None
            return TimePassed()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case WakeAt(at_ms):
                self._wake_ms = at_ms
            case LookAtBookies(look, term):
                self._do("look", lambda: self._steps.look(look, term))
            case CheckLedgers():
                self._do("check", lambda: self._steps.take(effect))
            case ReadLedgers() | Publish():
                self._do("scan", lambda: self._steps.take(effect))
            case RecallChecks() | RememberCheck() | RetryUnrepairable():
                self._do("look", lambda: self._note(effect))
            case BrakeApplied() | BrakeReleased() | JobBegun() | JobStalled() | JobEnded():
                self._news.tell(effect, monotonic_ms())
                self._tell_status()
            case _:
                assert_never(effect)

    @property
    def _view(self) -> _View:
        return self._core.lost, self._core.pending, self._core.delay_ends_ms

    def _tell_status(self) -> None:
        (_, _, told_ends_ms), self._told = self._told, self._view
        lost, pending, ends_ms = self._told
        left_ms = None if ends_ms is None else ends_ms - monotonic_ms()
        if left_ms is not None and left_ms > 0 and ends_ms != told_ends_ms:
            self._news.tell_delay(pending, left_ms)
        status = self._news.status(lost, pending, left_ms, wall_ms())
        self._do("look", lambda: self._notes_safely(lambda: self._notes.tell(status)))

    # ------------------------------------------------------------------ notes

    def _note(self, effect: RecallChecks | RememberCheck | RetryUnrepairable) -> Event | None:
        if self._term() != effect.term:
            return None
        match effect:
            case RecallChecks(term):
                return ChecksRecalled(term, self._ages_ms())
            case RememberCheck(kind):
                self._notes_safely(lambda: self._notes.note_check(kind, wall_ms()))
            case RetryUnrepairable():
                self._notes_safely(self._retry_unrepairable)
            case _:
                assert_never(effect)
        return None

    def _retry_unrepairable(self) -> None:
        count = self._connection.tasks.retry_unrepairable()
        if count:
            LOG.info("%d ledgers that nobody could repair are tried again", count)

    def _ages_ms(self) -> Mapping[CheckKind, int]:
        """Return how long ago checks ended. What cannot be read ended never: it is due later."""
        found: dict[str, int] = {}
        now_ms = wall_ms()

        def read() -> None:
            found.update(self._notes.check_times())

        self._notes_safely(read)
        known = {str(kind): kind for kind in CheckKind}
        return {
            known[name]: max(0, now_ms - at_ms) for name, at_ms in found.items() if name in known
        }

    def _notes_safely(self, note: Callable[[], None]) -> None:
        """Read or write a note; losing it costs a check more, or a line less."""
        try:
            note()
        except MetadataUnavailableError as error:
            LOG.debug("a note of the auditor was lost: %s", error)
        except ClientClosedError:
            raise
        except ZbkError as error:
            LOG.warning("a note of the auditor was lost: %s", error)


def settings_of(config: AutorecoveryConfig, retry_ms: int) -> AuditSettings:
    """Return what the core needs of the configuration."""
    return AuditSettings(
        lost_bookie_delay_ms=config.lost_bookie_delay_ms,
        brake_share_percent=config.brake_share_percent,
        brake_window_ms=config.brake_window_ms,
        brake_hold_ms=config.brake_hold_ms,
        retry_ms=retry_ms,
        interval_ms={
            CheckKind.BOOKIES: config.bookie_check_interval_ms,
            CheckKind.LEDGERS: config.ledger_check_interval_ms,
            CheckKind.PLACEMENT: config.placement_check_interval_ms,
            CheckKind.REPLICAS: config.replicas_check_interval_ms,
        },
    )
