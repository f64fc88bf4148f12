"""The tasks that a worker takes next, in random order. Thread-safe.

A listing leaves out locked tasks, and those of ledgers whose last attempt failed too recently
(``zbk.protocol.repair.backoff``). It begins after the last ledger of a listing that was full, so
that many tasks that fail do not keep others from their turn. While it finds none, the next listing
waits for a pause, or for an announcement, and begins with the first task.
"""

import random
import threading
from collections.abc import Callable
from itertools import chain, islice
from typing import Final

from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.backoff import RepairBackoff

POLL_S: Final = 1.0
"""The pause between two listings while some tasks are listed: a task whose worker died is not
announced."""

QUIET_POLL_S: Final = 5.0
"""The same while none is listed: a new task is announced."""

QUEUE_COUNT_MAX: Final = 10_000
"""Tasks that a worker lists at once; the others follow."""


class TaskQueue:
    """The queue of one worker."""

    def __init__(
        self,
        tasks: UnderreplicationStore,
        backoff: RepairBackoff,
        rng: random.Random,
        now_ms: Callable[[], int],
    ) -> None:
        self._tasks = tasks
        self._rng = rng
        self._now_ms = now_ms
        self._lock = threading.Lock()  # guards the fields below
        self._backoff = backoff
        self._ledger_ids: list[int] = []
        self._after = -1  # the ledger after which the next listing begins
        self._next_listing_ms = 0
        self._is_task_listed = True  # at the last listing

    @property
    def pause_s(self) -> float:
        """The pause before the next listing."""
        return POLL_S if self._is_task_listed else QUIET_POLL_S

    def expect_tasks(self) -> None:
        """Assume that tasks are listed, until the next listing."""
        self._is_task_listed = True

    def list_soon(self) -> None:
        """Allow a listing at once: a task was announced."""
        self._next_listing_ms = 0

    def pop(self) -> int | None:
        """Return the ledger of the next task; list tasks if the queue is empty and it is time."""
        now_ms = self._now_ms()
        with self._lock:
            if self._ledger_ids:
                return self._ledger_ids.pop()
            if now_ms < self._next_listing_ms:
                return None
            after = self._after
        locked = self._tasks.locked_ids()
        listed = iter(self._tasks.list(after))
        first_id = next(listed, None)
        self._is_task_listed = after >= 0 or first_id is not None
        ids = (
            ledger_id
            for ledger_id in chain(() if first_id is None else (first_id,), listed)
            if ledger_id not in locked and self.is_due(ledger_id)
        )
        found = list(islice(ids, QUEUE_COUNT_MAX))
        last_id = found[-1] if len(found) == QUEUE_COUNT_MAX else -1
        self._rng.shuffle(found)
        with self._lock:
            self._ledger_ids = found
            self._after = last_id
            if found:
                return found.pop()
            self._next_listing_ms = now_ms + int(POLL_S * 1000)
            return None

    def is_due(self, ledger_id: int) -> bool:
        """Return whether a ledger may be tried now."""
        with self._lock:
            return self._backoff.is_due(ledger_id, self._now_ms())

    def postpone(self, ledger_id: int) -> None:
        """Postpone the next attempt at a ledger."""
        with self._lock:
            self._backoff.failed(ledger_id, self._now_ms())

    def forget(self, ledger_id: int) -> None:
        """Forget the failures of a ledger."""
        with self._lock:
            self._backoff.forget(ledger_id)
