"""Garbage collection of damaged entry logs: a log that may have live entries stays."""

import pytest

from tests.support.scrubbing import BadDisk
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_garbage import add, checkpoint, collect, logs_of, opened
from zbk.storage.gc.garbage import LogSummary


def _three_ledgers_in_two_logs() -> SimulatedDisk:
    disk = SimulatedDisk()
    storage = opened(disk, log_size_max=700)
    add(storage, 1, count=2)
    add(storage, 2, count=2)
    add(storage, 3, count=5)
    checkpoint(storage)
    assert logs_of(disk) == [1, 2]
    return disk


@pytest.mark.parametrize("is_sealed", [True, False])
def test_whatever_byte_of_a_log_is_damaged_a_live_ledger_keeps_it(is_sealed: bool) -> None:
    """B33: in header, blocks, map and footer; and cut off anywhere."""
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[0]
    whole = disk.content(path)
    if not is_sealed:
        whole = whole[: -(16 * 2 + 40)]
    storage = opened(disk)
    damaged = [bytes([*whole[:at], whole[at] ^ 0xFF, *whole[at + 1 :]]) for at in range(len(whole))]
    for content in [*damaged, *(whole[:size] for size in range(0, len(whole), 7))]:
        disk.set_content(path, content)
        storage = opened(disk.process_crash())

        assert collect(storage, 1, 3) == []  # 2 lives; 3 is in the log of before the start

        assert path in disk.paths("/l/logs/")
        disk.remove_at_rest("/l/deleted_ledgers")
        disk.remove_at_rest("/l/census")  # it would miss what was deleted


def test_a_log_without_a_map_is_scanned_and_goes_when_it_is_dead(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    add(storage, 1, count=3)
    checkpoint(storage)
    disk.process_crash()  # log 1 is never sealed
    storage = opened(disk)
    add(storage, 2, count=3)
    checkpoint(storage)

    assert collect(storage) == []
    assert collect(storage, 1) == [1]


def test_logs_that_cannot_be_listed_are_not_counted() -> None:
    disk = BadDisk()
    storage = opened(disk)
    (garbage,) = storage.garbages
    add(storage, 1)
    assert garbage.log_count() > 0

    disk.unlistable = "/l/logs"

    assert garbage.log_count() == 0


def test_damage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[0]
    disk.set_content(path, disk.content(path)[:-1] + b"!")  # no map ...
    disk.flip_bit(path, 8 * 40)  # ... and no first block
    storage = opened(disk)

    for _ in range(3):
        assert collect(storage, 1, 2, 3) == []

    assert [record.message for record in caplog.records] == [
        f"{path} is damaged: it stays until a scrub shows that no entry is missing there"
    ]


@pytest.mark.parametrize("size", [0, 9, 31])
def test_a_stub_that_a_loss_of_power_left_is_no_damage_and_stays(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[1]
    disk.set_content(path, disk.content(path)[:size])
    storage = opened(disk)

    assert collect(storage, 1, 2, 3) == [1]

    assert path in disk.paths("/l/logs/")
    (garbage,) = storage.garbages
    assert garbage.uses.use_of(2).is_stub
    assert garbage.summary_with(LogSummary(), 2).damaged_count == 0
    assert not garbage.compaction.is_compactable(2)
    assert caplog.records == []
