"""An event that the main thread waits for, and that a signal to any thread interrupts.

Python runs signal handlers in the main thread. The kernel may deliver a signal to another thread,
for example while a debugger or a tracer has stopped the main one, or while another signal is on its
way to it. ``threading.Event.wait`` without a time limit sleeps on then, and the process does not
stop. Here the main thread reads from a pipe, into which Python writes at each signal.
"""

import os
import signal
import threading
from contextlib import suppress
from typing import Final

READ_SIZE: Final = 512


class WakingEvent(threading.Event):
    """A ``threading.Event``; ``wait`` without a limit in the main thread hears all signals."""

    def __init__(self) -> None:
        super().__init__()
        self._pipe_lock = threading.RLock()  # a handler of a signal may set the event
        self._write_fd = -1

    def set(self) -> None:
        """Set the event, and wake who waits."""
        with self._pipe_lock:
            super().set()
            if self._write_fd >= 0:
                with suppress(BlockingIOError):  # full: it is awake
                    os.write(self._write_fd, b"\0")

    def wait(self, timeout: float | None = None) -> bool:
        """Return once the event is set, or the time is over; return whether it is set."""
        if timeout is not None or threading.current_thread() is not threading.main_thread():
            return super().wait(timeout)
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        before = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        with self._pipe_lock:
            self._write_fd = write_fd
        try:
            while not self.is_set():
                os.read(read_fd, READ_SIZE)
        finally:
            signal.set_wakeup_fd(before)
            with self._pipe_lock:
                self._write_fd = -1
            os.close(read_fd)
            os.close(write_fd)
        return True
