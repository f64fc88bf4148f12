"""A bookie whose spans go to files: ``python -m`` this, in place of ``zbk``.

It configures a tracer provider before zbk starts, as ``opentelemetry-instrument`` does. Each span
is a line ``name trace-id parent-id`` of ``$SPAN_FOLDER/PID``.
"""

import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from zbk.cli.main import main


def line_of(span: ReadableSpan) -> str:
    assert span.parent is not None, "a bookie begins no trace"
    return f"{span.name} {span.parent.trace_id} {span.parent.span_id}\n"


if __name__ == "__main__":
    provider = TracerProvider()
    out = (Path(os.environ["SPAN_FOLDER"]) / str(os.getpid())).open("w")
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter("", out, line_of)))
    trace.set_tracer_provider(provider)
    main()
