"""Journal records: golden bytes, round trip, every cut, every flipped bit, and who made them."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import batch_of
from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
    decode_record,
    encode_record,
)

SEED = 77
KEY = bytes(range(16))


def encoded(record: JournalRecord, *, sequence: int = 5, previous: int = 3) -> bytes:
    head, body, _ = encode_record(
        record, sequence=sequence, synced_sequence=4, previous=previous, seed=SEED
    )
    return head + body


RECORDS: dict[str, JournalRecord] = {
    "entries in a row": EntriesRecord(batch_of(7, range(9, 12))),
    "scattered entries": EntriesRecord(batch_of(7, array("q", [1, 3, 4]))),
    "ledger key": LedgerKeyRecord(7, KEY, LedgerType.VD_JOURNAL),
    "fence": FenceRecord(2**63 - 1),
    "explicit LAC": ExplicitLacRecord(7, -1),
    "synced": SyncedRecord(),
}

records = st.one_of(
    st.builds(
        lambda first, n: EntriesRecord(batch_of(3, range(first, first + n))),
        st.integers(0, 10**6),
        st.integers(1, 20),
    ),
    st.builds(
        lambda ids: EntriesRecord(batch_of(3, array("q", sorted(ids)))),
        st.sets(st.integers(0, 10**6), min_size=1, max_size=9),
    ),
    st.builds(
        LedgerKeyRecord,
        st.integers(0, 2**63 - 1),
        st.binary(min_size=16, max_size=16),
        st.sampled_from(LedgerType),
    ),
    st.builds(FenceRecord, st.integers(0, 2**63 - 1)),
    st.builds(ExplicitLacRecord, st.integers(0, 2**63 - 1), st.integers(-1, 2**63 - 1)),
)


@given(record=records, prefix=st.binary(max_size=9), suffix=st.binary(max_size=9))
def test_decode_undoes_encode_at_any_offset(
    record: JournalRecord, prefix: bytes, suffix: bytes
) -> None:
    whole = encoded(record)

    decoded = decode_record(prefix + whole + suffix, len(prefix), SEED)

    assert decoded.record == record
    assert (decoded.sequence, decoded.synced_sequence, decoded.previous) == (5, 4, 3)
    assert decoded.end_offset == len(prefix) + len(whole)
    assert record.size == len(whole)


@pytest.mark.parametrize("name", RECORDS)
def test_every_cut_is_a_short_record(name: str) -> None:
    for beginning in cut(encoded(RECORDS[name])):
        with pytest.raises(ShortRecordError):
            decode_record(beginning, 0, SEED)


@pytest.mark.parametrize("name", RECORDS)
def test_every_flipped_bit_is_seen(name: str) -> None:
    for _, damaged in flipped(encoded(RECORDS[name])):
        with pytest.raises(CorruptRecordError):
            decode_record(damaged, 0, SEED)


@pytest.mark.parametrize("zero_size", [1, 8, 30, 60])
def test_a_body_torn_off_inside_of_zeros_is_seen(zero_size: int) -> None:
    whole = encoded(RECORDS["entries in a row"])
    torn = whole[:-zero_size] + bytes(zero_size + 4096)

    with pytest.raises(CorruptRecordError):
        decode_record(torn, 0, SEED)


def test_a_record_of_another_segment_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="checksum"):
        decode_record(encoded(FenceRecord(1)), 0, SEED + 1)


def test_zeros_are_no_record() -> None:
    with pytest.raises(CorruptRecordError, match="not the start"):
        decode_record(bytes(RECORD_HEADER_SIZE), 0, SEED)


def test_a_decoded_body_does_not_share_the_buffer() -> None:
    """B28: the buffer that a record was read from is used again."""
    buffer = bytearray(encoded(RECORDS["entries in a row"]))
    decoded = decode_record(buffer, 0, SEED)
    buffer[:] = bytes(len(buffer))

    assert decoded.record == RECORDS["entries in a row"]


def _resealed(data: bytes, offset: int, value: bytes) -> bytes:
    """Return a record with a field changed and its checksum made right: a bug, not damage."""
    fields = data[:offset] + value + data[offset + len(value) : 72]
    meta = data[80:]
    return fields + checksum(fields + meta, SEED).to_bytes(8, "little") + meta


@pytest.mark.parametrize(
    ("offset", "value"),
    [(6, b"\x09"), (48, b"\x02\0\0\0"), (48, bytes(4))],
    ids=["unknown kind", "count too high", "count zero"],
)
def test_fields_that_cannot_be_are_corrupt_though_the_checksum_fits(
    offset: int, value: bytes
) -> None:
    head, _, _ = encode_record(
        EntriesRecord(batch_of(7, range(1))), sequence=1, synced_sequence=0, previous=0, seed=SEED
    )
    body = batch_of(7, range(1)).body

    with pytest.raises(CorruptRecordError, match="impossible fields"):
        decode_record(_resealed(head, offset, value) + body, 0, SEED)


def test_an_unknown_ledger_type_is_corrupt_though_the_checksum_fits() -> None:
    data = encoded(LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL))

    with pytest.raises(CorruptRecordError, match="impossible fields"):
        decode_record(_resealed(data[:96] + b"\x63", 6, b"\x02"), 0, SEED)


def test_the_body_is_not_copied_and_its_checksum_is_the_writers() -> None:
    batch = batch_of(7, range(3))

    _, body, _ = encode_record(
        EntriesRecord(batch), sequence=1, synced_sequence=0, previous=0, seed=SEED
    )

    assert body is batch.body


def test_the_magic_is_not_in_other_places_of_a_record_without_entries() -> None:
    assert encoded(LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL)).count(RECORD_MAGIC) == 1


SAMPLES_V1: dict[str, JournalRecord] = {
    "entries in a row": EntriesRecord(batch_of(7, range(9, 11), 5)),
    "scattered entries": EntriesRecord(batch_of(7, array("q", [1, 3]), 0)),
    "ledger key": LedgerKeyRecord(7, KEY, LedgerType.VD_JOURNAL),
    "fence": FenceRecord(7),
    "explicit LAC": ExplicitLacRecord(7, 41),
    "synced": SyncedRecord(),
}


@pytest.mark.parametrize("name", SAMPLES_V1)
def test_bytes_of_version_1_never_change(name: str) -> None:
    golden = golden_bytes("journal_record_v1.txt")[name]

    assert encoded(SAMPLES_V1[name]) == golden
    assert decode_record(golden, 0, SEED).record == SAMPLES_V1[name]
