"""Interrupted calls of the SQLite body: they leave no lock held and no transaction open."""

import signal
import sqlite3
import threading
from collections.abc import Callable

import pytest

from tests.support.interrupts import InterruptedLock, raising_handlers
from tests.support.sqlite_places import Place
from zbk.metadata.stores.sqlite import SqliteStore


def test_an_interrupted_call_leaves_the_store_to_other_threads(place: Place) -> None:
    store = place.open()
    store._lock = InterruptedLock(store._lock)  # type: ignore[assignment]
    with raising_handlers(), pytest.raises(KeyboardInterrupt):
        store.create("/interrupted")

    other = threading.Thread(target=lambda: store.create("/other"))
    other.start()
    other.join()

    assert store.children("/") == ["other"]


class InterruptedConnection:
    """A connection; one interrupt arrives as soon as a statement has run."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: tuple[str | int | bytes, ...] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        found = self._connection.execute(statement, values)
        if statement == self._statement:
            self._statement = ""
            signal.raise_signal(signal.SIGINT)
        return found


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("BEGIN IMMEDIATE", lambda store: store.create("/interrupted")),
        ("COMMIT", lambda store: store.create("/interrupted")),
        ("BEGIN DEFERRED", lambda store: store.children("/")),
    ],
)
def test_an_interrupted_call_leaves_no_transaction_open(
    place: Place, statement: str, call: Callable[[SqliteStore], object]
) -> None:
    store, other = place.open(timeout_s=0.5), place.open(timeout_s=0.5)
    store._connection = InterruptedConnection(store._connection, statement)  # type: ignore[assignment]
    with raising_handlers(), pytest.raises(KeyboardInterrupt) as kept:  # with its frames
        call(store)

    other.create("/other")
    store.create("/next")

    assert {"other", "next"} <= set(store.children("/"))
    assert kept.value.__traceback__ is not None


def test_a_transaction_that_an_interrupt_has_left_open_ends_with_the_next_call(
    place: Place,
) -> None:
    store = place.open(timeout_s=0.5)
    store._connection.execute("BEGIN IMMEDIATE")

    store.create("/next")
    store._connection.execute("BEGIN DEFERRED")

    assert store.children("/") == ["next"]
