"""The ledgers that are not whole, in the metadata store: tasks, their locks, and how they end.

A *task* is one node a ledger, in a tree like that of the ledgers, so that no node has more than ten
thousand children. ``report`` makes it or merges into it; a worker locks it, reads it, works, and
``finish`` removes it *only if it has not changed since it was read*. Locks are ephemeral: they
go with their worker's session.

What is news. Every report on a task that is there bumps its version, also one that says what is
noted already: the worker may have found that very bookie well before it was lost once more, and a
loss cannot be told from a repetition. The price is one more look at the ledger. A ledger that is
*unrepairable* is handed out again only by a report that names a bookie, a reason or missing entries
which are not noted yet, by ``retry_unrepairable``, or by ``trigger``: the same loss, reported each
day, is not tried for ever.

Only the owner of the lock (``task_locks``) ends a task. Lost replies: a reporter reads back
what is there, with a token of its own in it. If that gets no answer either,
``MetadataUnavailableError`` goes to the caller: unknown.

Of two racing with the marking of a task, one may make the task anew beside its unrepairable twin;
the next marking overwrites the twin, the next retry removes it.

Decisions: BookKeeper's tree has four levels of four hexadecimal digits, the last of them a node of
its own for each task. Any thread; every method blocks.

Source: BookKeeper's ``ZkLedgerUnderreplicationManager``.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

import msgspec

from zbk.errors import (
    BadVersionError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from zbk.metadata.paths import (
    TASK_NEWS,
    UNDERREPLICATED_LEDGERS,
    UNREPAIRABLE_LEDGERS,
    task_ledger_id,
    task_lock_path,
    task_path,
)
from zbk.metadata.records.ledger_tree import count_tree, remove_empty_parents, walk_tree
from zbk.metadata.records.task_locks import TaskLocks
from zbk.metadata.stores.store import Create, Delete, Node, Operation, SetValue, Watch
from zbk.metadata.values import decode, encode
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.underreplicated import NO_RANGES, MissingReason, UnderreplicatedLedger

__all__ = ["MissingReason", "UnderreplicatedLedger", "UnderreplicationStore"]


class UnderreplicationStore(TaskLocks):
    """The tasks of the cluster whose metadata is in ``store``."""

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
        """Note that a ledger lacks what these bookies should hold.

        ``ranges``, by bookie id, are the first and last ids of the entries that are missing, where
        they are known. A task keeps ``RANGES_COUNT_MAX`` of a bookie; more are merged into covering
        ones.

        False if it is known to be unrepairable and this is no news. With ``is_quiet`` watchers are
        not notified; ``announce`` does it for many reports at once.

        Raises:
            MetadataConflictError: others changed the task ``ATTEMPT_COUNT_MAX`` times in a row.
            MetadataUnavailableError: the report may or may not have been noted; repeat it.
        """
        assert bookie_ids, "a report names who lacks something"
        missing = NO_RANGES if ranges is None else ranges
        assert missing.keys() <= set(bookie_ids), "ranges are those of bookies that are named"
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
        """Return what ``report`` would do now, to be done in one step with something else.

        If another client is faster they fail, with all operations of the step: ask again then.
        Watchers are not notified (``announce``).

        Raises:
            CorruptRecordError: the task that is there is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        now_ms = self._wall_clock_ms()
        found = self.read(ledger_id)
        if found is not None:
            task = found[0].merged(bookie_ids, reason, now_ms, ranges)
            value = encode(msgspec.structs.replace(task, failure_count=0))
            return [SetValue(path, value, found[1])]
        shelved = self._shelved(ledger_id)
        if shelved is None:
            task = UnderreplicatedLedger.reported(ledger_id, bookie_ids, reason, now_ms, ranges)
            self._swap.make_parents(path)
            return [Create(path, encode(task))]
        task, version = shelved
        if not task.is_news(bookie_ids, reason, ranges):
            return []
        wanted = task.merged(bookie_ids, reason, now_ms, ranges).to_work_on()
        self._swap.make_parents(path)
        shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
        return [Delete(shelf_path, version), Create(path, encode(wanted))]

    def announce(self) -> None:
        """Notify watchers that there are tasks. They look by themselves too, now and then."""
        self._count_up_if_possible(TASK_NEWS)

    def _try_report(
        self,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
        ranges: Mapping[str, Sequence[Span]],
    ) -> bool | None:
        """Return what ``report`` does, or ``None`` if another client was faster."""
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        now_ms = self._wall_clock_ms()
        shelved = self._shelved(ledger_id)
        if shelved is not None and self._find(path) is None:
            task, version = shelved
            if not task.is_news(bookie_ids, reason, ranges):
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
        value = encode(msgspec.structs.replace(wanted, failure_count=0), write_token=uuid4().hex)
        return self._swap.put(path, value, [SetValue(path, value, version)]) or None

    # ------------------------------------------------------------------ tasks

    def read(self, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        """Return a task and its version, or ``None`` if there is none.

        Raises:
            CorruptRecordError: what is there is damaged.
        """
        return self._task(UNDERREPLICATED_LEDGERS, ledger_id)

    def read_unrepairable(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """Return the task of an unrepairable ledger, or ``None``."""
        found = self._shelved(ledger_id)
        return None if found is None else found[0]

    def list(self, after: int = -1) -> Iterator[int]:
        """Yield the ids of all ledgers that have a task, ascending, from the first past ``after``.

        Reads the tree piece by piece; what comes or goes meanwhile may or may not be among them.
        """
        return self._list(UNDERREPLICATED_LEDGERS, after)

    def list_unrepairable(self) -> Iterator[int]:
        """Yield the ids of all unrepairable ledgers, ascending. As ``list``."""
        return self._list(UNREPAIRABLE_LEDGERS, -1)

    def task_count(self) -> int:
        """Return the number of ledgers that have a task, from the names of nodes alone."""
        return self._count(UNDERREPLICATED_LEDGERS)

    def unrepairable_count(self) -> int:
        """Return the number of unrepairable ledgers, likewise."""
        return self._count(UNREPAIRABLE_LEDGERS)

    def watch_tasks(self, callback: Callable[[], None]) -> Watch:
        """Call back now, and whenever there may be new tasks.

        Runs in the store's callback thread and must neither block nor call the store. A task whose
        worker died is not announced: look now and then.
        """
        return self._store.watch_node(TASK_NEWS, lambda _node: callback())

    # ------------------------------------------------------------------ how a task ends

    def finish(self, ledger_id: int, version: int) -> bool:
        """Remove a task, and its lock, if it still has this version.

        False: something was reported meanwhile, and the lock is kept; or the lock is gone. A task
        that is not there any more is finished.

        Raises:
            MetadataUnavailableError: finished or not.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        is_done = self._end(ledger_id, version, [Delete(path, version)])
        if is_done:
            self._remove_empty_parents(UNDERREPLICATED_LEDGERS, path)
        return is_done

    def mark_unrepairable(self, ledger_id: int, version: int, why: str) -> bool:
        """Put a task aside, with its lock given back, if it still has this version.

        It is not handed out again until something new is reported, or a retry is requested. False:
        as for ``finish``.

        Raises:
            MetadataUnavailableError: put aside or not.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
        found = self.read(ledger_id)
        if found is None or found[1] != version:
            return False
        value = encode(found[0].with_unrepairable(why, self._wall_clock_ms()))
        self._swap.make_parents(shelf_path)
        twin = self._find(shelf_path)
        put: Operation = (
            Create(shelf_path, value) if twin is None else SetValue(shelf_path, value, twin.version)
        )
        is_done = self._end(ledger_id, version, [Delete(path, version), put])
        if is_done:
            self._remove_empty_parents(UNDERREPLICATED_LEDGERS, path)
        return is_done

    def note_failure(self, ledger_id: int, version: int, why: str) -> int | None:
        """Count an attempt that failed; return the task's new version.

        ``None``: something was reported meanwhile, which is worth an attempt that is not counted.

        Raises:
            MetadataUnavailableError: counted or not.
        """
        path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
        found = self.read(ledger_id)
        if found is None or found[1] != version:
            return None
        value = encode(found[0].with_failure(why), write_token=uuid4().hex)
        is_counted = self._swap.put(path, value, [SetValue(path, value, version)])
        return version + 1 if is_counted else None

    def retry_unrepairable(self, ledger_ids: Iterable[int] | None = None) -> int:
        """Make unrepairable ledgers tasks again; return their number.

        ``ledger_ids``: of these only; by default all.

        Raises:
            MetadataUnavailableError: some of them may not be handed out.
        """
        count = 0
        for ledger_id in self.list_unrepairable() if ledger_ids is None else ledger_ids:
            shelved = self._shelved(ledger_id)
            if shelved is None:
                continue
            task, version = shelved
            path = task_path(UNDERREPLICATED_LEDGERS, ledger_id)
            shelf_path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)
            take = Delete(shelf_path, version)
            self._swap.make_parents(path)
            with suppress(BadVersionError, NoNodeError):
                try:
                    self._store.multi([take, Create(path, encode(task.to_work_on()))])
                except NodeExistsError:  # its twin is being worked on
                    self._store.multi([take])
                count += 1
            self._remove_empty_parents(UNREPAIRABLE_LEDGERS, shelf_path)
        if count:
            self.announce()
        return count

    def trigger(self) -> None:
        """Ask the auditor to look now, and make unrepairable ledgers tasks again.

        Raises:
            MetadataUnavailableError: not all of it may have been done; doing it again is safe.
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
            node = self._find(path)  # the nodes show what became of it
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

    def _task(self, folder: str, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        path = task_path(folder, ledger_id)
        node = self._find(path)
        return None if node is None else (_decoded(path, node), node.version)

    def _shelved(self, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        return self._task(UNREPAIRABLE_LEDGERS, ledger_id)

    def _list(self, folder: str, after: int) -> Iterator[int]:
        with suppress(NoNodeError):
            for path in walk_tree(self._store, folder):
                if (ledger_id := task_ledger_id(folder, path)) > after:
                    yield ledger_id

    def _count(self, folder: str) -> int:
        try:
            return count_tree(self._store, folder)
        except NoNodeError:
            return 0

    def _remove_empty_parents(self, folder: str, path: str) -> None:
        with suppress(NotEmptyError, NoNodeError, MetadataUnavailableError):
            remove_empty_parents(self._store, folder, path)


def _decoded(path: str, node: Node) -> UnderreplicatedLedger:
    return decode(UnderreplicatedLedger, node.value, path)
