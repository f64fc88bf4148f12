"""Work that runs once, in the first of several threads that ask for it."""

from collections.abc import Callable
from threading import Lock


class RunOnce:
    """Work that several threads may ask for; the others wait until it is done."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = Lock()
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """True when the work is done."""
        return self._is_done

    def run(self) -> None:
        """Return when the work is done. If it raises, the thread that ran it gets the error."""
        with self._lock:
            if not self._is_done:
                self._work()
                self._is_done = True
