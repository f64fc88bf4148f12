"""The session with ZooKeeper through one kazoo client: deadlines, zbk's errors and states.

Some behavior of kazoo is avoided:

* a call inside its state listener deadlocks: the listener here records and posts the state;
* its ``stop`` may hang: ``close`` waits ``CLOSE_TIMEOUT_S`` and leaves the rest to a daemon thread;
* its connection thread dies of replies that it cannot read: another client takes over;
* its retries back off up to an hour, and repeat writes. Here reads are repeated, a few times and
  until the call's deadline (``zbk.system.deadline``); a write is sent once, and a caller that gets
  ``MetadataUnavailableError`` reads back. After a write whose fate is unknown the next read is
  preceded by a ``sync``: it finds the write if it was made, also on a follower that lags behind;
* "no such node" from a lagging follower must not delete data: ``NoNodeError`` is raised only after
  a ``sync`` and a second read;
* its warnings about lost connections are no errors: they go to ``zbk.metadata`` at INFO
  (``zookeeper_client``).

Threads: kazoo's own three per client; any thread may call.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import KazooState, KeeperState

from zbk.config import MetadataAccess
from zbk.errors import (
    BadVersionError,
    ClientClosedError,
    ForkedProcessError,
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZbkError,
)
from zbk.metadata.stores.access import read_user
from zbk.metadata.stores.callbacks import LOG
from zbk.metadata.stores.store import SessionState
from zbk.metadata.stores.zookeeper_address import parse_address, why_unreachable
from zbk.metadata.stores.zookeeper_client import new_client
from zbk.metadata.stores.zookeeper_members import TreeMembers
from zbk.metadata.stores.zookeeper_root import find_root
from zbk.metadata.stores.zookeeper_tls import tls_context
from zbk.system.clock import monotonic_s
from zbk.system.deadline import left_s, rounded_s

READ_ATTEMPT_COUNT_MAX: Final = 5
CLOSE_TIMEOUT_S: Final = 2.0
PROBE_SHARE: Final = 0.2
"""The part of the time to connect that is reserved to find out why there is no session,"""

PROBE_S_MAX: Final = 1.0
"""and no more than this."""

_REPLACE_DELAY_S = 0.5

_UNKNOWN_OUTCOME = (
    kz.ConnectionLoss,
    kz.SessionExpiredError,
    kz.SessionMovedError,
    kz.OperationTimeoutError,
    kz.ConnectionClosedError,
    KazooTimeoutError,
)

_CONFLICTS: dict[type[Exception], tuple[type[MetadataConflictError], str]] = {
    kz.NoNodeError: (NoNodeError, "there is no such node"),
    kz.NodeExistsError: (NodeExistsError, "exists already"),
    kz.BadVersionError: (BadVersionError, "has another version"),
    kz.NotEmptyError: (NotEmptyError, "has children"),
    kz.NoChildrenForEphemeralsError: (
        MetadataConflictError,
        "an ephemeral node has no children",
    ),
}

_ENDS = (KeeperState.CLOSED, KeeperState.AUTH_FAILED)

_REFUSALS = (kz.NoAuthError, kz.AuthFailedError, kz.InvalidACLError)

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class ZooKeeperConnection:
    """The session with an ensemble.

    ``timeout_s`` limits the first connection and each call. ``on_state`` is called in kazoo's
    thread and must not wait.

    ``members`` decides on the access lists of new nodes.

    Raises:
        InvalidOptionError: the address or the access is malformed.
        KeyFileError: the password or a certificate of the access cannot be used.
    """

    def __init__(
        self,
        uri: str,
        timeout_s: float,
        session_timeout_ms: int,
        on_state: Callable[[SessionState], None],
        access: MetadataAccess,
    ) -> None:
        self._uri = uri
        self._place = parse_address(uri)
        self._user = read_user(access)
        self._context = tls_context(access) if self._place.is_tls else None
        self.members = TreeMembers(self._user)
        self._timeout_s = timeout_s
        self._session_timeout_ms = session_timeout_ms
        self._on_state = on_state
        self._pid = os.getpid()
        self._is_closed = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._state = SessionState.SUSPENDED
        self._is_connected = threading.Event()
        self._unknown_count = 0  # writes whose fate was unknown
        self._synced_count = 0  # of them, those that a sync has followed
        self._client = self._new_client()

    @property
    def client(self) -> KazooClient:
        """The present client; ``_replace`` changes it."""
        return self._client

    @property
    def state(self) -> SessionState:
        """The session's present state."""
        return SessionState.LOST if self._is_closed else self._state

    def full(self, path: str) -> str:
        """Return a path with the root before it."""
        return self._place.root if path == "/" else self._place.root + path

    def connect(self) -> None:
        """Wait for a session; create the root if it is missing.

        Raises:
            MetadataUnavailableError: no server answers in time. The connection is closed.
        """
        try:
            self._client.start_async()
            self._await_session()
            find_root(self, self._place.root)
        except BaseException:
            self.close(0)
            raise

    def _await_session(self) -> None:
        timeout_s = left_s(self._timeout_s)
        deadline_s = monotonic_s() + timeout_s
        if self._is_connected.wait(timeout_s - min(PROBE_S_MAX, PROBE_SHARE * timeout_s)):
            return
        probe_s = max(0.0, deadline_s - monotonic_s())
        why = why_unreachable(self._place, probe_s, self._context)
        if not self._is_connected.is_set():
            raise MetadataUnavailableError(
                self._uri, f"no ZooKeeper session within {rounded_s(timeout_s):g} s: {why}"
            )

    def write(self, path: str, start: Callable[[KazooClient], IAsyncResult]) -> Any:  # noqa: ANN401 - kazoo has no types
        """Send a change, once, and return its result.

        Raises:
            MetadataConflictError: as its own error.
            MetadataAccessError: the server refused it.
        MetadataUnavailableError: it may or may not have been made.
        """
        timeout_s = self._time_left_s(path)
        deadline_s = monotonic_s() + timeout_s
        self._await_connected(deadline_s, timeout_s)
        result = start(self._client)
        try:
            return result.get(timeout=max(0.0, deadline_s - monotonic_s()))
        except Exception as error:  # also errors of kazoo's reader
            if _is_unknown(error):
                with self._lock:
                    self._unknown_count += 1
            raise self.translated(path, error, timeout_s) from error

    def read(
        self,
        path: str,
        start: Callable[[KazooClient], IAsyncResult],
        *,
        is_fresh: bool = False,
    ) -> Any:  # noqa: ANN401 - kazoo has no types
        """Read until there is an answer, ``READ_ATTEMPT_COUNT_MAX`` times or until the deadline.

        ``is_fresh``: only after a ``sync``.

        Raises:
            NoNodeError: there is no such node, also after a ``sync``.
            MetadataUnavailableError: there was no answer.
        """
        timeout_s = self._time_left_s(path)
        deadline_s = monotonic_s() + timeout_s
        failure_count = 0
        must_sync = is_fresh
        while True:
            self._await_connected(deadline_s, timeout_s)
            has_synced = False
            try:
                if must_sync or self._synced_count != self._unknown_count:
                    self._sync(deadline_s)
                    has_synced = True
                return start(self._client).get(timeout=max(0.0, deadline_s - monotonic_s()))
            except kz.NoNodeError as error:
                if has_synced:
                    raise self.translated(path, error) from error
                must_sync = True
            except Exception as error:  # also errors of kazoo's reader
                failure_count += 1
                is_final = failure_count >= READ_ATTEMPT_COUNT_MAX or not _is_unknown(error)
                if is_final or monotonic_s() >= deadline_s:
                    raise self.translated(path, error, timeout_s) from error

    def translated(self, path: str, error: Exception, timeout_s: float = 0.0) -> ZbkError:
        """Return zbk's error for one of kazoo; ``timeout_s`` was the limit of the call."""
        conflict = _CONFLICTS.get(type(error))
        if conflict is not None:
            conflict_type, reason = conflict
            return conflict_type(path, reason)
        if isinstance(error, _REFUSALS):
            return MetadataAccessError(self._uri, self.members.why_refused(path))
        reason = f"{type(error).__name__} {error}".strip()
        if isinstance(error, KazooTimeoutError):
            reason = f"no answer within {rounded_s(timeout_s):g} s"
        return MetadataUnavailableError(self._uri, f"{path}: {reason}")

    def check_usable(self) -> None:
        """Raise unless this process opened the connection, and has not closed it.

        Raises:
            ForkedProcessError: the parent process did.
            ClientClosedError: it is closed.
        """
        if self._pid != os.getpid():
            raise ForkedProcessError(self._pid, os.getpid())
        if self._is_closed:
            raise ClientClosedError

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """End the session; wait at most ``timeout_s``; return false if it was closed already."""
        if self._pid != os.getpid():
            return False  # a forked child must not end its parent's session
        with self._lock:
            if self._is_closed:
                return False
            self._is_closed = True
        self._closing.set()
        self._is_connected.set()  # wakes callers that wait for a connection
        self._end(self._client, left_s(timeout_s))
        return True

    def _sync(self, deadline_s: float) -> None:
        unknown_count = self._unknown_count
        self._client.sync_async(self.full("/")).get(timeout=max(0.0, deadline_s - monotonic_s()))
        with self._lock:
            self._synced_count = max(self._synced_count, unknown_count)

    def _time_left_s(self, path: str) -> float:
        """Return the time that a call may take.

        Raises:
            MetadataUnavailableError: the surrounding deadline is over; nothing was sent.
        """
        timeout_s = left_s(self._timeout_s)
        if timeout_s <= 0:
            raise MetadataUnavailableError(self._uri, f"{path}: not sent, the deadline is over")
        return timeout_s

    def _await_connected(self, deadline_s: float, timeout_s: float) -> None:
        self.check_usable()
        if not self._is_connected.wait(max(0.0, deadline_s - monotonic_s())):
            raise MetadataUnavailableError(
                self._uri, f"not connected to ZooKeeper for {rounded_s(timeout_s):g} s"
            )
        if self._is_closed:
            raise ClientClosedError

    def _new_client(self) -> KazooClient:
        client = new_client(self._place, self._session_timeout_ms, self._user, self._context)
        client.add_listener(lambda state: self._on_kazoo_state(client, state))
        return client

    def _on_kazoo_state(self, client: KazooClient, state: str) -> None:
        """Record the state. Runs in kazoo's connection thread, so it must not wait."""
        if client is not self._client or self._is_closed:
            return
        self._state = _STATES[state]
        if self._state is SessionState.CONNECTED:
            self._is_connected.set()
        else:
            self._is_connected.clear()
        self._on_state(self._state)
        if client.client_state in _ENDS:  # its thread ends with this call
            threading.Thread(
                target=self._replace, args=(client,), name="zbk-zookeeper-replace", daemon=True
            ).start()

    def _replace(self, dead: KazooClient) -> None:
        """Start another client, after a pause: kazoo's connection thread has died."""
        LOG.warning(
            "metadata.client_replaced",
            "%(address)s: the ZooKeeper client died; another one takes over",
            address=self._uri,
        )
        self._closing.wait(_REPLACE_DELAY_S)
        with self._lock:
            if self._is_closed:
                return
            self._client = self._new_client()
            self._client.start_async()
        self._end(dead, timeout_s=0)

    def _end(self, client: KazooClient, timeout_s: float) -> None:
        def end() -> None:
            try:
                client.stop()
                client.close()
            except Exception as error:  # noqa: BLE001 - the top of a thread; the client is gone in any case
                LOG.info(
                    "metadata.close_failed",
                    "%(address)s: closing: %(error)r",
                    address=self._uri,
                    error=error,
                )

        thread = threading.Thread(target=end, name="zbk-zookeeper-close", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if timeout_s and thread.is_alive():
            LOG.info(
                "metadata.close_slow",
                "%(address)s: closing takes long; the session ends by itself",
                address=self._uri,
            )


def _is_unknown(error: Exception) -> bool:
    """Return whether the server may have carried out the request."""
    return isinstance(error, _UNKNOWN_OUTCOME) or not isinstance(error, kz.KazooException)
