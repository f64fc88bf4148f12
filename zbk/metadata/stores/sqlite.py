"""The metadata store in a SQLite file, for one host: ``sqlite:///abs/path/to/file.db``.

Every process must run on the machine that holds the file, on a local file system: SQLite's WAL
needs shared memory, and leases are measured on the host's clock.

An ephemeral node belongs to a *session*, a row with a lease. Its owner renews the row at a third of
the lease; a store that polls and finds an expired lease removes the session with its nodes. The
deadline in the row is monotonic time of the host, which all its processes share and which no clock
adjustment moves. After a restart of the host that clock starts anew; a deadline further ahead than
a lease can reach is from before the restart, and over. A store that was suspended itself (its
process stopped, the machine asleep) gives the others half a lease to renew before it removes them.

Threads: callers share one connection under a lock. A poll thread with its own connection renews the
lease, removes dead sessions and asks ``PRAGMA data_version`` whether another connection committed.
Then it reads the watched nodes and posts readings to the callback thread, so a slow callback delays
callbacks but no lease.

Session states: SUSPENDED when two thirds of the lease have passed without a renewal (and, for
``session_state``, whenever the lease is over, even if the poll thread has not reported it yet);
LOST when the row is gone; then a new session, CONNECTED.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TypeVar

from zbk.errors import ClientClosedError, ForkedProcessError, MetadataUnavailableError, NoNodeError
from zbk.metadata.stores import sqlite_tree as tree
from zbk.metadata.stores.arguments import (
    check_change,
    check_operations,
    check_path,
    check_value,
    parent_of,
)
from zbk.metadata.stores.callbacks import (
    LOG,
    CallbackThread,
    Reading,
    SessionListeners,
    Subscription,
)
from zbk.metadata.stores.poll_pace import PollPace
from zbk.metadata.stores.session_lease import PATIENCE_MS, SessionLease
from zbk.metadata.stores.sqlite_file import database_path, open_database
from zbk.metadata.stores.sqlite_transactions import reading, writing
from zbk.metadata.stores.store import Create, Delete, Node, Operation, SessionState, SetValue, Watch
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.deadline import left_s
from zbk.system.interrupts import held

POLL_MS = 50
"""The interval of polls, and about the delay of a watch on another process's change,"""

QUIET_POLL_MS = 500
"""and those after a quiet time: see ``zbk.metadata.stores.poll_pace``."""

QUIET_POLL_LEASE_SHARE = 8
"""The longest interval of polls as a part of the lease, which must be renewed at a third."""

_CLOSE_TIMEOUT_S = 5.0  # for the poll thread to end

ResultT = TypeVar("ResultT")


class SqliteStore:
    """A ``MetadataStore`` in a file.

    ``timeout_s`` limits each call, as does ``zbk.system.deadline``; ``session_timeout_ms`` is the
    lease. Without ``must_exist`` a missing file is created.

    Raises:
        InvalidOptionError: there is no such folder or file, or it is not a database of zbk.
        MetadataUnavailableError: the file cannot be opened now.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout_s: float = 10.0,
        session_timeout_ms: int = 10_000,
        poll_ms: int = POLL_MS,
        must_exist: bool = False,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._address = uri
        self._timeout_s = timeout_s
        longest_ms = min(QUIET_POLL_MS, session_timeout_ms // QUIET_POLL_LEASE_SHARE)
        self._pace = PollPace(busy_ms=poll_ms, quiet_ms=max(poll_ms, longest_ms))
        self._now_ms = now_ms
        self._pid = os.getpid()
        self._lock = threading.RLock()  # of the callers' connection
        path = database_path(uri, must_exist=must_exist)
        self._connection, self._session_id = self._open(path, session_timeout_ms)
        self._lease = SessionLease(session_timeout_ms, now_ms())
        self._pace.changed(self._lease.polled_ms)
        self._poll_connection = open_database(database_path(uri), uri, timeout_s)
        self._poll_connection.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")
        # a lease need not outlive a power loss, and its renewals must not load the disk
        self._poll_connection.execute("PRAGMA synchronous = NORMAL")
        self._watched: dict[Subscription, tree.Watched] = {}
        self._watched_lock = threading.Lock()
        self._callbacks = CallbackThread("zbk-sqlite-callbacks")
        self._listeners = SessionListeners(self._callbacks)
        self._is_closed = False
        self._state = SessionState.CONNECTED
        self._data_version = 0
        self._must_look = True
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zbk-sqlite-poll", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ the port

    @property
    def address(self) -> str:
        """The URI that the store was opened with."""
        return self._address

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Create a node."""
        check_change(path)
        check_value(value)

        def work(connection: sqlite3.Connection) -> None:
            missing: list[Operation] = []
            parent = parent_of(path)
            while make_parents and tree.find(connection, parent) is None:
                missing.append(Create(parent))
                parent = parent_of(parent)
            operations = [*reversed(missing), Create(path, value, is_ephemeral)]
            self._apply(connection, operations)

        self._change(work)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        """Return a node. A transaction sees all earlier commits, so the node is always fresh."""
        del is_fresh
        check_path(path)
        node = self._read(lambda connection: tree.find(connection, path))
        if node is None:
            raise NoNodeError(path, "there is no such node")
        return node

    def set(self, path: str, value: bytes, version: int) -> int:
        """Change a node whose version is ``version``; return its new version."""
        check_path(path)
        check_value(value)
        self._change(lambda connection: self._apply(connection, [SetValue(path, value, version)]))
        return version + 1

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node, at this version if one is given."""
        check_change(path)
        self._change(lambda connection: self._apply(connection, [Delete(path, version)]))

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, sorted."""
        check_path(path)

        def work(connection: sqlite3.Connection) -> list[str]:
            if tree.find(connection, path) is None:
                raise NoNodeError(path, "there is no such node")
            return tree.child_names(connection, path)

        return self._read(work)

    def multi(self, operations: Sequence[Operation]) -> None:
        """Carry out all operations or none."""
        check_operations(operations)
        self._change(lambda connection: self._apply(connection, operations))

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        """Call back with the sorted children, now and after each change."""
        return self._watch(path, tree.read_children, lambda reading: callback(list(reading.names)))

    def watch_node(self, path: str, callback: Callable[[Node | None], None]) -> Watch:
        """Call back with the node or ``None``, now and after each change."""
        return self._watch(path, tree.read_node, lambda reading: callback(reading.node))

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        """Call back at each change of the session's state."""
        self._check_usable()
        return self._listeners.add(callback)

    def session_state(self) -> SessionState:
        """Return the session's present state."""
        if self._is_closed:
            return SessionState.LOST
        is_over = self._lease.is_over(self._now_ms())
        return SessionState.SUSPENDED if is_over else self._state

    def close(self) -> None:
        """End the session and its ephemeral nodes at once. Closing twice is allowed."""
        assert not self._callbacks.is_current(), "a callback may not call its store"
        if self._pid != os.getpid():
            return  # the connections belong to the parent of this forked process
        with self._watched_lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._watched.clear()
        self._wake.set()
        self._thread.join(_CLOSE_TIMEOUT_S)
        with self._lock:
            try:
                with self._writing(self._connection):
                    tree.end_session(self._connection, self._session_id)
            except sqlite3.Error as error:
                LOG.info(
                    "metadata.session_left",
                    "%(address)s: the session ends with its lease: %(error)s",
                    address=self._address,
                    error=error,
                )
            self._connection.close()
        if not self._thread.is_alive():  # else it hangs in the disk, and ends with the process
            self._poll_connection.close()
        self._callbacks.close()

    # ------------------------------------------------------------------ calls

    def _apply(self, connection: sqlite3.Connection, operations: Sequence[Operation]) -> None:
        is_bound = any(isinstance(o, Create) and o.is_ephemeral for o in operations)
        if is_bound and not tree.has_session(connection, self._session_id):
            self._wake.set()
            raise MetadataUnavailableError(self._address, "the session is lost")
        tree.apply(connection, operations, self._session_id)

    def _change(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with self._locked() as connection, self._writing(connection):
            work(connection)
        self._must_look = True
        self._wake.set()

    def _writing(self, connection: sqlite3.Connection) -> AbstractContextManager[None]:
        """Return a writing transaction of a caller or of the store itself."""
        patience_ms, timeout_ms = int(left_s(self._timeout_s) * 1000), int(self._timeout_s * 1000)
        return writing(connection, patience_ms, timeout_ms)

    def _read(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        with self._locked() as connection, reading(connection):
            return work(connection)

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        self._check_usable()
        timeout_s = left_s(self._timeout_s)
        deadline_s = monotonic_s() + timeout_s
        with held(self._lock, timeout_s) as is_held:
            if not is_held:
                raise MetadataUnavailableError(self._address, "another call takes too long")
            try:
                if timeout_s < self._timeout_s:
                    self._set_busy_timeout(max(0.0, deadline_s - monotonic_s()))
                yield self._connection
            except sqlite3.ProgrammingError:
                if self._is_closed:
                    raise ClientClosedError from None
                raise
            except sqlite3.Error as error:
                raise MetadataUnavailableError(self._address, str(error)) from error
            finally:
                if timeout_s < self._timeout_s and not self._is_closed:
                    self._set_busy_timeout(self._timeout_s)

    def _set_busy_timeout(self, timeout_s: float) -> None:
        """Set the time to wait for other processes; the caller holds the lock."""
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * timeout_s)}")

    def _check_usable(self) -> None:
        assert not self._callbacks.is_current(), "a callback may not call its store"
        if self._pid != os.getpid():
            raise ForkedProcessError(self._pid, os.getpid())
        if self._is_closed:
            raise ClientClosedError

    def _watch(self, path: str, read: tree.Read, deliver: Callable[[Reading], None]) -> Watch:
        check_path(path)
        self._check_usable()
        subscription = Subscription(path, deliver, lambda: self._unwatch(subscription))
        with self._watched_lock:
            self._watched[subscription] = tree.Watched(read)
        self._must_look = True
        self._wake.set()
        return subscription

    def _unwatch(self, subscription: Subscription) -> None:
        with self._watched_lock:
            self._watched.pop(subscription, None)

    # ------------------------------------------------------------------ the poll thread

    def _run(self) -> None:
        last_trouble = ""
        while not self._is_closed:
            if self._wake.wait(self._pace.pause_ms(self._now_ms()) / 1000):
                self._pace.changed(self._now_ms())
            self._wake.clear()
            self._lease.poll(self._now_ms())
            trouble = ""
            for task in (self._look, self._renew, self._remove_dead):
                try:
                    task()
                except sqlite3.Error as error:  # mostly "database is locked": try again next time
                    trouble = str(error)
            if trouble and trouble != last_trouble:
                LOG.info(
                    "metadata.upkeep_delayed",
                    "%(address)s: %(error)s",
                    address=self._address,
                    error=trouble,
                )
            last_trouble = trouble
            if self._lease.is_late(self._now_ms()):
                self._become(SessionState.SUSPENDED)

    def _look(self) -> None:
        connection = self._poll_connection
        data_version = tree.data_version(connection)
        if data_version == self._data_version and not self._must_look:
            return
        self._must_look = False
        self._data_version = data_version
        with self._watched_lock:
            watched = list(self._watched.items())
        try:
            with reading(connection):
                is_lost = not tree.has_session(connection, self._session_id)
                for subscription, watch in watched:
                    found = watch.read(connection, subscription.path)
                    if found.stamp != watch.posted_stamp:
                        self._pace.changed(self._now_ms())
                        watch.posted_stamp = found.stamp
                        self._callbacks.post(partial(subscription.offer, found))
        except sqlite3.Error:
            self._must_look = True
            raise
        if is_lost:
            self._renew(is_due=True)

    def _renew(self, *, is_due: bool = False) -> None:
        if not is_due and not self._lease.is_due(self._now_ms()):
            return
        session_id = self._session_id
        patience_ms = self._lease.patience_ms(self._now_ms())
        with writing(self._poll_connection, patience_ms, PATIENCE_MS):
            now_ms = self._now_ms()
            if not tree.renew_session(self._poll_connection, session_id, now_ms):
                session_id = tree.begin_session(self._poll_connection, self._lease.lease_ms, now_ms)
        self._lease.renewed_ms = now_ms
        if session_id != self._session_id:
            self._session_id = session_id
            self._become(SessionState.SUSPENDED)
            self._become(SessionState.LOST)
        self._become(SessionState.CONNECTED)

    def _remove_dead(self) -> None:
        if not self._lease.may_end_others(self._now_ms()) or not self._dead():
            return
        with writing(self._poll_connection, PATIENCE_MS, PATIENCE_MS):
            for session_id in self._dead():  # a renewal may have come before the lock
                tree.end_session(self._poll_connection, session_id)
        self._must_look = True  # own commits do not change data_version
        self._wake.set()

    def _dead(self) -> list[int]:
        expired = tree.expired_sessions(self._poll_connection, self._now_ms())
        return [session_id for session_id in expired if session_id != self._session_id]

    def _open(self, path: str, lease_ms: int) -> tuple[sqlite3.Connection, int]:
        connection = open_database(path, self._address, left_s(self._timeout_s))
        try:
            with self._writing(connection):
                return connection, tree.begin_session(connection, lease_ms, self._now_ms())
        except sqlite3.Error as error:
            connection.close()
            raise MetadataUnavailableError(self._address, str(error)) from error

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            self._listeners.post(state)
