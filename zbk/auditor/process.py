"""Autorecovery in a process: an auditor and a replication worker, beside a bookie or on their own.

They share one session with the metadata store and one set of connections (``RepairGround``). If one
of them fails in a way that nobody expected, both end: on its own the process ends with 1, so that
whatever started it starts it again; beside a bookie the bookie goes on.

Threads: ``zbk-autorecovery`` opens the ground, waits for the end, and closes everything.

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
from zbk.auditor.repair_parts import RepairGround
from zbk.auditor.worker import ReplicationWorker
from zbk.config import AutorecoveryConfig, ClientConfig
from zbk.errors import InvalidOptionError, ZbkError

OPEN_RETRY_S: Final = 5.0
STOP_TIMEOUT_S: Final = 60.0

LOG = logging.getLogger("zbk.auditor")


class Part(Protocol):
    """The auditor, or the worker."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End, and give back what others wait for."""
        ...


class Autorecovery:
    """An auditor and a worker. ``open_ground`` connects to the cluster."""

    def __init__(
        self,
        config: AutorecoveryConfig,
        name: str,
        open_ground: Callable[[], RepairGround] | None = None,
    ) -> None:
        self._config = config
        self._name = name
        self._open_ground = open_ground or (lambda: open_ground_of(config))
        self._is_ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="zbk-autorecovery", daemon=True)

    @property
    def failure(self) -> BaseException | None:
        """Why it ended by itself."""
        return self._failure

    def start(self) -> None:
        """Begin; while the metadata store does not answer, begin later."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ask it to end, and do not wait."""
        self._is_ending.set()

    def stop(self) -> None:
        """End. Locks and leadership are given back. Twice is fine."""
        self.request_stop()
        self.wait(STOP_TIMEOUT_S)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when it has ended."""
        self._thread.join(timeout_s)

    # ------------------------------------------------------------------ its thread

    def _run(self) -> None:
        ground = self._opened()
        if ground is None:
            return
        parts = self._parts(ground)
        try:
            for part in parts:
                part.start()
            self._is_ending.wait()
        except ZbkError as error:  # the metadata store went away while they started
            self._fail(error)
        finally:
            for part in reversed(parts):
                part.stop()
            ground.close()

    def _parts(self, ground: RepairGround) -> list[Part]:
        return [
            AuditorThread(ground, self._name, self._config, self._fail),
            ReplicationWorker(ground, self._name, self._config, self._fail),
        ]

    def _opened(self) -> RepairGround | None:
        while not self._is_ending.is_set():
            try:
                return self._open_ground()
            except ZbkError as error:
                if not error.is_retriable:
                    self._fail(error)
                    return None
                LOG.warning("autorecovery cannot begin yet: %s", error)
                self._is_ending.wait(OPEN_RETRY_S)
        return None

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            LOG.error("autorecovery ends: %s", error)
        self._is_ending.set()


def run_autorecovery(config: AutorecoveryConfig, *, on_ready: Callable[[str], None]) -> int:
    """Audit and repair in this process until SIGTERM or SIGINT; return the exit code.

    ``on_ready`` is told the name under which this process stands for election.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
    """
    ground = open_ground_of(config)
    name = f"{socket.gethostname()}-{os.getpid()}"
    process = Autorecovery(config, name, lambda: ground)

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


def open_ground_of(config: AutorecoveryConfig) -> RepairGround:
    """Connect to the cluster that the configuration names.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
    """
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "autorecovery needs the address of its cluster's metadata store"
        )
    return RepairGround(config.metadata, ClientConfig(session_timeout_ms=config.session_timeout_ms))
