"""Values there and back; every cut, every flipped bit and any garbage is refused."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.metadata_values import COOKIE, LEDGER, STORED_COOKIE, VALUES
from zbk.errors import CorruptRecordError, InvalidOptionError, UnsupportedVersionError
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.values import (
    Cookie,
    IdCounter,
    Instance,
    Layout,
    StoredCookie,
    ValueT,
    decode,
    encode,
)
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

by_type = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


def repacked(data: bytes, **changes: object) -> bytes:
    """Return the value with fields changed, and a checksum that is right for them."""
    fields = msgpack.unpackb(data) | changes
    del fields["checksum"]
    body = msgpack.packb(fields | {"checksum": 2**64 - 1})[:-9]
    return bytes(body + b"\xcf" + checksum(body).to_bytes(8, "big"))


@by_type
def test_decode_undoes_encode(value: ValueT) -> None:
    assert decode(type(value), encode(value), "/x") == value


@by_type
def test_a_write_token_is_beside_the_value(value: ValueT) -> None:
    one, other = encode(value, write_token="1"), encode(value, write_token="2")

    assert one != other
    assert decode(type(value), one, "/x") == decode(type(value), other, "/x") == value


@by_type
def test_every_cut_is_damage(value: ValueT) -> None:
    data = encode(value)

    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            decode(type(value), data[:size], "/x")


@by_type
def test_every_flipped_bit_is_seen(value: ValueT) -> None:
    data = encode(value)

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        # a flip in the version number itself may also look like a newer version
        with pytest.raises((CorruptRecordError, UnsupportedVersionError)):
            decode(type(value), bytes(damaged), "/x")


@by_type
def test_a_newer_format_version_is_refused_by_name(value: LedgerMetadata | Layout) -> None:
    known = METADATA_FORMAT_VERSION if isinstance(value, LedgerMetadata) else value.format_version
    newer = repacked(encode(value), format_version=known + 1)

    with pytest.raises(UnsupportedVersionError, match=f"/x: {type(value).__name__} has .* version"):
        decode(type(value), newer, "/x")


@by_type
def test_keys_of_a_later_zbk_are_ignored(value: ValueT) -> None:
    data = repacked(encode(value), colour="blue", nested={"a": [1, None]})

    assert decode(type(value), data, "/x") == value


@pytest.mark.parametrize(
    "changes",
    [
        {"ledger_id": "7"},
        {"ledger_id": None},
        {"password_digest": "AP8="},
        {"fragments": []},
        {"fragments": [{"first_entry_id": 1, "bookies": ["b1", "b2", "b3"]}]},
        {"state": "HALF_OPEN"},
        {"state": "OPEN"},  # with an end
        {"ack_quorum_size": 4},
        {"write_quorum_size": 0},
        {"custom_metadata": {"job": "text"}},
        {"format_version": 0},
        {"format_version": "1"},
        {"format_version": None},
    ],
    ids=str,
)
def test_wrong_fields_are_damage_even_with_a_right_checksum(changes: dict[str, object]) -> None:
    with pytest.raises(CorruptRecordError, match=r"^/x at byte 0: "):
        decode(LedgerMetadata, repacked(encode(LEDGER), **changes), "/x")


def test_a_cookie_without_a_history_is_one_that_never_served_and_one_with_it_a_cookie() -> None:
    """Both ways between a cluster of before and one of now."""
    before = decode(StoredCookie, encode(COOKIE), "/x")

    assert (before.incarnation, before.has_served) == (0, False)
    assert decode(Cookie, encode(STORED_COOKIE), "/x") == COOKIE


def test_one_kind_of_value_is_not_taken_for_another() -> None:
    with pytest.raises(CorruptRecordError, match="is not a Cookie"):
        decode(Cookie, repacked(encode(LEDGER), format_version=1), "/x")


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_garbage_is_damage(data: bytes) -> None:
    for value in VALUES:
        with pytest.raises(CorruptRecordError):
            decode(type(value), data, "/x")


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200)
@given(field=st.sampled_from(LedgerMetadata.__struct_fields__), content=anything)
def test_any_field_with_any_content_is_read_or_refused(field: str, content: object) -> None:
    data = repacked(encode(LEDGER), **{field: content})

    try:
        metadata = decode(LedgerMetadata, data, "/x")
    except (CorruptRecordError, UnsupportedVersionError):
        return
    assert decode(LedgerMetadata, encode(metadata), "/x") == metadata


@pytest.mark.parametrize(
    "data",
    [
        b"\x91" * 5000,
        b"\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["deep", "empty", "array", "map", "bin"],
)
def test_hostile_sizes_are_refused_before_they_are_allocated(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode(LedgerMetadata, data, "/x")


def test_a_value_over_the_limit_is_refused_both_ways() -> None:
    large = Cookie(
        bookie_id="b", instance_id="i", journal_dirs=("x" * VALUE_SIZE_MAX,), ledger_dirs=(),
        created_ms=0,
    )  # fmt: skip

    with pytest.raises(InvalidOptionError, match="more than"):
        encode(large)
    with pytest.raises(CorruptRecordError, match="over the limit"):
        decode(Cookie, b"\0" * (VALUE_SIZE_MAX + 1), "/x")


def test_what_could_not_be_read_again_is_not_written() -> None:
    names = {f"key {n}": b"" for n in range(5000)}
    bloated = LedgerMetadata(
        ledger_id=1, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1,
        ledger_type=LedgerType.PD_JOURNAL, digest_type=DigestType.NONE, password_digest=b"",
        fragments=(Fragment(0, ("b",)),), created_ms=0, creation_token="t", custom_metadata=names,
    )  # fmt: skip

    with pytest.raises(InvalidOptionError, match="max_map_len"):
        encode(bloated)


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="surrogates"):
        encode(Instance(instance_id="\udcff"))


def test_an_integer_over_64_bits_is_refused() -> None:
    with pytest.raises(InvalidOptionError):
        encode(IdCounter(next_ledger_id=2**64))
