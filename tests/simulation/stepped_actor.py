"""An actor of a simulated bookie without its thread: each message that it takes is an event.

What it has the storage actor do, and what it waits for, are events, too: requests, checkpoints,
fsyncs and crashes come between any two.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tests.simulation.bookie_parts import Tell
from tests.simulation.kernel import MS, Kernel, Node
from tests.simulation.oracle import BookieOracle
from zbk.actors.messages import AskCheckpoint, CheckpointEnded
from zbk.actors.serve.storage import StorageMessage
from zbk.actors.upkeep.waits import WaitPorts


class SteppingBookie(Protocol):
    """What such an actor needs of its bookie."""

    kernel: Kernel
    node: Node
    bookie_id: str
    oracle: BookieOracle

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life; what goes wrong in it ends the process."""
        ...

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        ...

    def ask_checkpoint(self, done: Callable[[], None]) -> None:
        """Call ``done`` when a checkpoint has ended that begins from now on."""
        ...


class SteppedActor:
    """Its mailbox, its ticker, and its way to the storage actor. ``drive`` comes first."""

    def __init__(self, bookie: SteppingBookie) -> None:
        self._bookie = bookie
        self._actor: Any = None
        self._ticks: dict[Callable[[], None], int] = {}
        self._is_working = False
        self.ports = WaitPorts(self, Tell(self._ask_checkpoint), self, bookie.node.now_ms)

    def drive(self, actor: Any) -> None:  # noqa: ANN401 - any actor
        """Make this actor take its messages, those that it has already among them."""
        self._actor = actor
        self._work_soon()

    def give_every(self, interval_ms: int, message: object) -> None:
        """Give the actor a message at intervals."""
        self._bookie.later(interval_ms * MS, self._give, interval_ms, message)

    def tell(self, message: Any) -> None:  # noqa: ANN401 - whatever the storage actor takes
        """Be the storage actor's ref."""
        delay_us = 10 + self._bookie.kernel.tape.draw(4) * 100
        self._bookie.later(delay_us, self._in_storage, message)

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Begin to call back."""
        self._ticks[callback] = interval_ms
        self._bookie.later(interval_ms * MS, self._tick, callback)

    def cancel(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""
        self._ticks.pop(callback, None)

    # ------------------------------------------------------------------ inside

    def _give(self, interval_ms: int, message: object) -> None:
        self._bookie.later(interval_ms * MS, self._give, interval_ms, message)
        self._actor.handle(message)
        self._work_soon()

    def _tick(self, callback: Callable[[], None]) -> None:
        if callback in self._ticks:
            self._bookie.later(self._ticks[callback] * MS, self._tick, callback)
            callback()
            self._work_soon()

    def _in_storage(self, message: StorageMessage) -> None:
        self._bookie.tell_storage_actor(message)
        self._work_soon()

    def _ask_checkpoint(self, message: AskCheckpoint) -> None:
        self._bookie.ask_checkpoint(lambda: self._on_checkpoint(message))

    def _on_checkpoint(self, asked: AskCheckpoint) -> None:
        asked.reply_to.tell(CheckpointEnded(asked.wait_no))
        self._work_soon()

    def _work_soon(self) -> None:
        """Make the actor take its next message, if there is one."""
        if not self._is_working and not self._actor.actor_inbox.empty():
            self._is_working = True
            self._bookie.later(30 + self._bookie.kernel.tape.draw(4) * 300, self._work)

    def _work(self) -> None:
        self._is_working = False
        self._actor.handle(self._actor.actor_inbox.get().message)
        self._work_soon()
