"""Bundles: golden bytes, and frames that are no frames of theirs."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.errors import MalformedMessageError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.wire import codec
from zbk.wire.bundle import join_frames, split_frames
from zbk.wire.messages import (
    PART_COUNT_MAX,
    AddAnswer,
    AnswerBundle,
    Bundle,
    PartRequest,
    Refused,
    Sync,
)

KEY = bytes(range(16))
FRAMES = st.lists(st.lists(st.binary(max_size=40), max_size=3).map(tuple), min_size=1, max_size=20)

BUNDLE = Bundle(
    request_id=0,
    incarnation=2,
    parts=[Sync(request_id=7, ledger_id=5, ledger_key=KEY, lac=-1)],
    sizes=[[]],
)
GOLDEN_BUNDLE = bytes.fromhex(
    "85a26f70a662756e646c65a570617274739186a26f70a473796e63a96c65646765725f696405aa6c65646765"
    "725f6b6579c410000102030405060708090a0b0c0d0e0fa36c6163ffaa726571756573745f696407ab696e63"
    "61726e6174696f6e00a573697a65739190aa726571756573745f696400ab696e6361726e6174696f6e02"
)
ANSWERS = AnswerBundle(
    request_id=0,
    parts=[
        AddAnswer(request_id=7, incarnation=2, last_add_synced=4),
        Refused(request_id=8, incarnation=2, code=104, fields=[5]),
    ],
    sizes=[[], []],
)
GOLDEN_ANSWERS = bytes.fromhex(
    "85a26f70a962756e646c655f6f6ba570617274739284a26f70a66164645f6f6baf6c6173745f6164645f7379"
    "6e63656404aa726571756573745f696407ab696e6361726e6174696f6e0285a26f70a56572726f72a4636f64"
    "6568a66669656c64739105aa726571756573745f696408ab696e6361726e6174696f6e02a573697a65739290"
    "90aa726571756573745f696400ab696e6361726e6174696f6e00"
)


def largest(kind: type[PartRequest]) -> PartRequest:
    """Return a request whose header is as long as it can be."""
    most = 2**63 - 1
    values: dict[str, Any] = {
        "request_id": most, "incarnation": most, "ledger_id": most, "ledger_key": KEY,
        "ledger_type": max(LedgerType, key=len), "first_entry_id": most, "last_entry_id": most,
        "size_max": most, "count": 1 << 24, "lac": most, "checksum": 2**64 - 1, "known_lac": most,
        "wait_ms": most, "is_striped": True, "is_recovery": True, "is_fencing": True,
        "is_checked": True, "is_at_once": True, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "stripe": Stripe(64, 63, 63),
    }  # fmt: skip
    return kind(**{name: values[name] for name in kind.__struct_fields__})


def test_bytes_of_version_3_never_change() -> None:
    assert codec.encode(BUNDLE).hex() == GOLDEN_BUNDLE.hex()
    assert codec.decode_request(GOLDEN_BUNDLE) == BUNDLE
    assert codec.encode(ANSWERS).hex() == GOLDEN_ANSWERS.hex()
    assert codec.decode_answer(GOLDEN_ANSWERS) == ANSWERS


@pytest.mark.parametrize("kind", PartRequest.__args__, ids=lambda kind: kind.__name__)
def test_the_longest_bundle_has_a_header_that_is_taken(kind: type[PartRequest]) -> None:
    parts = [largest(kind)] * PART_COUNT_MAX
    bundle = Bundle(request_id=0, parts=parts, sizes=[[1 << 20] * 3] * len(parts))

    assert codec.decode_request(codec.encode(bundle)) == bundle


@given(FRAMES)
def test_frames_come_out_as_they_went_in(parts: list[tuple[bytes, ...]]) -> None:
    sizes, body = join_frames(parts)

    assert split_frames(sizes, body, len(parts)) == parts


@given(FRAMES, st.data())
def test_sizes_that_do_not_fit_are_refused(
    parts: list[tuple[bytes, ...]], data: st.DataObject
) -> None:
    sizes, body = join_frames(parts)
    cut = data.draw(st.integers(0, len(body)))
    if cut < len(body):
        with pytest.raises(MalformedMessageError):
            split_frames(sizes, body[:cut], len(parts))
    with pytest.raises(MalformedMessageError):
        split_frames(sizes, body + b"x", len(parts))
    with pytest.raises(MalformedMessageError):
        split_frames(sizes, body, len(parts) + 1)


@pytest.mark.parametrize("kind", [Bundle, AnswerBundle])
@pytest.mark.parametrize("sizes", [[[0] * 4], [[]] * (PART_COUNT_MAX + 1)], ids=["frames", "parts"])
def test_sizes_of_too_many_are_refused_by_the_decoder(
    kind: type[Bundle | AnswerBundle], sizes: list[list[int]]
) -> None:
    """Nothing is allocated for them: a list in a header may be a byte long."""
    good = BUNDLE if kind is Bundle else ANSWERS
    decode = codec.decode_request if kind is Bundle else codec.decode_answer
    header = codec.encode(msgspec.structs.replace(good, sizes=sizes))

    with pytest.raises(MalformedMessageError):
        decode(header)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Sync(request_id=1, ledger_id=0, ledger_key=KEY, lac=0)] * (PART_COUNT_MAX + 1),
        [codec.decode_request(GOLDEN_BUNDLE)],
    ],
    ids=["none", "too many", "a bundle in a bundle"],
)
def test_what_is_no_bundle_is_malformed(parts: list[PartRequest]) -> None:
    header = codec.encode(Bundle(request_id=0, parts=parts, sizes=[[]] * len(parts)))

    with pytest.raises(MalformedMessageError):
        codec.decode_request(header)
