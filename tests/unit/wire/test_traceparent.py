"""The one optional field of requests: absent without a trace, unknown to an older bookie."""

from typing import Any

import msgspec
import pytest

from zbk.protocol.entry.words import LedgerType
from zbk.wire import codec
from zbk.wire.messages import (
    Add,
    Message,
    Read,
    ReadLac,
    Sync,
    TracedRequest,
    WriteLac,
)

TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"
LARGEST = 2**63 - 1
LEDGER: dict[str, Any] = {
    "request_id": LARGEST, "incarnation": LARGEST, "ledger_id": LARGEST, "ledger_key": bytes(16),
}  # fmt: skip
TYPED = LEDGER | {"ledger_type": LedgerType.PD_JOURNAL}
REQUESTS: list[TracedRequest] = [
    Add(
        **TYPED, first_entry_id=LARGEST, count=1 << 24, lac=LARGEST, checksum=2**64 - 1,
        is_striped=True,
    ),
    Read(**TYPED, first_entry_id=LARGEST, last_entry_id=LARGEST, size_max=LARGEST),
    ReadLac(**TYPED, known_lac=LARGEST, wait_ms=LARGEST),
    WriteLac(**TYPED, lac=LARGEST),
    Sync(**LEDGER, lac=LARGEST),
]  # fmt: skip


class OldAdd(Message, frozen=True, tag="add"):
    """An add as releases before tracing know it, as far as this test needs."""

    ledger_id: int
    count: int


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_the_field_is_absent_without_a_trace_and_survives_the_wire_with_one(
    request_: TracedRequest,
) -> None:
    assert b"traceparent" not in codec.encode(request_)
    traced = msgspec.structs.replace(request_, traceparent=TRACEPARENT)
    assert codec.decode_request(codec.encode(traced)) == traced


def test_an_older_bookie_ignores_the_field() -> None:
    traced = msgspec.structs.replace(REQUESTS[0], traceparent=TRACEPARENT)
    old = msgspec.msgpack.decode(codec.encode(traced), type=OldAdd)
    assert (old.ledger_id, old.count) == (LARGEST, 1 << 24)
