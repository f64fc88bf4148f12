"""What a journal observes of groups: a lone add is one row, and each time is in one row only."""

from collections.abc import Sequence
from itertools import count

import msgspec
import pytest

from zbk.actors.serve.journal_times import NONE, UNTIMED, Row
from zbk.actors.serve.sync_queue import AppendGroup, SyncProgress, SyncQueue
from zbk.errors import StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import FenceRecord

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
RECORD = FenceRecord(3)
WRITE = (1, 10, 200)


class File:
    """A journal that may fail."""

    def __init__(self, error: StorageFailedError | None = None) -> None:
        self.error = error

    def append(self, records: object) -> None:
        raise AssertionError("the test has written already")

    def note_synced(self) -> None:
        raise AssertionError("no note is due")

    def sync(self) -> None:
        if self.error is not None:
            raise self.error


class NoStorage:
    """A storage actor that waits for nothing."""

    def tell(self, message: object) -> None:
        raise AssertionError(f"nothing waits for {message}")


def queue_of(*groups: AppendGroup, error: StorageFailedError | None = None) -> SyncQueue:
    """Return a queue of groups, in which a clock goes on by 1,000 us at each reading."""
    clock = count(5_000, 1_000)
    queue = SyncQueue(
        File(error), NoStorage(), lambda _: None, SyncProgress(), now_us=lambda: next(clock)
    )
    queue.put(groups)
    return queue


def group(
    types: Sequence[LedgerType] = (), *, received_us: int = 1_000, lone_count: int = 1
) -> AppendGroup:
    return AppendGroup(
        ticket=1, records=[RECORD], size=RECORD.size, after_write=[], after_sync=[],
        is_sync_news=False, is_sync_needed=True, received_us=received_us, lone_count=lone_count,
        sync_types=types,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "rows"),
    [
        ([group((PD,))], [(1, 10, 200, 1_000, (PD,), 5_000)]),
        ([group((PD,), lone_count=8)], [(8, 10, 200, 1_000, (PD,), 5_000)]),
        ([group()], [(1, 10, 200, 1_000, (), NONE)]),
        ([group(lone_count=8)], [(8, 10, 200, 1_000, (), NONE)]),
        ([group((PD,), received_us=0)], [(1, 10, 200, 1_000, (), NONE)]),
        ([group((PD,), received_us=UNTIMED)], []),
        (
            [group(), group((PD,), lone_count=8), group((PD, VD), received_us=2_000)],
            [
                (1, 10, 200, 1_000, (), NONE),
                (8, NONE, NONE, NONE, (PD,), 5_000),
                (1, NONE, NONE, NONE, (PD, VD), 4_000),
            ],
        ),
        ([group((PD,), received_us=UNTIMED)] * 2, [(1, 10, 200, 1_000, (), NONE)]),
        (
            [msgspec.structs.replace(group((PD,)), records=[])],  # the fsync may have done nothing
            [(1, 10, 200, NONE, (PD,), 5_000)],
        ),
        ([], [(1, 10, 200, NONE, (), NONE)]),
    ],
    ids=[
        "lone", "of eight", "no answer", "no answer of eight", "not from the front", "untimed",
        "several", "several untimed", "barrier", "synced by another",
    ],
)  # fmt: skip
def test_each_time_is_in_one_row(groups: list[AppendGroup], rows: list[Row]) -> None:
    queue = queue_of(*groups)
    observed = queue.times.keep()
    queue.run(WRITE)

    assert observed.rows == rows


def test_a_sync_without_a_write_has_no_time_of_one() -> None:
    queue = queue_of(group())
    observed = queue.times.keep()
    queue.run()

    assert observed.rows == [(1, NONE, NONE, 1_000, (), NONE)]


def test_a_failed_sync_is_not_observed() -> None:
    error = StorageFailedError("journal", "fsync", "EIO")
    queue = queue_of(group((PD,)), error=error)
    observed = queue.times.keep()
    with pytest.raises(StorageFailedError):
        queue.run(WRITE)

    assert observed.rows == []
