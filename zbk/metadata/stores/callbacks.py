"""The thread of a store's callbacks, and the readings that watches receive.

Words: a *reading* is the state that a watch found at one moment. Its *stamp* distinguishes it from
earlier ones, even if the names or the value are the same again (a node that was removed and created
again).

One thread per store runs all callbacks, one at a time, in the order in which they were posted. A
callback that raises is logged, and the next one runs. The queue holds at most one entry for each
change that was seen. A callback that blocks delays later callbacks and nothing else of the store.
"""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

import msgspec

from zbk.metadata.stores.store import Node, SessionState
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.metadata")

CLOSE_TIMEOUT_S = 2.0
"""The time limit for a callback that is under way when the store closes."""


class CallbackThread:
    """A daemon thread that runs posted callbacks."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the thread, after everything posted before. Never blocks."""
        self._queue.put(work)

    def is_current(self) -> bool:
        """Return whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything posted before has run; return false if it takes longer."""
        done = threading.Event()
        self.post(done.set)
        return done.wait(timeout_s)

    def close(self) -> None:
        """End the thread after the posted work; wait at most ``CLOSE_TIMEOUT_S``."""
        self._queue.put(None)
        if not self.is_current():
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                LOG.exception(
                    "metadata.store_callback_failed", "a callback of the metadata store failed"
                )


class Reading(msgspec.Struct, frozen=True):
    """The children of a node, or a node. With an empty stamp: neither exists."""

    stamp: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # sorted; of a watch on children
    node: Node | None = None  # of a watch on a node


NOTHING = Reading()


def children_reading(created: int, child_version: int, names: list[str]) -> Reading:
    """Return the reading of a node's children; a node without children counts as no node.

    ``created`` distinguishes the node from earlier ones at its path; ``child_version`` grows when a
    child comes or goes.
    """
    if not names:
        return NOTHING
    return Reading(stamp=(created, child_version), names=tuple(sorted(names)))


def node_reading(created: int, node: Node) -> Reading:
    """Return the reading of a node. ``created`` as in ``children_reading``."""
    return Reading(stamp=(created, node.version), node=node)


class Subscription:
    """One watch of one caller. ``offer`` runs in the callback thread only."""

    def __init__(
        self, path: str, deliver: Callable[[Reading], None], on_cancel: Callable[[], None]
    ) -> None:
        self.path = path
        self._deliver = deliver
        self._on_cancel = on_cancel
        self._last_stamp: tuple[int, ...] | None = None
        self._is_cancelled = False

    def offer(self, reading: Reading) -> None:
        """Call back, unless the caller received this reading already."""
        if self._is_cancelled or reading.stamp == self._last_stamp:
            return
        self._last_stamp = reading.stamp
        self._deliver(reading)

    def cancel(self) -> None:
        """Stop the watch. A callback that is under way may still come."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self._on_cancel()


class SessionListeners:
    """The callbacks of ``on_session``."""

    def __init__(self, callbacks: CallbackThread) -> None:
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._listeners: dict[int, Callable[[SessionState], None]] = {}
        self._next_key = 0

    def add(self, callback: Callable[[SessionState], None]) -> "Listener":
        """Report every later change to ``callback``."""
        with self._lock:
            key = self._next_key
            self._next_key += 1
            self._listeners[key] = callback
        return Listener(lambda: self._remove(key))

    def post(self, state: SessionState) -> None:
        """Notify all listeners, in the callback thread."""
        with self._lock:
            listeners = list(self._listeners)
        for key in listeners:
            self._callbacks.post(partial(self._tell, key, state))

    def _tell(self, key: int, state: SessionState) -> None:
        callback = self._listeners.get(key)
        if callback is not None:
            callback(state)

    def _remove(self, key: int) -> None:
        with self._lock:
            self._listeners.pop(key, None)


class Listener:
    """A running ``on_session``."""

    def __init__(self, on_cancel: Callable[[], None]) -> None:
        self._on_cancel = on_cancel

    def cancel(self) -> None:
        """Stop it. A callback that is under way may still come."""
        self._on_cancel()
