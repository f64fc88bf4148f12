"""Every decision of chance in a run, as small integers; 0 is always "nothing happens, at once".

Drawn from a seed, or read from values that were recorded: the same tape makes the same run. What
lies behind the end of a recorded tape is 0. That makes tapes shrinkable: cut spans out, put zeros
in, and look whether the run still fails.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Tape:
    """A source of decisions that remembers them in ``values``."""

    def __init__(self, seed: int = 0, recorded: Sequence[int] | None = None) -> None:
        self._random = Random(seed).random
        self._seed = seed
        self._asides: dict[str, Callable[[], float]] = {}
        self._recorded = recorded
        self.values: list[int] = []

    def draw(self, count: int) -> int:
        """Return one of ``0 .. count - 1``, all as likely."""
        if self._recorded is None:
            value = int(self._random() * count)
        else:
            at = len(self.values)
            value = self._recorded[at] % count if at < len(self._recorded) else 0
        self.values.append(value)
        return value

    def aside(self, count: int, stream: str = "") -> int:
        """Return as ``draw``, from a stream of its own: where it is 0, a seed means what it did.

        A choice that came late to the simulation is drawn so; old seeds stay what they were in all
        runs that do not take it. With a stream of another name so do the choices that came before.
        """
        if self._recorded is None:
            if stream not in self._asides:
                self._asides[stream] = Random(f"aside {self._seed}{stream}").random
            value = int(self._asides[stream]() * count)
            self.values.append(value)
            return value
        return self.draw(count)

    def chance(self, per_mille: int) -> bool:
        """Return true in so many of a thousand cases; recorded as 1."""
        if per_mille <= 0:
            return False  # a fault that this run does not have leaves no trace on the tape
        if self._recorded is None:
            value = int(self._random() * 1000 < per_mille)
        else:
            at = len(self.values)
            value = self._recorded[at] % 2 if at < len(self._recorded) else 0
        self.values.append(value)
        return value == 1

    def between(self, low: int, high: int) -> int:
        """Return one of ``low .. high``; ``low`` is the benign one."""
        return low + self.draw(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices; the first is the benign one."""
        return choices[self.draw(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order; zeros keep it."""
        left = list(items)
        return [left.pop(self.draw(len(left)) if len(left) > 1 else 0) for _ in items]
