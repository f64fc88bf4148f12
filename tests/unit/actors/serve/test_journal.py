"""The journal actors form groups by themselves; an fsync covers what was written before it."""

from collections.abc import Callable

import msgspec
import pytest

from tests.support.journal_actors import DEADLINE_S, LARGE, FakeJournal, Journals, Progress, make
from tests.support.waiting import wait_until
from zbk.actors.serve.journal import NoteSynced, SyncDue
from zbk.actors.serve.sync_queue import AppendGroup, Synced, SyncProgress, SyncQueue
from zbk.errors import StorageFailedError
from zbk.storage.journal.record import FenceRecord

__all__ = ["make"]


def test_a_group_is_written_then_synced_and_both_are_told(make: Callable[..., Journals]) -> None:
    journals = make()

    journals.append(1, is_sync_needed=True)
    journals.progress.wait_for("write 1")
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)
    assert journals.progress.news == ["write 1"]
    journals.file.may_sync.release()

    journals.progress.wait_for(Synced(1))
    assert journals.progress.news == ["write 1", "sync 1", Synced(1)]
    assert journals.file.log == ["write", "sync"]


def test_groups_count_as_unsynced_until_the_fsync_that_covers_them_has_ended(
    make: Callable[..., Journals],
) -> None:
    journals = make()

    def unsynced() -> list[int]:
        return [one.ticket for one in journals.queue.unsynced_groups()]

    journals.append(1, is_sync_needed=True)
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)
    journals.append(2, is_sync_needed=False)
    wait_until(lambda: unsynced() == [1, 2], what="both are written")
    journals.file.may_sync.release()
    journals.progress.wait_for(Synced(1))
    assert unsynced() == [2]


def test_what_queues_during_a_write_is_one_write(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.file.may_write.clear()
    journals.append(1, is_sync_needed=False)
    assert journals.file.write_began.acquire(timeout=DEADLINE_S)
    for ticket in range(2, 6):
        journals.append(ticket, is_sync_needed=False)

    journals.file.may_write.set()
    journals.progress.wait_for("write 5")

    assert journals.file.writes == [1, 4]


def test_what_is_written_during_an_fsync_waits_for_the_next_one(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    journals.append(1, is_sync_needed=True)
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)

    journals.append(2, is_sync_needed=True)
    journals.progress.wait_for("write 2")
    journals.file.may_sync.release()
    journals.progress.wait_for(Synced(1))

    assert "sync 2" not in journals.progress.news
    journals.file.may_sync.release()
    journals.progress.wait_for(Synced(2))


def test_volatile_groups_are_not_synced_until_it_is_due(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.file.may_sync.release()
    journals.append(1, is_sync_needed=False)
    journals.append(2, is_sync_needed=False)
    journals.progress.wait_for("write 2")
    assert "sync" not in journals.file.log

    journals.syncer.tell(SyncDue())

    journals.progress.wait_for(Synced(2))


def test_nothing_to_sync_costs_no_fsync(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.syncer.tell(SyncDue())
    journals.file.may_sync.release()
    journals.append(1, is_sync_needed=True)
    journals.progress.wait_for(Synced(1))

    assert journals.file.log == ["write", "sync"]
    assert journals.queue.sync_count == 1


def test_many_unsynced_bytes_are_synced_unasked(make: Callable[..., Journals]) -> None:
    journals = make(unsynced_size_max=1_000)
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=False, size=1_000)

    journals.progress.wait_for(Synced(1))


def test_a_barrier_without_records_is_synced_and_writes_nothing(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=True, record_count=0)

    journals.progress.wait_for(Synced(1))
    assert journals.file.writes == []


@pytest.mark.parametrize("size", [100, LARGE], ids=["by the writer", "by the syncer"])
def test_a_failed_fsync_promises_nothing_and_stops_the_bookie(
    make: Callable[..., Journals], size: int
) -> None:
    journals = make()
    journals.file.error = StorageFailedError("journal", "fsync", "EIO")
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=True, size=size, has_volatile=False)

    assert journals.failed.wait(DEADLINE_S)
    assert journals.failures == [journals.file.error]
    assert journals.progress.news == []


def test_after_a_failed_fsync_nothing_more_is_written(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.file.error = StorageFailedError("journal", "fsync", "EIO")
    journals.file.may_sync.release()
    journals.append(1, is_sync_needed=True, size=100, has_volatile=False)
    assert journals.failed.wait(DEADLINE_S)

    journals.append(2, is_sync_needed=False)
    journals.writer.stop(block=True)

    assert journals.progress.news == []
    assert journals.file.writes == [1]


def test_an_fsync_that_everybody_waits_for_is_one(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.append(1, is_sync_needed=True)
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)
    for ticket in range(2, 10):
        journals.append(ticket, is_sync_needed=True)
    journals.progress.wait_for("write 9")

    journals.file.may_sync.release()
    journals.file.may_sync.release()
    journals.progress.wait_for(Synced(9))

    assert journals.file.log.count("sync") == 2


def test_evidence_of_a_sync_is_written_when_nothing_else_is(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.file.may_sync.release()
    journals.append(1, is_sync_needed=True)
    journals.progress.wait_for(Synced(1))

    journals.writer.tell(NoteSynced())
    journals.append(2, is_sync_needed=False)
    journals.progress.wait_for("write 2")

    assert journals.file.log == ["write", "sync", "note", "write"]


def test_how_far_the_syncs_came_is_known_before_anybody_hears_of_it(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    seen: list[int] = []
    journals.append(1, is_sync_needed=True)
    journals.progress.wait_for("write 1")
    journals.progress.on_send = lambda: seen.append(journals.synced.synced_ticket)
    assert journals.synced.synced_ticket == 0
    journals.file.may_sync.release()

    journals.progress.wait_for("sync 1")

    assert seen == [1]


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_sync_is_announced_to_whoever_watches(
    make: Callable[..., Journals], is_watched: bool
) -> None:
    journals = make()
    journals.synced.is_watched = is_watched
    journals.file.may_sync.release()
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=True, is_sync_news=False)
    journals.progress.wait_for("sync 1")
    journals.append(2, is_sync_needed=True, is_sync_news=True)
    journals.progress.wait_for(Synced(2))

    assert (Synced(1) in journals.progress.news) == is_watched


def test_a_failed_fsync_moves_nothing(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.file.error = StorageFailedError("journal", "fsync", "EIO")
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=True)

    assert journals.failed.wait(DEADLINE_S)
    assert journals.synced.synced_ticket == 0


def test_the_age_of_what_is_volatile_is_that_of_records_and_not_of_a_barrier_before_them() -> None:
    file = FakeJournal()
    file.may_sync.release()
    queue = SyncQueue(file, Progress(), lambda _: None, SyncProgress(), now_us=lambda: 900)
    barrier = AppendGroup(
        ticket=1, records=[], size=0, after_write=[], after_sync=[],
        is_sync_news=True, is_sync_needed=True,
    )  # fmt: skip
    record = FenceRecord(3)
    queue.put([barrier])  # taken at once, it was not handed over
    assert queue.volatile_us == 0
    queue.put([msgspec.structs.replace(barrier, records=[record], size=record.size, handed_us=200)])
    queue.put([msgspec.structs.replace(barrier, records=[record], size=record.size, handed_us=300)])
    assert (queue.volatile_size, queue.volatile_us) == (2 * record.size, 700)
    queue.run()
    assert (queue.volatile_size, queue.volatile_us) == (0, 0)
