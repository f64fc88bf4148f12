"""The tries of one connection: when the next one is due, and why the last one failed.

The pause between two tries grows while they fail. A request causes a try at once, except shortly
after a failure, so that many requests cause no storm of tries.

Pure. Owned by a connection.
"""

from typing import Final

from zbk.errors import ZbkError

RETRY_MS: Final = 50
RETRY_MS_MAX: Final = 1_000


class Reconnects:
    """When to try to connect.

    >>> from zbk.errors import BookieUnavailableError
    >>> tries = Reconnects()
    >>> lost = BookieUnavailableError("b-1", "is not registered")
    >>> for now_ms in (1_000, 2_000):
    ...     tries.lost(lost, now_ms)
    ...     print(tries.due_ms - now_ms)
    50
    100
    >>> tries.recent_error(2_049) is lost, tries.recent_error(2_050)
    (True, None)
    """

    __slots__ = ("_lost_ms", "_pause_ms", "due_ms", "last_error")

    def __init__(self) -> None:
        self.due_ms = 0  # of the next try
        self.last_error: ZbkError | None = None  # None: it is connected, or was never lost
        self._pause_ms = RETRY_MS
        self._lost_ms = 0

    def recent_error(self, now_ms: int) -> ZbkError | None:
        """Return the error that a request gets instead of a try, if the last one just failed."""
        return self.last_error if now_ms < self._lost_ms + RETRY_MS else None

    def hurry(self) -> None:
        """Make the next try due, and begin with short pauses."""
        self.due_ms = 0
        self._pause_ms = RETRY_MS

    def succeeded(self) -> None:
        """Record that the bookie answered HELLO."""
        self._pause_ms = RETRY_MS
        self.last_error = None

    def lost(self, error: ZbkError, now_ms: int) -> None:
        """Record the end of a connection, or of a try, and plan the next try."""
        self.last_error = error
        self._lost_ms = now_ms
        self.due_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, RETRY_MS_MAX)
