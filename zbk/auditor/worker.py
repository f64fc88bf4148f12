"""The replication worker: takes tasks, repairs their ledgers, records the outcomes.

Several threads each repair one ledger after the other. A thread picks tasks in random order, so
that the workers of a cluster seldom meet. The lock of a task is ephemeral and only keeps two
workers from doing the same work. Safety does not depend on it: every change of a ledger is a
compare-and-swap. When the session with the metadata store is in doubt, the threads drop their
repairs, and begin none for as long as the auditor's brake holds: the registrations of bookies may
have vanished with the session, and a ledger must not count as lost because its bookies are about to
return.

A ledger that waits for its writer's grace period is *parked*: its thread continues with other
ledgers, its lock is kept.

``zbk.protocol.repair.repair_task`` defines the outcomes. A finished task is removed, unless it was
reported again meanwhile. A repair may wait for a bookie that is only reported to lack entries, and
is away. After as long as the auditor waits for a lost bookie, this bookie is reported as lost here.

Threads: ``zbk-worker-<n>``. Callbacks of the metadata store only set flags.

Source: BookKeeper's ``ReplicationWorker``; the autorecovery page.
"""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, assert_never

import msgspec

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier, SharedThrottle
from zbk.auditor.ledger_repairer import LedgerRepairer, RepairSetup
from zbk.auditor.repair_counts import RepairCounts
from zbk.auditor.repair_progress import RepairProgress
from zbk.auditor.repair_reports import RepairReports
from zbk.auditor.target_policies import OneTarget, PlacementTarget, TargetPolicy
from zbk.auditor.task_queue import POLL_S, TaskQueue
from zbk.config import AutorecoveryConfig
from zbk.errors import ClientClosedError, MetadataUnavailableError, ZbkError
from zbk.metadata.records.underreplication import MissingReason, UnderreplicatedLedger
from zbk.metadata.stores.store import SessionState, Watch
from zbk.protocol.repair.absences import Absences
from zbk.protocol.repair.backoff import RepairBackoff
from zbk.protocol.repair.repair_effects import RepairLimits, RepairResult
from zbk.protocol.repair.repair_task import OutcomeKind, aim_of, outcome_of
from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog, Names

PARKED_COUNT_MAX: Final = 256
"""Ledgers that are parked at a time; with more, threads wait, too."""

STOP_TIMEOUT_S: Final = 90.0

LOG = EventLog("zbk.auditor")


class Work(msgspec.Struct):
    """A task whose lock this worker holds, and its repair: in a thread, or parked."""

    ledger_id: int
    task: UnderreplicatedLedger
    version: int
    repairer: LedgerRepairer
    is_stopped: threading.Event
    resume_at_ms: int = 0


class ReplicationWorker:
    """The replication worker of one process."""

    def __init__(
        self,
        connection: ClusterConnection,
        name: str,
        config: AutorecoveryConfig,
        on_failure: Callable[[BaseException], None],
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        rng: random.Random | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._connection = connection
        self._tasks = connection.tasks
        self._name = name
        self._on_failure = on_failure
        self._limits = RepairLimits(grace_ms=config.open_ledger_grace_ms)
        self._throttle = SharedThrottle(config.replication_rate_size)
        self._copier = Copier(connection.requests, self._throttle)
        self._targets: TargetPolicy = PlacementTarget(connection.placer)
        if config.target_policy == "local":
            self._targets = OneTarget(connection.placer, config.local_bookie_id, is_local=True)
        self._queue = TaskQueue(
            self._tasks,
            RepairBackoff(config.repair_retry_ms_max),
            rng or random.Random(),  # noqa: S311 - spreads workers, keeps no secret
            now_ms,
        )
        self.counts = RepairCounts()
        self._reports = RepairReports(now_ms)
        self._absences = Absences()
        self._lost_bookie_delay_ms = config.lost_bookie_delay_ms
        self._lock = threading.Lock()  # guards the fields below
        self._rest_ms = config.brake_hold_ms
        self._rest_until_ms = 0
        self._works: dict[int, Work] = {}  # parked ones included
        self._parked: list[Work] = []
        self._is_stopped = threading.Event()
        self._is_task_announced = threading.Event()
        self._is_enabled = threading.Event()
        self._watches: list[Watch] = []
        self._threads = [
            threading.Thread(target=self._run, name=f"zbk-worker-{number}", daemon=True)
            for number in range(config.worker_count)
        ]

    def change_options(self, config: AutorecoveryConfig) -> None:
        """Use other live options. Any thread."""
        self._throttle.change(config.replication_rate_size)
        self._lost_bookie_delay_ms = config.lost_bookie_delay_ms
        with self._lock:
            self._rest_ms = config.brake_hold_ms

    def start(self) -> None:
        """Start.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        self._watches = [
            self._tasks.watch_tasks(self._is_task_announced.set),
            self._tasks.watch_enabled(self._switch),
            self._connection.store.on_session(self._on_session),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def repair_count(self) -> int:
        """The number of repairs under way, parked ones included. Any thread."""
        return len(self._works)

    @property
    def is_enabled(self) -> bool:
        """False while autorecovery is disabled in the cluster. Any thread."""
        return self._is_enabled.is_set()

    def stop(self) -> None:
        """Stop; release the locks. A second call does nothing."""
        self._is_stopped.set()
        self._is_task_announced.set()
        self._is_enabled.set()
        self._drop_all()
        for watch in self._watches:
            watch.cancel()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_TIMEOUT_S)
        for work in self._take_parked(is_all=True):
            self._give_back(work)

    # ------------------------------------------------------------------ callbacks

    def _switch(self, is_enabled: bool) -> None:
        if is_enabled:
            self._is_enabled.set()
            self._is_task_announced.set()
        elif not self._is_stopped.is_set():
            self._is_enabled.clear()

    def _on_session(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            dropped_count = self._drop_all()
            self._rest_until_ms = self._now_ms() + self._rest_ms
            self._queue.expect_tasks()  # after the rest
            if dropped_count:
                LOG.info(
                    "repair.session_in_doubt",
                    "the session with the metadata store is in doubt: %(dropped_count)d repairs "
                    "are dropped; the workers that lock their ledgers next begin again",
                    dropped_count=dropped_count,
                )

    def _drop_all(self) -> int:
        """Drop all repairs; return how many there were."""
        with self._lock:
            for work in self._works.values():
                work.is_stopped.set()
            return len(self._works)

    # ------------------------------------------------------------------ threads

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                if not self._work_once() and self._is_task_announced.wait(self._pause_s()):
                    self._is_task_announced.clear()
                    self._queue.list_soon()
            except ClientClosedError:
                return
            except MetadataUnavailableError as error:
                LOG.info(
                    "repair.store_away",
                    "the replication worker waits for the metadata store: %(error)s",
                    error=error,
                )
                self._is_stopped.wait(POLL_S)
            except ZbkError as error:
                LOG.warning("repair.worker_error", "the replication worker: %(error)s", error=error)
                self._is_stopped.wait(POLL_S)
            except Exception as error:
                LOG.exception("repair.worker_failed", "the replication worker failed")
                self._on_failure(error)
                return

    def _pause_s(self) -> float:
        """Return how long to wait for an announcement before the next listing."""
        with self._lock:
            return POLL_S if self._works else self._queue.pause_s

    def _work_once(self) -> bool:
        """Advance a parked repair, or begin one; return whether there was one to do."""
        self._reports.report_due()
        for work in self._take_parked():
            self._advance(work)
            return True
        if not self._is_enabled.is_set() or self._is_resting():
            return False
        ledger_id = self._queue.pop()
        if ledger_id is None or self._is_resting():  # since the listing; it is listed again
            return False
        if not self._tasks.lock(ledger_id, self._name):
            return True
        begun = self._begin(ledger_id)
        if begun is not None:
            self._advance(begun)
        return True

    def _is_resting(self) -> bool:
        return self._now_ms() < self._rest_until_ms

    def _begin(self, ledger_id: int) -> Work | None:
        """Read a task that is locked now; ``None``: it is done already."""
        try:
            found = self._tasks.read(ledger_id)
        except ZbkError:
            self._unlock(ledger_id)
            raise
        if found is None or not self._queue.is_due(ledger_id):
            self._unlock(ledger_id)
            return None
        task, version = found
        is_stopped = threading.Event()
        setup = RepairSetup(
            connection=self._connection,
            copier=self._copier,
            targets=self._targets,
            limits=self._limits,
            watcher=RepairProgress(self._tasks, ledger_id, self.counts),
            holds_lock=lambda: self._tasks.holds(ledger_id),
            is_stopped=is_stopped,
        )
        repairer = LedgerRepairer(aim_of(task), setup)
        work = Work(ledger_id, task, version, repairer, is_stopped)
        with self._lock:
            self._works[ledger_id] = work
        # a doubt that came before this is seen here; a later one sets the flag
        if self._connection.store.session_state() is not SessionState.CONNECTED:
            is_stopped.set()
        if self._is_stopped.is_set():
            is_stopped.set()
        return work

    def _advance(self, work: Work) -> None:
        try:
            until_ms = work.repairer.advance()
            while until_ms is not None and not self._park(work, until_ms):
                work.is_stopped.wait(max(0, until_ms - self._now_ms()) / 1000)
                until_ms = work.repairer.advance()
            if until_ms is None:
                self._conclude(work, work.repairer.result)
        except BaseException:
            self._give_back(work)
            raise

    def _park(self, work: Work, until_ms: int) -> bool:
        with self._lock:
            if len(self._parked) == PARKED_COUNT_MAX:
                return False
            work.resume_at_ms = until_ms
            self._parked.append(work)
            return True

    def _take_parked(self, *, is_all: bool = False) -> list[Work]:
        """Remove and return one parked repair that is due or dropped; or all of them."""
        now_ms = self._now_ms()
        with self._lock:
            due = [w for w in self._parked if w.is_stopped.is_set() or now_ms >= w.resume_at_ms]
            taken = list(self._parked) if is_all else due[:1]
            self._parked = [w for w in self._parked if w not in taken]
        return taken

    # ------------------------------------------------------------------ outcomes

    def _conclude(self, work: Work, result: RepairResult) -> None:
        """Record the outcome of the repair, and release the lock."""
        ledger_id = work.ledger_id
        if result.is_recovered:
            LOG.info(
                "repair.ledger_closed",
                "ledger %(ledger_id)d was fenced and closed: its writer did not continue",
                ledger_id=ledger_id,
            )
        outcome = outcome_of(work.task, result)
        self.counts.ended(outcome.kind)
        match outcome.kind:
            case OutcomeKind.FINISHED:
                if self._tasks.finish(ledger_id, work.version):
                    self._queue.forget(ledger_id)
                    self._reports.whole(ledger_id, result)
            case OutcomeKind.POSTPONED:
                if not (result.awaited and self._report_absent(ledger_id, result)):
                    self._queue.postpone(ledger_id)
                    LOG.info(
                        "repair.postponed",
                        "ledger %(ledger_id)d is tried again later: %(reason)s",
                        ledger_id=ledger_id,
                        reason=outcome.why,
                    )
                    self._tasks.note_failure(ledger_id, work.version, outcome.why, result.mended)
            case OutcomeKind.UNREPAIRABLE:
                self._put_aside(work, result, outcome.why)
            case OutcomeKind.LEFT:
                self._queue.postpone(ledger_id)
                if result.mended:
                    self._tasks.note_failure(
                        ledger_id, work.version, "other slots are left for later", result.mended
                    )
            case OutcomeKind.DROPPED:
                pass
            case _:
                assert_never(outcome.kind)
        self._give_back(work)

    def _report_absent(self, ledger_id: int, result: RepairResult) -> bool:
        """Report awaited bookies that were away for too long; return whether there are any."""
        delay_ms = self._tasks.lost_bookie_delay_ms()
        if delay_ms is None:
            delay_ms = self._lost_bookie_delay_ms
        registered = self._connection.registered()
        with self._lock:
            absent = self._absences.overdue(
                result.awaited, registered, self._now_ms(), patience_ms=delay_ms + self._rest_ms
            )
        if absent:
            self._tasks.report(ledger_id, absent, MissingReason.LOST)
            LOG.info(
                "repair.wait_ended",
                "ledger %(ledger_id)d no longer waits for %(bookies)s",
                ledger_id=ledger_id,
                bookies=Names(absent),
            )
            self._queue.forget(ledger_id)
        return bool(absent)

    def _put_aside(self, work: Work, result: RepairResult, why: str) -> None:
        if not self._tasks.mark_unrepairable(
            work.ledger_id, work.version, why, ledger_version=result.ledger_version
        ):
            return
        self._queue.forget(work.ledger_id)
        # a bookie that returned, or left limbo, before the mark did not find the task to retry it
        if result.is_outdated(self._connection.registered()) or any(
            self._connection.has_left_limbo(bookie_id, work.ledger_id)
            for bookie_id in sorted(result.in_limbo)
        ):
            self._tasks.retry_unrepairable([work.ledger_id])
        else:
            LOG.warning(
                "repair.unrepairable",
                "ledger %(ledger_id)d cannot be repaired: %(reason)s",
                ledger_id=work.ledger_id,
                reason=why,
            )

    def _give_back(self, work: Work) -> None:
        with self._lock:
            self._works.pop(work.ledger_id, None)
        self._unlock(work.ledger_id)

    def _unlock(self, ledger_id: int) -> None:
        # the end of the session releases it, too
        with suppress(MetadataUnavailableError, ClientClosedError):
            self._tasks.unlock(ledger_id)
