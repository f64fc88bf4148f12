"""Replay: everything promised, a prefix of the rest, nothing else; a tail is told from damage."""

import errno
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.damage import flipped
from tests.support.journals import (
    DIRECTORY,
    OWNER,
    SEGMENT_SIZE,
    entries_record,
    open_journal,
    replay,
    replay_all,
)
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import (
    CookieMismatchError,
    CorruptJournalError,
    NoSpaceError,
    StorageFailedError,
)
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    encode_record,
)
from zbk.storage.journal.segment import (
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    SegmentHeader,
    decode_copies,
    encode_header,
    segment_ids,
    segment_path,
    segment_seed,
)
from zbk.storage.journal.segment_reader import SegmentReader
from zbk.system.files import OsFiles

SEGMENT_1 = segment_path(DIRECTORY, 1)


class NothingKept(Random):
    """A loss of power that takes everything that was not synced."""

    def choice(self, _shares: object) -> float:  # type: ignore[override] # the share that is kept
        return 0.0


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def written(
    disk: SimulatedDisk,
    records: list[JournalRecord],
    *,
    is_noted: bool = True,
    segment_size: int = SEGMENT_SIZE,
) -> Journal:
    """Append and sync records one by one; the journal is closed well, or only synced."""
    journal = open_journal(disk, segment_size=segment_size)
    for record in records:
        journal.append([record])
        journal.sync()
    if is_noted:
        journal.close()
    disk.process_crash()
    return journal


def test_an_empty_directory_is_an_empty_journal(disk: SimulatedDisk) -> None:
    disk.make_dirs(DIRECTORY)

    found, result = replay_all(disk)

    assert found == []
    assert result.end == NO_POSITION


def test_every_kind_of_record_comes_back_in_order(disk: SimulatedDisk) -> None:
    """B28: replayed records are compared after all of them were read."""
    records: list[JournalRecord] = [
        LedgerKeyRecord(1, bytes(16), LedgerType.VD_JOURNAL),
        entries_record(1),
        ExplicitLacRecord(1, 100),
        FenceRecord(1),
        entries_record(2),
    ]
    written(disk, records)

    found, result = replay_all(disk)

    assert found == records
    assert result.end.sequence == 7, "with the notes that all is synced"


def test_replay_begins_at_the_mark(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(n, count=20) for n in range(3)])
    mark = journal.position
    later = [entries_record(n, count=20) for n in range(3, 9)]
    for record in later:
        journal.append([record])
    journal.sync()

    assert journal.position.segment_id > mark.segment_id + 1
    assert replay_all(disk, mark)[0] == later
    assert replay_all(disk, journal.position)[0] == []


@pytest.mark.parametrize("seed", range(8))
def test_the_tail_is_synced_before_replay_returns(disk: SimulatedDisk, seed: int) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1), entries_record(2)])
    disk.process_crash()  # they are in the page cache only

    found, _ = replay_all(disk)
    disk.crash(Random(seed))

    assert replay_all(disk)[0] == found == [entries_record(1), entries_record(2)]


@pytest.mark.parametrize("segment_size", [SEGMENT_SIZE, 8 * SEGMENT_SIZE])
def test_what_a_failed_fsync_left_in_the_page_cache_only_is_durable_after_a_replay(
    disk: SimulatedDisk, segment_size: int
) -> None:
    """The pages count as written: an fsync alone succeeds, and the platter lacks them."""
    records: list[JournalRecord] = [entries_record(n, count=20) for n in range(9)]
    journal = open_journal(disk, segment_size=segment_size)
    journal.append(records[:1])
    journal.sync()
    for record in records[1:]:
        journal.append([record])
    disk.faults = [Fault("sync", errno.EIO, path_part=one) for one in disk.paths(".journal")]
    with pytest.raises(StorageFailedError):
        journal.sync()
    disk.process_crash()
    disk.faults = []

    assert replay_all(disk)[0] == records
    disk.crash(NothingKept())

    assert replay_all(disk)[0] == records


def test_a_torn_append_that_was_made_void_stays_so_after_a_failed_fsync(
    disk: SimulatedDisk,
) -> None:
    """The zeros over it are in the page cache only; without them it would hide what follows."""
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    journal.sync()
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part=SEGMENT_1)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2), entries_record(3, count=20)])
    disk.open(SEGMENT_1).sync()  # the operating system may write at any time
    rest = entries_record(4, count=60)
    journal.append([rest])
    assert journal.position.segment_id == 2
    disk.inode(SEGMENT_1).pending = []  # as a failed fsync leaves it
    disk.process_crash()

    assert replay_all(disk)[0] == [entries_record(1), rest]
    disk.crash(NothingKept())

    assert replay_all(disk)[0] == [entries_record(1), rest]


def test_what_the_records_say_to_be_synced_is_not_written_again(disk: SimulatedDisk) -> None:
    journal = written(disk, [entries_record(n, count=40) for n in range(9)])
    assert journal.position.segment_id > 3
    before = disk.change_count

    replay_all(disk)

    assert disk.change_count == before + 2, "the notes, and the end of the segment before them"


def test_the_journal_goes_on_in_a_new_segment(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)], is_noted=False)
    _, result = replay_all(disk)

    journal = open_journal(disk, result.end)
    journal.append([entries_record(2)])
    journal.sync()

    assert journal.position.segment_id == 2
    assert replay_all(disk)[0] == [entries_record(1), entries_record(2)]


# ---------------------------------------------------------------- torn tails


def test_a_tail_torn_at_each_byte_is_cut() -> None:
    """B37: a torn tail, cut lengths among them, is no reason not to start."""
    whole = SimulatedDisk()
    written(whole, [entries_record(1), entries_record(2)], is_noted=False)
    content = whole.content(SEGMENT_1)
    start = SEGMENT_HEADER_SIZE + entries_record(1).size
    for size in range(start, start + entries_record(2).size):
        disk = SimulatedDisk()
        written(disk, [entries_record(1), entries_record(2)], is_noted=False)
        disk.set_content(SEGMENT_1, content[:size] + bytes(len(content) - size))

        found, result = replay_all(disk)

        assert found == [entries_record(1)]
        assert result.end.sequence == 1
        assert not any(disk.content(SEGMENT_1)[start : start + RECORD_HEADER_SIZE]), "cut off"
        assert len(disk.content(SEGMENT_1)) == len(content), "and no shorter"
        assert replay_all(disk)[0] == found


@pytest.mark.parametrize("payload_size", [10_000, 500_000])
def test_a_record_behind_a_long_row_of_zeros_is_found_on_a_real_disk(
    tmp_path: Path, payload_size: int
) -> None:
    directory, files = str(tmp_path), OsFiles()
    journal = Journal(
        files, directory, owner=OWNER, start=NO_POSITION, fail_stop=FailStop(), segment_size=2 << 20
    )
    journal.append([entries_record(1, payload_size=payload_size)])
    hidden_at = journal.position.offset
    journal.append([entries_record(2)])
    journal.close()
    with closing(files.open(segment_path(directory, 1))) as file:
        file.pwrite([bytes(hidden_at - SEGMENT_HEADER_SIZE)], SEGMENT_HEADER_SIZE)

    found = _starts(files, directory, window_size=4096)

    assert found[0] == hidden_at
    assert found == _starts(files, directory, window_size=4 << 20), "all of it is one window"


def _starts(files: OsFiles, directory: str, window_size: int) -> list[int]:
    starts, offset = [], SEGMENT_HEADER_SIZE
    with SegmentReader(files, directory, 1, OWNER, window_size) as reader:
        while (found := reader.find(offset)) is not None:
            starts.append(found[0])
            offset = found[1].end_offset
    return starts


def test_a_body_zeroed_from_the_middle_is_not_served(disk: SimulatedDisk) -> None:
    """B38: half of the last record is zeros."""
    written(disk, [entries_record(1), entries_record(2)], is_noted=False)
    content = disk.content(SEGMENT_1)
    end = SEGMENT_HEADER_SIZE + entries_record(1).size + entries_record(2).size
    disk.set_content(SEGMENT_1, content[: end - 40] + bytes(len(content) - end + 40))

    assert replay_all(disk)[0] == [entries_record(1)]


def test_whole_records_behind_a_torn_one_are_cut_if_none_was_promised(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    promised = [entries_record(n, count=10) for n in range(3)]
    for record in promised:
        journal.append([record])
    journal.sync()
    torn_at = journal.position.offset
    for n in range(3, 12):  # over several segments, under one fsync that never came
        journal.append([entries_record(n, count=10)])
    assert journal.position.segment_id > 2
    disk.process_crash()
    path = segment_path(DIRECTORY, journal.synced_position.segment_id)
    content = disk.content(path)
    disk.set_content(path, content[:torn_at] + bytes(100) + content[torn_at + 100 :])

    found, result = replay_all(disk)

    assert found == promised
    assert result.cut_record_count > 3
    assert segment_ids(disk, DIRECTORY) == [1]
    assert result.end.segment_id == journal.position.segment_id, "no id is used twice"


def test_after_a_cut_the_new_tail_is_not_mistaken_for_what_follows_the_old_one(
    disk: SimulatedDisk,
) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    journal.sync()
    at = journal.position.offset
    journal.append([entries_record(2)])
    disk.process_crash()
    content = disk.content(SEGMENT_1)
    damaged = content[: at + 90] + b"garbage" + content[at + 97 :]
    disk.set_content(SEGMENT_1, damaged)
    _, result = replay_all(disk)
    again = open_journal(disk, result.end)
    for n in (3, 4):
        again.append([entries_record(n)])
        again.sync()
    again.close()
    disk.process_crash()
    disk.set_content(SEGMENT_1, damaged)  # as if the cut itself had been lost

    assert replay_all(disk)[0] == [entries_record(1), entries_record(3), entries_record(4)]


@pytest.mark.parametrize("seed", range(8))
def test_removed_segments_stay_removed(disk: SimulatedDisk, seed: int) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=30)])
    disk.process_crash()
    content = disk.content(SEGMENT_1)
    used = SEGMENT_HEADER_SIZE + 100
    disk.set_content(SEGMENT_1, content[:used] + bytes(len(content) - used))

    replay_all(disk)
    disk.crash(Random(seed))

    assert segment_ids(disk, DIRECTORY) == [1]


@pytest.mark.parametrize("seed", range(8))
def test_the_mark_may_be_ahead_of_what_the_journal_has_synced(
    disk: SimulatedDisk, seed: int
) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=30)])
    mark = journal.position  # all of it is safe elsewhere
    disk.crash(Random(seed))

    found, result = replay_all(disk, mark)

    assert found == []
    assert result.end.sequence == mark.sequence


def test_a_record_that_continues_another_past_is_not_taken(disk: SimulatedDisk) -> None:
    nonce = 5
    seed = segment_seed(OWNER, 1, nonce)
    parts = [encode_header(OWNER, 1, nonce)]
    for sequence, previous in ((1, 0), (2, 12345)):  # the second one's link is to something else
        parts += encode_record(
            entries_record(sequence),
            sequence=sequence,
            synced_sequence=0,
            previous=previous,
            seed=seed,
        )[:2]
    disk.make_dirs(DIRECTORY)
    disk.open(SEGMENT_1, create=True)
    disk.set_content(SEGMENT_1, b"".join(parts))

    found, result = replay_all(disk)

    assert found == [entries_record(1)]
    assert result.cut_record_count == 1


def test_the_search_for_records_does_not_depend_on_the_window(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1), FenceRecord(3)], is_noted=False)
    for window_size in range(100, 300):
        with SegmentReader(disk, DIRECTORY, 1, OWNER, window_size) as reader:
            found = []
            offset = 0
            while (decoded := reader.next_record(offset)) is not None:
                found.append(decoded.record)
                offset = decoded.end_offset

        assert found == [entries_record(1), FenceRecord(3)]


# ---------------------------------------------------------------- damage


def test_damage_to_any_record_that_a_later_group_followed_is_refused() -> None:
    """B37: damage before whole records is not a torn tail."""
    records: list[JournalRecord] = [entries_record(n, count=8) for n in range(8)]
    for victim in range(len(records)):
        disk = SimulatedDisk()
        journal = written(disk, records)
        assert journal.position.segment_id > 1
        before = {path: disk.content(path) for path in disk.paths()}
        path, offset = _place_of(disk, records[victim])
        content = bytearray(before[path])
        content[offset] ^= 1
        disk.set_content(path, bytes(content))

        with pytest.raises(CorruptJournalError, match="was synced and cannot be read"):
            replay_all(disk)

        before[path] = bytes(content)
        assert {p: disk.content(p) for p in disk.paths()} == before, "nothing was touched"


def _place_of(disk: SimulatedDisk, record: JournalRecord) -> tuple[str, int]:
    assert isinstance(record, EntriesRecord)
    for path in disk.paths(".journal"):
        found = disk.content(path).find(record.batch.body)
        if found >= 0:
            return path, found
    raise AssertionError("the record is nowhere")


def test_no_flipped_bit_of_a_closed_journal_goes_unseen() -> None:
    records: list[JournalRecord] = [entries_record(n) for n in range(4)]
    original = SimulatedDisk()
    written(original, records, segment_size=8 * SEGMENT_SIZE)
    content = original.content(SEGMENT_1).rstrip(b"\0")
    refused_count = 0
    for _, damaged in flipped(content, stride=37):
        disk = SimulatedDisk()
        disk.make_dirs(DIRECTORY)
        disk.open(SEGMENT_1, create=True)
        disk.set_content(SEGMENT_1, damaged)
        try:
            found, _ = replay_all(disk)
        except CorruptJournalError:
            refused_count += 1
            continue
        assert found == records, "the header and the last note may be damaged, the records not"
    assert refused_count > 8 * sum(record.size for record in records) // 37 - 2


@pytest.mark.parametrize("unit", [512, 4096])
def test_no_sector_lost_or_swapped_in_a_closed_journal_goes_unseen(unit: int) -> None:
    records: list[JournalRecord] = [entries_record(n, count=5) for n in range(4)]
    original = SimulatedDisk()
    written(original, records, segment_size=8 * SEGMENT_SIZE)
    content = original.content(SEGMENT_1)
    sectors = [content[at : at + unit] for at in range(0, len(content), unit)]
    last = len(content.rstrip(b"\0")) // unit
    cases = [[*sectors[:n], bytes(unit), *sectors[n + 1 :]] for n in range(last)]
    cases += [[*sectors[:n], b"\xa5" * unit, *sectors[n + 1 :]] for n in range(last)]
    cases += [
        [*sectors[:n], sectors[m], *sectors[n + 1 : m], sectors[n], *sectors[m + 1 :]]
        for n in range(last)
        for m in range(n + 1, last, 3)
    ]
    for case in cases:
        disk = SimulatedDisk()
        disk.make_dirs(DIRECTORY)
        disk.open(SEGMENT_1, create=True)
        disk.set_content(SEGMENT_1, b"".join(case))
        try:
            found, _ = replay_all(disk)
        except CorruptJournalError:
            continue
        assert found == records


def test_the_last_group_has_no_evidence_unless_the_journal_was_idle_or_closed(
    disk: SimulatedDisk,
) -> None:
    """The limit of what can be told: written down, so that nobody takes it for more."""
    journal = written(disk, [entries_record(1), entries_record(2)], is_noted=False)
    at = SEGMENT_HEADER_SIZE + entries_record(1).size + 100
    disk.flip_bit(SEGMENT_1, 8 * at)

    assert replay_all(disk)[0] == [entries_record(1)]
    assert journal.synced_position.sequence == 2


def test_a_missing_segment_in_the_middle_is_refused(disk: SimulatedDisk) -> None:
    """B37: segments are numbered by a counter, so that a gap shows, whatever the clock says."""
    written(disk, [entries_record(n, count=30) for n in range(4)])
    disk.remove_at_rest(segment_path(DIRECTORY, 2))

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_a_journal_without_its_beginning_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(n, count=30) for n in range(4)])
    disk.remove_at_rest(SEGMENT_1)

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_a_journal_that_was_cut_is_shorter_than_its_header_says(disk: SimulatedDisk) -> None:
    """B37: at the end of a record, too, where nothing looks torn and no evidence is left."""
    written(disk, [entries_record(1), entries_record(2)])
    size = SEGMENT_HEADER_SIZE + entries_record(1).size
    disk.set_content(SEGMENT_1, disk.content(SEGMENT_1)[:size])

    with pytest.raises(CorruptJournalError, match="its end is missing"):
        replay_all(disk)

    assert len(disk.content(SEGMENT_1)) == size, "nothing was touched"


def test_a_journal_whose_headers_say_no_length_is_taken_as_it_is(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)], segment_size=SEGMENT_SIZE)
    content = disk.content(SEGMENT_1)
    header = decode_copies(content)[0]
    assert header is not None
    old = encode_header(OWNER, 1, header.nonce)
    assert decode_copies(old)[0] == SegmentHeader(1, header.owner_hash, header.nonce, 0)
    disk.set_content(SEGMENT_1, (old + content[len(old) :]).rstrip(b"\0"))

    assert replay_all(disk)[0] == [entries_record(1)]


def test_a_missing_marked_segment_is_refused(disk: SimulatedDisk) -> None:
    """B39: a mark that points at a segment which is gone has lost entries."""
    written(disk, [entries_record(1)])

    with pytest.raises(CorruptJournalError, match="last log mark is missing"):
        replay_all(disk, JournalPosition(7, SEGMENT_HEADER_SIZE, 1, 1))


@pytest.mark.parametrize("copy_offset", [0, 4096])
def test_one_damaged_copy_of_a_segments_header_costs_nothing(
    disk: SimulatedDisk, copy_offset: int
) -> None:
    records: list[JournalRecord] = [entries_record(n, count=30) for n in range(4)]
    written(disk, records)
    for path in disk.paths(".journal"):
        disk.flip_bit(path, 8 * (copy_offset + 30))

    assert replay_all(disk)[0] == records


def test_a_marked_segment_without_a_header_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    mark = JournalPosition(1, SEGMENT_HEADER_SIZE, 0, 0)
    assert replay_all(disk, mark)[0] == [entries_record(1)]
    for copy_offset in (0, 4096):
        disk.flip_bit(SEGMENT_1, 8 * (copy_offset + 30))

    with pytest.raises(CorruptJournalError, match="no header"):
        replay_all(disk, mark)


def test_a_lost_header_in_the_middle_is_refused(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(n, count=30) for n in range(4)])
    for copy_offset in (0, 4096):
        disk.flip_bit(segment_path(DIRECTORY, 2), 8 * (copy_offset + 30))

    with pytest.raises(CorruptJournalError):
        replay_all(disk)


def test_the_journal_of_another_bookie_is_refused_and_left_alone(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    before = disk.content(SEGMENT_1)

    with pytest.raises(CookieMismatchError):
        replay(disk, DIRECTORY, None, lambda _: None, owner=b"bookie-2")

    assert disk.content(SEGMENT_1) == before


def test_a_file_that_cannot_be_read_is_an_error(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)])
    disk.faults = [Fault("pread", 5, skip_count=1)]

    with pytest.raises(StorageFailedError, match="replay"):
        replay_all(disk)


# ---------------------------------------------------------------- stale and forged bytes


def test_records_of_a_files_earlier_life_are_never_taken(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(6):  # short and long groups, so that old ones lie behind the new ends
        journal.append([entries_record(n, count=45)])
        journal.sync()
        journal.remove_before(journal.position)
    mark = journal.position
    records = [entries_record(50, count=10), entries_record(51, count=10)]
    for record in records:
        journal.append([record])
    journal.sync()
    last = disk.content(segment_path(DIRECTORY, journal.position.segment_id))
    assert last[journal.position.offset :].strip(b"\0"), "old bytes lie behind the end"

    found, result = replay_all(disk, mark)

    assert found == records
    assert result.cut_record_count == 0


def test_an_entry_that_holds_a_journal_cannot_pass_for_one(disk: SimulatedDisk) -> None:
    """A client that knows everything but the nonce sends records, and their write is torn."""
    other = SimulatedDisk()
    written(other, [entries_record(n) for n in range(4)])
    forged = other.content(SEGMENT_1)
    disk.make_dirs(DIRECTORY)
    journal = Journal(
        disk,
        DIRECTORY,
        owner=OWNER,
        start=NO_POSITION,
        fail_stop=FailStop(),
        segment_size=4 * SEGMENT_SIZE,
        draw_nonce=lambda: 12345,
    )
    journal.append([entries_record(1)])
    journal.sync()
    at = journal.position.offset
    journal.append([EntriesRecord(EntryBatch.of(1, range(1), [len(forged)], forged))])
    disk.process_crash()
    disk.flip_bit(SEGMENT_1, 8 * (at + 70))

    found, result = replay_all(disk)

    assert found == [entries_record(1)]
    assert result.cut_record_count == 0


# ---------------------------------------------------------------- crashes of the replay itself


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_of_the_cut_changes_nothing(seed: int) -> None:
    def torn() -> SimulatedDisk:
        disk = SimulatedDisk()
        journal = open_journal(disk)
        for n in range(3):
            journal.append([entries_record(n, count=10)])
        journal.sync()
        for n in range(3, 12):
            journal.append([entries_record(n, count=10)])
        return disk.crash(Random(seed))

    wanted, _ = replay_all(torn())
    assert wanted[:3] == [entries_record(n, count=10) for n in range(3)]
    step = 0
    while True:
        disk = torn()
        step += 1
        disk.crash_at = disk.operation_count + step
        try:
            found, _ = replay_all(disk)
        except SimulatedCrash:
            disk.crash(Random(seed + step))
            assert replay_all(disk)[0] == wanted
            continue
        assert found == wanted
        break
    assert step > 1


class JournalMachine(RuleBasedStateMachine):
    """Appends, syncs, rolls, marks and crashes; the twin is a list of records."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk()
        self.journal = open_journal(self.disk)
        self.number = 0
        self.records: list[JournalRecord] = []  # behind the mark
        self.synced_count = 0
        self.mark: JournalPosition | None = None

    @rule(
        groups=st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=3), max_size=4),
        is_synced=st.booleans(),
    )
    def append(self, groups: list[list[int]], is_synced: bool) -> None:
        for counts in groups:
            group = []
            for count in counts:
                self.number += 1
                group.append(entries_record(self.number, count=count))
            self.journal.append(group)
            self.records += group
        if is_synced:
            self.journal.sync()
            self.synced_count = len(self.records)

    @rule(is_prepared=st.booleans(), is_noted=st.booleans())
    def tend(self, is_prepared: bool, is_noted: bool) -> None:
        if is_prepared:
            self.journal.prepare_next()
        if is_noted:
            self.journal.note_synced()

    @precondition(lambda self: len(self.records) > 6)
    @rule()
    def move_the_mark(self) -> None:
        # as a checkpoint does: what lies before the mark is safe elsewhere, synced here or not
        self.mark = self.journal.position
        self.records = []
        self.synced_count = 0
        self.journal.remove_before(self.mark)

    @precondition(lambda self: len(self.records) > 2)
    @rule(
        how=st.sampled_from(["killed", "closed", "power lost", "power lost twice"]),
        seed=st.integers(0, 2**32),
        step=st.integers(1, 6),
    )
    def stop_and_start(self, how: str, seed: int, step: int) -> None:
        if how == "closed":
            self.journal.close()
        if how in {"closed", "killed"}:
            self.disk.process_crash()
            self.synced_count = len(self.records)
        else:
            self.disk.crash(Random(seed))
        if how == "power lost twice":
            self.disk.crash_at = self.disk.operation_count + step
            try:
                self._restart()
            except SimulatedCrash:
                self.disk.crash(Random(seed + 1))
            self.disk.crash_at = None
        self._restart()

    def _restart(self) -> None:
        found, result = replay_all(self.disk, self.mark)
        assert len(found) >= self.synced_count, "everything promised"
        assert found == self.records[: len(found)], "a prefix, and nothing else"
        self.records = found
        self.synced_count = len(found)
        self.journal = open_journal(self.disk, result.end)


JournalMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestJournalMachine = JournalMachine.TestCase
