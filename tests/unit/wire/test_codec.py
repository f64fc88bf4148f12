"""Headers of the wire: golden bytes, round trips, every cut, every flipped bit, hostile input."""

from array import array

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.errors import (
    BusyError,
    MalformedMessageError,
    NoSuchEntryError,
    UnknownOperationError,
    WireError,
    ZbkError,
    from_wire,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.wire import codec
from zbk.wire.messages import (
    Add,
    AddAnswer,
    Answer,
    CollectGarbage,
    GarbageStatus,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    HelloAnswer,
    LacAnswer,
    LedgerInfo,
    Ping,
    Pong,
    Read,
    ReadAnswer,
    ReadLac,
    Refused,
    Request,
    Scrub,
    ScrubStatus,
    Sync,
    SyncAnswer,
    WriteLac,
)

KEY = bytes(range(16))

ADD = Add(
    request_id=7,
    incarnation=2,
    ledger_id=42,
    ledger_key=KEY,
    ledger_type=LedgerType.VD_JOURNAL,
    first_entry_id=100,
    count=3,
    lac=96,
    checksum=2**64 - 1,
)
GOLDEN_ADD = bytes.fromhex(
    "8ca26f70a3616464a96c65646765725f69642aaa6c65646765725f6b6579c410000102030405060708090a0b"
    "0c0d0e0fab6c65646765725f74797065aa56445f4a4f55524e414cae66697273745f656e7472795f696464a5"
    "636f756e7403a36c616360a8636865636b73756dcfffffffffffffffffaa69735f73747269706564c2ab6973"
    "5f7265636f76657279c2aa726571756573745f696407ab696e6361726e6174696f6e02"
)

REQUESTS: list[Request] = [
    Hello(request_id=1, instance_id="i", bookie_id="b", software="zbk"),
    ADD,
    Read(
        request_id=8,
        ledger_id=1,
        ledger_key=KEY,
        ledger_type=LedgerType.PD_JOURNAL,
        first_entry_id=0,
        last_entry_id=9,
        size_max=100,
        is_fencing=True,
    ),
    ReadLac(
        request_id=9,
        ledger_id=1,
        ledger_key=KEY,
        ledger_type=LedgerType.VD_JOURNAL,
        known_lac=4,
        wait_ms=1_000,
    ),
    WriteLac(request_id=9, ledger_id=1, ledger_key=KEY, ledger_type=LedgerType.PD_JOURNAL, lac=-1),
    Sync(request_id=10, ledger_id=1, ledger_key=KEY, lac=5),
    Sync(request_id=10, ledger_id=1, ledger_key=KEY, lac=5, stripe=Stripe(4, 2, 3)),
    msgspec.structs.replace(ADD, is_striped=True, stripe=Stripe(4, 2, 3)),
    GetLedgerInfo(request_id=11, ledger_id=1, first_entry_id=7, is_at_once=True),
    GetBookieInfo(request_id=12),
    CollectGarbage(request_id=14, is_round_wanted=False),
    Scrub(request_id=15, is_pass_wanted=False),
    Ping(request_id=13),
]
ANSWERS: list[Answer] = [
    HelloAnswer(
        request_id=1,
        version=1,
        instance_id="i",
        bookie_id="b",
        credit_size=100,
        entry_size_max=10,
        is_readonly=True,
    ),
    AddAnswer(request_id=2, incarnation=1, last_add_synced=4),
    ReadAnswer(request_id=3, count=2, lac=1),
    LacAnswer(request_id=4, lac=-1),
    SyncAnswer(request_id=5, last_add_synced=9),
    LedgerInfo(request_id=6, is_known=True, ranges=[(0, 4), (7, 7)], next_entry_id=8),
    GarbageStatus(request_id=9, awaited_round=4, ended_round=3, dropped_count=2, gave_up="why"),
    ScrubStatus(
        request_id=10,
        awaited_pass=2,
        begun_pass=1,
        ended_pass=1,
        share=0.5,
        files=[("/l/logs/1.log", 7, None, "why"), ("/l/logs/2.log", 7, 3, "why")],
        ranges=[(3, 0, 5), (4, 0, -1)],
    ),
    Pong(request_id=7),
    Refused(request_id=8, code=106, fields=[1, 2]),
]


def test_bytes_of_version_2_never_change() -> None:
    assert codec.encode(ADD).hex() == GOLDEN_ADD.hex()
    assert codec.decode_request(GOLDEN_ADD) == ADD


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_requests_come_back_as_they_were(request_: Request) -> None:
    assert codec.decode_request(codec.encode(request_)) == request_


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: type(a).__name__)
def test_answers_come_back_as_they_were(answer: Answer) -> None:
    assert codec.decode_answer(codec.encode(answer)) == answer


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_an_independent_decoder_reads_the_same_map(request_: Request) -> None:
    fields = msgpack.unpackb(codec.encode(request_))

    assert fields["op"] == type(request_).__struct_config__.tag
    assert fields["request_id"] == request_.request_id


def test_unknown_keys_are_ignored() -> None:
    fields = msgpack.unpackb(codec.encode(ADD)) | {"trace": "later", "nested": {"a": [1]}}

    assert codec.decode_request(msgpack.packb(fields)) == ADD


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_every_cut_is_malformed(request_: Request) -> None:
    whole = codec.encode(request_)

    for cut in range(len(whole)):
        with pytest.raises(MalformedMessageError):
            codec.decode_request(whole[:cut])


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_every_flipped_bit_gives_a_message_or_a_wire_error(request_: Request) -> None:
    whole = codec.encode(request_)
    outcomes = set()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            codec.decode_request(bytes(damaged))
            outcomes.add("message")
        except WireError as error:
            outcomes.add(type(error).__name__)
    assert "MalformedMessageError" in outcomes
    assert "UnknownOperationError" in outcomes


@given(st.binary(max_size=300))
def test_garbage_is_always_a_wire_error(garbage: bytes) -> None:
    with pytest.raises(WireError):
        codec.decode_request(garbage)
    with pytest.raises(WireError):
        codec.decode_answer(garbage)
    assert codec.peek_request_id(garbage) >= 0


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x81" * 60_000,
        b"\x91" * 60_000,
        b"\xdf\xff\xff\xff\xff" + b"\x00" * 100,
        b"\xc6\xff\xff\xff\xff" + b"\x00" * 100,
        msgpack.packb({"op": "add", "request_id": -1}),
        msgpack.packb({"op": "add", "request_id": 2**64 - 1}),
        msgpack.packb({"op": 7, "request_id": 1}),
        msgpack.packb({"request_id": 1}),
        b"x" * (codec.HEADER_SIZE_MAX + 1),
    ],
    ids=["deep maps", "deep arrays", "huge map", "huge bytes", "negative", "too big",
         "op is a number", "no op", "too long"],
)  # fmt: skip
def test_hostile_headers_are_malformed(hostile: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        codec.decode_request(hostile)


def test_an_unknown_operation_is_named() -> None:
    with pytest.raises(UnknownOperationError, match="compact"):
        codec.decode_request(msgpack.packb({"op": "compact", "request_id": 4}))
    assert codec.peek_request_id(msgpack.packb({"op": "compact", "request_id": 4})) == 4
    assert codec.peek_request_id(msgpack.packb({"op": "compact", "request_id": True})) == 0


@pytest.mark.parametrize("error", [NoSuchEntryError(4, 7), BusyError("full")])
def test_an_error_travels_as_itself(error: ZbkError) -> None:
    refused = codec.decode_answer(codec.encode(codec.refusal(3, 9, error)))

    assert isinstance(refused, Refused)
    assert (refused.request_id, refused.incarnation) == (3, 9)
    arrived = from_wire(refused.code, tuple(refused.fields))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


@given(st.sets(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_entry_ids_come_back_as_they_were(ids: set[int]) -> None:
    ascending = sorted(ids)

    assert codec.decode_ids(codec.encode_ids(ascending), 50) == array("q", ascending)


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x00" * 7, codec.encode_ids([2, 1]), codec.encode_ids([1, 1]), codec.encode_ids([-1]),
     codec.encode_ids(range(51))],
    ids=["empty", "cut", "descending", "twice", "negative", "too many"],
)  # fmt: skip
def test_bad_lists_of_entry_ids_are_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        codec.decode_ids(frame, 50)
