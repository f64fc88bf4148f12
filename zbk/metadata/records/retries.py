"""Pauses between attempts at a change that others are making, too."""

import random
import threading
from collections.abc import Callable

_PAUSE_MIN_S = 0.001
_PAUSE_MAX_S = 0.1


def wait_s(seconds: float) -> None:
    """Wait. Simulations pass something else."""
    threading.Event().wait(seconds)


class Retries:
    """Random pauses, so that those who were in each other's way are not so again."""

    def __init__(self, pause: Callable[[float], None], rng: random.Random | None) -> None:
        self._pause = pause
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, keeps no secret

    def wait(self, attempt: int) -> None:
        """Wait after an attempt, the first one is 0: up to twice as long after each."""
        self._pause(self._rng.uniform(0, min(_PAUSE_MAX_S, _PAUSE_MIN_S * 2**attempt)))
