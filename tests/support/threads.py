"""Which threads a test has started."""

import threading


class NewThreads:
    """The threads that live now and did not when this was made.

    An earlier test of the same process may have left threads behind, which live on or end while
    this one runs. What a test says about threads it says about its own.
    """

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def names(self, part: str = "") -> list[str]:
        """Return the names, sorted, of those whose name contains ``part``."""
        new = set(threading.enumerate()) - self._before
        return sorted(one.name for one in new if part in one.name)
