"""The progress of a load: one sample a second, from a thread that only reads counters.

Rates and percentiles are those of the second before the sample. Each sample asks the bookies for
the resources that they have used; a bookie that does not answer is left out.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, Self

import msgspec

from zbk.bench.histogram import Histogram, merged
from zbk.client.api import Client
from zbk.errors import ZbkError
from zbk.system.clock import monotonic_s
from zbk.system.process import usage

SAMPLE_INTERVAL_S: Final = 1.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a load at one moment, and its rates since the sample before."""

    at_s: float  # since the load began
    entry_count: int  # acknowledged so far
    entries_per_s: float
    payload_mb_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    client_cpu_us_per_entry: float
    bookie_cpu_us_per_entry: float  # of all bookies together
    client_rss_size: int
    bookie_rss_size_max: int


class Sampled(Protocol):
    """The part of a writer that a sample reads."""

    @property
    def acked_count(self) -> int:
        """Entries that are acknowledged."""

    @property
    def latencies(self) -> Histogram:
        """All latencies so far."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The counters at one moment. CPU is in milliseconds."""

    at_s: float
    entry_count: int
    latencies: Histogram
    client_cpu_ms: int
    client_rss_size: int
    bookie_cpu_ms: dict[str, int]
    bookie_rss_size_max: int


def sample_between(then: Reading, now: Reading, *, started_s: float, entry_size: int) -> Sample:
    """Return the sample between two readings. ``entry_size``: bytes of payload."""
    seconds = now.at_s - then.at_s
    count = now.entry_count - then.entry_count
    latency = now.latencies.since(then.latencies).percentiles()
    bookie_ms = sum(
        cpu_ms - then.bookie_cpu_ms[bookie_id]
        for bookie_id, cpu_ms in now.bookie_cpu_ms.items()
        if bookie_id in then.bookie_cpu_ms
    )
    return Sample(
        at_s=now.at_s - started_s,
        entry_count=now.entry_count,
        entries_per_s=count / seconds,
        payload_mb_per_s=count * entry_size / seconds / 1e6,
        latency_p50_ms=latency.p50_ms,
        latency_p99_ms=latency.p99_ms,
        client_cpu_us_per_entry=(now.client_cpu_ms - then.client_cpu_ms) * 1000 / max(1, count),
        bookie_cpu_us_per_entry=bookie_ms * 1000 / max(1, count),
        client_rss_size=now.client_rss_size,
        bookie_rss_size_max=now.bookie_rss_size_max,
    )


class Sampler:
    """Passes samples of some writers to ``on_sample``, from its own thread, during the block."""

    def __init__(
        self,
        client: Client,
        writers: Sequence[Sampled],
        entry_size: int,
        on_sample: Callable[[Sample], None] | None,
    ) -> None:
        self._client = client
        self._writers = writers
        self._entry_size = entry_size
        self._on_sample = on_sample
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._on_sample is not None:
            target = partial(self._run, self._on_sample)
            self._thread = threading.Thread(target=target, name="zbk-bench-sampler")
            self._thread.start()
        return self

    def __exit__(self, error_type: object, *_error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()  # waits at most for answers of bookies
        if self._failure is not None and error_type is None:
            raise self._failure

    def _run(self, on_sample: Callable[[Sample], None]) -> None:
        try:
            self._watch(on_sample)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that measures
            self._failure = error

    def _watch(self, on_sample: Callable[[Sample], None]) -> None:
        bookie_ids = [bookie.bookie_id for bookie in self._client.list_bookies()]
        started_s = monotonic_s()
        last = self._read(bookie_ids)
        due_s = started_s + SAMPLE_INTERVAL_S
        while not self._stop.wait(max(0.0, due_s - monotonic_s())):
            due_s += SAMPLE_INTERVAL_S
            now = self._read(bookie_ids)
            on_sample(sample_between(last, now, started_s=started_s, entry_size=self._entry_size))
            last = now

    def _read(self, bookie_ids: Sequence[str]) -> Reading:
        bookie_cpu_ms, bookie_rss_size_max = {}, 0
        for bookie_id in bookie_ids:
            try:
                info = self._client.bookie_info(bookie_id)
            except ZbkError:  # the load shows the effect of a missing bookie
                continue
            bookie_cpu_ms[bookie_id] = info.cpu_ms
            bookie_rss_size_max = max(bookie_rss_size_max, info.rss_size)
        mine = usage()
        return Reading(
            at_s=monotonic_s(),
            entry_count=sum(writer.acked_count for writer in self._writers),
            latencies=merged(writer.latencies for writer in self._writers),
            client_cpu_ms=mine.cpu_ms,
            client_rss_size=mine.rss_size,
            bookie_cpu_ms=bookie_cpu_ms,
            bookie_rss_size_max=bookie_rss_size_max,
        )
