"""A span that never disturbs the traced work: what a tracer raises is logged, and goes no further.

Any thread. A span ends once; later calls do nothing.
"""

import threading
from types import TracebackType
from typing import Final

from opentelemetry.trace import Span, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog
from zbk.system.report_pace import ReportPace

LOG = EventLog(__name__)

REPORT_MS: Final = 60_000
"""Milliseconds between two reports of a tracer that fails."""

TRACEPARENT: Final = "traceparent"
PROPAGATOR: Final = TraceContextTextMapPropagator()


class _Guard:
    """A block that calls the tracer. An exception ends the block and is reported."""

    def __init__(self) -> None:
        self._pace = ReportPace[Exception](REPORT_MS)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(exc, Exception):
            return False
        with self._lock:
            self._pace.note(exc)
            due = self._pace.take_due(monotonic_ms())
        if due is not None:
            count, error = due
            LOG.warning(
                "tracing.failed",
                "the tracer failed %(failure_count)d times, at last with %(error)r",
                failure_count=count,
                error=error,
            )
        return True


GUARD: Final = _Guard()


class GuardedSpan:
    """A span that records."""

    __slots__ = ("_carrier", "_is_over", "_span", "traceparent")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._is_over = False
        self._carrier: GuardedSpan | None = None  # the span that it is linked to
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, set_span_in_context(span))
        self.traceparent = carrier[TRACEPARENT]

    def event(self, name: str) -> None:
        """Record that something happened now."""
        if not self._is_over:
            with GUARD:
                self._span.add_event(name)

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute."""
        if not self._is_over:
            with GUARD:
                self._span.set_attribute(name, value)

    def link(self, carrier: "GuardedSpan") -> None:
        """Link to the span whose requests carry the entries of this one, too."""
        if not self._is_over and self._carrier is not carrier:
            self._carrier = carrier
            with GUARD:
                self._span.add_link(carrier._span.get_span_context())  # noqa: SLF001 - of this class

    def end(self, error: BaseException | None = None) -> None:
        """End the span, as failed if there is an error."""
        if self._is_over:
            return
        self._is_over = True
        with GUARD:
            if error is not None:
                self._span.set_attribute("error.type", type(error).__name__)
                self._span.set_status(StatusCode.ERROR, str(error))
            self._span.end()
