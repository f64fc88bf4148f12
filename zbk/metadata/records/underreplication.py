"""The underreplicated ledgers in the metadata store: tasks, their locks, and how they end.

A *task* is one node per ledger, in a tree like that of the ledgers, so that no node has more than
ten thousand children. ``report`` creates it or merges into it. A worker locks it, reads it, works,
and ``finish`` removes it *only if it has not changed since it was read*. Locks are ephemeral: they
end with their worker's session.

Which report is new. Every report on an existing task raises its version, even if it repeats what
the task says: the bookie may have been lost again after the worker found it intact, and a new loss
cannot be distinguished from a repetition. The price is one more check of the ledger. An
*unrepairable* ledger becomes a task again only by a report of a bookie, a reason or missing entries
that are not recorded yet, by any report after its metadata have changed (the writer of an open
ledger may have replaced the lost bookies, which ends the fragment that they are in), by
``retry_unrepairable``, or by ``trigger``. So the same loss, reported each day, is not tried for
ever.

Only the owner of the lock (``task_locks``) ends a task. After a lost reply, a reporter reads back
the node, which has a token of its own. If that gets no answer either, the caller gets
``MetadataUnavailableError``: the outcome is unknown.

A report that races with ``mark_unrepairable`` may create the task again beside its unrepairable
twin. The next marking overwrites the twin, and the next retry removes it.

Decisions: BookKeeper's tree has four levels of four hexadecimal digits, and the last level is a
node of its own for each task. Any thread; every method blocks.

Source: BookKeeper's ``ZkLedgerUnderreplicationManager``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

import msgspec

from zbk.errors import (
    BadVersionError,
    DamageError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    UnsupportedVersionError,
)
from zbk.metadata.paths import (
    TASK_COUNTER,
    UNDERREPLICATED_LEDGERS,
    UNREPAIRABLE_LEDGERS,
    task_lock_path,
    task_path,
)
from zbk.metadata.records.task_nodes import TaskNodes
from zbk.metadata.stores.store import Create, Delete, Operation, SetValue
from zbk.metadata.values import encode
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.underreplicated import NO_RANGES, MissingReason, UnderreplicatedLedger
from zbk.system.event_log import EventLog

__all__ = ["MissingReason", "UnderreplicatedLedger", "UnderreplicationStore"]

LOG = EventLog("zbk.metadata")


class UnderreplicationStore(TaskNodes):
    """The tasks of the cluster in ``store``."""

    # ------------------------------------------------------------------ reports

    def report(
        self,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
        *,
        is_quiet: bool = False,
        ranges: Mapping[str, Sequence[Span]] | None = None,
    ) -> bool:
        """Record that a ledger lacks entries which these bookies should hold.

        ``ranges``, by bookie id, are the first and last ids of the missing entries, if they are
        known. A task keeps ``RANGES_COUNT_MAX`` of a bookie; more are merged into covering ones.

        Return false if the ledger is unrepairable and neither the report is new nor the ledger has
        changed. With ``is_quiet`` watchers are not notified; ``announce`` does it for many reports
        at once.

        Raises:
            MetadataConflictError: others changed the task ``ATTEMPT_COUNT_MAX`` times in a row.
            MetadataUnavailableError: the report may or may not be recorded; repeat it.
        """
        assert bookie_ids, "a report names bookies"
        missing = NO_RANGES if ranges is None else ranges
        assert missing.keys() <= set(bookie_ids), "ranges are those of named bookies"
        noted = self._swap.until_done(
            task_path(UNDERREPLICATED_LEDGERS, ledger_id),
            lambda: self._try_report(ledger_id, bookie_ids, reason, missing),
        )
        if noted and not is_quiet:
            self.announce()
        return noted

    def report_operations(
        self,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
        *,
        ranges: Mapping[str, Sequence[Span]],
    ) -> Sequence[Operation]:
        """Return the operations of ``report``, to carry out in one step with others.

        If another client is faster, the whole step fails: call again then. Watchers are not
        notified (``announce``).

        Raises:
            CorruptRecordError: the present task is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        now_ms = self._wall_clock_ms()
        found = self.read(ledger_id)
        if found is not None:
            task = found[0].merged(bookie_ids, reason, now_ms, ranges)
            return [SetValue(path, encode(task), found[1])]
        shelved = self._shelved(ledger_id)
        if shelved is None:
            task = UnderreplicatedLedger.reported(ledger_id, bookie_ids, reason, now_ms, ranges)
            self._swap.make_parents(path)
            return [Create(path, encode(task))]
        task, version = shelved
        if not (task.is_news(bookie_ids, reason, ranges) or self._is_outdated(task)):
            return []
        wanted = task.merged(bookie_ids, reason, now_ms, ranges).to_work_on()
        self._swap.make_parents(path)
        shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
        return [Delete(shelf_path, version), Create(path, encode(wanted))]

    def announce(self) -> None:
        """Notify watchers that there are tasks. They also look by themselves at intervals."""
        self._count_up_if_possible(TASK_COUNTER)

    def _try_report(
        self,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
        ranges: Mapping[str, Sequence[Span]],
    ) -> bool | None:
        """Return the result of ``report``, or ``None`` if another client was faster."""
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        now_ms = self._wall_clock_ms()
        shelved = self._shelved(ledger_id)
        if shelved is not None and self._find(path) is None:
            task, version = shelved
            if not (task.is_news(bookie_ids, reason, ranges) or self._is_outdated(task)):
                return False
            wanted = task.merged(bookie_ids, reason, now_ms, ranges).to_work_on()
            value = encode(wanted, write_token=uuid4().hex)
            shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
            move: Sequence[Operation] = [Delete(shelf_path, version), Create(path, value)]
            return self._swap.put(path, value, move, make_parents=True) or None
        first = UnderreplicatedLedger.reported(ledger_id, bookie_ids, reason, now_ms, ranges)
        value = encode(first, write_token=uuid4().hex)
        if self._swap.put(path, value, [Create(path, value)], make_parents=True):
            return True
        found = self.read(ledger_id)
        if found is None:
            return None
        task, version = found
        wanted = task.merged(bookie_ids, reason, now_ms, ranges)
        value = encode(wanted, write_token=uuid4().hex)
        return self._swap.put(path, value, [SetValue(path, value, version)]) or None

    # ------------------------------------------------------------------ the end of a task

    def finish(self, ledger_id: int, version: int) -> bool:
        """Remove a task and its lock, if the task still has this version.

        False: there was a report meanwhile, and the lock is kept; or the lock is gone. A task that
        does not exist any more is finished.

        Raises:
            MetadataUnavailableError: the task may or may not be finished.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        is_done = self._end(ledger_id, version, [Delete(path, version)])
        if is_done:
            self._remove_empty_parents(UNDERREPLICATED_LEDGERS, path)
        return is_done

    def mark_unrepairable(
        self,
        ledger_id: int,
        version: int,
        why: str,
        *,
        ledger_version: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> bool:
        """Mark a task's ledger unrepairable and release its lock, if the task has this version.

        It becomes a task again after a new report, after any report if ``ledger_version``, of the
        metadata that the worker saw, is not the present one, or after a retry. False: as for
        ``finish``.

        Raises:
            MetadataUnavailableError: it may or may not be marked.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
        found = self.read(ledger_id)
        if found is None or found[1] != version:
            return False
        now_ms = self._wall_clock_ms()
        value = encode(found[0].with_unrepairable(why, now_ms, ledger_version))
        self._swap.make_parents(shelf_path)
        twin = self._find(shelf_path)
        put: Operation = (
            Create(shelf_path, value) if twin is None else SetValue(shelf_path, value, twin.version)
        )
        is_done = self._end(ledger_id, version, [Delete(path, version), put])
        if is_done:
            self._remove_empty_parents(UNDERREPLICATED_LEDGERS, path)
        return is_done

    def note_failure(
        self, ledger_id: int, version: int, why: str, mended: Collection[str] = ()
    ) -> int | None:
        """Count a failed attempt that ``mended`` some bookies; return the task's new version.

        ``None``: there was a report meanwhile, so the next attempt is worthwhile and the failed one
        does not count.

        Raises:
            MetadataUnavailableError: it may or may not be counted.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        found = self.read(ledger_id)
        if found is None or found[1] != version:
            return None
        value = encode(found[0].with_failure(why, mended), write_token=uuid4().hex)
        is_counted = self._swap.put(path, value, [SetValue(path, value, version)])
        return version + 1 if is_counted else None

    def retry_unrepairable(self, ledger_ids: Iterable[int] | None = None) -> int:
        """Make unrepairable ledgers tasks again, these or all; return their number.

        A ledger whose task cannot be read stays unrepairable, and keeps no other one back.

        Raises:
            MetadataUnavailableError: some of them may still be unrepairable.
            MetadataConflictError: as before, since other clients changed a task all the time.
        """
        count = 0
        try:
            for ledger_id in self.list_unrepairable() if ledger_ids is None else ledger_ids:
                count += self._retry(ledger_id)
        finally:  # an error keeps no task from the workers
            if count:
                self.announce()
        return count

    def _retry(self, ledger_id: int) -> bool:
        """Make an unrepairable ledger a task again; return whether it is one now."""
        path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
        try:
            is_task = self._swap.until_done(path, partial(self._try_retry, ledger_id))
        except (DamageError, UnsupportedVersionError) as error:
            LOG.error(
                "repair.task_unreadable",
                "ledger %(ledger_id)d stays unrepairable, its task cannot be read: %(error)s",
                ledger_id=ledger_id,
                error=error,
            )
            return False
        self._remove_empty_parents(UNREPAIRABLE_LEDGERS, path)
        return is_task

    def _try_retry(self, ledger_id: int) -> bool | None:
        """Return whether the ledger was unrepairable; ``None`` if another client was faster."""
        shelved = self._shelved(ledger_id)
        if shelved is None:
            return False
        task, version = shelved
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        take = Delete(task_path(UNREPAIRABLE_LEDGERS, ledger_id), version)
        self._swap.make_parents(path)
        with suppress(BadVersionError, NoNodeError):
            try:
                self._store.multi([take, Create(path, encode(task.to_work_on()))])
            except NodeExistsError:  # its twin is a task already
                self._store.multi([take])
            return True
        return None

    def trigger(self) -> None:
        """Make the auditor audit now, and make unrepairable ledgers tasks again.

        Raises:
            MetadataUnavailableError: only a part may be done; calling again is safe.
        """
        self.retry_unrepairable()
        self.trigger_audit()

    # ------------------------------------------------------------------ inside

    def _end(self, ledger_id: int, version: int, operations: Sequence[Operation]) -> bool:
        ours = self._lock_in_use(ledger_id)
        if ours is None:
            return False
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        own = task_lock_path(ledger_id, ours.token)
        unlock = [Delete(own), Delete(task_lock_path(ledger_id))]
        last_error: MetadataConflictError | MetadataUnavailableError | None = None

        def attempt() -> bool | None:
            nonlocal last_error
            try:
                self._store.multi([*unlock, *operations])
            except (MetadataConflictError, MetadataUnavailableError) as error:
                last_error = error
            else:
                self._forget_lock(ledger_id)
                return True
            node = self._find(path)  # the nodes show the outcome
            is_locked = self._find(own) is not None
            if node is None:
                self.unlock(ledger_id)
                return True
            if not is_locked:
                self._forget_lock(ledger_id)
                return False
            return False if node.version != version else None

        try:
            return self._swap.until_done(path, attempt)
        except MetadataConflictError:
            assert last_error is not None, "every attempt failed"
            raise last_error from None
