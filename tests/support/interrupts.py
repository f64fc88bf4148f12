"""Interrupts at chosen places of the main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zbk.system.interrupts import SIGNALS


@contextmanager
def raising_handlers() -> Iterator[None]:
    """All signals that end a process raise ``KeyboardInterrupt``."""
    former = [signal.signal(number, signal.default_int_handler) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, former, strict=True):
            signal.signal(number, handler)


class InterruptedLock:
    """A lock; one interrupt arrives as soon as it is acquired."""

    def __init__(self, lock: Any) -> None:  # noqa: ANN401 - Lock and RLock have no common type
        self._lock = lock
        self._is_interrupted = False
        self.release = lock.release

    def acquire(self, *arguments: object, **options: object) -> bool:
        """Acquire it, and be interrupted behind that the first time."""
        is_acquired: bool = self._lock.acquire(*arguments, **options)
        if is_acquired and not self._is_interrupted:
            self._is_interrupted = True
            signal.raise_signal(signal.SIGINT)
        return is_acquired

    def __enter__(self) -> bool:
        return self._lock.__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)
