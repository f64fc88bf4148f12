"""Time and order of one run: a clock that we turn by hand, and what happens when.

Time is in integer microseconds. What is due at the same time happens in the order in which it was
asked for. Nothing here, or in what it runs, looks at a real clock, a thread or the order of a hash.
"""

from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any
from zlib import crc32

from tests.simulation.tape import Tape

MS = 1_000
SECOND = 1_000_000


class RunCutError(Exception):
    """A run that is wanted only until its first broken promise has come to it."""


class Kernel:
    """The clock and the agenda.

    ``trace_hash`` sums up the run; ``lines`` has it as text if ``is_traced``. ``sometimes`` counts
    how often the dangerous places were reached.
    """

    def __init__(self, tape: Tape, *, is_traced: bool = False) -> None:
        self.tape = tape
        self.now_us = 0
        self.event_count = 0
        self.trace_hash = 0
        self.is_traced = is_traced
        self.lines: list[str] = []
        self.sometimes: Counter[str] = Counter()
        self.is_cut_when_violated = False  # true: one broken promise is as good as all of them
        self._is_cut = False
        self._agenda: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    @property
    def now_ms(self) -> float:
        """The time, for people."""
        return self.now_us / MS

    def after(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later."""
        self._sequence += 1
        due_us = self.now_us + delay_us if delay_us > 0 else self.now_us
        heappush(self._agenda, (due_us, self._sequence, action, arguments))

    def hurry(self, action: Callable[..., None], due_us: int) -> None:
        """Do now, in the same order, what was to be done by ``action`` at a time."""
        self._agenda[:] = [
            (self.now_us if (due, what) == (due_us, action) else due, sequence, what, arguments)
            for due, sequence, what, arguments in self._agenda
        ]
        heapify(self._agenda)

    def run_until(self, end_us: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Pass time; stop early when ``is_done``; return whether it is."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= end_us:
            if is_done is not None and is_done():
                return True
            self.now_us, _, action, arguments = heappop(agenda)
            self.event_count += 1
            action(*arguments)
        self.now_us = max(self.now_us, end_us) if is_done is None else self.now_us
        return is_done is not None and is_done()

    def trace(self, node: str, text: str) -> None:
        """Note what happened."""
        line = f"{self.now_us} {node} {text}"
        self.trace_hash = crc32(line.encode(), self.trace_hash)
        if self.is_traced:
            self.lines.append(f"{self.now_ms:10.3f} ms  {node:<12} {text}")

    def violated(self, node: str, invariant: str, text: str) -> None:
        """Note a broken promise; with ``is_cut_when_violated``, the next event ends the run."""
        self.trace(node, f"VIOLATION {invariant}: {text}")
        if self.is_cut_when_violated and not self._is_cut:
            self._is_cut = True
            heappush(self._agenda, (self.now_us, 0, self._cut, ()))  # before all other events

    def _cut(self) -> None:
        raise RunCutError


class Node:
    """A process on the simulated machines: it can be paused, and its clock may be wrong.

    What it asked for before a crash does not happen after it.
    """

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.life = 0
        self.is_alive = True
        self.paused_until_us = 0
        self._clock_offset_ms = kernel.tape.draw(4) * 1_000_003
        self._clock_rate = 1000

    def now_ms(self) -> int:
        """Return this node's own monotonic time."""
        return self._clock_offset_ms + self.kernel.now_us * self._clock_rate // 1_000_000

    def skew(self, rate_per_mille: int) -> None:
        """Make the node's clock run slower or faster, without a jump."""
        now_ms = self.now_ms()
        self._clock_rate = rate_per_mille
        self._clock_offset_ms += now_ms - self.now_ms()

    def after(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, if the node lives then; when it is paused, behind the pause."""
        self.kernel.after(delay_us, self._run, self.life, action, arguments)

    def pause(self, duration_us: int) -> None:
        """Freeze the node: it neither knows nor does anything meanwhile."""
        self.paused_until_us = max(self.paused_until_us, self.kernel.now_us + duration_us)
        self.kernel.trace(self.name, f"paused for {duration_us} us")

    def resume(self) -> None:
        """End a pause: what waits for its end is done now, before anything that comes later."""
        if self.paused_until_us > self.kernel.now_us:
            self.kernel.hurry(self._run, self.paused_until_us)
        self.paused_until_us = 0

    def die(self) -> None:
        """End this life."""
        self.life += 1
        self.is_alive = False

    def trace(self, text: str) -> None:
        """Note what happened here."""
        self.kernel.trace(self.name, text)

    def _run(self, life: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if life != self.life:
            return
        if self.paused_until_us > self.kernel.now_us:
            wait_us = self.paused_until_us - self.kernel.now_us
            self.kernel.after(wait_us, self._run, life, action, arguments)
            return
        action(*arguments)
