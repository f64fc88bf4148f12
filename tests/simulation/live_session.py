"""A session with the metadata store that lives as its node does: beats, watches, ephemeral nodes.

The client beats; the server gives a session up from which it heard nothing for the timeout, as when
its node is paused, dead, or cut off by an outage; with it go its ephemeral nodes. The client hears
of that when it is heard again: LOST, and then CONNECTED with a new session. For a while neither
knows: who was paused believes that it is connected until it asks for something.

News of a watch comes later than the change, and several changes may be one piece of news.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from tests.simulation.kernel import MS, Node
from tests.simulation.metadata import MetadataServer, Session
from zbk.errors import MetadataUnavailableError, NoNodeError
from zbk.metadata.stores.callbacks import Reading, Subscription
from zbk.metadata.stores.store import Node as TreeNode
from zbk.metadata.stores.store import SessionState, Watch

TIMEOUT_US: Final = 1_000 * MS
BEAT_US: Final = 200 * MS
DOUBT_US: Final = 700 * MS
"""Without an answer for so long the client knows that it knows nothing."""


class _Listener:
    def __init__(self, forget: Callable[[], None]) -> None:
        self.cancel = forget


class LiveSession(Session):
    """One node's session, for one life of the node."""

    def __init__(
        self, server: MetadataServer, node: Node, name: str, *, is_faulty: bool = True
    ) -> None:
        super().__init__(server, name, is_faulty=is_faulty)
        self._node = node
        self._life = node.life
        self._kernel = server.kernel
        self._subscriptions: dict[Subscription, Callable[[], Reading]] = {}
        self._listeners: dict[int, Callable[[SessionState], None]] = {}
        self._listener_count = 0
        self._state = SessionState.CONNECTED
        self._heard_us = self._kernel.now_us
        self._is_given_up = False  # by the server
        self._is_closed = False
        self._id = server.tree.begin_session(self)
        node.after(BEAT_US, self._beat)
        self._kernel.after(TIMEOUT_US, self._look)

    @property
    def session_id(self) -> int:
        """The server's number of it; ephemeral nodes have it."""
        return self._id

    # ------------------------------------------------------------------ the port

    def session_state(self) -> SessionState:
        return self._state

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        read = partial(self._server.tree.read_children, path)
        return self._watch(path, read, lambda reading: callback(list(reading.names)))

    def watch_node(self, path: str, callback: Callable[[TreeNode | None], None]) -> Watch:
        read = partial(self._server.tree.read_node, path)
        return self._watch(path, read, lambda reading: callback(reading.node))

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        self._listener_count += 1
        key = self._listener_count
        self._listeners[key] = callback
        return _Listener(partial(self._listeners.__delitem__, key))

    def keep(self, path: str) -> None:
        """Keep an ephemeral node for as long as this lasts, and in the sessions that follow."""

        def create(_state: SessionState = SessionState.CONNECTED) -> None:
            if self._state is SessionState.CONNECTED:
                with suppress(NoNodeError):
                    self.delete(path)  # an earlier life's
                self.create(path, is_ephemeral=True)

        self.on_session(create)
        create()

    def expire(self) -> None:
        """Expire the session at the server, and answer nothing for now."""
        super().expire()
        self._give_up()

    def close(self) -> None:
        """End it at once, as who stops in good order does."""
        self._forget()
        self._server.tree.end_session(self._id)

    # ------------------------------------------------------------------ the tree's listener

    def look_again(self, paths: Collection[str]) -> None:
        """Notify the watchers of these paths. The tree calls this."""
        for subscription, read in self._subscriptions.items():
            if subscription.path in paths:
                self._offer_later(subscription, read)

    def _watch(
        self, path: str, read: Callable[[], Reading], deliver: Callable[[Reading], None]
    ) -> Watch:
        subscription = Subscription(path, deliver, lambda: self._unwatch(subscription))
        self._subscriptions[subscription] = read
        self._offer_later(subscription, read)
        return subscription

    def _unwatch(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    def _offer_later(self, subscription: Subscription, read: Callable[[], Reading]) -> None:
        delay_us = 200 + self._kernel.tape.draw(4) * self._server.faults.metadata_slow_us_max // 4
        self._node.after(delay_us, self._offer, subscription, read)

    def _offer(self, subscription: Subscription, read: Callable[[], Reading]) -> None:
        if self._state is SessionState.CONNECTED:  # else it looks again when it is
            self._see_all()
            subscription.offer(read())

    # ------------------------------------------------------------------ life

    def _beat(self) -> None:
        if self._is_closed:
            return
        now_us = self._kernel.now_us
        if self._server.is_down or self.is_expired:
            if now_us - self._heard_us > DOUBT_US:
                self._become(SessionState.SUSPENDED)
        else:
            self._heard_us = now_us
            self._reconnect()
        self._node.after(BEAT_US, self._beat)

    def _reconnect(self) -> None:
        was_connected = self._state is SessionState.CONNECTED
        if self._is_given_up:
            self._is_given_up = False
            self._become(SessionState.LOST)
            self._id = self._server.tree.begin_session(self)
            self._kernel.after(TIMEOUT_US, self._look)
            self._kernel.sometimes["metadata: a session is new"] += 1
            was_connected = False
        self._become(SessionState.CONNECTED)
        if not was_connected:
            self.look_again([subscription.path for subscription in self._subscriptions])

    def _become(self, state: SessionState) -> None:
        if state is self._state:
            return
        self._state = state
        self._node.trace(f"the session is {state}")
        for listener in list(self._listeners.values()):
            listener(state)

    def _look(self) -> None:
        """Give the session up if nothing was heard of it; the server's clock runs in an outage."""
        if self._is_given_up or self._is_closed:
            return
        due_us = self._heard_us + TIMEOUT_US
        if self._server.is_down:
            self._kernel.after(20 * MS, self._look)
        elif self._kernel.now_us >= due_us:
            self._give_up()
        else:
            self._kernel.after(due_us - self._kernel.now_us, self._look)

    def _give_up(self) -> None:
        if not self._is_given_up and not self._is_closed:
            self._is_given_up = True
            self._server.tree.end_session(self._id)
            if self._node.life != self._life:
                self._forget()

    def _forget(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._server.tree.forget(self)

    def _check_request(self) -> None:
        if self._is_given_up or self._is_closed:
            self._become(SessionState.SUSPENDED)
            raise MetadataUnavailableError(self.address, "the session is over")
        super()._check_request()
