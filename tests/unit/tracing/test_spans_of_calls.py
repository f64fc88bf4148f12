"""One trace of an append, a read, a sync, a recovery: the client's span, and the bookie's in it."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import zbk
from tests.support.bookie_here import ONE, BookieHere
from tests.support.traces import APPLICATION, Traces, parent_id, span_id, trace_id
from tests.support.traces import traces as recorded
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.protocol.entry.words import LedgerType

VD = LedgerOptions(ledger_type=LedgerType.VD_JOURNAL, **ONE)


@pytest.fixture
def bookie() -> Iterator[BookieHere]:
    recorded()  # before the bookie: it traces if its program uses OpenTelemetry
    made = BookieHere()
    yield made
    made.close()


@pytest.fixture
def client(bookie: BookieHere) -> Iterator[zbk.Client]:
    with bookie.connect() as connected:
        yield connected


def events(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def test_an_append_is_one_trace_from_the_caller_to_the_fsync(
    client: zbk.Client, bookie: BookieHere, traces: Traces
) -> None:
    ledger = client.create_ledger(**ONE)
    with traces.tracer.start_as_current_span(APPLICATION) as around:
        assert ledger.append(b"x" * 100) == 0
    (append,) = traces.named("zbk.append", 1)
    (add,) = traces.named("zbk.bookie.add", 1)
    assert parent_id(append) == around.get_span_context().span_id
    assert parent_id(add) == span_id(append)
    assert trace_id(add) == trace_id(append) == around.get_span_context().trace_id
    assert (append.kind, add.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert append.attributes == {
        "zbk.ledger_id": ledger.ledger_id, "zbk.ledger_type": "PD_JOURNAL", "zbk.count": 1,
        "zbk.size": 100, "zbk.entry_id": 0,
    }  # fmt: skip
    assert events(add) == ["admitted", "written", "synced"]
    assert add.attributes is not None
    assert add.attributes["zbk.bookie_id"] == bookie.bookie_id
    assert add.attributes["zbk.ledger_id"] == ledger.ledger_id
    assert add.attributes["zbk.count"] == 1
    ledger.close()


def test_a_vd_append_is_answered_after_the_write_and_a_sync_after_the_fsync(
    client: zbk.Client, traces: Traces
) -> None:
    ledger = client.create_ledger(**VD)
    with traces.tracer.start_as_current_span(APPLICATION):
        ledger.append(b"x")
        ledger.sync()
    (add,) = traces.named("zbk.bookie.add", 1)
    assert events(add) == ["admitted", "written"]
    (sync,) = traces.named("zbk.sync", 1)
    (synced,) = traces.named("zbk.bookie.sync", 1)
    assert events(synced) == ["admitted", "written", "synced"]
    assert parent_id(synced) == span_id(sync)
    (lac,) = traces.named("zbk.bookie.write_lac", 1)
    assert parent_id(lac) == span_id(sync)
    ledger.close()


def test_append_many_has_one_span_however_many_entries_there_are(
    client: zbk.Client, traces: Traces
) -> None:
    ledger = client.create_ledger(**ONE)
    with traces.tracer.start_as_current_span(APPLICATION):
        ledger.append_many([b"x"] * 500).result()
    (append,) = traces.named("zbk.append_many", 1)
    (add,) = traces.named("zbk.bookie.add", 1)
    assert append.attributes is not None
    assert append.attributes["zbk.count"] == 500
    assert append.attributes["zbk.size"] == 500
    assert append.attributes["zbk.entry_id"] == 0
    assert parent_id(add) == span_id(append)
    ledger.close()


def test_appends_that_share_a_request_link_to_the_one_whose_trace_it_belongs_to(
    client: zbk.Client, traces: Traces
) -> None:
    ledger = client.create_ledger(**ONE)
    count = 200
    with traces.tracer.start_as_current_span(APPLICATION):
        futures: list[Future[int]] = [ledger.append_async(b"x") for _ in range(count)]
    assert [future.result() for future in futures] == list(range(count))
    appends = traces.named("zbk.append", count)
    adds = traces.named("zbk.bookie.add", 1)
    assert len(adds) < count  # else no two appends shared a request: the machine was too fast
    carriers = {parent_id(add) for add in adds}
    for append in appends:
        linked = {link.context.span_id for link in append.links}
        assert linked <= carriers
        assert bool(linked) != (span_id(append) in carriers)
    ledger.close()


def test_a_read_is_one_trace_and_ends_with_its_last_entry(
    client: zbk.Client, traces: Traces
) -> None:
    with client.create_ledger(**ONE) as ledger:
        ledger.append_many([b"x"] * 100).result()
    reader = client.open_ledger(ledger.ledger_id)
    with traces.tracer.start_as_current_span(APPLICATION):
        entries = reader.read(0, 99)
        next(entries)
        assert "zbk.read" not in traces.names
        assert len(list(entries)) == 99
    (read,) = traces.named("zbk.read", 1)
    (at_bookie,) = traces.named("zbk.bookie.read", 1)
    assert read.attributes == {
        "zbk.ledger_id": ledger.ledger_id, "zbk.first_entry_id": 0, "zbk.last_entry_id": 99,
        "zbk.count": 100,
    }  # fmt: skip
    assert events(at_bookie) == ["admitted", "read"]
    assert parent_id(at_bookie) == span_id(read)


def test_the_span_of_a_read_that_is_dropped_ends_with_it(
    client: zbk.Client, traces: Traces
) -> None:
    with client.create_ledger(**ONE) as ledger:
        ledger.append(b"x")
    reader = client.open_ledger(ledger.ledger_id)
    with traces.tracer.start_as_current_span(APPLICATION):
        batches = reader.read_batches(0, 0)
    del batches
    assert "zbk.read" in traces.names


def test_a_recovery_is_a_trace_of_its_own_with_fence_reads_and_writes(
    bookie: BookieHere, traces: Traces
) -> None:
    with bookie.connect() as writing:
        ledger = writing.create_ledger(**VD)
        ledger.append_many([b"x"] * 10).result()
        with bookie.connect() as client:
            client.recover_ledger(ledger.ledger_id)
        with (
            traces.tracer.start_as_current_span(APPLICATION),
            pytest.raises(zbk.LedgerFencedError),
        ):
            ledger.append(b"late")
    (recover,) = traces.named("zbk.recover", 1)
    assert recover.parent is None
    (fence,) = traces.named("zbk.bookie.read_lac", 1)
    assert parent_id(fence) == span_id(recover)
    assert fence.attributes is not None
    assert fence.attributes["zbk.is_fencing"] is True
    assert {parent_id(span) for span in traces.named("zbk.bookie.read", 1)} == {span_id(recover)}
    adds = traces.named("zbk.bookie.add", 2)
    recovered = [add for add in adds if parent_id(add) == span_id(recover)]
    assert recovered
    (late,) = traces.named("zbk.append", 1)
    (refused,) = [add for add in adds if parent_id(add) == span_id(late)]
    for failed in late, refused:
        assert failed.status.status_code is StatusCode.ERROR
        assert failed.attributes is not None
        assert failed.attributes["error.type"] == "LedgerFencedError"


def test_nothing_is_traced_outside_a_trace(client: zbk.Client, traces: Traces) -> None:
    with client.create_ledger(**ONE) as ledger:
        ledger.append(b"x")
    assert len(list(client.open_ledger(ledger.ledger_id).read(0, 0))) == 1
    assert not traces.names


def test_a_client_without_tracing_makes_no_spans(bookie: BookieHere, traces: Traces) -> None:
    with (
        zbk.connect(bookie.config.metadata, tracing=False) as client,
        traces.tracer.start_as_current_span(APPLICATION),
        client.create_ledger(**ONE) as ledger,
    ):
        ledger.append(b"x")
    assert traces.names == {APPLICATION}


def test_a_client_uses_the_provider_that_it_is_given(bookie: BookieHere, traces: Traces) -> None:
    other = Traces()
    with (
        zbk.connect(bookie.config.metadata, tracing=other.provider) as client,
        other.tracer.start_as_current_span(APPLICATION),
        client.create_ledger(**ONE) as ledger,
    ):
        ledger.append(b"x")
    other.named("zbk.append", 1)
    assert "zbk.append" not in traces.names


def test_a_trace_that_is_not_sampled_costs_nothing_on_the_wire(
    bookie: BookieHere, traces: Traces
) -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    with (
        zbk.connect(bookie.config.metadata, tracing=unsampled) as client,
        unsampled.get_tracer("tests").start_as_current_span(APPLICATION),
        client.create_ledger(**ONE) as ledger,
    ):
        ledger.append(b"x")
    assert not traces.names


@pytest.mark.parametrize("tracing", [None, 1, "on", object()])
def test_another_argument_is_an_error(bookie: BookieHere, tracing: object) -> None:
    with pytest.raises(zbk.ArgumentTypeError, match="tracing"):
        zbk.connect(bookie.config.metadata, tracing=tracing)  # type: ignore[arg-type]
