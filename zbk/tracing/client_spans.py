"""The spans of a client's calls: one for each append, ``append_many``, read, sync and recovery.

A call is traced when a span that records is current where it is made: zbk adds to the traces of an
application and begins none, because an append costs less than a span. A recovery is rare and begins
a trace of its own.

``pending`` holds the spans of appends and syncs on their way to the writer's thread, by their
futures. Any thread.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from opentelemetry.trace import SpanKind, get_current_span, get_tracer
from opentelemetry.util.types import AttributeValue

from zbk.tracing.span import GUARD, GuardedSpan
from zbk.version import __version__


class ClientSpans:
    """Makes the spans of one client; ``provider`` is the global one if none is given."""

    def __init__(self, provider: Any) -> None:  # noqa: ANN401 - a provider as the application has it
        self._tracer = get_tracer("zbk", __version__, provider)
        self.pending: dict[Future[Any], GuardedSpan] = {}

    @property
    def is_wanted(self) -> bool:
        """True when the caller is traced. The check takes less than a microsecond."""
        with GUARD:
            return get_current_span().is_recording()
        return False

    def start(
        self, name: str, attributes: Mapping[str, AttributeValue], *, may_be_root: bool = False
    ) -> GuardedSpan | None:
        """Return a new span of a call; ``None`` if the call is not traced."""
        with GUARD:
            if may_be_root or self.is_wanted:
                span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
                if span.is_recording():
                    return GuardedSpan(span)
        return None

    @contextmanager
    def following(
        self, future: "Future[Any]", name: str, attributes: Mapping[str, AttributeValue]
    ) -> Iterator[None]:
        """Trace a call that ends with its future, or with an error of this block.

        The block hands the future to the writer, which takes the span from ``pending``.
        """
        span = self.start(name, attributes)
        if span is None:
            yield
            return
        self.pending[future] = span
        future.add_done_callback(partial(self._ended, span))
        try:
            yield
        except BaseException as error:
            self.pending.pop(future, None)
            span.end(error)
            raise

    def _ended(self, span: GuardedSpan, future: "Future[Any]") -> None:
        self.pending.pop(future, None)  # it failed before the writer took it
        error = future.exception()
        if error is None:
            result = future.result()
            span.set("zbk.entry_id", result.start if isinstance(result, range) else result)
        span.end(error)
