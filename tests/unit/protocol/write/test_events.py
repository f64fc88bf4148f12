"""What a suspect slot means for the connection that its writer shares; how large a batch is."""

import pytest

from zbk.errors import (
    BookieReadOnlyError,
    BookieUnavailableError,
    CorruptRecordError,
    DuplicateEntryError,
    EntryUnreadableError,
    MalformedMessageError,
    RequestTimeoutError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry_batch import MESSAGE_SIZE_MIN
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.events import SlotSuspect
from zbk.protocol.write.limits import WriterLimits


@pytest.mark.parametrize(
    "error",
    [
        BookieReadOnlyError("b-1"),
        UnknownLedgerStateError(7, "b-1"),
        DuplicateEntryError(7, 3),
        EntryUnreadableError(7, 3, "damaged"),
        CorruptRecordError("index", 0, "damaged"),
    ],
)
def test_a_bookie_that_refuses_one_ledger_keeps_the_connection_of_others(error: ZbkError) -> None:
    assert not SlotSuspect(0, error).is_connection_broken


@pytest.mark.parametrize(
    "error",
    [
        BookieUnavailableError("b-1", "is silent"),
        RequestTimeoutError("add", 1_000),
        MalformedMessageError("nonsense"),
    ],
)
def test_a_connection_that_is_silent_or_talks_nonsense_is_made_anew(error: ZbkError) -> None:
    assert SlotSuspect(0, error).is_connection_broken


@pytest.mark.parametrize("sizes", [(5, 3, 2), (3, 2, 2), (4, 3, 2), (3, 3, 2)])
def test_the_messages_of_a_striped_batch_are_as_full_as_others(sizes: tuple[int, int, int]) -> None:
    quorum, limits = Quorum(*sizes), WriterLimits(batch_size_max=30_000, batch_count_max=300)
    size_max, count_max = limits.of_batch(quorum)
    encoder = BatchEncoder(7, quorum, DigestType.NONE, digest_function(DigestType.NONE, b"", 7))

    encoded = encoder.encode(0, -1, 0, [b""] * count_max)

    counts = [part.count for part in encoded.parts if part is not None]
    assert len(counts) == quorum.ensemble_size
    assert max(counts) <= limits.batch_count_max + 1
    assert min(counts) >= limits.batch_count_max - 1
    assert abs(size_max * quorum.write_size / quorum.ensemble_size - limits.batch_size_max) <= 1


def test_no_batch_is_larger_than_every_bookie_takes() -> None:
    limits = WriterLimits(batch_size_max=MESSAGE_SIZE_MIN, batch_count_max=100)

    assert limits.of_batch(Quorum(64, 1, 1)) == (MESSAGE_SIZE_MIN, 200)
    assert WriterLimits(batch_size_max=100).of_batch(Quorum(64, 1, 1))[0] == 200
