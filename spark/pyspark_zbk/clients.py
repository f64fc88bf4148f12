"""Clients of zbk in Spark's processes.

A task's client is opened in the worker that runs it, and used again by the tasks that come after it
there: opening one costs some milliseconds and a thread or two. It belongs to its process: a fork
never inherits one. A worker runs one task at a time, so whatever the task that runs now has not
asked for may be closed. Whoever plans a query opens a client for the call and closes it again, as
Spark ends such processes without a word.
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
"""Clients of one worker process; the one not used for longest is closed first."""

KEPT_SIZE = 32 * 1024 * 1024
"""Bytes of freed memory that a worker keeps: the entries under way, as often as they are copied."""

_clients: dict[tuple[object, ...], zbk.Client] = {}  # the last used one is the last one


def task_client(connection: Connection, **options: int) -> zbk.Client:
    """Return a client for a task in this process; it is not to be closed."""
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
    """Tune a worker: its time goes into rows, not into page faults or objects that stay."""
    keep_freed_memory(KEPT_SIZE)
    gc.freeze()  # Spark's modules stay: to look through them for cycles again and again is idle


def close_clients() -> None:
    """Close the clients of this process: after a failure the next task begins with new ones."""
    _forget_those_of_other_processes()
    while _clients:
        _clients.popitem()[1].close()


@contextmanager
def planning_client(connection: Connection) -> Iterator[zbk.Client]:
    """Give a client for one call of the driver."""
    with zbk.connect(connection.metadata or None, **connection.client_options) as client:
        yield client


def located(connection: Connection, client: zbk.Client) -> Connection:
    """Return a connection that tasks can use, wherever this process found the cluster."""
    return msgspec.structs.replace(connection, metadata=client.metadata_uri)


def _forget_those_of_other_processes() -> None:
    for key in [key for key in _clients if key[0] != os.getpid()]:
        del _clients[key]  # of the process that this one was forked from: not ours to close
