"""The tree in a SQLite file: schema and statements, without threads, locks and session rules.

    node     id             INTEGER  never reused: distinguishes a node from a later one
             path, parent   TEXT     parent of the root is NULL
             value          BLOB
             version        INTEGER  0, then one more with each set
             child_version  INTEGER  one more when a child comes or goes
             session_id     INTEGER  of an ephemeral node, else NULL
    session  id             INTEGER  never reused
             lease_ms       INTEGER
             deadline_ms    INTEGER  monotonic milliseconds of this host

The file has zbk's ``application_id``, and its format in ``user_version``. It uses WAL and a full
fsync at each commit, so committed changes survive a power loss. The conditions of an operation are
checked in ZooKeeper's order.

Every function runs in the caller's thread, with a connection that the caller has locked, and lets
``sqlite3.Error`` through.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from zbk.errors import (
    BadVersionError,
    InvalidOptionError,
    MetadataConflictError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnsupportedVersionError,
)
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.callbacks import NOTHING, Reading, children_reading, node_reading
from zbk.metadata.stores.store import Check, Create, Delete, Node, Operation, SetValue

SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x7A626B6D  # "zbkm"

_SCHEMA = """
CREATE TABLE node (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    parent TEXT,
    value BLOB NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    child_version INTEGER NOT NULL DEFAULT 0,
    session_id INTEGER
);
CREATE INDEX node_parent ON node (parent);
CREATE INDEX node_session ON node (session_id) WHERE session_id IS NOT NULL;
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL
);
INSERT INTO node (path, parent, value) VALUES ('/', NULL, x'');
"""


def connect(path: str, busy_timeout_s: float) -> sqlite3.Connection:
    """Open the file, or create it; wait ``busy_timeout_s`` for other writers.

    Raises:
        InvalidOptionError: it belongs to another program.
        UnsupportedVersionError: a newer zbk created it.
    """
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        _check_owner(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if _pragma(connection, "user_version") == 0:
            _create_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_owner(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN")  # a snapshot: another process may be creating the file
    try:
        owner = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if owner != _APPLICATION_ID and not (owner == 0 and version == 0 and is_empty):
        raise InvalidOptionError("metadata", path, "is a database of another program")
    if version > SCHEMA_VERSION:
        raise UnsupportedVersionError(
            f"{path}: schema version {version}, this zbk knows {SCHEMA_VERSION}"
        )


def _create_schema(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _pragma(connection, "user_version") == 0:  # no other process was faster
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits."""
    return _pragma(connection, "data_version")


# ------------------------------------------------------------------ nodes


def find(connection: sqlite3.Connection, path: str) -> Node | None:
    """Return a node, or ``None``."""
    row = connection.execute("SELECT value, version FROM node WHERE path = ?", (path,)).fetchone()
    return None if row is None else Node(row[0], row[1])


def child_names(connection: sqlite3.Connection, path: str) -> list[str]:
    """Return the names of a node's children, sorted."""
    rows = connection.execute("SELECT path FROM node WHERE parent = ?", (path,)).fetchall()
    return sorted(row[0].rpartition("/")[2] for row in rows)


def _has_child(connection: sqlite3.Connection, path: str) -> bool:
    row = connection.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone()
    return row is not None


def read_children(connection: sqlite3.Connection, path: str) -> Reading:
    """Return the reading of the children of ``path``. Needs a transaction around it."""
    row = connection.execute(
        "SELECT id, child_version FROM node WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        return NOTHING
    return children_reading(row[0], row[1], child_names(connection, path))


def read_node(connection: sqlite3.Connection, path: str) -> Reading:
    """Return the reading of the node at ``path``."""
    row = connection.execute(
        "SELECT id, value, version FROM node WHERE path = ?", (path,)
    ).fetchone()
    return NOTHING if row is None else node_reading(row[0], Node(row[1], row[2]))


def apply(connection: sqlite3.Connection, operations: Sequence[Operation], session_id: int) -> None:
    """Carry out operations, in a transaction that the caller rolls back after an error."""
    for operation in operations:
        match operation:
            case Create():
                _create(connection, operation, session_id)
            case SetValue(path, value, version):
                _check_version(connection, path, version)
                connection.execute(
                    "UPDATE node SET value = ?, version = version + 1 WHERE path = ?",
                    (value, path),
                )
            case Delete(path, version):
                _check_version(connection, path, version)
                if _has_child(connection, path):
                    raise NotEmptyError(path, "has children")
                connection.execute("DELETE FROM node WHERE path = ?", (path,))
                _count_child_change(connection, path)
            case Check(path, version):
                _check_version(connection, path, version)


def _create(connection: sqlite3.Connection, operation: Create, session_id: int) -> None:
    path = operation.path
    parent = parent_of(path)
    row = connection.execute("SELECT session_id FROM node WHERE path = ?", (parent,)).fetchone()
    if row is None:
        raise NoNodeError(path, f"there is no {parent}")
    if find(connection, path) is not None:
        raise NodeExistsError(path, "exists already")
    if row[0] is not None:
        raise MetadataConflictError(path, "an ephemeral node has no children")
    connection.execute(
        "INSERT INTO node (path, parent, value, session_id) VALUES (?, ?, ?, ?)",
        (path, parent, operation.value, session_id if operation.is_ephemeral else None),
    )
    _count_child_change(connection, path)


def _check_version(connection: sqlite3.Connection, path: str, version: int | None) -> None:
    row = connection.execute("SELECT version FROM node WHERE path = ?", (path,)).fetchone()
    if row is None:
        raise NoNodeError(path, "there is no such node")
    if version is not None and row[0] != version:
        raise BadVersionError(path, f"has version {row[0]}, not {version}")


def _count_child_change(connection: sqlite3.Connection, path: str) -> None:
    connection.execute(
        "UPDATE node SET child_version = child_version + 1 WHERE path = ?", (parent_of(path),)
    )


# ------------------------------------------------------------------ sessions


def begin_session(connection: sqlite3.Connection, lease_ms: int, now_ms: int) -> int:
    """Begin a session whose lease starts now; return its id."""
    cursor = connection.execute(
        "INSERT INTO session (lease_ms, deadline_ms) VALUES (?, ?)", (lease_ms, now_ms + lease_ms)
    )
    assert cursor.lastrowid is not None, "an INSERT has a row id"
    return cursor.lastrowid


def renew_session(connection: sqlite3.Connection, session_id: int, now_ms: int) -> bool:
    """Renew a session's lease; return false if the session is gone."""
    cursor = connection.execute(
        "UPDATE session SET deadline_ms = lease_ms + ? WHERE id = ?", (now_ms, session_id)
    )
    return cursor.rowcount == 1


def has_session(connection: sqlite3.Connection, session_id: int) -> bool:
    """Return whether a session still exists."""
    row = connection.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone()
    return row is not None


def expired_sessions(connection: sqlite3.Connection, now_ms: int) -> list[int]:
    """Return the sessions whose lease is over.

    A lease that was renewed in the future is over, too: it is from before a restart of the host,
    whose clock started anew.
    """
    rows = connection.execute(
        "SELECT id FROM session WHERE deadline_ms <= ? OR deadline_ms - lease_ms > ?",
        (now_ms, now_ms),
    ).fetchall()
    return [row[0] for row in rows]


def end_session(connection: sqlite3.Connection, session_id: int) -> None:
    """Remove a session and its ephemeral nodes."""
    connection.execute(
        "UPDATE node SET child_version = child_version + 1 WHERE path IN "
        "(SELECT parent FROM node WHERE session_id = ?)",
        (session_id,),
    )
    connection.execute("DELETE FROM node WHERE session_id = ?", (session_id,))
    connection.execute("DELETE FROM session WHERE id = ?", (session_id,))


Read: TypeAlias = Callable[[sqlite3.Connection, str], Reading]
"""A function such as ``read_children`` and ``read_node``."""


class Watched:
    """The read function of a subscription, and the stamp that was posted to it last."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.posted_stamp: tuple[int, ...] | None = None
