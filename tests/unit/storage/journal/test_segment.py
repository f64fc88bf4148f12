"""A segment's header and names: golden bytes, round trip, every cut, every flipped bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.storage.journal.segment import (
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    decode_header,
    encode_header,
    segment_ids,
    segment_path,
    segment_seed,
    spare_ids,
    spare_path,
)

OWNER = b"bookie-1"

u64 = st.integers(0, 2**64 - 1)


@given(segment_id=u64, nonce=u64)
def test_decode_undoes_encode(segment_id: int, nonce: int) -> None:
    header = decode_header(encode_header(OWNER, segment_id, nonce), OWNER, segment_id, "x")

    assert (header.segment_id, header.nonce) == (segment_id, nonce)


@pytest.mark.parametrize(
    ("size", "page_count"), [(0, 0), (12_287, 2), (64 << 20, 16_384), (1 << 40, 65_535)]
)
def test_a_header_says_how_long_the_file_is_at_least(size: int, page_count: int) -> None:
    header = decode_header(encode_header(OWNER, 3, 99, size), OWNER, 3, "x")

    assert header.page_count == page_count


def test_a_cut_header_is_none_unless_its_first_copy_is_whole() -> None:
    whole = encode_header(OWNER, 3, 99)
    for size in (*range(40), 4096 + 39):
        with pytest.raises(CorruptRecordError):
            decode_header(bytes(min(size, 40)) + whole[40:size], OWNER, 3, "x")
    assert decode_header(whole[:40], OWNER, 3, "x").nonce == 99


@pytest.mark.parametrize("copy_offset", [0, 4096])
def test_either_copy_will_do_and_every_flipped_bit_of_it_is_seen(copy_offset: int) -> None:
    whole = encode_header(OWNER, 3, 99)
    other_offset = 4096 - copy_offset
    one = bytearray(whole)
    one[other_offset : other_offset + 40] = bytes(40)
    assert decode_header(bytes(one), OWNER, 3, "x").nonce == 99

    for _, damaged in flipped(bytes(one[copy_offset : copy_offset + 40])):
        one[copy_offset : copy_offset + 40] = damaged
        with pytest.raises(CorruptRecordError):
            decode_header(bytes(one), OWNER, 3, "x")


def test_a_header_under_another_name_is_of_another_life_of_the_file() -> None:
    with pytest.raises(CorruptRecordError, match="no header of this segment"):
        decode_header(encode_header(OWNER, 3, 99), OWNER, 4, "x")


def test_a_whole_header_of_another_bookie_is_told_from_damage() -> None:
    with pytest.raises(CookieMismatchError):
        decode_header(encode_header(b"bookie-2", 3, 99), OWNER, 3, "x")


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("journal_segment_v1.txt")["one copy"]

    whole = encode_header(OWNER, 3, 99)
    assert len(whole) == SEGMENT_HEADER_SIZE
    assert whole == golden.ljust(4096, b"\0") * 2
    assert decode_header(golden, OWNER, 3, "x").nonce == 99
    of_64_mib = golden_bytes("journal_segment_v1.txt")["one copy of 64 MiB"]
    assert encode_header(OWNER, 3, 99, 64 << 20) == of_64_mib.ljust(4096, b"\0") * 2


def test_seeds_differ_by_segment_bookie_and_nonce() -> None:
    seeds = {
        segment_seed(owner, n, nonce)
        for owner in (b"a", b"b")
        for n in range(9)
        for nonce in (1, 2)
    }

    assert len(seeds) == 36


def test_names_are_told_apart_from_everything_else_in_the_directory() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/j")
    for path in (
        segment_path("/j", 16),
        segment_path("/j", 2),
        spare_path("/j", 1),
        "/j/cookie",
        "/j/zz.journal",
        "/j/000000000000000g.journal",
    ):
        disk.open(path, create=True).close()

    assert segment_ids(disk, "/j") == [2, 16]
    assert spare_ids(disk, "/j") == [1]


def test_a_position_reads_well() -> None:
    assert str(JournalPosition(26, 4096, 7, 1)) == "1a:4096 (record 7)"
