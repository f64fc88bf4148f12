"""A callback that remembers what it was told, and a test can wait for."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tests.support.machine import patient_s
from zbk.system.clock import monotonic_s

ItemT = TypeVar("ItemT")

WAIT_TIMEOUT_S = patient_s(15.0)


class Recorder(Generic[ItemT]):
    """Call it from any thread; ask it from the test's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[ItemT] = []

    def __call__(self, item: ItemT) -> None:
        """Remember one more."""
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    @property
    def items(self) -> list[ItemT]:
        """All that it was told, in order."""
        with self._changed:
            return list(self._items)

    def wait(
        self, is_enough: Callable[[list[ItemT]], bool], timeout_s: float = WAIT_TIMEOUT_S
    ) -> list[ItemT]:
        """Return all items once ``is_enough`` of them; fail if that takes too long."""
        deadline_s = monotonic_s() + timeout_s
        with self._changed:
            while not is_enough(self._items):
                left_s = deadline_s - monotonic_s()
                assert left_s > 0, f"waited {timeout_s} s, was told only {self._items}"
                self._changed.wait(left_s)
            return list(self._items)

    def wait_last(self, item: ItemT, timeout_s: float = WAIT_TIMEOUT_S) -> list[ItemT]:
        """Return all items once the last one is ``item``."""
        return self.wait(lambda items: items[-1:] == [item], timeout_s)

    def wait_count(self, count: int, timeout_s: float = WAIT_TIMEOUT_S) -> list[ItemT]:
        """Return all items once there are ``count``."""
        return self.wait(lambda items: len(items) >= count, timeout_s)
