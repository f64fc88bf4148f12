"""Whether a client or a bookie traces: only if the program uses OpenTelemetry.

A tracer provider can be configured only by code that has imported ``opentelemetry``. So a program
that did not import it pays nothing, not even the import.
"""

import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from zbk.tracing.client_spans import ClientSpans
    from zbk.tracing.request_spans import RequestSpans

API: Final = "opentelemetry.trace"


class TracerProvider(Protocol):
    """An ``opentelemetry.trace.TracerProvider``."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - OpenTelemetry's own
        """Return a tracer."""
        ...


def client_spans(tracing: "TracerProvider | bool") -> "ClientSpans | None":
    """Return the maker of a client's spans; ``None`` if the client does not trace.

    True means the global tracer provider, if the program has imported OpenTelemetry.
    """
    if tracing is False or (tracing is True and API not in sys.modules):
        return None
    from zbk.tracing.client_spans import ClientSpans

    return ClientSpans(None if tracing is True else tracing)


def request_spans(bookie_id: str) -> "RequestSpans | None":
    """Return the maker of a bookie's spans; ``None`` if its program does not use OpenTelemetry."""
    if API not in sys.modules:
        return None
    from zbk.tracing.request_spans import RequestSpans

    return RequestSpans(bookie_id)
