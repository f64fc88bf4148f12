"""Every bit of a 64 KiB journal flipped, and the journal cut at every byte: seen, or harmless.

*Seen*: the replay refuses with ``CorruptJournalError`` and touches nothing. *Harmless*: every
record that was promised is handed over, in order, unchanged, and no other one. There is no third
way: no record that is missing, changed, or never written.

A replay is a walk, so what lies before the damaged record cannot change the outcome: each case
begins at a mark right before it. One bit of each byte is enough to be told of a checksum that
leaves a byte out; the soak flips all of them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.images import Image
from tests.support.journals import DIRECTORY, OWNER, open_journal, replay
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptJournalError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, JournalPosition, segment_path
from zbk.storage.journal.segment_reader import SegmentReader

SIZE = 64 * 1024
SEGMENT_1 = segment_path(DIRECTORY, 1)
KEY = bytes(range(16))


def groups() -> list[list[JournalRecord]]:
    """Return what a bookie journals: all kinds of records, small and large, lone and together."""
    dice = Random(7)
    found: list[list[JournalRecord]] = []
    for ledger_id in range(8):
        kind = LedgerType.VD_JOURNAL if ledger_id % 2 else LedgerType.PD_JOURNAL
        found.append([LedgerKeyRecord(ledger_id, KEY, kind)])
        for n in range(7):
            step = dice.choice([1, 1, 2])
            first = 100 * n
            ids = range(first, first + step * dice.randint(1, 9), step)
            batch = batch_of(ledger_id, ids if step == 1 else list(ids), dice.choice([0, 30, 200]))
            group: list[JournalRecord] = [EntriesRecord(batch)]
            if n % 3 == 1:
                group.append(ExplicitLacRecord(ledger_id, first))
            if n == 5:
                group.append(FenceRecord(ledger_id))
            found.append(group)
    return found


class ClosedJournal:
    """A journal of one segment that was closed, and where its records are."""

    def __init__(self) -> None:
        disk = SimulatedDisk()
        journal = open_journal(disk, segment_size=SIZE)
        for group in groups():
            journal.append(group)
            journal.sync()
        journal.note_synced()
        journal.append([EntriesRecord(batch_of(1, range(10_000, 10_020), 150))])
        journal.close()
        self.image = Image(disk)
        assert list(self.image.contents) == [SEGMENT_1]
        assert len(self.image.contents[SEGMENT_1]) == SIZE
        self.records: list[JournalRecord] = []
        self.starts: list[int] = []
        self.marks: list[JournalPosition] = []
        position = JournalPosition(1, SEGMENT_HEADER_SIZE)
        with SegmentReader(self.image, DIRECTORY, 1, OWNER) as reader:
            while (decoded := reader.record_at(position.offset)) is not None:
                self.records.append(decoded.record)
                self.starts.append(position.offset)
                self.marks.append(position)
                position = JournalPosition(
                    1, decoded.end_offset, decoded.sequence, decoded.checksum
                )
        assert position.offset > SIZE - 8192, "the segment is nearly full"
        last = self.records.index(self.promised_from(0)[-1])
        self.promised_end = self.starts[last + 1]  # behind it: notes of what was synced, and zeros

    def place_of(self, offset: int) -> int:
        """Return the number of the record that this byte belongs to, or the last one."""
        if offset < SEGMENT_HEADER_SIZE:
            return len(self.records) - 4  # entries: the header gives them their seed
        return max(0, bisect_right(self.starts, offset) - 1)

    def promised_from(self, place: int) -> list[JournalRecord]:
        return [one for one in self.records[place:] if not isinstance(one, SyncedRecord)]

    def is_seen_from(self, place: int | None) -> bool:
        """Replay from a record on, or all of it; return whether the damage was refused."""
        self.image.touched.clear()
        found: list[JournalRecord] = []
        mark = None if place is None else self.marks[place]
        try:
            replay(self.image, DIRECTORY, mark, found.append, owner=OWNER)
        except CorruptJournalError:
            assert not found, "nothing is handed over before all is checked"
            assert not self.image.touched, "what is damaged is left as it is"
            return True
        assert found == self.promised_from(place or 0)
        return False


@pytest.fixture(scope="module")
def journal() -> ClosedJournal:
    return ClosedJournal()


def check_bits(journal: ClosedJournal, bits: Iterable[int]) -> int:
    """Flip bits; return how many of them were seen."""
    seen_count = 0
    for bit in bits:
        place = journal.place_of(bit >> 3)
        with journal.image.flipped(SEGMENT_1, bit):
            seen_count += journal.is_seen_from(place)
    return seen_count


def one_bit_of_each_byte(size: int, seed: int) -> Sequence[int]:
    dice = Random(seed)
    return [8 * at + dice.randrange(8) for at in range(size)]


def test_a_flipped_bit_in_any_byte_of_a_journal_is_seen_or_harmless(journal: ClosedJournal) -> None:
    """B37, B38: harmless is one copy of the header, the last notes, and what no record uses."""
    seen_count = check_bits(journal, one_bit_of_each_byte(SIZE, 1))

    assert seen_count == journal.promised_end - SEGMENT_HEADER_SIZE


def test_each_bit_of_every_kind_of_record_is_seen(journal: ClosedJournal) -> None:
    kinds = {type(one): place for place, one in enumerate(journal.records)}
    del kinds[SyncedRecord]
    for place in kinds.values():
        start, size = journal.starts[place], min(journal.records[place].size, 400)
        assert check_bits(journal, range(8 * start, 8 * (start + size))) == 8 * size


def test_a_replay_of_the_whole_journal_sees_the_same(journal: ClosedJournal) -> None:
    """The shortcut of the others, checked: from the first record on, not from the damaged one."""
    assert not journal.is_seen_from(None)
    dice = Random(2)
    for _ in range(60):
        bit = dice.randrange(8 * SIZE)
        is_promised = SEGMENT_HEADER_SIZE <= bit >> 3 < journal.promised_end
        with journal.image.flipped(SEGMENT_1, bit):
            assert journal.is_seen_from(None) is is_promised


def test_a_journal_cut_at_any_byte_is_seen_or_harmless(journal: ClosedJournal) -> None:
    """B37: harmless is a cut behind the last promised record."""
    for size in range(SIZE):
        with journal.image.cut(SEGMENT_1, size):
            journal.is_seen_from(journal.place_of(size))


@pytest.mark.soak
def test_every_bit_of_a_journal_is_seen_or_harmless(journal: ClosedJournal) -> None:
    check_bits(journal, range(8 * SIZE))
