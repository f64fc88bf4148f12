"""Verified batches: the same laws as single entries, and what a reader does with them."""

from array import array
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.entry_decoding import decode_entry
from zbk.errors import DigestMismatchError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import Entry, encode_entries
from zbk.protocol.entry.read_batch import LARGE_SIZE, ReadBatch, decode_entries, merge
from zbk.protocol.entry.words import DigestType

LEDGER_ID = 7

by_digest = pytest.mark.parametrize("digest_type", list(DigestType))
payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
id_lists = st.lists(st.integers(0, 100), min_size=1, max_size=6, unique=True).map(sorted)


def encoded(
    ids: list[int], digest_type: DigestType = DigestType.XXH3, *, size: int | None = None
) -> bytes:
    digest = digest_function(digest_type, b"", LEDGER_ID)
    payloads = [b"payload %d" % entry_id for entry_id in ids]
    if size is not None:
        payloads = [payload.ljust(size, b".")[:size] for payload in payloads]
    return encode_entries(LEDGER_ID, ids, -1, 0, payloads, digest_type, digest)[0]


def decoded(
    body: bytes, ids: Sequence[int], digest_type: DigestType = DigestType.XXH3
) -> tuple[ReadBatch, bool]:
    digest = digest_function(digest_type, b"", LEDGER_ID)
    return decode_entries(body, ids, LEDGER_ID, digest_type, digest)


def one_by_one(body: bytes, ids: list[int], digest_type: DigestType) -> tuple[list[Entry], int]:
    """Return what ``decode_entry`` finds: the slow, obvious twin."""
    digest = digest_function(digest_type, b"", LEDGER_ID)
    entries: list[Entry] = []
    offset = 0
    for entry_id in ids:
        try:
            entry, offset = decode_entry(body, offset, LEDGER_ID, entry_id, digest_type, digest)
        except DigestMismatchError:
            break
        entries.append(entry)
    return entries, offset


@by_digest
@given(ids=id_lists, data=st.data())
def test_decode_finds_what_decode_entry_finds(
    digest_type: DigestType, ids: list[int], data: st.DataObject
) -> None:
    body = encoded(ids, digest_type)
    match data.draw(
        st.sampled_from(["whole", "cut", "flip", "more", "fewer asked", "others asked"])
    ):
        case "cut":
            body = body[: data.draw(st.integers(0, len(body)))]
        case "flip":
            bit = data.draw(st.integers(0, len(body) * 8 - 1))
            damaged = bytearray(body)
            damaged[bit // 8] ^= 1 << bit % 8
            body = bytes(damaged)
        case "more":
            body += data.draw(st.binary(min_size=1, max_size=100))
        case "fewer asked":
            ids = ids[:-1]
        case "others asked":
            ids = data.draw(id_lists)
        case _:
            pass

    batch, is_all = decoded(body, ids, digest_type)

    entries, end = one_by_one(body, ids, digest_type)
    assert list(batch.entries()) == entries
    assert is_all == (end == len(body))


@by_digest
def test_every_cut_leaves_the_entries_before_it(digest_type: DigestType) -> None:
    ids = [3, 4, 9]
    body = encoded(ids, digest_type)
    ends = [len(encoded(ids[:count], digest_type)) for count in range(4)]

    for cut in range(len(body)):
        batch, is_all = decoded(body[:cut], ids, digest_type)
        assert list(batch.entry_ids) == [
            e for e, end in zip(ids, ends[1:], strict=True) if end <= cut
        ]
        assert is_all == (cut in ends)


@pytest.mark.parametrize("ids", [[3, 4], [3, 4, 5, 9]], ids=["few", "alike"])
@pytest.mark.parametrize("digest_type", [DigestType.XXH3, DigestType.MAC])
def test_every_flipped_bit_hides_the_entry_and_what_follows(
    digest_type: DigestType, ids: list[int]
) -> None:
    body = encoded(ids, digest_type)
    size = len(body) // len(ids)

    for bit in range(len(body) * 8):
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        batch, is_all = decoded(bytes(damaged), ids, digest_type)
        assert list(batch.entry_ids) == ids[: bit // 8 // size]
        assert not is_all


@by_digest
@pytest.mark.parametrize("payload_size", [0, 1, 7, 100])
def test_entries_of_one_size_are_what_they_are_one_by_one(
    digest_type: DigestType, payload_size: int
) -> None:
    digest = digest_function(digest_type, b"", LEDGER_ID)
    ids = [2, 3, 4, 7, 8]
    payloads = [bytes([number]) * payload_size for number in ids]
    body, _ = encode_entries(LEDGER_ID, ids, 1, 50, payloads, digest_type, digest)

    batch, is_all = decoded(body, ids, digest_type)

    assert is_all
    assert list(batch) == payloads == [bytes(view) for view in batch.views()]
    assert list(batch.entries()) == one_by_one(body, ids, digest_type)[0]
    rows = [batch.part(0, 3), batch.part(3, 5)]
    for part in (batch.part(1, 3), batch.part(2, 2), batch.part(4, 5), *rows):
        at = part.entry_ids[0] if part else 0
        first = ids.index(at) if part else 0
        assert list(part) == payloads[first : first + len(part)]
        assert list(part.entries()) == list(batch.entries())[first : first + len(part)]
    assert list(merge(rows).entries()) == list(batch.entries())


@by_digest
def test_large_entries_are_verified_as_small_ones_are(digest_type: DigestType) -> None:
    digest = digest_function(digest_type, b"", LEDGER_ID)
    payloads = [bytes([number]) * LARGE_SIZE for number in (1, 2)]
    body, sizes = encode_entries(LEDGER_ID, [0, 1], -1, 0, payloads, digest_type, digest)
    batch, is_all = decoded(body, range(2), digest_type)
    assert is_all
    assert [bytes(view) for view in batch.views()] == list(batch) == payloads
    damaged = bytearray(body)
    damaged[sizes[0] + LARGE_SIZE // 2] ^= 1
    batch, is_all = decoded(bytes(damaged), range(2), digest_type)
    if digest_type is not DigestType.NONE:
        assert (list(batch), is_all) == (payloads[:1], False)


def test_a_batch_is_a_row_of_payloads() -> None:
    batch, is_all = decoded(encoded([3, 4, 5]), range(3, 6))

    assert is_all
    assert (batch.first_entry_id, batch.last_entry_id, len(batch)) == (3, 5, 3)
    assert list(batch) == [b"payload 3", b"payload 4", b"payload 5"]
    assert [batch[index] for index in (0, 2, -1, -3)] == [
        b"payload 3",
        b"payload 5",
        b"payload 5",
        b"payload 3",
    ]
    assert [bytes(view) for view in batch.views()] == list(batch)
    assert batch.entry_ids == range(3, 6)
    for index in (3, -4):
        with pytest.raises(IndexError):
            batch[index]


def test_entries_say_what_their_headers_say() -> None:
    entries = list(decoded(encoded([3, 4]), [3, 4])[0].entries())

    assert entries == [Entry(7, 3, -1, 9, b"payload 3"), Entry(7, 4, -1, 18, b"payload 4")]


@given(
    first=st.integers(0, 9),
    ids=id_lists | st.integers(1, 40).map(range),
    group_of=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    size=st.sampled_from([None, 0, 5, LARGE_SIZE + 1]),
)
def test_batches_whose_ids_are_interleaved_become_one(
    first: int, ids: Sequence[int], group_of: list[int], size: int | None
) -> None:
    """Slots of a striped ledger: ``group_of`` repeats, as the write sets do."""
    ids = [first + entry_id for entry_id in ids]
    groups: dict[int, list[int]] = {}
    for entry_id in ids:
        groups.setdefault(group_of[entry_id % len(group_of)], []).append(entry_id)
    parts = [decoded(encoded(group, size=size), array("q", group))[0] for group in groups.values()]

    whole = merge(parts)

    expected, is_all = decoded(encoded(ids, size=size), ids)
    assert is_all
    assert list(whole.entry_ids) == ids
    assert [(e.entry_id, e.payload) for e in whole.entries()] == [
        (e.entry_id, e.payload) for e in expected.entries()
    ]
    assert list(whole) == list(expected)
    assert list(whole.sizes) == list(expected.sizes)
    assert whole.size == len(whole.encoded) == expected.size


def test_a_part_shares_the_bytes() -> None:
    batch, _ = decoded(encoded([3, 4, 5, 6]), range(3, 7))

    part = batch.part(1, 3)

    assert list(part.entries()) == list(batch.entries())[1:3]
    assert part.encoded == batch.encoded[len(encoded([3])) : -len(encoded([6]))]
    assert sum(part.sizes) == len(part.encoded)


def test_the_layout_says_where_the_payloads_are() -> None:
    whole, _ = decoded(encoded([3, 4, 5, 6]), range(3, 7))

    for batch in (whole, whole.part(1, 3)):
        body, bounds, before, behind = batch.layout
        found = [body[start + before : stop - behind] for start, stop in pairwise(bounds)]
        assert found == list(batch)


def test_another_ledger_is_not_this_one() -> None:
    digest = digest_function(DigestType.XXH3, b"", 8)

    batch, is_all = decode_entries(encoded([3]), [3], 8, DigestType.XXH3, digest)

    assert (len(batch), is_all) == (0, False)
