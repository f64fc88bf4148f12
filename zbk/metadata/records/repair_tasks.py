"""The repair tasks of a cluster as people see them: state, progress, reason."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from zbk.metadata.records.underreplication import UnderreplicatedLedger, UnderreplicationStore
from zbk.metadata.values import TaskProgress


class RepairTask(msgspec.Struct, frozen=True):
    """The task of one ledger, and the progress of the worker that has locked it."""

    task: UnderreplicatedLedger
    progress: TaskProgress | None = None

    @property
    def state(self) -> Literal["waiting", "working", "unrepairable"]:
        """Return the state of the task."""
        if self.task.unrepairable:
            return "unrepairable"
        return "waiting" if self.progress is None else "working"

    @property
    def why(self) -> str:
        """Return why it cannot be repaired, or why the last attempt failed, or the reports."""
        reasons = {str(reason) for some in self.task.missing.values() for reason in some}
        return self.task.unrepairable or self.task.failure or ", ".join(sorted(reasons))


def repair_tasks(tasks: UnderreplicationStore) -> Iterator[RepairTask]:
    """Yield all tasks: those to work on, then the unrepairable ones."""
    yield from tasks_at_work(tasks)
    yield from unrepairable_tasks(tasks)


def tasks_at_work(tasks: UnderreplicationStore, after: int = -1) -> Iterator[RepairTask]:
    """Yield the tasks to work on by ledger id, those past an id."""
    progress = tasks.progress()
    for ledger_id in tasks.list(after):
        found = tasks.read(ledger_id)
        if found is not None:
            yield RepairTask(found[0], progress.get(ledger_id))


def unrepairable_tasks(tasks: UnderreplicationStore, after: int = -1) -> Iterator[RepairTask]:
    """Yield the unrepairable tasks by ledger id, those past an id."""
    for ledger_id in tasks.list_unrepairable(after):
        task = tasks.read_unrepairable(ledger_id)
        if task is not None:
            yield RepairTask(task)
