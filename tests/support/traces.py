"""Spans of OpenTelemetry, recorded in memory. The tracer provider of a process is set only once."""

from functools import cache
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.waiting import wait_until

APPLICATION: Final = "application"
"""The name of the span around the calls of a test."""


class Traces:
    """The spans of this process that ended since ``clear``."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")

    def clear(self) -> None:
        self.exporter.clear()

    def named(self, name: str, count: int) -> list[ReadableSpan]:
        """Wait until so many spans of this name have ended, and return all of them."""
        wait_until(lambda: len(self._named(name)) >= count, what=f"{count} spans {name}")
        return self._named(name)

    @property
    def names(self) -> set[str]:
        return {span.name for span in self.exporter.get_finished_spans()}

    def _named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@cache
def traces() -> Traces:
    """Return the traces of this process, whose provider is the global one from now on."""
    made = Traces()
    trace.set_tracer_provider(made.provider)
    return made


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None, "a span that ended has a context"
    return context.span_id


def trace_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None, "a span that ended has a context"
    return context.trace_id
