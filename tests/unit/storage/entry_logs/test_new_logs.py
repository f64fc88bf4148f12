"""The note of new entry logs: what a start learns of logs that no checkpoint covers."""

import errno
from contextlib import closing
from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CookieMismatchError, OutOfDescriptorsError
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs import new_logs
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import encode_log_header
from zbk.storage.entry_logs.new_logs import NewLogs, note_anew
from zbk.storage.entry_logs.own_logs import SHARED_LOG

PATH = "/l/new_logs"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def loaded(disk: SimulatedDisk, *, owner: bytes = b"bookie-1") -> NewLogs:
    note = NewLogs(disk, "/l", owner=owner)
    note.load()
    return note


def begun(disk: SimulatedDisk) -> NewLogs:
    note = loaded(disk)
    note.begin({3: SHARED_LOG})
    return note


def test_golden_bytes(disk: SimulatedDisk) -> None:
    begun(disk).made(4, 2**62, 0)

    assert disk.content(PATH) == golden_bytes("new_logs_v1.txt")["file"]


def test_after_a_kill_a_start_finds_each_log_and_its_ledger(disk: SimulatedDisk) -> None:
    note = begun(disk)
    note.made(4, 17, 0)
    note.made(5, SHARED_LOG, 0)

    found = loaded(disk.process_crash())

    assert found.fault == ""
    assert found.found == {3: SHARED_LOG, 4: 17, 5: SHARED_LOG}


def test_logs_that_were_made_before_the_note_begins_are_in_it(disk: SimulatedDisk) -> None:
    """A replay makes some, while the note still has what the process before knew."""
    note = loaded(disk)
    note.made(4, 17, 0)
    assert not disk.exists(PATH)

    note.begin({3: SHARED_LOG})

    assert loaded(disk.crash(Random(1))).found == {3: SHARED_LOG, 4: 17}


def test_what_is_missing_and_not_covered_by_the_mark_is_lost(disk: SimulatedDisk) -> None:
    note = begun(disk)
    for log_id, ledger_id in ((4, 17), (5, SHARED_LOG), (6, 18)):
        note.made(log_id, ledger_id, 0)
    found = loaded(disk)
    none = LedgerRanges()

    assert found.lost({3, 4, 5, 6}, 2, none) == {}
    assert found.lost({3, 5, 6}, 2, none) == {4: 17}
    assert found.lost({3, 4}, 2, none) == {5: SHARED_LOG, 6: 18}
    assert found.lost(set(), 5, none) == {6: 18}
    assert found.lost({3}, 2, none.with_ids([17])) == {5: SHARED_LOG, 6: 18}


def test_a_note_that_is_longer_than_what_is_read_of_it_is_a_fault(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = begun(disk)
    note.made(4, 17, 0)
    monkeypatch.setattr(new_logs, "SIZE_MAX", len(disk.content(PATH)))

    found = loaded(disk)

    assert (found.fault, found.found) == ("is longer than what is read of it", {})


def test_a_note_that_is_made_anew_has_the_logs_that_are_there(disk: SimulatedDisk) -> None:
    """A loss of power took log 5, and the header of log 6. A checkpoint covers log 3."""
    note = begun(disk)
    for log_id, ledger_id in ((4, 17), (5, 18), (6, 19)):
        note.made(log_id, ledger_id, 0)
    disk.make_dirs("/l/logs")
    for log_id in (3, 4, 6):
        with closing(disk.open(log_path("/l/logs", log_id), create=True)) as file:
            file.pwrite([encode_log_header(b"bookie-1", log_id) if log_id < 6 else b""], 0)

    note_anew(disk, "/l", b"bookie-1", {3})

    assert loaded(disk.crash(Random(2))).found == {4: 17}


def test_a_note_that_is_missing_is_a_fault(disk: SimulatedDisk) -> None:
    note = loaded(disk)

    assert (note.fault, note.found) == ("is missing", {})


def test_no_flipped_bit_goes_unnoticed(disk: SimulatedDisk) -> None:
    begun(disk).made(4, 17, 0)
    for bit, damaged in flipped(disk.content(PATH)):
        disk.set_content(PATH, damaged)

        note = loaded(disk)

        assert note.fault, bit
        assert note.found == {}


def test_of_a_cut_note_only_whole_records_count(disk: SimulatedDisk) -> None:
    """An append that finds no space may leave a part of a record: its log was never used."""
    begun(disk).made(4, 17, 0)
    for part in cut(disk.content(PATH)):
        disk.set_content(PATH, part)

        note = loaded(disk)

        assert bool(note.fault) == (len(part) < 24)
        assert note.found == ({3: SHARED_LOG} if len(part) >= 48 else {})


def test_the_note_of_another_bookie_is_refused(disk: SimulatedDisk) -> None:
    begun(disk)

    with pytest.raises(CookieMismatchError, match="/l/new_logs is another bookie's"):
        loaded(disk, owner=b"bookie-2")


def test_without_room_a_log_is_not_noted_and_the_next_one_is(disk: SimulatedDisk) -> None:
    note = begun(disk)
    disk.faults.append(Fault("pwrite", errno.ENOSPC))
    with pytest.raises(OSError, match="simulated"):
        note.made(4, 17, 0)

    note.made(4, 18, 0)

    assert loaded(disk).found == {3: SHARED_LOG, 4: 18}


def test_a_note_that_could_not_begin_is_begun_with_the_next_log(disk: SimulatedDisk) -> None:
    note = loaded(disk)
    disk.faults.append(Fault("create", errno.ENOSPC))
    with pytest.raises(OSError, match="simulated"):
        note.begin({3: SHARED_LOG})
    disk.faults.append(Fault("create", errno.ENOSPC))
    with pytest.raises(OSError, match="simulated"):
        note.made(4, 17, 0)

    note.made(4, 18, 0)

    assert loaded(disk).found == {3: SHARED_LOG, 4: 18}


def test_the_file_stays_small_and_keeps_what_no_mark_covers(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_logs, "RECORD_COUNT_MAX", 10)
    note = begun(disk)

    for log_id in range(4, 200):
        note.made(log_id, 1_000 + log_id, max(0, log_id - 5))

        found = loaded(disk).found
        assert len(found) <= 30
        assert all(found[one] == 1_000 + one for one in range(max(4, log_id - 4), log_id + 1))


@pytest.mark.parametrize("opened_before", [0, 1, 2])
def test_a_lack_of_descriptors_while_the_file_is_replaced_loses_no_record(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, opened_before: int
) -> None:
    """What is written to the replaced file, which is still open, would be lost."""
    monkeypatch.setattr(new_logs, "RECORD_COUNT_MAX", 0)
    note = begun(disk)
    for log_id in (4, 5, 6):
        note.made(log_id, 17, 0)
    missing = disk.descriptor_count + 1 + opened_before
    disk.without_descriptor = range(missing, missing + 1)
    with pytest.raises(OutOfDescriptorsError):
        note.made(7, 18, 0)

    note.made(7, 19, 0)

    assert loaded(disk).found == {3: SHARED_LOG, 4: 17, 5: 17, 6: 17, 7: 19}
