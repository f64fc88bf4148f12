"""The deadline of a call: one for all of its steps, at any depth.

A call with a ``timeout`` runs its steps ``within`` it. A step with its own limit gets from
``left_s`` the time that it may wait: its limit, or the rest of the call's time if that is less.
Scopes nest, and the nearest deadline counts.

A deadline belongs to the calling thread. Work that the call hands to other threads continues after
it, with its own limits. A generator must not yield inside a scope.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zbk.system.clock import monotonic_s

NEVER_S: Final = float("inf")


class _Scope(threading.local):
    """The nearest deadline of each thread."""

    at_s = NEVER_S


_scope = _Scope()


@contextmanager
def within(timeout_s: float | None) -> Iterator[None]:
    """Limit the steps of the block to ``timeout_s`` seconds in total; ``None`` is no limit.

    >>> with within(5):
    ...     with within(60):
    ...         left_s(10) <= 5
    True
    """
    before_s = _scope.at_s
    if timeout_s is not None:
        _scope.at_s = min(before_s, monotonic_s() + timeout_s)
    try:
        yield
    finally:
        _scope.at_s = before_s


def wait_s() -> float | None:
    """Return how many seconds a step without its own limit may wait; ``None``: no limit."""
    at_s = _scope.at_s
    return None if at_s == NEVER_S else max(0.0, at_s - monotonic_s())


def left_s(limit_s: float) -> float:
    """Return how many seconds a step with the limit ``limit_s`` may wait.

    >>> left_s(10.0)
    10.0
    """
    at_s = _scope.at_s
    return limit_s if at_s == NEVER_S else max(0.0, min(limit_s, at_s - monotonic_s()))


def rounded_s(seconds: float) -> float:
    """Return seconds, rounded for texts.

    >>> rounded_s(2.9961), rounded_s(0.04999)
    (3.0, 0.05)
    """
    return round(seconds, 1 if seconds >= 1 else 3)
