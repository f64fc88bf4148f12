"""The thread that samples a cluster, and what it has found: one for a console.

It samples each ``INTERVAL_S``, and rests at least four times as long as a sample takes. The survey,
which also counts ledgers, rests twenty times as long as it takes: neither loads a large cluster.
While the metadata store is silent, the thread tries again; pages say so and keep the last figures.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.repair_backlog import RepairBacklog
from zbk.config import NO_SECURITY, ClientConfig, SecurityConfig
from zbk.console.cluster_records import ClusterRecords, changes_between, read_records
from zbk.console.history import Event, GapHistory, History, StoreOutage
from zbk.console.metric_page import SERIES, histograms_in, increase
from zbk.console.self_metrics import SelfMetrics
from zbk.errors import MetadataUnavailableError, ZbkError
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX, PAGE_SIZE_MAX
from zbk.health.cluster_health import ClusterFacts
from zbk.health.cluster_rates import ClusterSample
from zbk.health.cluster_sampler import ClusterSampler
from zbk.health.cluster_survey import asking_as, survey_store
from zbk.health.redaction import redacted
from zbk.health.web_page import web_page
from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.security.credentials import own_credentials
from zbk.system.clock import monotonic_ms, monotonic_s, wall_ms
from zbk.system.deadline import within
from zbk.system.event_log import EventLog

INTERVAL_S: Final = 1.0
SAMPLE_REST: Final = 4
SURVEY_INTERVAL_S: Final = 3.0
SURVEY_REST: Final = 20
COLUMN_INTERVAL_S: Final = 5.0
TIMEOUT_S: Final = 3.0
PAGE_TIMEOUT_S: Final = 1.0
THREAD_COUNT: Final = 8

FIRST_LOOK: Final = "The console looks at the cluster for the first time; figures follow."

LOG = EventLog("zbk.console")


class Collector:
    """Live figures of the cluster at a metadata address. Any thread may read them."""

    def __init__(
        self, metadata: str, bookie_token: str = "", security: SecurityConfig = NO_SECURITY
    ) -> None:
        """``bookie_token`` is what the admin APIs of the bookies require."""
        self.security: Final = security
        self._credentials = own_credentials(security)
        self.metadata = metadata
        self.bookie_token = bookie_token
        self.started_ms = wall_ms()
        self.url = ""  # of the console, once it is served
        self.history = History()
        self.facts: ClusterFacts | None = None
        self.records: ClusterRecords | None = None
        self.surveyed_ms = 0
        self.sample: ClusterSample | None = None
        self.error = ""  # why there are no new figures
        self.backlog = RepairBacklog()
        self.gaps = GapHistory()
        self._outage = StoreOutage()
        self.metrics = SelfMetrics()
        self._is_surveyed, self._is_sampled = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._connection: ClusterConnection | None = None
        self._histograms: dict[str, dict[tuple[str, str], tuple[int, ...]]] = {}
        self._is_stopping = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("zbk-samples", self._sample), ("zbk-survey", self._survey))
        ]

    def start(self) -> None:
        """Start to collect."""
        for thread in self._threads:
            thread.start()

    @property
    def notice(self) -> str:
        """Return what each page says about the age of its figures; "" for nothing."""
        if self.error:
            return f"No new figures: {self.error}"
        return "" if self.facts is not None else FIRST_LOOK

    def wait_first_look(self, timeout_s: float) -> None:
        """Return when the first survey and the first sample have ended, well or not, or in time."""
        until_s = monotonic_s() + timeout_s
        for one in (self._is_surveyed, self._is_sampled):
            one.wait(max(0.0, until_s - monotonic_s()))

    def stop(self) -> None:
        """Stop, and close all connections."""
        self._is_stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2 * TIMEOUT_S)
        with self._lock:
            if self._connection is not None:
                if self.metrics.session is not None:
                    self.metrics.session.close()
                self._connection.close()
                self._connection = None

    def cluster_id(self) -> str:
        """Return the instance id of the cluster; "" while it is not known. It never waits."""
        connection = self._connection
        return "" if connection is None else connection.cluster_id

    def connection(self) -> ClusterConnection:
        """Return the connection that pages use.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        with self._lock:
            if self._is_stopping.is_set():
                raise MetadataUnavailableError(self.metadata, "the console stops")
            if self._connection is None:
                ms = int(TIMEOUT_S * 1_000)
                config = ClientConfig(
                    connect_timeout_ms=ms,
                    request_timeout_ms=ms,
                    key=self.security.key,
                    security=self.security.security,
                )
                self._connection = ClusterConnection(self.metadata, config)
                self.metrics.session = SessionMetrics(self._connection.store)
            return self._connection

    # ------------------------------------------------------------------ own threads

    def _sample(self) -> None:
        while not self._is_stopping.is_set():
            try:
                with ClusterSampler(self.metadata, TIMEOUT_S, self._credentials) as sampler:
                    self._sample_with(sampler)
            except ZbkError as error:
                self._note(redacted(str(error)), wall_ms())
                self.metrics.sample_failed()
                self._is_sampled.set()
                self._is_stopping.wait(INTERVAL_S)
            except Exception:
                LOG.exception("console.sample_failed", "the console failed to sample the cluster")
                self.error = "an error of zbk: see the console's log"
                self.metrics.sample_failed()
                self._is_stopping.wait(INTERVAL_S)

    def _sample_with(self, sampler: ClusterSampler) -> None:
        column_due_s = 0.0
        while not self._is_stopping.is_set():
            started_s = monotonic_s()
            sample = sampler.sample()
            self._note("", wall_ms())
            if self.sample is not None:
                self.history.add(self.sample, sample, wall_ms())
            self.sample = sample
            if started_s >= column_due_s:
                self._add_columns()
                column_due_s = started_s + COLUMN_INTERVAL_S
            took_s = monotonic_s() - started_s
            self.metrics.sampled(took_s)
            self._is_sampled.set()
            self._is_stopping.wait(max(INTERVAL_S - took_s, SAMPLE_REST * took_s))

    def _note(self, error: str, at_ms: int) -> None:
        """Record why there are no figures, or "" when there are."""
        self.error = error
        self.history.events.add(self._outage.seen(error, at_ms))

    def _survey(self) -> None:
        while not self._is_stopping.is_set():
            started_s = monotonic_s()
            try:
                facts = survey_store(
                    self.connection().store, TIMEOUT_S, asking_as(self._credentials)
                )
                if not facts.store_error:
                    self._read_records()
            except ZbkError as error:
                facts = ClusterFacts(metadata=self.metadata, store_error=str(error))
            except Exception:
                LOG.exception("console.survey_failed", "the console failed to survey the cluster")
                facts = ClusterFacts(metadata=self.metadata, store_error="an error of zbk")
            self.facts, self.surveyed_ms = facts, wall_ms()
            self._is_surveyed.set()
            if facts.store_error:
                self.backlog.lost_sight()
            else:
                counts = facts.underreplicated_count, facts.unrepairable_count
                self.backlog.seen(*counts, now_ms=monotonic_ms())
            took_s = monotonic_s() - started_s
            self.metrics.surveyed(took_s)
            self._is_stopping.wait(max(SURVEY_INTERVAL_S - took_s, SURVEY_REST * took_s))

    def _read_records(self) -> None:
        before = self.records
        try:
            with within(TIMEOUT_S):
                after = read_records(self.connection().store, before)
        except ZbkError as error:
            LOG.info("console.records", "the console read no records: %(error)s", error=error)
            return
        self.records = after
        if before is not None:
            now_ms = wall_ms()
            found = changes_between(before, after)
            self.history.events.add(
                Event(at_ms=now_ms, lane=one.lane, kind=one.kind, text=one.text) for one in found
            )

    def _add_columns(self) -> None:
        facts = self.facts
        urls = {one.bookie_id: one.http for one in facts.bookies if one.http} if facts else {}
        if not urls or len(urls) > BOOKIE_COUNT_MAX:
            return
        with ThreadPoolExecutor(THREAD_COUNT, "zbk-histograms") as threads:
            pages = dict(zip(urls, threads.map(metrics_page, urls.values()), strict=True))
        found = {bookie_id: histograms_in(page) for bookie_id, page in pages.items() if page}
        now_ms = wall_ms()
        for name, key in SERIES.items():
            grown = [
                increase(self._histograms[bookie_id].get(key, ()), of[key])
                for bookie_id, of in found.items()
                if key in of and bookie_id in self._histograms
            ]
            if grown:
                counts = tuple(map(sum, zip(*grown, strict=False)))
                self.history.add_column(name, now_ms, counts)
        self._histograms = found


def metrics_page(url: str) -> str:
    """Return the page of metrics at a registered URL; "" if there is no answer in time."""
    return web_page(f"{url}/metrics", PAGE_TIMEOUT_S, PAGE_SIZE_MAX).decode("utf-8", "replace")
