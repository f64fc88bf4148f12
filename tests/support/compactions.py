"""Compaction of a storage on a simulated disk, without threads: every wait ends at once."""

from collections.abc import Callable, Iterator

from zbk.actors.messages import RunInStorage
from zbk.actors.upkeep.compaction_rounds import CompactionOptions, CompactionRounds
from zbk.actors.upkeep.waits import Resume, Waits
from zbk.protocol.upkeep.compaction import CompactionKind, CompactionLimits
from zbk.storage.bookie_storage import BookieStorage


def nothing() -> None:
    """Do nothing between two steps."""


class Compactor:
    """Carries out compaction as the gc actor does; ``between`` is called between two steps."""

    def __init__(
        self,
        storage: BookieStorage,
        limits: CompactionLimits | None = None,
        *,
        rate_size: int = 0,
        room_size: int = 1 << 40,
    ) -> None:
        self.storage = storage
        self.now_ms = 0
        self.waited_ms = 0
        self.step_count = 0
        self.between: Callable[[], None] = nothing
        self.checkpoint: Callable[[], None] = self._checkpoint
        self.ask_checkpoint: Callable[[Callable[[], None]], None] = self.checkpoint_now
        self._resumes: list[Resume] = []
        self._callbacks: list[tuple[int, Callable[[], None]]] = []
        self.rounds = CompactionRounds(
            storage.garbages,
            Waits(self._resumes.append, self, self, lambda: self.now_ms),
            CompactionOptions(
                limits or CompactionLimits(),
                rate_size,
                lambda done: self.ask_checkpoint(done),  # noqa: PLW0108 - a test may change it
                lambda _path: room_size,
            ),
        )

    def major(self) -> int:
        """Compact what it pays for; return how many logs went."""
        self.run(self.rounds.round(CompactionKind.MAJOR, lambda: False))
        return self.rounds.round_counts.log_count

    def finish(self) -> None:
        """Carry to its end what was left open."""
        self.run(self.rounds.finish())

    def run(self, steps: Iterator[bool]) -> None:
        """Take all steps."""
        for may_go_on in steps:
            self.step_count += 1
            self.between()
            if not may_go_on:
                self._wait()

    # ------------------------------------------------------------------ ports

    def tell(self, message: RunInStorage) -> None:
        """Do a step of the storage actor."""
        message.step()

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Note a time to wake up at."""
        self._callbacks.append((interval_ms, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        """Forget it."""
        self._callbacks = [one for one in self._callbacks if one[1] is not callback]

    def _wait(self) -> None:
        while not any(map(self.rounds._waits.take, self._take_resumes())):
            ((delay_ms, callback),) = self._callbacks
            self.now_ms += delay_ms
            self.waited_ms += delay_ms
            callback()

    def _take_resumes(self) -> list[Resume]:
        resumes, self._resumes[:] = self._resumes[:], []
        return resumes

    def checkpoint_now(self, done: Callable[[], None]) -> None:
        """Take a checkpoint, from begin to end."""
        self.checkpoint()
        done()

    def _checkpoint(self) -> None:
        if self.storage.open_checkpoint is None:
            checkpoint = self.storage.begin_checkpoint()
            checkpoint.run()
            self.storage.end_checkpoint(checkpoint)
