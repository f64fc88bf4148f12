"""The real ``WriterActor`` of a client with several ledgers; its own turns are events.

Turns do not run beside one another (I43). A bug in one writer ends that one, and no other (I42).
"""

import threading
from collections.abc import Callable
from typing import Any

from tests.simulation.connections_thread import ConnectionsThread
from tests.simulation.kernel import Node
from tests.simulation.world import World
from zbk.client.write.writer_actor import WriterActor, WriterDoor
from zbk.client.write.writer_body import WriterBody
from zbk.system.direct_inbox import TurnQueue


class PlannedError(Exception):
    """Put into one writer on purpose."""


class SteppedInbox(TurnQueue):
    """The real one, of an actor whose thread waits, or is about to take a message."""

    def __init__(self) -> None:
        super().__init__()
        self.on_put: Callable[[], None] = lambda: None
        self.end()  # the actor waits

    def put(self, envelope: Any) -> None:  # noqa: ANN401 - as TurnQueue has it
        """Leave a message for the actor."""
        super().put(envelope)
        self.on_put()

    def take(self) -> Any:  # noqa: ANN401 - as TurnQueue has it
        """Return the next message, with the turn."""
        is_free = self._turn.acquire(blocking=False)
        assert is_free, "turns are taken one after the other"
        return self.get().message


class SteppedWriterActor(WriterActor):
    """The real one; its own turns are events."""

    def __init__(
        self,
        world: World,
        node: Node,
        door: WriterDoor,
        connections: ConnectionsThread,
        on_turn: Callable[[], None],
    ) -> None:
        pool: Any = connections
        super().__init__(door, pool, node.now_ms)
        self._on_turn = on_turn
        self._world = world
        self._node = node
        self._connections = connections
        self._is_in_turn = False
        self._is_waking = False
        inbox: SteppedInbox = self.actor_inbox
        inbox.on_put = self._wake

    @staticmethod
    def _create_actor_inbox() -> SteppedInbox:
        return SteppedInbox()

    def on_receive(self, message: Any) -> None:  # noqa: ANN401 - as pykka has it
        """Take a turn."""
        if self._is_in_turn:
            self._world.violated("I43", f"{self._node.name}: a turn beside another one")
            return
        self._is_in_turn = True
        try:
            super().on_receive(message)
        finally:
            self._is_in_turn = False
        self._on_turn()

    def _wake(self) -> None:
        if not self._is_waking and self._node.is_alive:
            self._is_waking = True
            self._node.after(10 + self._world.tape.draw(4) * 50, self._work)

    def _work(self) -> None:
        self._is_waking = False
        inbox: SteppedInbox = self.actor_inbox
        message = inbox.take()
        self._connections.is_in_actor = True
        self._thread_id = threading.get_ident()
        try:
            self.on_receive(message)
        finally:
            self._connections.is_in_actor = False
            self._thread_id = 0
            inbox.end()
        if inbox.has_waiting:
            self._wake()

    def _fail(self, writer: WriterBody, error: Exception) -> None:
        if not isinstance(error, PlannedError):
            raise error  # a bug that nobody has planned
        others = [one for one in self._writers if one is not writer and not one.is_ended]
        super()._fail(writer, error)
        if any(one.is_ended for one in others):
            text = f"{self._node.name}: a bug in the writer of ledger {writer.ledger_id}"
            self._world.violated("I42", f"{text} ends others")
