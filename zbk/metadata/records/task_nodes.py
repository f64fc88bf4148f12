"""The nodes of tasks, as they are read: those to be done, and those of unrepairable ledgers.

Source: BookKeeper's ``ZkLedgerUnderreplicationManager``.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from zbk.errors import MetadataUnavailableError, NoNodeError, NotEmptyError
from zbk.metadata.paths import (
    TASK_COUNTER,
    UNDERREPLICATED_LEDGERS,
    UNREPAIRABLE_LEDGERS,
    ledger_path,
    task_ledger_id,
    task_path,
)
from zbk.metadata.records.instance import read_layout
from zbk.metadata.records.ledger_tree import count_tree, remove_empty_parents, walk_tree
from zbk.metadata.records.task_locks import TaskLocks
from zbk.metadata.stores.store import Watch
from zbk.metadata.values import decode
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger


class TaskNodes(TaskLocks):
    """Reads the tasks of the cluster in ``store``."""

    def read(self, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        """Return a task and its version, or ``None`` if there is none.

        Raises:
            CorruptRecordError: the task is damaged.
        """
        return self._task(UNDERREPLICATED_LEDGERS, ledger_id)

    def read_unrepairable(self, ledger_id: int) -> UnderreplicatedLedger | None:
        """Return the task of an unrepairable ledger, or ``None``."""
        found = self._shelved(ledger_id)
        return None if found is None else found[0]

    def list(self, after: int = -1) -> Iterator[int]:
        """Yield the ids of all ledgers that have a task, ascending, from the first past ``after``.

        Reads the tree piece by piece; tasks that come or go meanwhile may or may not be among them.
        """
        return self._list(UNDERREPLICATED_LEDGERS, after)

    def list_unrepairable(self, after: int = -1) -> Iterator[int]:
        """Yield the ids of all unrepairable ledgers, ascending. As ``list``."""
        return self._list(UNREPAIRABLE_LEDGERS, after)

    def task_count(self) -> int:
        """Return the number of ledgers that have a task, from the names of nodes alone."""
        return self._count(UNDERREPLICATED_LEDGERS)

    def unrepairable_count(self) -> int:
        """Return the number of unrepairable ledgers. As ``task_count``."""
        return self._count(UNREPAIRABLE_LEDGERS)

    def watch_tasks(self, callback: Callable[[], None]) -> Watch:
        """Call back now, and whenever there may be new tasks.

        The callback runs in the store's callback thread and must neither block nor call the store.
        A task whose worker died is not announced, so also look at intervals.
        """
        return self._store.watch_node(TASK_COUNTER, lambda _node: callback())

    # ------------------------------------------------------------------ inside

    def _task(self, folder: str, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        path = task_path(folder, ledger_id)
        node = self._find(path)
        if node is None:
            return None
        return decode(UnderreplicatedLedger, node.value, path), node.version

    def _shelved(self, ledger_id: int) -> tuple[UnderreplicatedLedger, int] | None:
        return self._task(UNREPAIRABLE_LEDGERS, ledger_id)

    def _is_outdated(self, task: UnderreplicatedLedger) -> bool:
        """Return whether the ledger of an unrepairable task has changed since it was marked."""
        layout = read_layout(self._store).ledger_layout
        node = self._find(ledger_path(task.ledger_id, layout))
        return node is not None and node.version != task.ledger_version

    def _list(self, folder: str, after: int) -> Iterator[int]:
        with suppress(NoNodeError):
            first = task_path(folder, after) if after >= 0 else ""
            for path in walk_tree(self._store, folder, first):
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
