"""A thread that calls back at intervals, for whoever can not keep time in its own thread.

Callbacks run in the ticker's thread, one after another, and must not block: an actor's ``tell``.
"""

import logging
import threading
from collections.abc import Callable

from zbk.system.clock import monotonic_ms

logger = logging.getLogger(__name__)


class Ticker:
    """Calls back at intervals until it is stopped."""

    def __init__(self, name: str) -> None:
        self._calls: list[tuple[int, Callable[[], None]]] = []
        self._due_ms: dict[Callable[[], None], int] = {}
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` each ``interval_ms``, first after one interval."""
        assert interval_ms > 0, "an interval of 0 means off: do not ask for it"
        with self._changed:
            self._calls.append((interval_ms, callback))
            self._due_ms[callback] = monotonic_ms() + interval_ms
            self._changed.notify()

    def cancel(self, callback: Callable[[], None]) -> None:
        """Stop calling ``callback``; a call that is under way may still come."""
        with self._changed:
            self._calls = [call for call in self._calls if call[1] != callback]
            self._due_ms.pop(callback, None)

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_stopping:
                    return
                due = self._take_due(monotonic_ms())
                if not due:
                    next_ms = min(self._due_ms.values(), default=monotonic_ms() + 60_000)
                    self._changed.wait(max(1, next_ms - monotonic_ms()) / 1000)
            for callback in due:
                try:
                    callback()
                except Exception:
                    logger.exception("a timed call failed")

    def _take_due(self, now_ms: int) -> list[Callable[[], None]]:
        due = []
        for interval_ms, callback in self._calls:
            if now_ms >= self._due_ms[callback]:
                self._due_ms[callback] = now_ms + interval_ms
                due.append(callback)
        return due
