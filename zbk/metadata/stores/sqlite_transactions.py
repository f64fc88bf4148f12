"""Transactions on a SQLite connection; a writing one polls for the lock itself.

Runs in the thread that owns the connection.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zbk.system.clock import monotonic_ms

_LOCK_LOOK_MS: Final = 2  # the interval, about, at which a waiting writer polls for the lock


@contextmanager
def writing(
    connection: sqlite3.Connection, patience_ms: int, busy_timeout_ms: int
) -> Iterator[None]:
    """Run a transaction that writes; wait ``patience_ms`` for the lock.

    SQLite polls for the lock at intervals that grow to 100 ms. A process that writes all the time
    takes the lock again within such an interval, so others would get no lock for seconds and lose
    their sessions. So this function polls often. ``busy_timeout_ms`` is the connection's time-out
    for everything else.
    """
    with _ending(connection):
        _begin_writing(connection, patience_ms, busy_timeout_ms)
        yield


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a transaction that only reads."""
    with _ending(connection):
        connection.execute("BEGIN DEFERRED")
        yield


def _begin_writing(connection: sqlite3.Connection, patience_ms: int, busy_timeout_ms: int) -> None:
    end_ms = monotonic_ms() + patience_ms
    connection.execute(f"PRAGMA busy_timeout = {_LOCK_LOOK_MS}")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic_ms() >= end_ms:
                    raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")


@contextmanager
def _ending(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the transaction that begins in the block, or roll it back after an error.

    An interrupt may arrive as soon as the transaction has begun, or between the steps of a
    ``with``, which no ``try`` covers. A transaction that it left open is rolled back here.
    """
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have rolled it back already
            connection.execute("ROLLBACK")
        raise
