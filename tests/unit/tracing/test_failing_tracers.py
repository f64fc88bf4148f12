"""A tracer that raises never fails a call; what is not a traceparent never fails a request."""

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, Sampler, SamplingResult

import zbk
from tests.support.bookie_here import ONE, BookieHere
from tests.support.traces import APPLICATION, traces
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.protocol.entry.words import LedgerType
from zbk.tracing.request_spans import RequestSpans
from zbk.tracing.span import GuardedSpan
from zbk.wire.messages import Sync

VD = LedgerOptions(ledger_type=LedgerType.VD_JOURNAL, **ONE)


class BrokenSampler(Sampler):
    """Samples the span of the application; raises for every other one."""

    def should_sample(
        self, parent_context: object, trace_id: int, name: str, *args: object, **kwargs: object
    ) -> SamplingResult:
        if name == APPLICATION:
            return SamplingResult(Decision.RECORD_AND_SAMPLE)
        raise RuntimeError("no sample")

    def get_description(self) -> str:
        return "broken"


class BrokenProcessor(SpanProcessor):
    """Takes the span of the application; raises when another one ends."""

    def on_start(self, span: Span, parent_context: object = None) -> None:
        pass

    def on_end(self, span: ReadableSpan) -> None:
        if span.name != APPLICATION:
            raise RuntimeError("no exporter")


@pytest.fixture
def bookie() -> Iterator[BookieHere]:
    traces()
    made = BookieHere()
    yield made
    made.close()


def broken_when_started() -> TracerProvider:
    return TracerProvider(sampler=BrokenSampler())


def broken_when_ended() -> TracerProvider:
    provider = TracerProvider(sampler=ALWAYS_ON)
    provider.add_span_processor(BrokenProcessor())
    return provider


@pytest.mark.parametrize("broken", [broken_when_started, broken_when_ended])
def test_every_call_succeeds_with_a_tracer_that_raises(
    bookie: BookieHere, broken: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(broken)
    provider = broken()
    with (
        caplog.at_level(logging.CRITICAL, "concurrent.futures"),
        zbk.connect(bookie.config.metadata, tracing=provider) as client,
        provider.get_tracer("tests").start_as_current_span(APPLICATION),
    ):
        with client.create_ledger(**VD) as ledger:
            assert ledger.append(b"x") == 0
            assert ledger.append_many([b"x"] * 3).result() == range(1, 4)
            assert ledger.sync() == 3
        assert len(list(client.open_ledger(ledger.ledger_id).read(0, 3))) == 4
        left = client.create_ledger(**ONE)
        left.append(b"x")
        with client.recover_ledger(left.ledger_id) as reader:
            assert reader.last_add_confirmed == 0


def test_a_failing_tracer_is_reported_and_not_for_every_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with traces().tracer.start_as_current_span(APPLICATION) as whole:
        span = GuardedSpan(whole)
    span._span = None  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING, "zbk.tracing"):
        for _ in range(1_000):
            span.event("written")
        span.end()
    assert len(caplog.records) <= 1  # none if a test before this one has just had its report


@pytest.mark.parametrize(
    "traceparent",
    ["", "00", "x" * 256, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff-" + "1" * 52, "\x00"],
)
def test_a_request_with_a_bad_traceparent_has_no_span(traceparent: str) -> None:
    traces().clear()
    request = Sync(request_id=1, ledger_id=1, ledger_key=bytes(16), lac=-1, traceparent=traceparent)
    assert RequestSpans("b").start(request, 1) is None
    assert not traces().names


def test_a_request_of_an_unsampled_trace_has_no_span() -> None:
    unsampled = f"00-{'1' * 32}-{'2' * 16}-00"
    request = Sync(request_id=1, ledger_id=1, ledger_key=bytes(16), lac=-1, traceparent=unsampled)
    assert RequestSpans("b").start(request, 1) is None
