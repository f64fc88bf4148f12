"""The spans of requests at a bookie: children of the calls whose traceparent the requests carry.

A span begins when the request is checked and ends when its answer is sent, or, as failed, when the
answer has nowhere to go. Between them it has an event for each stage: ``admitted``, ``read``,
``written`` (journal), ``synced`` (fsync).

A bookie begins no trace: a request without a traceparent, or with one that is not sampled or not
well-formed, has no span. Any thread.
"""

from typing import Final

from msgspec import UNSET
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, get_current_span, get_tracer
from opentelemetry.util.types import AttributeValue

from zbk.errors import from_wire
from zbk.tracing.span import GUARD, PROPAGATOR, TRACEPARENT, GuardedSpan
from zbk.version import __version__
from zbk.wire.messages import Message, Refused, TracedRequest

_FIELDS: Final = (
    "ledger_id", "ledger_type", "first_entry_id", "last_entry_id", "count", "is_recovery",
    "is_fencing",
)  # fmt: skip
"""Fields of requests that are attributes of their spans."""


class RequestSpan(GuardedSpan):
    """The span of one request."""

    __slots__ = ()

    def unanswered(self) -> None:
        """End the span as failed: there is nothing any more that an answer could be sent to."""
        self.end(ConnectionResetError("the connection ended before the answer"))

    def answered(self, answer: Message) -> None:
        """End the span: the answer is sent now."""
        if isinstance(answer, Refused):
            self.end(from_wire(answer.code, tuple(answer.fields)))
        else:
            self.end()


class RequestSpans:
    """Makes the spans of one bookie, with the global tracer provider."""

    def __init__(self, bookie_id: str) -> None:
        self._tracer = get_tracer("zbk", __version__)
        self._bookie_id = bookie_id

    def start(self, request: Message, size: int) -> RequestSpan | None:
        """Return the span of a request of so many bytes; ``None`` if its call is not traced."""
        if not isinstance(request, TracedRequest) or request.traceparent is UNSET:
            return None
        with GUARD:
            parent = PROPAGATOR.extract({TRACEPARENT: request.traceparent}, Context())
            if get_current_span(parent).get_span_context().is_valid:
                span = self._tracer.start_span(
                    f"zbk.bookie.{request.__struct_config__.tag}",
                    parent,
                    SpanKind.SERVER,
                    self._attributes(request, size),
                )
                if span.is_recording():
                    return RequestSpan(span)
        return None

    def _attributes(self, request: TracedRequest, size: int) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {"zbk.bookie_id": self._bookie_id, "zbk.size": size}
        for name in _FIELDS:
            value = getattr(request, name, None)
            if value is not None:
                found[f"zbk.{name}"] = value
        return found
