"""The metrics of a console about itself, and its checks for ``/readyz``.

A console without a metadata store still serves its pages, which say so. It stays ready then: a
service manager must not take away the page that explains what is wrong.

The sampling thread and the survey's thread each write their own numbers; any thread reads them.
"""

from collections.abc import Sequence
from typing import Final

from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.metadata.stores.store import SessionState
from zbk.metrics.buckets import Buckets
from zbk.metrics.checks import Check
from zbk.metrics.samples import Samples
from zbk.system.clock import monotonic_s

FRESH_S: Final = 60.0
"""Figures that are older are reported as old."""


class SelfMetrics:
    """What a console counts about itself."""

    def __init__(self) -> None:
        self.session: SessionMetrics | None = None  # of the connection that pages use
        self.live_count = 0  # open live views; the server's thread writes it
        self._sampled_s = monotonic_s()
        self._sample_counts = {"finished": 0, "failed": 0}
        self._samples, self._surveys = Buckets(), Buckets()

    def sampled(self, took_s: float) -> None:
        """Record a sample of the cluster."""
        self._sampled_s = monotonic_s()
        self._sample_counts["finished"] += 1
        self._samples.observe(int(took_s * 1_000_000))

    def sample_failed(self) -> None:
        """Record a sample without figures."""
        self._sample_counts["failed"] += 1

    def surveyed(self, took_s: float) -> None:
        """Record a survey of the cluster."""
        self._surveys.observe(int(took_s * 1_000_000))

    def read(self, samples: Samples) -> None:
        """Put the values into samples. It never waits."""
        if self.session is not None:
            self.session.read(samples)
        for result, count in self._sample_counts.items():
            samples.set("zbk_console_samples_total", count, result)
        samples.set("zbk_console_sample_age_seconds", self._age_s())
        samples.put_buckets("zbk_console_sample_seconds", self._samples)
        samples.put_buckets("zbk_console_survey_seconds", self._surveys)
        samples.set("zbk_console_live_views", self.live_count)

    def checks(self) -> Sequence[Check]:
        """Return the checks of ``/readyz``. None of them makes a console unready."""
        state = SessionState.LOST if self.session is None else self.session.state
        age_s = self._age_s()
        is_connected = state is SessionState.CONNECTED
        return [
            Check("metadata", is_connected, state.value, is_required=False),
            Check("figures", age_s < FRESH_S, f"{age_s:.0f} s old", is_required=False),
        ]

    def _age_s(self) -> float:
        return monotonic_s() - self._sampled_s
