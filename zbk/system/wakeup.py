"""A wake-up for a thread that waits in a poller: the write end may be used by any thread."""

import os
import threading


class Wakeup:
    """A file descriptor that becomes readable when somebody calls ``wake``.

    Many calls before the sleeper looks cost one system call.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._is_set = False

    @property
    def fd(self) -> int:
        """What to poll for reading."""
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
        """Make ``fd`` unreadable. The sleeper calls it before it looks for work, not after."""
        with self._lock:
            if self._is_set:
                os.read(self._reader, 4096)
                self._is_set = False

    def close(self) -> None:
        """Give both ends back."""
        with self._lock:
            if self._writer >= 0:
                os.close(self._writer)
                os.close(self._reader)
                self._writer = self._reader = -1
