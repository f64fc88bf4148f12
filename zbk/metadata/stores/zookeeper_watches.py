"""Watches on ZooKeeper that outlive their nodes, reconnects and sessions.

ZooKeeper's own watch fires once, and kazoo forgets all of them with the connection. Here every
watched path is read and armed again after each event and each reconnect. Stamps (see ``callbacks``)
prevent that a caller receives the same reading twice. A reading carries the *ticket* of its
request; requests are answered in order, so a reading with a smaller ticket is older.

The server sends no event of a node that this process may not read, and forgets the watch. So after
a refused read, and after a change of the members, all is read again ``REFUSED_RETRY_S`` later.

Every method but ``add``, ``post_event``, ``rearm_later`` and ``close`` runs in the callback thread,
which owns all state here but the timer.

Decisions: kazoo cannot cancel a watch. A path that was watched once keeps its one armed watch until
it fires or the session ends, also after ``cancel``; watching the path again adds none.
"""

import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import msgspec

from zbk.metadata.stores.callbacks import CallbackThread, Reading, Subscription
from zbk.metadata.stores.store import Watch

REFUSED_RETRY_S: Final = 3.0


class WatchKind(StrEnum):
    """The object of a watch."""

    CHILDREN = "children"
    NODE = "node"


class WatchKey(msgspec.Struct, frozen=True):
    """One watch at the server."""

    kind: WatchKind
    path: str


class StartRead(Protocol):
    """Reads and arms a key, without waiting."""

    def __call__(self, key: WatchKey, on_done: Callable[[Reading | None], None]) -> None:
        """Call ``on_done`` in any thread, with ``None`` if there was no answer."""
        ...


class _PathWatch:
    """The subscriptions to one key."""

    def __init__(self) -> None:
        self.subscriptions: list[Subscription] = []
        self.last_ticket = 0  # of the last request
        self.shown_ticket = 0  # of the last reading that was shown


class ZooKeeperWatches:
    """All watches of one store."""

    def __init__(self, callbacks: CallbackThread, start_read: StartRead) -> None:
        self._callbacks = callbacks
        self._start_read = start_read
        self._by_key: dict[WatchKey, _PathWatch] = {}
        self._is_closed = False
        self._timer_lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def add(self, kind: WatchKind, path: str, deliver: Callable[[Reading], None]) -> Watch:
        """Report readings to ``deliver``, now and after each change."""
        key = WatchKey(kind, path)
        subscription = Subscription(
            path,
            deliver,
            lambda: self._callbacks.post(partial(self._remove, key, subscription)),
        )
        self._callbacks.post(partial(self._add, key, subscription))
        return subscription

    def post_event(self, key: WatchKey) -> None:
        """Record, from any thread, that an armed watch has fired."""
        self._callbacks.post(partial(self._read, key))

    def rearm(self) -> None:
        """Read everything again: no watch is armed on the new connection."""
        for key in list(self._by_key):
            self._read(key)

    def rearm_later(self) -> None:
        """Read everything again in ``REFUSED_RETRY_S``, once for all calls until then. Any thread.

        While a process lacks a right, its watches ask in this interval.
        """
        with self._timer_lock:
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(REFUSED_RETRY_S, self._on_timer)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Stop reporting."""
        with self._timer_lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _on_timer(self) -> None:
        with self._timer_lock:
            self._timer = None
        self._callbacks.post(self.rearm)

    def _add(self, key: WatchKey, subscription: Subscription) -> None:
        self._by_key.setdefault(key, _PathWatch()).subscriptions.append(subscription)
        self._read(key)

    def _remove(self, key: WatchKey, subscription: Subscription) -> None:
        watch = self._by_key.get(key)
        if watch is not None and subscription in watch.subscriptions:
            watch.subscriptions.remove(subscription)
            if not watch.subscriptions:
                del self._by_key[key]

    def _read(self, key: WatchKey) -> None:
        watch = self._by_key.get(key)
        if watch is None or self._is_closed:
            return
        watch.last_ticket += 1
        ticket = watch.last_ticket

        def on_done(reading: Reading | None) -> None:
            if reading is not None:  # else the next connection reads it again
                self._callbacks.post(partial(self._show, key, watch, ticket, reading))

        self._start_read(key, on_done)

    def _show(self, key: WatchKey, watch: _PathWatch, ticket: int, reading: Reading) -> None:
        if self._by_key.get(key) is not watch or ticket <= watch.shown_ticket or self._is_closed:
            return
        watch.shown_ticket = ticket
        for subscription in list(watch.subscriptions):
            subscription.offer(reading)
