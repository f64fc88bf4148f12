"""A wake-up for a thread that waits in a poller. Any thread may wake it."""

import os
import threading


class Wakeup:
    """A file descriptor that becomes readable after a call of ``wake``.

    Many calls before the waiting thread runs cost one system call.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._is_set = False

    @property
    def fd(self) -> int:
        """The descriptor to poll for reading."""
        return self._reader

    def wake(self) -> None:
        """Make ``fd`` readable. After ``close`` this does nothing."""
        if self._is_set:
            return
        with self._lock:
            if self._writer >= 0:
                self._is_set = True
                os.write(self._writer, b"!")

    def clear(self) -> None:
        """Make ``fd`` unreadable. The waiting thread calls it before it takes work, not after."""
        with self._lock:
            if self._is_set:
                os.read(self._reader, 4096)
                self._is_set = False

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            if self._writer >= 0:
                os.close(self._writer)
                os.close(self._reader)
                self._writer = self._reader = -1
