"""Manifests: golden bytes, round trip, every cut, every flipped bit, every missing entry."""

import math
from itertools import permutations
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from zbk.errors import CorruptRecordError, UnsupportedVersionError
from zbk.protocol.dataset import manifest as manifest_module
from zbk.protocol.dataset.manifest import (
    PART_SIZE,
    ColumnStats,
    DataLedger,
    Manifest,
    decode_manifest,
    encode_manifest,
    schema_hash,
)
from zbk.protocol.entry.digest import checksum

LEDGER = DataLedger(
    ledger_id=7,
    entry_count=3,
    row_count=20,
    size=400,
    load_id="a1",
    partition=2,
    attempt=1,
    columns={
        "id": ColumnStats(null_count=0, low=-5, high=2**64 - 1),
        "name": ColumnStats(null_count=4, low="a", high="\u00e9"),
        "raw": ColumnStats(null_count=0, low=b"", high=b"\xff"),
        "score": ColumnStats(null_count=1, low=-0.5, high=math.inf),
        "is_new": ColumnStats(null_count=0, low=False, high=True),
        "unknown": ColumnStats(null_count=20),
    },
)
bounds = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=9),
    st.binary(max_size=9),
)
stats = st.builds(ColumnStats, null_count=st.integers(0, 2**62), low=bounds, high=bounds)
ledgers = st.builds(
    DataLedger,
    ledger_id=st.integers(0, 2**62),
    entry_count=st.integers(0, 2**62),
    row_count=st.integers(0, 2**62),
    size=st.integers(0, 2**62),
    load_id=st.text(max_size=32),
    partition=st.integers(0, 2**31),
    attempt=st.integers(0, 2**31),
    columns=st.dictionaries(st.text(max_size=9), stats, max_size=3),
)


def ledger(ledger_id: int, **columns: ColumnStats) -> DataLedger:
    return DataLedger(
        ledger_id=ledger_id, entry_count=1, row_count=1, size=1, load_id="a1", partition=0,
        attempt=0, columns=columns,
    )  # fmt: skip


def in_parts(count: int) -> list[bytes]:
    """Return a manifest of so many parts, a ledger each."""
    large = ColumnStats(null_count=0, low="x" * (PART_SIZE // 2), high="y" * (PART_SIZE // 2))
    payloads = encode_manifest("d", "l", b"schema", [ledger(n, text=large) for n in range(count)])
    assert len(payloads) == count + 1
    return payloads


def test_golden_bytes() -> None:
    """A change of these bytes needs a new format version, and a reader for this one."""
    golden = golden_bytes("manifest_v1.txt")
    payloads = encode_manifest("d1", "a1", b"schema", [LEDGER])

    assert payloads == [golden["head"], golden["part"]]
    assert decode_manifest(payloads, "x") == Manifest(
        data_set_id="d1", load_id="a1", schema=b"schema", ledgers=(LEDGER,)
    )


@given(schema=st.binary(max_size=20), listed=st.lists(ledgers, max_size=4))
def test_what_is_written_is_read(schema: bytes, listed: list[DataLedger]) -> None:
    found = decode_manifest(encode_manifest("d", "l", schema, listed), "x")

    assert found == Manifest(data_set_id="d", load_id="l", schema=schema, ledgers=tuple(listed))


def test_many_ledgers_are_listed_in_several_entries_in_order() -> None:
    payloads = encode_manifest("d", "l", b"", [ledger(n) for n in range(5000)])

    assert len(payloads) > 2
    assert max(map(len, payloads)) <= PART_SIZE + 64
    assert [one.ledger_id for one in decode_manifest(payloads, "x").ledgers] == list(range(5000))


def test_a_line_larger_than_an_entry_goes_alone() -> None:
    huge = ColumnStats(null_count=0, low="x" * (2 * PART_SIZE))

    payloads = encode_manifest("d", "l", b"", [ledger(1), ledger(2, text=huge), ledger(3)])

    assert len(payloads) == 4
    assert len(decode_manifest(payloads, "x").ledgers) == 3


@pytest.mark.parametrize("number", [0, 1])
def test_every_flipped_bit_and_every_cut_is_found(number: int) -> None:
    payloads = encode_manifest("d1", "a1", b"schema", [LEDGER])

    for damaged in (
        *(found for _bit, found in flipped(payloads[number])),
        *cut(payloads[number]),
    ):
        with pytest.raises(CorruptRecordError):
            decode_manifest([*payloads[:number], damaged, *payloads[number + 1 :]], "ledger 7")


def test_entries_that_are_missing_or_too_many_or_in_another_order_are_found() -> None:
    payloads = in_parts(3)

    for count in range(4):
        with pytest.raises(CorruptRecordError):
            decode_manifest(payloads[:count], "x")
    with pytest.raises(CorruptRecordError):
        decode_manifest([*payloads, payloads[-1]], "x")
    for order in permutations(payloads):
        if list(order) != payloads:
            with pytest.raises(CorruptRecordError):
                decode_manifest(order, "x")


def test_entries_of_two_manifests_do_not_mix() -> None:
    one = encode_manifest("d", "l", b"", [ledger(1)])
    other = encode_manifest("d", "m", b"", [ledger(2)])

    with pytest.raises(CorruptRecordError):
        decode_manifest([one[0], other[1]], "x")


def signed(*fields: Any) -> list[bytes]:  # noqa: ANN401 - whatever may stand there
    """Return entries with right checksums."""
    payloads, seed = [], 0
    for one in fields:
        body = msgpack.packb(one)
        seed = checksum(body, seed)
        payloads.append(body + seed.to_bytes(8, "big"))
    return payloads


HEAD = {
    "format_version": 1, "data_set_id": "d", "load_id": "l", "schema": b"", "ledger_count": 0,
    "entry_count": 0,
}  # fmt: skip


def test_a_manifest_of_a_newer_zbk_is_said_to_be_one() -> None:
    with pytest.raises(
        UnsupportedVersionError, match="ledger 7: the manifest has format version 2"
    ):
        decode_manifest(signed(HEAD | {"format_version": 2}), "ledger 7")


@pytest.mark.parametrize(
    "fields",
    [
        ([1],),
        ("text",),
        ({},),
        (HEAD | {"schema": "text"},),
        (HEAD | {"ledger_count": 1},),
        (HEAD | {"entry_count": 1}, {"ledgers": "text"}),
        (HEAD | {"entry_count": 1}, {"ledgers": [{}]}),
        (HEAD | {"entry_count": 1}, [1]),
    ],
)
def test_what_is_no_manifest_is_damage_and_says_where(fields: tuple[Any, ...]) -> None:
    with pytest.raises(CorruptRecordError, match=r"^ledger 7"):
        decode_manifest(signed(*fields), "ledger 7")


@given(data=st.binary(max_size=99))
def test_any_garbage_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_manifest([data], "x")


@pytest.mark.parametrize("bound", [object(), [1], {}, 1j])
def test_a_bound_is_of_a_type_that_can_be_kept(bound: object) -> None:
    with pytest.raises(TypeError):
        ColumnStats(null_count=0, low=bound)


@pytest.mark.parametrize("bound", [math.nan, 2**64, -(2**63) - 1])
def test_a_bound_is_a_value_that_can_be_kept(bound: float) -> None:
    with pytest.raises(ValueError, match="a bound cannot be"):
        ColumnStats(null_count=0, high=bound)


def test_equal_schemas_have_the_same_hash() -> None:
    assert schema_hash(b"a") == schema_hash(b"a") != schema_hash(b"b")
    assert manifest_module.MANIFEST_FORMAT_VERSION == 1
