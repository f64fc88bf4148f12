"""Waiting for what nobody announces."""

import threading
from collections.abc import Callable

from tests.support.machine import patient_s
from zbk.system.clock import monotonic_s

POLL_S = 0.01


def wait_until(
    is_so: Callable[[], bool], timeout_s: float = 15.0, what: str = "the condition"
) -> None:
    """Return once ``is_so``; fail if that takes longer than ``timeout_s``, as this machine goes."""
    timeout_s = patient_s(timeout_s)
    deadline_s = monotonic_s() + timeout_s
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < deadline_s, f"{what}: not within {timeout_s:g} s"
        pause.wait(POLL_S)
