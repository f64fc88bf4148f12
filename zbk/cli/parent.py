"""The end of a process together with its parent, which holds its standard input open."""

import os
import signal
import threading


def stop_with_parent() -> None:
    """Send SIGTERM to this process when its standard input ends."""
    threading.Thread(target=_stop_at_end_of_stdin, name="parent", daemon=True).start()


def _stop_at_end_of_stdin() -> None:
    while os.read(0, 4096):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
