"""The simulated disk is as bad as a real one, and not worse: else its tests prove nothing."""

import errno
from random import Random

import pytest

from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from tests.support.simulated_inode import SECTOR_SIZE
from zbk.system.files import File

SEEDS = range(60)


def with_file(content: bytes = b"", *, is_synced: bool = True) -> tuple[SimulatedDisk, File]:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    file = disk.open("/d/f", create=True)
    file.pwrite([content], 0)
    if is_synced:
        file.sync()
        disk.sync_dir("/d")
    return disk, file


def test_what_was_synced_survives_every_crash() -> None:
    for seed in SEEDS:
        disk, _ = with_file(b"a" * 2000)
        assert disk.crash(Random(seed)).content("/d/f") == b"a" * 2000


def test_what_was_not_synced_survives_in_whole_in_part_or_not_at_all() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, file = with_file(b"a" * 4 * SECTOR_SIZE)
        file.pwrite([b"b" * 2 * SECTOR_SIZE], SECTOR_SIZE)
        content = disk.crash(Random(seed)).content("/d/f")
        assert len(content) == 4 * SECTOR_SIZE
        assert content[:SECTOR_SIZE] == b"a" * SECTOR_SIZE
        assert content[3 * SECTOR_SIZE :] == b"a" * SECTOR_SIZE
        outcomes.add(content.count(b"b"))
    assert {0, SECTOR_SIZE, 2 * SECTOR_SIZE} <= outcomes
    assert any(count % SECTOR_SIZE for count in outcomes), "torn inside of a sector, at times"


def test_a_later_write_may_survive_without_an_earlier_one() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, file = with_file(bytes(4096))
        file.pwrite([b"1"], 0)
        file.pwrite([b"2"], 2048)
        content = disk.crash(Random(seed)).content("/d/f")
        outcomes.add((content[0:1], content[2048:2049]))
    assert (b"\0", b"2") in outcomes


def test_a_killed_process_loses_nothing_and_has_synced_nothing() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, file = with_file(b"a" * 10)
        file.pwrite([b"b" * 10], 0)
        assert disk.process_crash().content("/d/f") == b"b" * 10
        outcomes.add(disk.crash(Random(seed)).content("/d/f"))
    assert {b"a" * 10, b"b" * 10} <= outcomes


def test_names_are_durable_after_sync_dir_only() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, _ = with_file(b"x", is_synced=False)
        disk.open("/d/g", create=True)
        disk.sync_dir("/d")
        disk.rename("/d/f", "/d/h")
        disk.remove("/d/g")
        outcomes.add(tuple(disk.crash(Random(seed)).paths()))
    assert outcomes == {("/d/f", "/d/g"), ("/d/g", "/d/h"), ("/d/f",), ("/d/h",)}


def test_a_new_file_whose_name_was_not_synced_may_be_gone_with_its_synced_bytes() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk, file = with_file(b"x", is_synced=False)
        file.sync()
        outcomes.add(tuple(disk.crash(Random(seed)).paths()))
    assert outcomes == {(), ("/d/f",)}


def test_a_file_that_was_taken_away_at_rest_does_not_come_back() -> None:
    """Whatever was changed of its name, and not synced."""
    for seed in SEEDS:
        disk, _ = with_file(b"x", is_synced=False)
        disk.rename("/d/f", "/d/h")
        disk.open("/d/g", create=True)
        disk.remove_at_rest("/d/h")
        assert set(disk.crash(Random(seed)).paths()) <= {"/d/f", "/d/g"}


def test_after_a_failed_sync_the_next_one_says_yes_and_the_bytes_may_be_old() -> None:
    outcomes = set()
    for n in range(30):
        disk, file = with_file(b"a")
        for _ in range(n):
            disk.sync_dir("/d")
        file.pwrite([b"b"], 0)
        disk.faults = [Fault("sync", errno.EIO)]
        with pytest.raises(OSError, match="simulated"):
            file.sync()
        file.sync()
        assert file.pread(1, 0) == b"b", "the cache still has them"
        outcomes.add(disk.crash(Random(0)).content("/d/f"))
    assert outcomes == {b"a", b"b"}


def test_a_full_disk_takes_a_part_first() -> None:
    disk, file = with_file(b"")
    disk.faults = [Fault("pwrite", errno.ENOSPC)]

    with pytest.raises(OSError, match="simulated"):
        file.pwrite([b"abcd", b"efgh"], 0)

    assert disk.content("/d/f") == b"abcd"


def test_a_fault_waits_for_its_turn_and_its_file() -> None:
    disk, file = with_file(b"x")
    other = disk.open("/d/other", create=True)
    disk.faults = [Fault("sync", errno.EIO, skip_count=1, path_part="/f")]

    file.sync()
    other.sync()
    with pytest.raises(OSError, match="simulated"):
        file.sync()
    file.sync()


def test_the_crash_comes_at_the_operation_asked_for() -> None:
    disk, file = with_file(b"x")
    disk.crash_at = disk.operation_count + 2

    file.pwrite([b"y"], 0)
    with pytest.raises(SimulatedCrash):
        file.sync()

    disk.crash(Random(1))
    with pytest.raises(AssertionError, match="before the crash"):
        file.pread(1, 0)


def test_a_file_may_be_locked_once() -> None:
    disk, _ = with_file(b"")

    assert disk.lock("/d/lock") is not None
    assert disk.lock("/d/lock") is None
    assert disk.process_crash().lock("/d/lock") is not None
