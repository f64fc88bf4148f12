"""A thread that calls back at intervals.

Callbacks run in the ticker's thread, one after another, and must not block: usually an actor's
``tell``. Callbacks with the same short interval are called together: hundreds of them at different
moments would wake the thread all the time.
"""

import threading
from collections.abc import Callable
from typing import Final

from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog

LOG = EventLog(__name__)

SHORT_MS: Final = 1_000
"""Intervals up to this begin at their multiples."""


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
        """Call ``callback`` each ``interval_ms``, first after one interval, up to two if short."""
        assert interval_ms > 0, "an interval of 0 means off"
        with self._changed:
            self._calls.append((interval_ms, callback))
            is_short = interval_ms <= SHORT_MS
            from_ms = monotonic_ms() + (interval_ms if is_short else 0)
            self._due_ms[callback] = next_due_ms(from_ms, interval_ms)
            self._changed.notify()

    def cancel(self, callback: Callable[[], None]) -> None:
        """Stop calling ``callback``; a call that has begun may still come."""
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
                    LOG.exception("ticker.call_failed", "a timed call failed")

    def _take_due(self, now_ms: int) -> list[Callable[[], None]]:
        due = []
        for interval_ms, callback in self._calls:
            if now_ms >= self._due_ms[callback]:
                self._due_ms[callback] = next_due_ms(now_ms, interval_ms)
                due.append(callback)
        return due


def next_due_ms(now_ms: int, interval_ms: int) -> int:
    """Return the next due time of a call that comes each ``interval_ms`` and came now.

    >>> next_due_ms(1_234, 100), next_due_ms(1_234, 5_000)
    (1300, 6234)
    """
    if interval_ms > SHORT_MS:
        return now_ms + interval_ms
    return (now_ms // interval_ms + 1) * interval_ms
