"""Autorecovery in a process: an auditor and a replication worker, alone or beside a bookie.

Both share one ``ClusterConnection``. If one of them fails with an unexpected error, both end: a
process of its own exits with 1, so that its supervisor restarts it; a bookie beside them continues.

Threads: ``zbk-autorecovery`` connects, waits for the end, and closes everything.

Source: BookKeeper's ``AutoRecoveryMain``.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, Protocol

import zbk
from zbk.auditor.auditor import AuditorThread
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.repair_backlog import LOOK_INTERVAL_MS, LOOK_SHARE, RepairBacklog
from zbk.auditor.worker import ReplicationWorker
from zbk.config import NO_SECURITY, AutorecoveryConfig, ClientConfig, SecurityConfig
from zbk.errors import InvalidOptionError, ZbkError
from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.metadata.stores.store import SessionState
from zbk.metadata.stores.zookeeper_server import warn_of_outdated
from zbk.metrics.checks import Check
from zbk.metrics.endpoint import Endpoint
from zbk.metrics.samples import Samples
from zbk.metrics.serving import serving
from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog
from zbk.system.waking_event import WakingEvent

OPEN_RETRY_S: Final = 5.0
STOP_TIMEOUT_S: Final = 60.0
HTTP_PORT: Final = 9_180
"""The port that ``auto`` prefers: below those of bookies."""

LOG = EventLog("zbk.auditor")


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
        self._auditor: AuditorThread | None = None
        self._worker: ReplicationWorker | None = None
        self._parts_lock = threading.Lock()  # of the options, and of the parts that have them
        self._session: SessionMetrics | None = None
        self._backlog = RepairBacklog()
        self._is_ending = WakingEvent()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="zbk-autorecovery", daemon=True)

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it."""
        return self._failure

    def start(self) -> None:
        """Start. While the metadata store does not answer, the start is retried."""
        self._thread.start()

    def change_options(self, config: AutorecoveryConfig) -> None:
        """Use other live options. Any thread."""
        with self._parts_lock:
            self._config = config  # of the parts, if they start later
            for part in (self._auditor, self._worker):
                if part is not None:
                    part.change_options(config)

    def request_stop(self) -> None:
        """Start to end, without waiting."""
        self._is_ending.set()

    def stop(self) -> None:
        """Stop, and release locks and leadership. A second call does nothing."""
        self.request_stop()
        self.wait(STOP_TIMEOUT_S)

    def wait_ending(self) -> None:
        """Return when it begins to end: a signal in the main thread is heard meanwhile."""
        self._is_ending.wait()

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when it has ended."""
        self._thread.join(timeout_s)

    def read_metrics(self, samples: Samples) -> None:
        """Put the values of autorecovery's metrics into samples. Any thread; it never waits."""
        auditor, worker, backlog = self._auditor, self._worker, self._backlog
        samples.set("zbk_underreplicated_ledgers", backlog.task_count)
        samples.set("zbk_unrepairable_ledgers", backlog.unrepairable_count)
        samples.set("zbk_repair_completion_seconds", backlog.completion_s)
        if auditor is None or worker is None or self._session is None:
            return
        self._session.read(samples)
        auditor.read_metrics(samples)
        samples.set("zbk_autorecovery_enabled", worker.is_enabled)
        samples.set("zbk_repairs_running", worker.repair_count)
        for result, count in worker.counts.by_result.items():
            samples.set("zbk_repairs_total", count, result)
        samples.set("zbk_repair_copied_entries_total", worker.counts.copied_entry_count)
        samples.set("zbk_repair_copied_bytes_total", worker.counts.copied_size)

    def checks(self) -> Sequence[Check]:
        """Return the checks of ``/readyz``. Any thread; it never waits."""
        session, worker = self._session, self._worker
        state = SessionState.LOST if session is None else session.state
        is_enabled = worker is not None and worker.is_enabled
        return [
            Check("metadata", state is SessionState.CONNECTED, state.value),
            Check("enabled", is_enabled, is_required=False),
        ]

    # ------------------------------------------------------------------ its thread

    def _run(self) -> None:
        connection = self._opened()
        if connection is None:
            return
        parts = self._parts(connection)
        self._session = SessionMetrics(connection.store)
        try:
            for part in parts:
                part.start()
            self._watch_backlog(connection)
        except ZbkError as error:  # the metadata store went away while they started
            self._fail(error)
        finally:
            for part in reversed(parts):
                part.stop()
            self._session.close()
            connection.close()

    def _watch_backlog(self, connection: ClusterConnection) -> None:
        """Count the tasks in the metadata store at intervals, until the end."""
        pause_ms = 0
        while not self._is_ending.wait(pause_ms / 1000):
            begun_ms = monotonic_ms()
            try:
                counts = connection.tasks.task_count(), connection.tasks.unrepairable_count()
            except ZbkError:
                self._backlog.lost_sight()
            else:
                self._backlog.seen(*counts, monotonic_ms())
            pause_ms = max(LOOK_INTERVAL_MS, LOOK_SHARE * (monotonic_ms() - begun_ms))

    def _parts(self, connection: ClusterConnection) -> list[Part]:
        with self._parts_lock:
            self._auditor = AuditorThread(connection, self._name, self._config, self._fail)
            self._worker = ReplicationWorker(connection, self._name, self._config, self._fail)
            return [self._auditor, self._worker]

    def _opened(self) -> ClusterConnection | None:
        while not self._is_ending.is_set():
            try:
                return self._connect()
            except ZbkError as error:
                if not error.is_retriable:
                    self._fail(error)
                    return None
                LOG.warning(
                    "autorecovery.start_postponed",
                    "autorecovery cannot start yet: %(error)s",
                    error=error,
                )
                self._is_ending.wait(OPEN_RETRY_S)
        return None

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            LOG.error("autorecovery.failed", "autorecovery ends: %(error)s", error=error)
        self._is_ending.set()


def run_autorecovery(
    config: AutorecoveryConfig,
    *,
    on_ready: Callable[[str, str], None],
    on_started: Callable[[Autorecovery], None] = lambda _process: None,
    security: SecurityConfig = NO_SECURITY,
) -> int:
    """Audit and repair in this process until SIGTERM or SIGINT; return the exit code.

    ``on_started`` gets what runs, and is called before ``on_ready``, which receives the name of
    this process in elections, and the URL of its metrics.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
        KeyFileError: the key file in ``security`` cannot be used.
    """
    endpoint = Endpoint(zbk.__version__, "autorecovery")
    with serving(endpoint, config.http, HTTP_PORT) as http:
        connection = connection_of(config, security)
        endpoint.cluster_id = lambda: connection.cluster_id
        name = f"{socket.gethostname()}-{os.getpid()}"
        process = Autorecovery(config, name, lambda: connection)

        reasons: list[str] = []

        def stop(number: int, _frame: FrameType | None) -> None:
            reasons.append(signal.Signals(number).name)  # logged later: it may interrupt a log line
            process.request_stop()

        signals = (signal.SIGTERM, signal.SIGINT)
        previous = {number: signal.signal(number, stop) for number in signals}
        try:
            process.start()
            on_started(process)
            endpoint.attach("autorecovery", process.read_metrics, process.checks)
            on_ready(name, http)
            warn_of_outdated(config.metadata)
            process.wait_ending()
            process.wait()
            LOG.info(
                "autorecovery.stopped",
                "stopped on %(reasons)s",
                reasons=", ".join(reasons) or "a failure",
            )
            return 0 if process.failure is None else 1
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def connection_of(
    config: AutorecoveryConfig, security: SecurityConfig = NO_SECURITY
) -> ClusterConnection:
    """Connect to the cluster that the configuration names, with the key of this process.

    Raises:
        InvalidOptionError: no metadata address, or no cluster there.
        MetadataUnavailableError: the metadata store does not answer.
    """
    if not config.metadata:
        raise InvalidOptionError(
            "metadata", "", "autorecovery needs the address of its cluster's metadata store"
        )
    client = ClientConfig(
        session_timeout_ms=config.session_timeout_ms, key=security.key, security=security.security
    )
    return ClusterConnection(config.metadata, client)
