"""A step that is done once, by whoever comes first: the checkpoint's thread or the owner's."""

from collections.abc import Callable
from threading import Lock


class Step:
    """Work that several threads may ask for; the others wait until it is done."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = Lock()
        self._is_done = False

    def run(self) -> None:
        """Return once the work is done. What it raises, it raises to whoever did it."""
        with self._lock:
            if not self._is_done:
                self._work()
                self._is_done = True
