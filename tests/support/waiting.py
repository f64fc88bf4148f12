"""Waiting for what nobody announces."""

import threading
from collections.abc import Callable

from tests.support.machine import patient_s
from zbk.system.clock import monotonic_s

POLL_S = 0.01
POLL_MAX_S = 1.0

PAUSE_SHARE = 3
"""Times that a pause is as long as the look before it."""


def wait_until(
    is_so: Callable[[], bool], timeout_s: float = 15.0, what: str = "the condition"
) -> None:
    """Return once ``is_so``; fail if that takes longer than ``timeout_s``, as this machine goes.

    A condition that takes long to evaluate gets longer pauses: what is waited for needs the core.
    """
    timeout_s = patient_s(timeout_s)
    now_s = monotonic_s()
    deadline_s = now_s + timeout_s
    pause = threading.Event()
    while not is_so():
        began_s, now_s = now_s, monotonic_s()
        assert now_s < deadline_s, f"{what}: not within {timeout_s:g} s"
        pause.wait(min(POLL_MAX_S, max(POLL_S, PAUSE_SHARE * (now_s - began_s))))
        now_s = monotonic_s()
