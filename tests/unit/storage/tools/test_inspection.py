"""Looking into files: all of what is whole is shown, and no change of a checked byte is missed."""

import errno
from collections.abc import Callable, Iterator

import pytest

from tests.support.bookie_storages import BOOKIE_ID, KEY, TwinnedStorage
from tests.support.damage import cut, flipped
from tests.support.simulated_disk import Fault as DiskFault
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.digest import checksum
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    LedgerKeyRecord,
    SyncedRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.tools.inspect_entry_log import EntryLogInspection, FoundBlock
from zbk.storage.tools.inspect_index import FoundRange, IndexInspection
from zbk.storage.tools.inspect_journal import FoundRecord, JournalInspection
from zbk.storage.tools.inspection import Fault, Verdict

JOURNAL = "/j/0000000000000001.journal"
LOG = "/l/logs/00000001.log"
INDEX = "/l/index/00/00/0000000000000007.idx"

Inspection = JournalInspection | EntryLogInspection | IndexInspection
INSPECT: dict[str, Callable[[SimulatedDisk, str], Inspection]] = {
    JOURNAL: JournalInspection,
    LOG: EntryLogInspection,
    INDEX: IndexInspection,
}


@pytest.fixture(scope="module")
def filled() -> SimulatedDisk:
    """A bookie with two ledgers that ended well: one fenced, one with a gap."""
    disk = SimulatedDisk()
    twin = TwinnedStorage(disk)
    twin.open()
    twin.add(7, range(3))
    twin.add(9, range(2), payload_size=0)
    twin.fence(7)
    twin.set_lac(7, 1)
    twin.add(7, range(5, 6))
    twin.finish_checkpoint()
    twin.storage.close()
    return disk


def inspected(disk: SimulatedDisk, path: str) -> tuple[Inspection, list[object]]:
    inspection = INSPECT[path](disk, path)
    return inspection, list(inspection.findings())


def copy_with(path: str, content: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs(path.rpartition("/")[0])
    disk.open(path, create=True).close()
    disk.set_content(path, content)
    return disk


def test_a_journal_is_shown_record_by_record(filled: SimulatedDisk) -> None:
    inspection, findings = inspected(filled, JOURNAL)
    records = [found.decoded for found in findings if isinstance(found, FoundRecord)]

    assert len(records) == len(findings)
    assert [type(one.record) for one in records] == [
        LedgerKeyRecord, EntriesRecord, LedgerKeyRecord, EntriesRecord, FenceRecord,
        ExplicitLacRecord, EntriesRecord,
    ]  # fmt: skip
    assert [one.sequence for one in records] == list(range(1, 8))
    assert isinstance(inspection, JournalInspection)
    assert inspection.verdict is Verdict.CLEAN
    assert inspection.header is not None
    assert inspection.header.owner_hash == checksum(BOOKIE_ID.encode())


def test_a_journal_says_how_far_it_was_synced(filled: SimulatedDisk) -> None:
    first = JournalInspection(filled, JOURNAL)
    list(first.findings())
    last = JournalInspection(filled, filled.paths(".journal")[-1], first.end)

    records = [found for found in last.findings() if isinstance(found, FoundRecord)]

    assert {type(found.decoded.record) for found in records} == {SyncedRecord}
    assert (first.synced_sequence, last.synced_sequence) == (0, 7)
    assert last.verdict is Verdict.CLEAN


def test_an_entry_log_is_shown_entry_by_entry(filled: SimulatedDisk) -> None:
    inspection, findings = inspected(filled, LOG)
    shown = [
        (found.header.ledger_id, entry.entry_id)
        for found in findings
        if isinstance(found, FoundBlock)
        for entry in found.entries
    ]

    assert shown == [(7, 0), (7, 1), (7, 2), (9, 0), (9, 1), (7, 5)]
    assert isinstance(inspection, EntryLogInspection)
    assert (inspection.verdict, inspection.is_sealed) == (Verdict.CLEAN, False)


def test_a_sealed_log_has_a_map_that_is_compared_with_its_blocks() -> None:
    disk = SimulatedDisk()
    twin = TwinnedStorage(disk, log_size_max=600)
    twin.open()
    for entry_id in range(8):
        twin.add(7, range(entry_id, entry_id + 1), payload_size=100)

    inspection, _ = inspected(disk, LOG)

    assert isinstance(inspection, EntryLogInspection)
    assert (inspection.verdict, inspection.is_sealed) == (Verdict.CLEAN, True)
    assert inspection.map == inspection.size_by_ledger != {}
    content = disk.content(LOG)
    for _, damaged in flipped(content, 7):
        again, _ = inspected(copy_with(LOG, damaged), LOG)
        assert again.verdict is Verdict.DAMAGED


def test_an_index_is_shown_as_ranges_and_header(filled: SimulatedDisk) -> None:
    inspection, findings = inspected(filled, INDEX)

    assert findings == [FoundRange(0, 2, [1]), FoundRange(5, 5, [1])]
    assert isinstance(inspection, IndexInspection)
    assert inspection.verdict is Verdict.CLEAN
    assert inspection.header is not None
    assert (inspection.header.ledger_key, inspection.header.is_fenced) == (KEY, True)
    assert (inspection.header.explicit_lac, inspection.entry_count) == (1, 4)


def boundaries(disk: SimulatedDisk, path: str) -> set[int]:
    """Return the sizes at which a file is whole though it was longer: between two of its parts."""
    if path == LOG:
        _, findings = inspected(disk, path)
        blocks = [found for found in findings if isinstance(found, FoundBlock)]
        return {32, *(block.offset + block.header.body_size for block in blocks)}
    if path == JOURNAL:
        _, findings = inspected(disk, path)
        ends = {found.decoded.end_offset for found in findings if isinstance(found, FoundRecord)}
        last = max(ends)
        return {SEGMENT_HEADER_SIZE, *ends, *range(last, last + 200)}
    return set()


@pytest.mark.parametrize("path", [JOURNAL, LOG, INDEX])
def test_every_cut_that_is_not_between_two_parts_is_seen(filled: SimulatedDisk, path: str) -> None:
    content = filled.content(path)
    whole = boundaries(filled, path)

    for damaged in cut(content):
        inspection, findings = inspected(copy_with(path, damaged), path)
        if len(damaged) in whole:
            continue
        if path == JOURNAL and SEGMENT_HEADER_SIZE < len(damaged) < SEGMENT_HEADER_SIZE + 121:
            # of the very first record nothing is known that could tell it from other bytes
            assert inspection.verdict is not Verdict.CLEAN
            continue
        assert inspection.verdict is Verdict.DAMAGED, len(damaged)
        assert any(isinstance(found, Fault) for found in findings)


def checked_bits(path: str, content: bytes) -> Iterator[int]:
    """Yield bits that a checksum covers."""
    for bit in range(0, 8 * len(content), 13):
        offset = bit // 8
        if path == JOURNAL and offset < SEGMENT_HEADER_SIZE and offset % 4096 >= 40:
            continue  # between the copies of the header
        if path == JOURNAL and offset >= len(content.rstrip(b"\0")):
            continue  # the zeros behind the end
        yield bit


@pytest.mark.parametrize("path", [JOURNAL, LOG, INDEX])
def test_every_flipped_bit_that_a_checksum_covers_is_seen(filled: SimulatedDisk, path: str) -> None:
    content = filled.content(path)

    for bit in checked_bits(path, content):
        disk = copy_with(path, content)
        disk.flip_bit(path, bit)
        inspection, findings = inspected(disk, path)

        assert inspection.verdict is Verdict.DAMAGED, bit
        faults = [found for found in findings if isinstance(found, Fault)]
        assert any(fault.offset <= bit // 8 for fault in faults)
        if path == JOURNAL and bit // 8 >= SEGMENT_HEADER_SIZE:
            records = [found for found in findings if isinstance(found, FoundRecord)]
            assert len(records) == 6, "what is behind the damage is shown, too"


@pytest.mark.parametrize("path", [JOURNAL, LOG, INDEX])
def test_inspecting_changes_nothing(filled: SimulatedDisk, path: str) -> None:
    before = filled.operation_count

    inspected(filled, path)

    assert filled.operation_count == before


@pytest.mark.parametrize("path", [JOURNAL, LOG, INDEX])
@pytest.mark.parametrize("skip_count", range(4))
def test_what_the_disk_cannot_read_is_a_fault(
    filled: SimulatedDisk, path: str, skip_count: int
) -> None:
    disk = copy_with(path, filled.content(path))
    disk.faults.append(DiskFault("pread", errno.EIO, skip_count))

    inspection, findings = inspected(disk, path)

    if not disk.faults:
        assert inspection.verdict is Verdict.DAMAGED
        assert any("cannot be read" in f.reason for f in findings if isinstance(f, Fault))


def test_bytes_of_an_earlier_life_are_an_open_end(filled: SimulatedDisk) -> None:
    content = bytearray(filled.content(JOURNAL))
    _, findings = inspected(filled, JOURNAL)
    end = max(found.decoded.end_offset for found in findings if isinstance(found, FoundRecord))
    other = bytearray(content[SEGMENT_HEADER_SIZE : SEGMENT_HEADER_SIZE + 300])
    other[8] ^= 0x55  # of another life: no record here, with another sequence
    disk = copy_with(JOURNAL, bytes(content[:end] + other + content[end + len(other) :]))

    inspection, again = inspected(disk, JOURNAL)

    assert inspection.verdict is Verdict.OPEN_END
    assert len(again) == len(findings)


def test_a_journal_that_was_cut_is_told(filled: SimulatedDisk) -> None:
    cut = filled.content(JOURNAL)[:-1]

    inspection, findings = inspected(copy_with(JOURNAL, cut), JOURNAL)

    assert inspection.verdict is Verdict.DAMAGED
    assert [found.offset for found in findings if isinstance(found, Fault)] == [len(cut)]


def test_a_segment_that_waits_for_its_use_is_unused() -> None:
    inspection, findings = inspected(copy_with(JOURNAL, bytes(20_000)), JOURNAL)

    assert (inspection.verdict, findings) == (Verdict.UNUSED, [])


def test_a_log_without_its_header_is_read_if_it_is_said_whose_it_is(filled: SimulatedDisk) -> None:
    content = bytearray(filled.content(LOG))
    content[3] ^= 1
    disk = copy_with(LOG, bytes(content))

    blind = EntryLogInspection(disk, LOG)
    seeing = EntryLogInspection(disk, LOG, BOOKIE_ID)

    assert [type(found) for found in blind.findings()] == [Fault, Fault]
    assert sum(isinstance(found, FoundBlock) for found in seeing.findings()) == 3
    assert blind.verdict is seeing.verdict is Verdict.DAMAGED


def test_an_index_without_its_header_still_shows_its_pages(filled: SimulatedDisk) -> None:
    disk = copy_with(INDEX, filled.content(INDEX))
    disk.flip_bit(INDEX, 100)

    inspection, findings = inspected(disk, INDEX)

    assert inspection.verdict is Verdict.DAMAGED
    assert findings[1:] == [FoundRange(0, 2, [1]), FoundRange(5, 5, [1])]


def test_a_second_segment_is_held_against_the_end_of_the_first() -> None:
    disk = SimulatedDisk()
    twin = TwinnedStorage(disk)
    twin.open()
    for entry_id in range(40):  # several segments
        twin.add(7, range(entry_id, entry_id + 1), payload_size=300)
    twin.sync()
    paths = disk.paths("/j/")
    assert len(paths) > 2

    first = JournalInspection(disk, paths[0])
    assert not [found for found in first.findings() if isinstance(found, Fault)]
    second = JournalInspection(disk, paths[1], first.end)
    assert not [found for found in second.findings() if isinstance(found, Fault)]
    third = JournalInspection(disk, paths[2], first.end)
    reasons = [found.reason for found in third.findings() if isinstance(found, Fault)]
    assert len(reasons) == 1
    assert "does not follow" in reasons[0]
