"""The locks of tasks: which worker works on which ledger, and its progress.

A lock is two ephemeral nodes, created and removed together: one with the ledger's name, which only
one worker can have, and one with the owner's token in its name. The end of a task removes the
second one in the same ``multi``. So a worker whose session has ended can never end a task, not even
a task that was finished and reported again meanwhile and has the same version. The second node also
holds the progress, so that reporting it does not change the task.

If the store does not answer while a lock is acquired or released, the next ``lock`` of the same
store finds out whether it is held. ``locked_ids`` leaves such a lock out, so that a worker asks.

A lock is advice: it keeps two workers from doing the same work. The changes of a worker are safe by
compare-and-swap of the ledger's metadata.

Any thread; every method blocks. Source: BookKeeper's ``ZkLedgerUnderreplicationManager``.
"""

import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import msgspec

from zbk.metadata.paths import UNDERREPLICATION_LOCKS, task_lock_of, task_lock_path
from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches
from zbk.metadata.records.compare_and_swap import find_children, wait_s
from zbk.metadata.stores.store import Create, Delete, MetadataStore
from zbk.metadata.values import TaskLock, TaskProgress, decode, encode
from zbk.system.clock import wall_ms


class _Lock(msgspec.Struct):
    """A lock that this store has, or may have."""

    token: str
    is_in_use: bool = False  # its owner knows that it has it
    is_busy: bool = False  # a thread acquires or releases it: no other thread may

    @property
    def is_doubtful(self) -> bool:
        """True when only the store knows whether it is held."""
        return not self.is_in_use and not self.is_busy


class TaskLocks(AutorecoverySwitches):
    """The locks of one store's workers, and a view of all others."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        wall_clock_ms: Callable[[], int] = wall_ms,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        super().__init__(store, pause=pause)
        self._wall_clock_ms = wall_clock_ms
        self._guard = threading.Lock()
        self._locks: dict[int, _Lock] = {}  # bounded by the number of this store's workers

    def lock(self, ledger_id: int, owner: str) -> bool:
        """Acquire the lock of a task while this session lasts; false: another worker has it.

        Read the task after this call. ``owner`` is for people.

        Raises:
            MetadataUnavailableError: it may or may not be acquired; the next call finds out.
        """
        with self._guard:
            ours = self._locks.setdefault(ledger_id, _Lock(uuid4().hex))
            if not ours.is_doubtful:
                return False
            ours.is_busy = True
        try:
            ours.is_in_use = self._take(ledger_id, owner, ours.token)
        finally:
            ours.is_busy = False
        return ours.is_in_use

    def _take(self, ledger_id: int, owner: str, token: str) -> bool:
        path = task_lock_path(ledger_id)

        def attempt() -> bool | None:
            now_ms = self._wall_clock_ms()
            lock = encode(TaskLock(owner=owner, token=token, locked_ms=now_ms))
            progress = encode(TaskProgress(owner=owner, updated_ms=now_ms))
            own = Create(task_lock_path(ledger_id, token), progress, is_ephemeral=True)
            creates = [Create(path, lock, is_ephemeral=True), own]
            if self._swap.put(path, lock, creates, make_parents=True):
                return True
            holder = self._find(path)
            if holder is None:
                return None
            is_ours = decode(TaskLock, holder.value, path).token == token
            if not is_ours:
                self._forget_lock(ledger_id)
            return is_ours

        return self._swap.until_done(path, attempt)

    def holds(self, ledger_id: int) -> bool:
        """Ask the metadata store whether this store still has the lock that it took."""
        ours = self._lock_in_use(ledger_id)
        return ours is not None and self._find(task_lock_path(ledger_id, ours.token)) is not None

    def unlock(self, ledger_id: int) -> None:
        """Release the lock; the task stays. Do nothing if this store does not hold it.

        Raises:
            MetadataUnavailableError: it may still be locked; the next ``lock`` finds out.
        """
        with self._guard:
            ours = self._locks.get(ledger_id)
            if ours is None or ours.is_busy:
                return
            ours.is_in_use, ours.is_busy = False, True
        try:
            own = task_lock_path(ledger_id, ours.token)
            self._swap.remove(own, [Delete(own), Delete(task_lock_path(ledger_id))])
            self._forget_lock(ledger_id)
        finally:
            ours.is_busy = False

    def locked_ids(self) -> set[int]:
        """Return the ids of the ledgers that workers have locked, with one read."""
        with self._guard:
            doubtful = {one for one, lock in self._locks.items() if lock.is_doubtful}
        return {one for one, token in self._lock_names() if not token} - doubtful

    def locked(self) -> dict[int, str]:
        """Return the owners of the locks by ledger id; read each lock."""
        found = {}
        for ledger_id in sorted(self.locked_ids()):
            path = task_lock_path(ledger_id)
            node = self._find(path)
            if node is not None:
                found[ledger_id] = decode(TaskLock, node.value, path).owner
        return found

    def note_progress(self, ledger_id: int, copied_count: int, to_copy_count: int) -> bool:
        """Record the progress of this store's worker; false: the lock is not held any more.

        The task and its version do not change.

        Raises:
            MetadataUnavailableError: it may or may not be recorded.
        """
        ours = self._lock_in_use(ledger_id)
        if ours is None:
            return False
        path = task_lock_path(ledger_id, ours.token)

        def attempt() -> bool | None:
            node = self._find(path)
            if node is None:
                return False
            progress = TaskProgress(
                owner=decode(TaskProgress, node.value, path).owner,
                copied_count=copied_count,
                to_copy_count=to_copy_count,
                updated_ms=self._wall_clock_ms(),
            )
            return self._swap.write(path, encode(progress), node) or None

        return self._swap.until_done(path, attempt)

    def progress(self) -> dict[int, TaskProgress]:
        """Return the progress of the workers by ledger id; read each."""
        found = {}
        for ledger_id, token in sorted(self._lock_names()):
            path = task_lock_path(ledger_id, token)
            node = self._find(path) if token else None
            if node is not None:
                found[ledger_id] = decode(TaskProgress, node.value, path)
        return found

    # ------------------------------------------------------------------ inside

    def _lock_in_use(self, ledger_id: int) -> _Lock | None:
        with self._guard:
            ours = self._locks.get(ledger_id)
            return ours if ours is not None and ours.is_in_use else None

    def _forget_lock(self, ledger_id: int) -> None:
        with self._guard:
            self._locks.pop(ledger_id, None)

    def _lock_names(self) -> Iterator[tuple[int, str]]:
        return map(task_lock_of, find_children(self._store, UNDERREPLICATION_LOCKS))
