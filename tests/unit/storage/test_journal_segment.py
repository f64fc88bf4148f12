"""A segment's header and names: golden bytes, round trip, every cut, every flipped bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError, ShortRecordError
from zbk.storage.journal_segment import (
    JournalPosition,
    SegmentHeader,
    decode_header,
    encode_header,
    segment_ids,
    segment_path,
    segment_seed,
    spare_ids,
    spare_path,
)

OWNER = b"bookie-1"
HEADER = SegmentHeader(segment_id=3, first_sequence=41, synced_sequence=40, previous=99)

u64 = st.integers(0, 2**64 - 1)


@given(header=st.builds(SegmentHeader, u64, u64, u64, u64))
def test_decode_undoes_encode(header: SegmentHeader) -> None:
    assert decode_header(encode_header(header, OWNER), header.segment_id, OWNER, "x") == header


def test_every_cut_is_short() -> None:
    for beginning in cut(encode_header(HEADER, OWNER)):
        with pytest.raises(ShortRecordError):
            decode_header(beginning, 3, OWNER, "x")


def test_every_flipped_bit_is_seen() -> None:
    for _, damaged in flipped(encode_header(HEADER, OWNER)):
        with pytest.raises(CorruptRecordError):
            decode_header(damaged, 3, OWNER, "x")


def test_a_header_under_another_name_is_of_another_life_of_the_file() -> None:
    with pytest.raises(CorruptRecordError, match="not the header of this segment"):
        decode_header(encode_header(HEADER, OWNER), 4, OWNER, "x")


def test_a_whole_header_of_another_bookie_is_told_from_damage() -> None:
    with pytest.raises(CookieMismatchError):
        decode_header(encode_header(HEADER, b"bookie-2"), 3, OWNER, "x")


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("journal_segment_v1.txt")["header"]

    assert encode_header(HEADER, OWNER) == golden
    assert decode_header(golden, 3, OWNER, "x") == HEADER


def test_seeds_differ_by_segment_and_by_bookie() -> None:
    seeds = {segment_seed(owner, n) for owner in (b"a", b"b") for n in range(1, 100)}

    assert len(seeds) == 2 * 99


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
