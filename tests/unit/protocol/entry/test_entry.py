"""The bytes of an entry: golden, round trip, every cut, every flipped bit."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.entry_decoding import decode_entry
from zbk.config.units import MIB
from zbk.errors import CorruptRecordError, DigestMismatchError, ShortRecordError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import (
    HEADER_SIZE,
    Entry,
    encode_entries,
    entry_size,
    read_prefix,
    stored_size,
)
from zbk.protocol.entry.words import DigestType

# n=5, version 1 and digest code, reserved; ledger 7, entry 9, lac 8, length 105; "hello"; digest
_HEADER_AND_PAYLOAD = (
    "05000000 01{code} 0000 0700000000000000 0900000000000000 0800000000000000 6900000000000000"
    "68656c6c6f"
)
GOLDEN_V1 = {
    DigestType.NONE: bytes.fromhex(_HEADER_AND_PAYLOAD.format(code="00")),
    DigestType.XXH3: bytes.fromhex(_HEADER_AND_PAYLOAD.format(code="01") + "fc539a4b807b1362"),
    DigestType.MAC: bytes.fromhex(
        _HEADER_AND_PAYLOAD.format(code="02") + "508642147d07fe3183ae18557125bb2b"
    ),
}

by_digest = pytest.mark.parametrize("digest_type", list(DigestType))
with_digest = pytest.mark.parametrize("digest_type", [DigestType.XXH3, DigestType.MAC])
payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


def encoded(
    digest_type: DigestType, payloads: list[bytes], first: int = 9, password: bytes = b"secret"
) -> bytes:
    digest = digest_function(digest_type, password, 7)
    ids = range(first, first + len(payloads))
    return encode_entries(7, ids, first - 1, 100, payloads, digest_type, digest)[0]


def decoded(
    buffer: bytes | bytearray | memoryview,
    digest_type: DigestType,
    offset: int = 0,
    entry_id: int = 9,
    ledger_id: int = 7,
) -> tuple[Entry, int]:
    digest = digest_function(digest_type, b"secret", 7)
    return decode_entry(buffer, offset, ledger_id, entry_id, digest_type, digest)


@by_digest
def test_bytes_of_version_1_never_change(digest_type: DigestType) -> None:
    assert encoded(digest_type, [b"hello"]) == GOLDEN_V1[digest_type]
    assert decoded(GOLDEN_V1[digest_type], digest_type) == (
        Entry(7, 9, 8, 105, b"hello"),
        len(GOLDEN_V1[digest_type]),
    )


@by_digest
@given(payloads=payload_lists, prefix=st.binary(max_size=16), suffix=st.binary(max_size=16))
def test_decode_undoes_encode_at_any_offset(
    digest_type: DigestType, payloads: list[bytes], prefix: bytes, suffix: bytes
) -> None:
    buffer = prefix + encoded(digest_type, payloads) + suffix
    offset, length = len(prefix), 100

    for entry_id, payload in enumerate(payloads, start=9):
        length += len(payload)
        assert stored_size(buffer, offset) == entry_size(len(payload), digest_type)
        assert read_prefix(buffer, offset)[:2] == (7, entry_id)
        entry, offset = decoded(buffer, digest_type, offset, entry_id)
        assert entry == Entry(7, entry_id, 8, length, payload)
    assert offset == len(buffer) - len(suffix)


@pytest.mark.parametrize("count", [1, 127, 128, 129, 400])
@pytest.mark.parametrize(
    "sizes", [(0,), (5,), (5, 5, 9), (0, 3), (4095,), (4096,), (4096, 5), (5, 4097)]
)
def test_many_entries_are_the_same_bytes_as_each_alone(count: int, sizes: tuple[int, ...]) -> None:
    digest = digest_function(DigestType.XXH3, b"", 7)
    payloads = [bytes(sizes[i % len(sizes)]) for i in range(count)]

    together = encode_entries(7, range(count), -1, 100, payloads, DigestType.XXH3, digest)[0]

    alone = []
    length = 100
    for entry_id, payload in enumerate(payloads):
        one = encode_entries(7, [entry_id], -1, length, [payload], DigestType.XXH3, digest)[0]
        length += len(payload)
        alone.append(one)
    assert together == b"".join(alone)


@pytest.mark.parametrize("sizes", [(MIB,), (MIB, MIB - 1)])
@pytest.mark.parametrize("count", [1, 4])
@by_digest
def test_large_entries_are_copied_into_the_body_only(
    digest_type: DigestType, count: int, sizes: tuple[int, ...]
) -> None:
    """With a MAC or none there is a copy for the digest, of one entry at a time."""
    digest = digest_function(digest_type, b"", 7)
    payloads = [bytes(size) for size in sizes * count]

    tracemalloc.start()
    body, _ = encode_entries(7, range(len(payloads)), -1, 0, payloads, digest_type, digest)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    copy_count = 0 if digest_type is DigestType.XXH3 else 1
    assert peak < len(body) + copy_count * MIB + MIB // 2


@by_digest
def test_every_cut_is_a_mismatch(digest_type: DigestType) -> None:
    whole = GOLDEN_V1[digest_type]

    for cut in range(len(whole)):
        with pytest.raises(DigestMismatchError):
            decoded(whole[:cut], digest_type)


@with_digest
def test_every_flipped_bit_is_seen(digest_type: DigestType) -> None:
    """B29: whatever happens to the bytes on their way, the digest over all of them tells."""
    whole = GOLDEN_V1[digest_type]

    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DigestMismatchError):
            decoded(damaged, digest_type)


def test_without_a_digest_only_what_names_the_entry_is_checked() -> None:
    whole = GOLDEN_V1[DigestType.NONE]
    lac, length_and_payload = range(24, 32), range(32, len(whole))

    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        is_seen = bit // 8 not in (*lac, *length_and_payload)
        is_shorter = bit // 8 < 4 and int.from_bytes(damaged[:4], "little") <= 5
        if is_seen and not is_shorter:
            with pytest.raises(DigestMismatchError):
                decoded(damaged, DigestType.NONE)
        else:
            assert decoded(damaged, DigestType.NONE)[0].entry_id == 9


@by_digest
def test_another_entry_is_a_mismatch(digest_type: DigestType) -> None:
    whole = GOLDEN_V1[digest_type]
    other_type = DigestType.NONE if digest_type is not DigestType.NONE else DigestType.XXH3

    with pytest.raises(DigestMismatchError):
        decoded(whole, digest_type, entry_id=10)
    with pytest.raises(DigestMismatchError):
        decoded(whole, digest_type, ledger_id=8)
    with pytest.raises(DigestMismatchError):
        decoded(whole, other_type)


def test_a_mac_of_another_password_is_a_mismatch() -> None:
    forged = encoded(DigestType.MAC, [b"hello"], password=b"guess")

    with pytest.raises(DigestMismatchError):
        decoded(forged, DigestType.MAC)


@by_digest
@given(cut=st.integers(0, HEADER_SIZE - 1))
def test_a_prefix_that_ends_early_is_short(digest_type: DigestType, cut: int) -> None:
    with pytest.raises(ShortRecordError):
        read_prefix(GOLDEN_V1[digest_type][:cut], 0)


@pytest.mark.parametrize(("offset", "value"), [(4, 2), (5, 3), (6, 1)])
def test_a_prefix_of_no_version_that_we_know_is_refused(offset: int, value: int) -> None:
    damaged = bytearray(GOLDEN_V1[DigestType.XXH3])
    damaged[offset] = value

    with pytest.raises(CorruptRecordError) as raised:
        read_prefix(damaged, 0)
    assert not isinstance(raised.value, ShortRecordError)


def test_any_payload_that_is_like_bytes_can_be_encoded() -> None:
    digest = digest_function(DigestType.XXH3, b"", 7)
    payloads = [b"one", bytearray(b"two"), memoryview(b"three")]

    body = encode_entries(7, range(3), -1, 0, payloads, DigestType.XXH3, digest)[0]  # type: ignore[arg-type] # the annotation says bytes; callers may be laxer

    assert (
        body
        == encode_entries(7, range(3), -1, 0, [b"one", b"two", b"three"], DigestType.XXH3, digest)[
            0
        ]
    )
