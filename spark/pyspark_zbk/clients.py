"""Clients of zbk in Spark's processes.

A task's client is opened in the worker that runs it, and used again by later tasks there: opening
one costs some milliseconds and a thread or two. It belongs to its process: a fork never inherits
one. A worker runs one task at a time, so clients that the current task does not use may be closed.
A planner opens a client for one call and closes it again, because Spark kills such processes.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

import zbk
from pyspark_zbk.options import Connection
from zbk.system.memory import keep_freed_memory

CLIENT_COUNT_MAX = 4
"""Clients of one worker process; the least recently used one is closed first."""

KEPT_SIZE = 32 * 1024 * 1024
"""Bytes of freed memory that a worker keeps: the entries in flight, times their copies."""

_clients: dict[tuple[object, ...], zbk.Client] = {}  # the last used one is the last one


def task_client(connection: Connection, **options: int) -> zbk.Client:
    """Return a client for a task in this process; the caller must not close it."""
    _forget_those_of_other_processes()
    key = (
        os.getpid(), connection.metadata, *sorted(connection.client_options.items()),
        *sorted(options.items()),
    )  # fmt: skip
    client = _clients.pop(key, None)
    if client is None:
        _spare_the_processor()
        while len(_clients) >= CLIENT_COUNT_MAX:
            _clients.pop(next(iter(_clients))).close()
        given: dict[str, Any] = {**options, **connection.client_options}
        client = zbk.connect(connection.metadata, **given)
    _clients[key] = client
    return client


def _spare_the_processor() -> None:
    """Tune a worker: no time for page faults, nor for the collection of permanent objects."""
    keep_freed_memory(KEPT_SIZE)
    gc.freeze()  # Spark's modules stay: searching them for cycles is useless


def close_clients() -> None:
    """Close the clients of this process: after a failure the next task opens new ones."""
    _forget_those_of_other_processes()
    while _clients:
        _clients.popitem()[1].close()


@contextmanager
def planning_client(connection: Connection) -> Iterator[zbk.Client]:
    """Yield a client for one call of the driver."""
    with zbk.connect(connection.metadata or None, **connection.client_options) as client:
        yield client


def located(connection: Connection, client: zbk.Client) -> Connection:
    """Return the connection that tasks can use, with the address that this process found."""
    return msgspec.structs.replace(connection, metadata=client.metadata_uri)


def _forget_those_of_other_processes() -> None:
    for key in [key for key in _clients if key[0] != os.getpid()]:
        del _clients[key]  # belongs to the parent of this fork, which closes it
