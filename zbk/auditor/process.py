"""Autorecovery in a process: an auditor and a replication worker, alone or beside a bookie.

Both share one ``ClusterConnection``. If one of them fails with an unexpected error, both end: a
process of its own exits with 1, so that its supervisor restarts it; a bookie beside them continues.

Threads: ``zbk-autorecovery`` connects, waits for the end, and closes everything.

Source: BookKeeper's ``AutoRecoveryMain``.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, Protocol

from zbk.auditor.auditor import AuditorThread
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.worker import ReplicationWorker
from zbk.config import AutorecoveryConfig, ClientConfig
from zbk.errors import InvalidOptionError, ZbkError

OPEN_RETRY_S: Final = 5.0
STOP_TIMEOUT_S: Final = 60.0

LOG = logging.getLogger("zbk.auditor")


class Part(Protocol):
    """The auditor, or the worker."""

    def start(self) -> None:
        """Start."""
        ...

    def stop(self) -> None:
        """Stop, and release leadership and locks."""
        ...


class Autorecovery:
    """An auditor and a worker. ``connect`` opens their connection."""

    def __init__(
        self,
        config: AutorecoveryConfig,
        name: str,
        connect: Callable[[], ClusterConnection] | None = None,
    ) -> None:
        self._config = config
        self._name = name
        self._connect = connect or (lambda: connection_of(config))
        self._is_ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="zbk-autorecovery", daemon=True)

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it."""
        return self._failure

    def start(self) -> None:
        """Start. While the metadata store does not answer, the start is retried."""
        self._thread.start()

    def request_stop(self) -> None:
        """Start to end, without waiting."""
        self._is_ending.set()

    def stop(self) -> None:
        """Stop, and release locks and leadership. A second call does nothing."""
        self.request_stop()
        self.wait(STOP_TIMEOUT_S)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when it has ended."""
        self._thread.join(timeout_s)

    # ------------------------------------------------------------------ its thread

    def _run(self) -> None:
        connection = self._opened()
        if connection is None:
            return
        parts = self._parts(connection)
        try:
            for part in parts:
                part.start()
            self._is_ending.wait()
        except ZbkError as error:  # the metadata store went away while they started
            self._fail(error)
        finally:
            for part in reversed(parts):
                part.stop()
            connection.close()

    def _parts(self, connection: ClusterConnection) -> list[Part]:
        return [
            AuditorThread(connection, self._name, self._config, self._fail),
            ReplicationWorker(connection, self._name, self._config, self._fail),
        ]

    def _opened(self) -> ClusterConnection | None:
        while not self._is_ending.is_set():
            try:
                return self._connect()
            except ZbkError as error:
                if not error.is_retriable:
                    self._fail(error)
                    return None
                LOG.warning("autorecovery cannot start yet: %s", error)
                self._is_ending.wait(OPEN_RETRY_S)
        return None

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            LOG.error("autorecovery ends: %s", error)
        self._is_ending.set()


def run_autorecovery(config: AutorecoveryConfig, *, on_ready: Callable[[str], None]) -> int:
    """Audit and repair in this process until SIGTERM or SIGINT; return the exit code.

    ``on_ready`` receives the name of this process in elections.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
    """
    connection = connection_of(config)
    name = f"{socket.gethostname()}-{os.getpid()}"
    process = Autorecovery(config, name, lambda: connection)

    def stop(number: int, _frame: FrameType | None) -> None:
        LOG.info("stopping on %s", signal.Signals(number).name)
        process.request_stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        process.start()
        on_ready(name)
        process.wait()
        return 0 if process.failure is None else 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def connection_of(config: AutorecoveryConfig) -> ClusterConnection:
    """Connect to the cluster that the configuration names.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
    """
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "autorecovery needs the address of its cluster's metadata store"
        )
    return ClusterConnection(
        config.metadata, ClientConfig(session_timeout_ms=config.session_timeout_ms)
    )
