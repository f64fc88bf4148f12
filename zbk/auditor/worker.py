"""The replication worker: takes tasks, repairs their ledgers, says what came of it.

Several *lanes*, each a thread, do one ledger after the other. A lane takes a task in random order,
so that the workers of a cluster seldom meet; the lock of a task is ephemeral and only keeps two
from doing the same work. What is safe is safe without it: every change of a ledger is a
compare-and-swap. When the session with the metadata store is in doubt, the lanes drop what they do,
and begin nothing for as long as the auditor's brake holds: the registrations of bookies may have
vanished with ours, and a ledger must not count as lost because its bookies are about to come back.

A ledger that waits for its writer's grace period is *parked*: its lane goes on with others, its
lock is kept.

    whole, or deleted          the task is finished, if nothing was reported meanwhile; else again
    an error                   noted in the task, tried again after a pause that doubles
    a bookie is away           the same, if the report did not say that it is lost, but that what it
                               holds is to be compared. After as long as the auditor takes to give a
                               bookie up it is reported as lost here
    nobody has some entries    as an error at first: a bookie may come back; the third time the task
                               is put aside as unrepairable. It is handed out again when a bookie
                               comes back (the auditor), or when one in limbo has got something of
                               the ledger back from its peers (``recheck``)
    needs its password         put aside at once
    left to another bookie     the lock is given back

Threads: ``zbk-worker-<n>``, the lanes. Callbacks of the metadata store only set flags.

Source: BookKeeper's ``ReplicationWorker``; the autorecovery page.
"""

import logging
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, islice
from typing import Final

import msgspec

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier, SharedThrottle
from zbk.auditor.copy_target import OneTarget, PlacementTarget, TargetPolicy
from zbk.auditor.ledger_repairer import LedgerRepairer, RepairSetup, RepairWatcher
from zbk.config import AutorecoveryConfig
from zbk.errors import ClientClosedError, MetadataUnavailableError, ZbkError
from zbk.metadata.records.underreplication import MissingReason, UnderreplicatedLedger
from zbk.metadata.stores.store import SessionState, Watch
from zbk.protocol.repair.absences import Absences
from zbk.protocol.repair.backoff import RepairBackoff
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.repair_effects import RepairAim, RepairLimits, RepairResult
from zbk.system.clock import monotonic_ms
from zbk.system.report_pace import ReportPace

POLL_S: Final = 1.0
QUIET_POLL_S: Final = 5.0
"""How often tasks are looked for while none is listed: whoever makes one tells the workers."""

"""How often idle lanes look by themselves, one for all: a task whose worker died is not announced.
"""

QUEUE_COUNT_MAX: Final = 10_000
"""Tasks that a worker has in view; the others come after them."""

PARKED_COUNT_MAX: Final = 256
"""Ledgers that wait for their writers at a time; with more, lanes wait, too."""

UNREPAIRABLE_COUNT: Final = 3
"""Attempts after which entries that nobody has count as lost for good."""

WHOLE_REPORT_MS: Final = 60_000
"""How often at most ledgers are reported that became whole without a copy: there may be thousands
of small ones."""

PROGRESS_INTERVAL_MS: Final = 1_000
STOP_TIMEOUT_S: Final = 90.0

LOG = logging.getLogger("zbk.auditor")


class _Work(msgspec.Struct):
    """One task that a lane, or nobody at the moment, works on."""

    ledger_id: int
    task: UnderreplicatedLedger
    version: int
    repairer: LedgerRepairer
    is_stopped: threading.Event
    resume_at_ms: int = 0


class ReplicationWorker:
    """The lanes of one process."""

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
        self._copier = Copier(connection.requests, SharedThrottle(config.replication_rate_size))
        self._targets: TargetPolicy = PlacementTarget(connection.placer)
        if config.target_policy == "local":
            self._targets = OneTarget(connection.placer, config.local_bookie_id, is_local=True)
        self._backoff = RepairBackoff(config.repair_retry_ms_max)
        self._absences = Absences()
        self._lost_bookie_delay_ms = config.lost_bookie_delay_ms
        self._rng = rng or random.Random()  # noqa: S311 - spreads workers, keeps no secret
        self._lock = threading.Lock()  # of what follows
        self._whole = ReportPace[tuple[int, RepairResult]](WHOLE_REPORT_MS)
        self._rest_ms = config.brake_hold_ms
        self._rest_until_ms = 0
        self._queue: list[int] = []
        self._look_at_ms = 0  # not before, without news: another lane found nothing just now
        self._is_task_listed = True  # as far as is known
        self._works: dict[int, _Work] = {}  # those of the lanes, and the parked ones
        self._parked: list[_Work] = []
        self._is_stopped = threading.Event()
        self._has_news = threading.Event()
        self._is_enabled = threading.Event()
        self._watches: list[Watch] = []
        self._lanes = [
            threading.Thread(target=self._run, name=f"zbk-worker-{number}", daemon=True)
            for number in range(config.worker_count)
        ]

    def start(self) -> None:
        """Begin.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        self._watches = [
            self._tasks.watch_tasks(self._has_news.set),
            self._tasks.watch_enabled(self._switch),
            self._connection.store.on_session(self._on_session),
        ]
        for lane in self._lanes:
            lane.start()

    def stop(self) -> None:
        """End; give the locks back. Twice is fine."""
        self._is_stopped.set()
        self._has_news.set()
        self._is_enabled.set()
        self._drop_all()
        for watch in self._watches:
            watch.cancel()
        for lane in self._lanes:
            if lane.is_alive():
                lane.join(STOP_TIMEOUT_S)
        for work in self._take_parked(is_all=True):
            self._give_back(work)

    # ------------------------------------------------------------------ callbacks

    def _switch(self, is_enabled: bool) -> None:
        if is_enabled:
            self._is_enabled.set()
            self._has_news.set()
        elif not self._is_stopped.is_set():
            self._is_enabled.clear()

    def _on_session(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            dropped_count = self._drop_all()
            self._rest_until_ms = self._now_ms() + self._rest_ms
            self._is_task_listed = True  # it is looked after the rest
            if dropped_count:
                LOG.info(
                    "the session with the metadata store is in doubt: %d repairs are dropped, and "
                    "begun anew by whoever has their locks then",
                    dropped_count,
                )

    def _drop_all(self) -> int:
        """Drop all that is under way; return how much there was."""
        with self._lock:
            for work in self._works.values():
                work.is_stopped.set()
            return len(self._works)

    # ------------------------------------------------------------------ lanes

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                if not self._turn() and self._has_news.wait(self._pause_s()):
                    self._has_news.clear()
                    self._look_at_ms = 0
            except ClientClosedError:
                return
            except MetadataUnavailableError as error:
                LOG.info("the replication worker waits for the metadata store: %s", error)
                self._is_stopped.wait(POLL_S)
            except ZbkError as error:
                LOG.warning("the replication worker: %s", error)
                self._is_stopped.wait(POLL_S)
            except Exception as error:
                LOG.exception("the replication worker failed")
                self._on_failure(error)
                return

    def _pause_s(self) -> float:
        """Return how long to wait for news before looking without any."""
        with self._lock:
            return POLL_S if self._works or self._is_task_listed else QUIET_POLL_S

    def _turn(self) -> bool:
        """Do one thing; return whether there was one."""
        self._report_many_whole()
        for work in self._take_parked():
            self._advance(work)
            return True
        if not self._is_enabled.is_set() or self._is_resting():
            return False
        ledger_id = self._next_task()
        if ledger_id is None or self._is_resting():  # since we asked; it is listed again
            return False
        if not self._tasks.lock(ledger_id, self._name):
            return True
        begun = self._begin(ledger_id)
        if begun is not None:
            self._advance(begun)
        return True

    def _is_resting(self) -> bool:
        return self._now_ms() < self._rest_until_ms

    def _next_task(self) -> int | None:
        now_ms = self._now_ms()
        with self._lock:
            if self._queue:
                return self._queue.pop()
            if now_ms < self._look_at_ms:
                return None
        locked = self._tasks.locked_ids()
        listed = iter(self._tasks.list())
        first_id = next(listed, None)
        self._is_task_listed = first_id is not None
        ids = (
            ledger_id
            for ledger_id in chain(() if first_id is None else (first_id,), listed)
            if ledger_id not in locked and self._is_due(ledger_id, now_ms)
        )
        found = list(islice(ids, QUEUE_COUNT_MAX))
        self._rng.shuffle(found)
        with self._lock:
            self._queue = found
            if found:
                return found.pop()
            self._look_at_ms = now_ms + int(POLL_S * 1000)
            return None

    def _begin(self, ledger_id: int) -> _Work | None:
        """Read a task whose lock we have; ``None``: it is done already."""
        try:
            found = self._tasks.read(ledger_id)
        except ZbkError:
            self._unlock(ledger_id)
            raise
        if found is None or not self._is_due(ledger_id, self._now_ms()):
            self._unlock(ledger_id)
            return None
        task, version = found
        is_stopped = threading.Event()
        setup = RepairSetup(
            connection=self._connection,
            copier=self._copier,
            targets=self._targets,
            limits=self._limits,
            watcher=_ProgressNotes(self._connection, ledger_id),
            holds_lock=lambda: self._tasks.holds(ledger_id),
            is_stopped=is_stopped,
        )
        repairer = LedgerRepairer(aim_of(task), setup)
        work = _Work(ledger_id, task, version, repairer, is_stopped)
        with self._lock:
            self._works[ledger_id] = work
        # a doubt that came before this is seen here; one that comes later sets the flag
        if self._connection.store.session_state() is not SessionState.CONNECTED:
            is_stopped.set()
        if self._is_stopped.is_set():
            is_stopped.set()
        return work

    def _advance(self, work: _Work) -> None:
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

    def _park(self, work: _Work, until_ms: int) -> bool:
        with self._lock:
            if len(self._parked) == PARKED_COUNT_MAX:
                return False
            work.resume_at_ms = until_ms
            self._parked.append(work)
            return True

    def _take_parked(self, *, is_all: bool = False) -> list[_Work]:
        """Return one of the parked ledgers that are due, or that are to be dropped; or all."""
        now_ms = self._now_ms()
        with self._lock:
            due = [w for w in self._parked if w.is_stopped.is_set() or now_ms >= w.resume_at_ms]
            taken = list(self._parked) if is_all else due[:1]
            self._parked = [w for w in self._parked if w not in taken]
        return taken

    # ------------------------------------------------------------------ how it ends

    def _conclude(self, work: _Work, result: RepairResult) -> None:
        """Say in the task what came of the repair, and give the lock back."""
        ledger_id = work.ledger_id
        if result.is_recovered:
            LOG.info("ledger %d was fenced and closed: its writer did not move on", ledger_id)
        if result.is_whole:
            if self._tasks.finish(ledger_id, work.version):
                self._forget(ledger_id)
                self._report_whole(ledger_id, result)
        elif result.error is not None:
            if not self._give_up_absent(work, result):
                self._put_off(work, str(result.error))
        elif result.unrepairable:
            self._conclude_loss(work, result)
        elif result.skipped_count:
            self._rest(ledger_id)
        self._give_back(work)

    def _report_whole(self, ledger_id: int, result: RepairResult) -> None:
        if result.copied_count:
            LOG.info("ledger %d is whole: %s", ledger_id, summary(result))
            return
        LOG.debug("ledger %d is whole: %s", ledger_id, summary(result))
        with self._lock:
            self._whole.note((ledger_id, result))
        self._report_many_whole()

    def _report_many_whole(self) -> None:
        """Report the ledgers that became whole without a copy: the first, then all in a minute."""
        with self._lock:
            due = self._whole.take_due(self._now_ms())
        if due is None:
            return
        count, (ledger_id, result) = due
        if count == 1:
            LOG.info("ledger %d is whole: %s", ledger_id, summary(result))
        else:
            LOG.info(
                "%d ledgers are whole, 0 entries copied; the last was ledger %d", count, ledger_id
            )

    def _give_up_absent(self, work: _Work, result: RepairResult) -> bool:
        """Report bookies as lost that were waited for long enough; return whether there are any."""
        if not result.awaited:
            return False
        delay_ms = self._tasks.lost_bookie_delay_ms()
        if delay_ms is None:
            delay_ms = self._lost_bookie_delay_ms
        registered = self._connection.registered()
        with self._lock:
            absent = self._absences.overdue(
                result.awaited, registered, self._now_ms(), patience_ms=delay_ms + self._rest_ms
            )
        if absent:
            self._tasks.report(work.ledger_id, absent, MissingReason.LOST)
            LOG.info("ledger %d waits no longer for %s", work.ledger_id, ", ".join(absent))
            self._forget(work.ledger_id)
        return bool(absent)

    def _conclude_loss(self, work: _Work, result: RepairResult) -> None:
        is_final = bool(result.blocked) or work.task.failure_count + 1 >= UNREPAIRABLE_COUNT
        why = result.unrepairable + way_out(work.ledger_id, result)
        if not is_final:
            self._put_off(work, result.unrepairable)
        elif self._tasks.mark_unrepairable(work.ledger_id, work.version, why):
            self._forget(work.ledger_id)
            # who came back before this did not find it among what is to be tried again
            if self._is_outdated(work, result):
                self._tasks.retry_unrepairable([work.ledger_id])
            else:
                LOG.warning("ledger %d cannot be repaired: %s", work.ledger_id, why)

    def _is_outdated(self, work: _Work, result: RepairResult) -> bool:
        """Return whether a bookie came back, or left limbo, before the task was put aside."""
        return result.is_outdated(self._connection.registered()) or any(
            self._connection.has_left_limbo(bookie_id, work.ledger_id)
            for bookie_id in sorted(result.in_limbo)
        )

    def _put_off(self, work: _Work, why: str) -> None:
        self._rest(work.ledger_id)
        LOG.info("ledger %d is tried again later: %s", work.ledger_id, why)
        self._tasks.note_failure(work.ledger_id, work.version, why)

    def _is_due(self, ledger_id: int, now_ms: int) -> bool:
        with self._lock:
            return self._backoff.is_due(ledger_id, now_ms)

    def _rest(self, ledger_id: int) -> None:
        with self._lock:
            self._backoff.failed(ledger_id, self._now_ms())

    def _forget(self, ledger_id: int) -> None:
        with self._lock:
            self._backoff.forget(ledger_id)

    def _give_back(self, work: _Work) -> None:
        with self._lock:
            self._works.pop(work.ledger_id, None)
        self._unlock(work.ledger_id)

    def _unlock(self, ledger_id: int) -> None:
        # the session's end would do it, too
        with suppress(MetadataUnavailableError, ClientClosedError):
            self._tasks.unlock(ledger_id)


class _ProgressNotes(RepairWatcher):
    """Tells in the metadata store how far a repair has come."""

    def __init__(self, connection: ClusterConnection, ledger_id: int) -> None:
        self._tasks = connection.tasks
        self._ledger_id = ledger_id
        self._copied_count = 0
        self._to_copy_count = 0
        self._told_ms: int | None = None

    def copy_begun(self, order: CopyOrder) -> None:
        self._to_copy_count = self._copied_count + order.entry_count
        self._tell_now_and_then()  # a slow copy is seen from its beginning

    def copied(self, entry_count: int, size: int) -> None:
        del size
        self._copied_count += entry_count
        self._tell_now_and_then()

    def _tell_now_and_then(self) -> None:
        now_ms = monotonic_ms()
        if self._told_ms is not None and now_ms - self._told_ms < PROGRESS_INTERVAL_MS:
            return
        self._told_ms = now_ms
        with suppress(ZbkError):  # news for people; the next one may get through
            self._tasks.note_progress(self._ledger_id, self._copied_count, self._to_copy_count)


_COMPARED: Final = (MissingReason.CHECKED, MissingReason.NOT_WRITTEN, MissingReason.UNCHECKED)
_TO_LEAVE: Final = (MissingReason.DAMAGED, MissingReason.PLACEMENT)


def aim_of(task: UnderreplicatedLedger) -> RepairAim:
    """Return what is to be repaired.

    Bookies that hold damaged or badly placed replicas leave. Of which it is only said that they may
    lack entries, they are compared, and are not lost for being away. After a writer died any bookie
    of the ledger may lack some.
    """
    named = task.missing.items()
    compared = frozenset(one for one, reasons in named if not set(_COMPARED).isdisjoint(reasons))
    is_unchecked = any(MissingReason.UNCHECKED in reasons for _one, reasons in named)
    return RepairAim(
        ledger_id=task.ledger_id,
        suspects=frozenset(one for one, reasons in named if not set(_COMPARED).issuperset(reasons)),
        to_leave=frozenset(one for one, reasons in named if not set(_TO_LEAVE).isdisjoint(reasons)),
        to_compare=None if is_unchecked else compared,
    )


def way_out(ledger_id: int, result: RepairResult) -> str:
    """Return what an operator can do about lost entries, as the rest of a sentence."""
    if not result.lost and not result.uncovered:
        return ""
    wait = "it is tried again when one of its bookies has them again"
    if result.away:
        names = ", ".join(sorted(result.away))
        wait = f"start {names} again, and it is tried again by itself"
    return (
        f". {wait}; if they are gone for good, `zbk ledger cat {ledger_id} --first N --last M` "
        f"saves the other entries, and `zbk ledger delete {ledger_id}` ends it"
    )


def summary(result: RepairResult) -> str:
    """Return in a line what was done."""
    if result.is_gone:
        return "it was deleted"
    return (
        f"{result.copied_count} entries copied, {result.replaced_count} bookies of fragments "
        "replaced"
    )
