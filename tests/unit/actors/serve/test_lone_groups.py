"""The writer syncs a lone group itself, in a lent turn too, unless that would hold up others."""

import threading
from collections.abc import Callable

import pytest

from tests.support.journal_actors import DEADLINE_S, LARGE, Journals, make
from tests.support.waiting import wait_until
from zbk.actors.serve.journal import NoteSynced
from zbk.actors.serve.journal_times import NONE
from zbk.actors.serve.sync_queue import Synced
from zbk.durability.lone_sync import QUICK_SYNC_US, SYNC_COUNT, VOLATILE_MS
from zbk.errors import StorageFailedError

__all__ = ["make"]


def test_a_small_lone_group_is_synced_by_the_writer_itself(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.syncer.stop()
    journals.file.may_sync.release()

    journals.append(1, is_sync_needed=True, size=100, has_volatile=False)

    journals.progress.wait_for(Synced(1))


def idle(journals: Journals) -> None:
    """Wait until the writer waits."""
    journals.writer.ask(NoteSynced())
    journals.file.log.clear()


def test_a_lone_group_is_written_synced_and_answered_in_the_calling_thread(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    observed = journals.queue.times.keep()
    journals.syncer.stop()
    idle(journals)
    journals.file.may_sync.release()

    def is_done_here() -> bool:  # the writer may still be on its way back to its inbox
        journals.file.threads.clear()
        journals.file.may_sync.release()
        journals.door.take(journals.group(1, is_sync_needed=True))
        journals.progress.wait_for(Synced(1))
        return set(journals.file.threads) == {threading.get_ident()}

    wait_until(is_done_here, what="an idle writer lends its turn")
    assert journals.progress.news[-2:] == ["sync 1", Synced(1)]
    assert observed.rows
    assert all(NONE not in row[:4] for row in observed.rows), "one row has all times"


@pytest.mark.actor_may_fail
@pytest.mark.parametrize(
    "error", [StorageFailedError("/j", "sync", "it failed"), AssertionError("a bug")]
)
def test_what_fails_in_a_lent_turn_stops_the_bookie_and_not_who_lent_it(
    make: Callable[..., Journals], error: BaseException
) -> None:
    journals = make()
    idle(journals)
    journals.file.error = error
    journals.file.may_sync.release()

    journals.door.take(journals.group(1, is_sync_needed=True))

    assert journals.failed.wait(DEADLINE_S)
    assert journals.failures == [error]
    assert journals.progress.news == [], "nobody was told anything"


@pytest.mark.parametrize("why", ["a slow disk", "a large group", "an fsync under way"])
def test_a_group_that_would_hold_its_thread_up_is_left_to_the_writer(
    make: Callable[..., Journals], why: str
) -> None:
    journals = make(sync_us=10 * QUICK_SYNC_US if why == "a slow disk" else 0)
    idle(journals)
    if why == "an fsync under way":
        journals.append(1, is_sync_needed=True)
        assert journals.file.sync_began.acquire(timeout=DEADLINE_S)
        journals.progress.wait_for("write 1")
        journals.writer.ask(NoteSynced())
    journals.file.threads.clear()

    size = LARGE if why == "a large group" else 100
    journals.door.take(journals.group(2, is_sync_needed=False, size=size, has_volatile=True))

    journals.progress.wait_for("write 2")
    assert threading.get_ident() not in journals.file.threads
    journals.file.may_sync.release(2)


def test_a_volatile_add_does_not_wait_for_the_fsync_of_a_lone_group(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    journals.append(1, is_sync_needed=False)
    journals.progress.wait_for("write 1")
    journals.append(2, is_sync_needed=True, size=100, has_volatile=False)
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)

    journals.append(3, is_sync_needed=False, size=100)
    journals.progress.wait_for("write 3")

    assert "sync 2" not in journals.progress.news
    journals.file.may_sync.release()
    journals.progress.wait_for("sync 2")


def test_a_volatile_add_after_a_quiet_time_does_not_wait_for_a_slow_disk(
    make: Callable[..., Journals],
) -> None:
    journals = make(sync_us=10 * QUICK_SYNC_US)
    journals.append(1, is_sync_needed=True, size=100, has_volatile=False)
    assert journals.file.sync_began.acquire(timeout=DEADLINE_S)

    journals.append(2, is_sync_needed=False, size=100)
    journals.progress.wait_for("write 2")

    assert "sync 1" not in journals.progress.news
    journals.file.may_sync.release()
    journals.progress.wait_for("sync 1")


def test_once_volatile_adds_are_long_gone_the_writer_syncs_lone_groups_again(
    make: Callable[..., Journals],
) -> None:
    journals = make()
    journals.append(1, is_sync_needed=False)
    journals.progress.wait_for("write 1")
    journals.syncer.stop()
    journals.now_ms += VOLATILE_MS
    journals.file.may_sync.release()

    journals.append(2, is_sync_needed=True, size=100, has_volatile=False)

    journals.progress.wait_for(Synced(2))


def test_a_barrier_does_not_make_a_slow_disk_quick(make: Callable[..., Journals]) -> None:
    journals = make()
    journals.queue.lone_sync.synced(10 * QUICK_SYNC_US)
    journals.file.may_sync.release(SYNC_COUNT)
    for ticket in range(1, SYNC_COUNT + 1):  # nothing is written for these
        journals.append(ticket, is_sync_needed=True, record_count=0, has_volatile=False)
        journals.progress.wait_for(Synced(ticket))

    assert not journals.queue.lone_sync.is_for_writer(journals.now_ms)
