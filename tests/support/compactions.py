"""Compaction of a storage on a simulated disk, without threads: every wait ends at once."""

from collections.abc import Callable, Iterator

from zbk.actors.messages import Answered, AskCheckpoint, AskStorage, CheckpointEnded, ForgetLedgers
from zbk.actors.upkeep.compaction_rounds import CompactionOptions, CompactionRounds
from zbk.actors.upkeep.waits import WaitPorts, Waits
from zbk.errors import CorruptRecordError
from zbk.protocol.upkeep.compaction import CompactionKind, CompactionLimits
from zbk.storage.bookie_storage import BookieStorage


def nothing() -> None:
    """Do nothing between two steps."""


class Mailbox:
    """Where the answers to what was asked arrive."""

    def __init__(self) -> None:
        self._messages: list[Answered | CheckpointEnded] = []

    def tell(self, message: Answered | CheckpointEnded) -> None:
        """Keep a message."""
        self._messages.append(message)

    def take(self) -> list[Answered | CheckpointEnded]:
        """Return the messages that have arrived."""
        messages, self._messages = self._messages, []
        return messages


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
        self.ask_checkpoint: Callable[[AskCheckpoint], None] = self.checkpoint_now
        self._mailbox = Mailbox()
        self._callbacks: list[tuple[int, Callable[[], None]]] = []
        self.rounds = CompactionRounds(
            storage.garbages,
            Waits(self._mailbox, WaitPorts(self, _Checkpoints(self), self, lambda: self.now_ms)),
            CompactionOptions(limits or CompactionLimits(), rate_size, lambda _path: room_size),
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

    def tell(self, message: AskStorage | ForgetLedgers) -> None:
        """Answer a question to the storage actor."""
        assert isinstance(message, AskStorage)
        assert message.reply_to is not None
        try:
            value = message.question.answer()
        except CorruptRecordError as error:
            value = error
        message.reply_to.tell(Answered(message.wait_no, value))

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Note a time to wake up at."""
        self._callbacks.append((interval_ms, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        """Forget it."""
        self._callbacks = [one for one in self._callbacks if one[1] is not callback]

    def _wait(self) -> None:
        while not any(map(self.rounds._waits.take, self._mailbox.take())):
            ((delay_ms, callback),) = self._callbacks
            self.now_ms += delay_ms
            self.waited_ms += delay_ms
            callback()

    def checkpoint_now(self, asked: AskCheckpoint) -> None:
        """Take a checkpoint, from begin to end."""
        self.checkpoint()
        asked.reply_to.tell(CheckpointEnded(asked.wait_no))

    def _checkpoint(self) -> None:
        if self.storage.open_checkpoint is None:
            checkpoint = self.storage.begin_checkpoint()
            checkpoint.run()
            self.storage.end_checkpoint(checkpoint)


class _Checkpoints:
    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor

    def tell(self, message: AskCheckpoint) -> None:
        self._compactor.ask_checkpoint(message)  # a test may change it
