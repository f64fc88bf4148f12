"""Waiting for what nobody announces."""

import threading
from collections.abc import Callable

from zbk.system.clock import monotonic_s

POLL_S = 0.01


def wait_until(
    is_so: Callable[[], bool], timeout_s: float = 15.0, what: str = "the condition"
) -> None:
    """Return once ``is_so``; fail if that takes longer than ``timeout_s``."""
    deadline_s = monotonic_s() + timeout_s
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < deadline_s, f"{what}: not within {timeout_s} s"
        pause.wait(POLL_S)
