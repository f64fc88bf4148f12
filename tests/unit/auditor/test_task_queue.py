"""The queue of a worker: every task has its turn."""

import random
from collections.abc import Iterator
from typing import cast

import pytest

from zbk.auditor import task_queue
from zbk.auditor.task_queue import POLL_S, QUIET_POLL_S, TaskQueue
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.backoff import RepairBackoff

COUNT_MAX = 4


class Tasks:
    """Tasks that stay, and none of which is locked."""

    def __init__(self, ledger_ids: range) -> None:
        self.ledger_ids = ledger_ids

    def locked_ids(self) -> set[int]:
        return set()

    def list(self, after: int = -1) -> Iterator[int]:
        return (one for one in self.ledger_ids if one > after)


class Queue:
    """A queue of tasks that all fail: each attempt takes ``attempt_ms``."""

    def __init__(self, tasks: Tasks, *, pause_ms_max: int, attempt_ms: int = 1_000) -> None:
        self.now_ms = 0
        self.attempt_ms = attempt_ms
        self.queue = TaskQueue(
            cast("UnderreplicationStore", tasks),
            RepairBackoff(pause_ms_max, ledger_count_max=COUNT_MAX),
            random.Random(1),
            lambda: self.now_ms,
        )

    def fail(self, count: int) -> list[int]:
        """Return the next tasks, each of them postponed."""
        taken = []
        for _turn in range(count):
            ledger_id = self.queue.pop()
            if ledger_id is not None:
                taken.append(ledger_id)
                self.queue.postpone(ledger_id)
            self.now_ms += self.attempt_ms
        return taken


@pytest.fixture(autouse=True)
def small_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_queue, "QUEUE_COUNT_MAX", COUNT_MAX)


@pytest.mark.parametrize("pause_ms_max", [16, 1_000_000], ids=["soon due", "forgotten"])
def test_tasks_that_fail_keep_no_other_one_from_its_turn(pause_ms_max: int) -> None:
    """There are more of them than a worker lists, and than it remembers."""
    queue = Queue(Tasks(range(5 * COUNT_MAX)), pause_ms_max=pause_ms_max)

    taken = queue.fail(5 * COUNT_MAX)

    assert sorted(taken) == list(range(5 * COUNT_MAX))
    queue.fail(1)  # the end of the list
    assert set(queue.fail(COUNT_MAX)) == set(range(COUNT_MAX)), "and then from the start"


def test_the_end_of_a_long_list_is_not_taken_for_an_empty_one() -> None:
    tasks = Tasks(range(COUNT_MAX))
    queue = Queue(tasks, pause_ms_max=16)
    queue.fail(COUNT_MAX)

    assert queue.fail(1) == []
    assert queue.queue.pause_s == POLL_S

    tasks.ledger_ids = range(0)
    assert queue.fail(1) == []
    assert queue.queue.pause_s == QUIET_POLL_S
