"""The pieces of an entry log file: golden bytes, round trip, every cut, every flipped bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import batch_of
from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from zbk.errors import CookieMismatchError, CorruptRecordError, ShortRecordError
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    FOOTER_SIZE,
    LOG_HEADER_SIZE,
    BlockHeader,
    check_log_header,
    decode_block_header,
    decode_footer,
    decode_map,
    encode_block_header,
    encode_log_header,
    encode_map,
    log_seed,
)

OWNER = b"bookie-1"
SEED = log_seed(OWNER, 3)
SIZES = {5: 1000, 7: 2**40, 1: 48}


def test_a_log_header_is_accepted_under_its_own_name_only() -> None:
    header = encode_log_header(OWNER, 3)
    assert len(header) == LOG_HEADER_SIZE

    check_log_header(header, OWNER, 3, "x")
    with pytest.raises(CorruptRecordError, match="not the header of this log"):
        check_log_header(header, OWNER, 4, "x")
    with pytest.raises(CookieMismatchError):
        check_log_header(header, b"bookie-2", 3, "x")
    for short in cut(header):
        with pytest.raises(ShortRecordError):
            check_log_header(short, OWNER, 3, "x")
    for _, damaged in flipped(header):
        with pytest.raises(CorruptRecordError):
            check_log_header(damaged, OWNER, 3, "x")


def test_a_block_header_comes_back_at_any_offset() -> None:
    batch = batch_of(7, range(9, 12))
    header = encode_block_header(batch, SEED)
    assert len(header) == BLOCK_HEADER_SIZE

    found = decode_block_header(b"abc" + header + b"x", 3, SEED, "x")

    assert found == BlockHeader(7, 9, 3, batch.size, batch.checksum)


def test_every_cut_and_every_flipped_bit_of_a_block_header_is_seen() -> None:
    header = encode_block_header(batch_of(7, range(9, 12)), SEED)
    for short in cut(header):
        with pytest.raises(ShortRecordError):
            decode_block_header(short, 0, SEED, "x")
    for _, damaged in flipped(header):
        with pytest.raises(CorruptRecordError):
            decode_block_header(damaged, 0, SEED, "x")


def test_a_block_of_another_log_is_none() -> None:
    header = encode_block_header(batch_of(7, range(3)), log_seed(OWNER, 4))

    with pytest.raises(CorruptRecordError):
        decode_block_header(header, 0, SEED, "x")


@given(
    sizes=st.dictionaries(st.integers(0, 2**63 - 1), st.integers(0, 2**64 - 1), max_size=20),
    offset=st.integers(LOG_HEADER_SIZE, 2**33),
)
def test_a_map_comes_back(sizes: dict[int, int], offset: int) -> None:
    seal = encode_map(sizes, offset, SEED)
    pairs, footer = seal[:-FOOTER_SIZE], seal[-FOOTER_SIZE:]

    assert decode_footer(footer, offset + len(seal), SEED, "x") == (offset, len(pairs))
    assert decode_map(pairs, footer, "x") == sizes


def test_every_cut_and_every_flipped_bit_of_a_map_is_seen() -> None:
    seal = encode_map(SIZES, 4096, SEED)
    end = 4096 + len(seal)

    def decode(data: bytes, size: int) -> dict[int, int]:
        footer = data[-FOOTER_SIZE:]
        _, map_size = decode_footer(footer, size, SEED, "x")
        return decode_map(data[:-FOOTER_SIZE][-map_size:], footer, "x")

    assert decode(seal, end) == SIZES
    for short in cut(seal):
        with pytest.raises(CorruptRecordError):
            decode(short, 4096 + len(short))
    for _, damaged in flipped(seal):
        with pytest.raises(CorruptRecordError):
            decode(damaged, end)


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("entry_log_v1.txt")

    assert encode_log_header(OWNER, 3) == golden["log header"]
    assert encode_block_header(batch_of(7, range(9, 11), 5), SEED) == golden["block header"]
    assert encode_map(SIZES, 4096, SEED) == golden["map"]
    check_log_header(golden["log header"], OWNER, 3, "x")
    assert decode_block_header(golden["block header"], 0, SEED, "x").first_entry_id == 9
    assert decode_map(golden["map"][:-FOOTER_SIZE], golden["map"][-FOOTER_SIZE:], "x") == SIZES
