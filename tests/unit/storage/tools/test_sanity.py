"""Checking all files of a stopped bookie."""

import errno

import pytest

from tests.support.bookie_storages import BOOKIE_ID, TwinnedStorage
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.storage.directory import serving
from zbk.storage.tools.sanity import Problem, SanityCheck
from zbk.system.boot import boot_id


def filled() -> SimulatedDisk:
    twin = TwinnedStorage(SimulatedDisk())
    twin.open()
    for ledger_id in (7, 9):
        twin.add(ledger_id, range(5))
        twin.add(ledger_id, range(2_000, 2_003))
    twin.finish_checkpoint()
    twin.storage.close()
    return twin.disk


def checked(disk: SimulatedDisk) -> tuple[SanityCheck, list[Problem]]:
    check = SanityCheck(disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID)
    return check, list(check.problems())


def test_a_bookie_that_ended_well_has_no_problems_and_nothing_changes() -> None:
    disk = filled()
    before = disk.operation_count

    check, problems = checked(disk)

    assert problems == []
    assert (check.ledger_count, check.entry_count, check.log_count) == (2, 16, 1)
    assert check.problem_count == 0
    assert disk.operation_count == before


def test_each_damaged_file_is_named() -> None:
    for part, byte in ((".idx", 77), (".idx", 1_100), ("/logs/", 3), ("/logs/", 100)):
        disk = filled()
        path = disk.paths(part)[0]
        disk.flip_bit(path, 8 * byte)

        check, problems = checked(disk)

        assert path in {problem.path for problem in problems}, (part, byte)
        assert check.problem_count == len(problems)


def test_what_was_found_of_the_directories_before_comes_first() -> None:
    disk = filled()
    disk.flip_bit(disk.paths("/logs/")[0], 8 * 100)
    before = Problem("/l", 0, "has no last log mark, but the cluster knows incarnation 2")
    check = SanityCheck(
        disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID, found_before=[before]
    )

    problems = list(check.problems())

    assert problems[0] == before
    assert check.problem_count == len(problems) > 1


def test_a_log_that_no_checkpoint_covers_is_missed_after_a_kill_in_this_boot() -> None:
    twin = TwinnedStorage(SimulatedDisk())
    twin.open()
    twin.add(7, range(5))
    (path,) = twin.disk.paths("/logs/")
    disk = twin.disk.process_crash()
    disk.remove_at_rest(path)
    serving.begin(disk, "/l", "another boot")
    assert checked(disk)[1] == []

    serving.begin(disk, "/l", boot_id())

    assert checked(disk)[1] == [Problem(path, 0, "is missing: it came after the last checkpoint")]


def test_a_damaged_note_of_new_logs_is_a_problem_unless_the_power_was_lost() -> None:
    disk = filled()
    disk.flip_bit("/l/new_logs", 40)
    serving.begin(disk, "/l", "another boot")
    assert checked(disk)[1] == []

    serving.begin(disk, "/l", boot_id())

    assert checked(disk)[1] == [Problem("/l/new_logs", 0, "the header is damaged")]


def test_a_journal_that_a_start_would_refuse_is_a_problem() -> None:
    disk = filled()
    disk.remove_at_rest(disk.paths(".journal")[0])

    _, problems = checked(disk)

    assert [problem.reason for problem in problems] == ["the file of the last log mark is missing"]


def test_a_damaged_mark_is_a_problem() -> None:
    disk = filled()
    disk.set_content("/l/last_mark", bytes(1024))

    _, problems = checked(disk)

    assert [problem.path for problem in problems] == ["/l/last_mark"]


def test_a_damaged_list_of_deleted_ledgers_is_a_problem() -> None:
    disk = filled()
    disk.open("/l/deleted_ledgers", create=True).close()
    disk.set_content("/l/deleted_ledgers", bytes(100))

    _, problems = checked(disk)

    assert [problem.path for problem in problems] == ["/l/deleted_ledgers"]


def test_an_index_that_points_at_something_else_is_a_problem_of_each_entry() -> None:
    disk = filled()
    paths = disk.paths(".idx")
    log = disk.paths("/logs/")[0]
    content = bytearray(disk.content(log))
    at = content.index(b"7/2 ")  # the payload of an entry; its header is 40 bytes before
    content[at - 40 + 16] ^= 0xFF
    disk.set_content(log, bytes(content))

    _, problems = checked(disk)

    told = [problem.reason for problem in problems if "entry 2 of ledger 7" in problem.reason]
    assert told == [f"entry 2 of ledger 7 is not at its location in {paths[0]}"]


def test_what_the_disk_cannot_read_is_a_problem() -> None:
    for part in ("/j/", "/logs/", ".idx"):
        disk = filled()
        disk.faults.append(Fault("pread", errno.EIO, 0, part))

        assert checked(disk)[1], part


def test_a_missing_folder_is_a_problem() -> None:
    _, problems = checked(SimulatedDisk())

    assert [(one.path, one.reason) for one in problems] == [
        ("/j", "is missing"), ("/l/logs", "is missing"), ("/l/index", "is missing"),
    ]  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"zbkE\x01\x00"])
def test_a_log_that_was_made_just_before_a_crash_is_no_problem(content: bytes) -> None:
    disk = filled()
    path = f"{disk.paths('/logs/')[0][:-5]}9.log"
    disk.open(path, create=True).close()
    disk.set_content(path, content)

    check, problems = checked(disk)

    assert (problems, check.torn_tail_count) == ([], 1)


def test_a_torn_tail_is_counted_and_no_problem() -> None:
    disk = filled()
    log = disk.paths("/logs/")[0]
    disk.set_content(log, disk.content(log) + b"the start of a block")

    check, problems = checked(disk)

    assert (problems, check.torn_tail_count) == ([], 1)
