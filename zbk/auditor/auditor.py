"""The auditor's body: carries out the effects of ``zbk.protocol.repair.audit.Auditor``.

Mailbox   events of the core, from the threads of the election and the metadata store, and from the
          executors
Answers   none: its reports go to the metadata store, its findings to the log
Owns      the core, the election, the watches, three executors and the pool that they share
Failure   an unexpected error ends the auditor, which resigns, so that another candidate leads;
          ``on_failure`` receives it

Threads: ``zbk-auditor`` runs the core. Three executors of one thread each run the steps: looks and
notes; scans; checks. A step blocks until the metadata store or a bookie answers, which is bounded
by their time-outs.

Callbacks of the metadata store must not call it, so a watch only asks the first executor to look.
Several changes while a look waits cause one look.

Source: BookKeeper's ``Auditor``, ``AuditorElector``.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.auditor.audit_status import AuditStatus
from zbk.auditor.audit_steps import CONCURRENT_COUNT, AuditSteps
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.config import AutorecoveryConfig
from zbk.errors import ClientClosedError, MetadataUnavailableError, ZbkError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.stores.store import Watch
from zbk.metrics.samples import Samples
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
    RetryFailed,
    RetryUnrepairable,
    SettingsChanged,
    Switched,
    TermBegun,
    TermEnded,
    TimePassed,
    Triggered,
    WakeAt,
)
from zbk.system.clock import monotonic_ms, wall_ms
from zbk.system.event_log import EventLog

RETRY_MS: Final = 2_000
"""The pause before a failed look or step is repeated."""

STOP_TIMEOUT_S: Final = 30.0

LOG = EventLog("zbk.auditor")

Step: TypeAlias = Callable[[], Event | None]

_View: TypeAlias = tuple[frozenset[str], frozenset[str], int | None]
"""The lost bookies, those whose ledgers are not all reported, and the end of the delay."""


class _Stop(msgspec.Struct, frozen=True):
    """The last message."""


class AuditorThread:
    """The auditor of one process. After its start it is a candidate in elections."""

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
        self._retry_ms = retry_ms
        self._core = Auditor(settings_of(config, retry_ms))
        self._inbox: queue.SimpleQueue[Event | _Stop] = queue.SimpleQueue()
        self._wake_ms: int | None = None
        self._is_stopping = threading.Event()
        self._is_look_due = threading.Event()
        self._trigger: int | None = None
        self._watches: list[Watch] = []
        self._election: AuditorElection | None = None
        self._standing = threading.Lock()  # held until the election is known
        self._pool = ThreadPoolExecutor(CONCURRENT_COUNT, thread_name_prefix="zbk-audit-io")
        self._executors = {
            name: ThreadPoolExecutor(1, thread_name_prefix=f"zbk-audit-{name}")
            for name in ("look", "scan", "check")
        }
        self._steps = AuditSteps(
            connection, self._pool, self._term, is_full=config.ledger_check_full
        )
        self._notes = AuditorNotes(connection.store)
        self._status = AuditStatus(candidate_id)
        self._written: _View = (frozenset(), frozenset(), None)
        self._thread = threading.Thread(target=self._run, name="zbk-auditor", daemon=True)

    def start(self) -> None:
        """Start: become a candidate, and audit when elected."""
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

    def change_options(self, config: AutorecoveryConfig) -> None:
        """Use other live options. Any thread."""
        self._inbox.put(SettingsChanged(settings_of(config, self._retry_ms)))

    def stop(self) -> None:
        """Resign, and stop: steps under way publish nothing more."""
        self._is_stopping.set()
        if self._election is not None:
            self._election.close()
        for watch in self._watches:
            watch.cancel()
        self._inbox.put(_Stop())
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        for executor in (*self._executors.values(), self._pool):
            executor.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ other threads

    def read_metrics(self, samples: Samples) -> None:
        """Put the values of the auditor's metrics into samples. It is 0 lost without a term."""
        is_leader = self._term() is not None
        samples.set("zbk_auditor_leader", is_leader)
        samples.set("zbk_auditor_lost_bookies", len(self._written[0]) if is_leader else 0)
        samples.set("zbk_auditor_brake", is_leader and self._status.is_braked)

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

    def _do(self, executor: str, step: Step) -> None:
        """Run a step in an executor; its event goes to the mailbox."""

        def run() -> None:
            if self._is_stopping.is_set():
                return
            try:
                event = step()
            except ClientClosedError:  # the process ends
                return
            except Exception as error:
                LOG.exception("audit.step_failed", "a step of the audit failed")
                self._on_failure(error)
                return
            if event is not None:
                self._inbox.put(event)

        with suppress(RuntimeError):  # the executor is shut down: the process ends
            self._executors[executor].submit(run)

    # ------------------------------------------------------------------ the auditor's thread

    def _run(self) -> None:
        try:
            while True:
                event = self._next()
                if isinstance(event, _Stop):
                    return
                if isinstance(event, TermBegun):
                    self._status.begin_term()
                for effect in self._core.handle(event, monotonic_ms()):
                    self._carry_out(effect)
                if self._view != self._written and self._term() is not None:
                    self._write_status()
        except Exception as error:
            LOG.exception("audit.failed", "the auditor failed")
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
                self._status.note(effect, monotonic_ms())
                self._write_status()
            case _:
                assert_never(effect)

    @property
    def _view(self) -> _View:
        return self._core.lost, self._core.pending, self._core.delay_ends_ms

    def _write_status(self) -> None:
        (_, _, written_ends_ms), self._written = self._written, self._view
        lost, pending, ends_ms = self._written
        left_ms = None if ends_ms is None else ends_ms - monotonic_ms()
        if left_ms is not None and left_ms > 0 and ends_ms != written_ends_ms:
            self._status.log_delay(pending, left_ms)
        record = self._status.record(lost, pending, left_ms, wall_ms())

        def tell() -> None:
            self._notes_safely(lambda: self._notes.tell(record))

        self._do("look", tell)

    # ------------------------------------------------------------------ notes

    def _note(self, effect: RecallChecks | RememberCheck | RetryUnrepairable) -> Event | None:
        if self._term() != effect.term:
            return None
        match effect:
            case RecallChecks(term):
                return ChecksRecalled(term, self._ages_ms())
            case RememberCheck(kind):
                self._notes_safely(lambda: self._notes.note_check(kind, wall_ms()))
            case RetryUnrepairable(term=term):
                return self._retry_unrepairable(term)
            case _:
                assert_never(effect)
        return None

    def _retry_unrepairable(self, term: int) -> Event | None:
        count = 0

        def retry() -> None:
            nonlocal count
            count = self._connection.tasks.retry_unrepairable()

        is_done = self._notes_safely(retry)
        if count:
            LOG.info(
                "audit.unrepairable_retried",
                "%(ledger_count)d ledgers that could not be repaired are tried again",
                ledger_count=count,
            )
        return None if is_done else RetryFailed(term)

    def _ages_ms(self) -> Mapping[CheckKind, int]:
        """Return how long ago checks ended. One that cannot be read counts as never ended."""
        found: dict[str, int] = {}
        now_ms = wall_ms()

        def read() -> None:
            found.update(self._notes.check_times())

        self._notes_safely(read)
        known = {str(kind): kind for kind in CheckKind}
        return {
            known[name]: max(0, now_ms - at_ms) for name, at_ms in found.items() if name in known
        }

    def _notes_safely(self, note: Callable[[], None]) -> bool:
        """Read or write a note; return whether the metadata store was there.

        A lost note costs one more check, or a line of the status.
        """
        try:
            note()
        except MetadataUnavailableError as error:
            LOG.debug("audit.note_lost", "a note of the auditor is lost: %(error)s", error=error)
            return False
        except ClientClosedError:
            raise
        except ZbkError as error:
            LOG.warning("audit.note_lost", "a note of the auditor is lost: %(error)s", error=error)
        return True


def settings_of(config: AutorecoveryConfig, retry_ms: int) -> AuditSettings:
    """Return the auditor's part of the configuration."""
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
