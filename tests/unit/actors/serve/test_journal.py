"""The journal actors: groups form by themselves, an fsync covers what was written before it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import msgspec
import pykka
import pytest

from tests.support.waiting import wait_until
from zbk.actors.serve.journal import (
    OWN_SYNC_SIZE_MAX,
    JournalActor,
    JournalDoor,
    JournalSyncActor,
    NoteSynced,
    SyncDue,
)
from zbk.actors.serve.journal_times import NONE
from zbk.actors.serve.sync_queue import (
    AppendGroup,
    Synced,
    SyncProgress,
    SyncQueue,
)
from zbk.actors.space_gate import SpaceGate
from zbk.durability.lone_sync import QUICK_SYNC_US, SYNC_COUNT, VOLATILE_MS
from zbk.errors import StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import FenceRecord, JournalRecord, LedgerKeyRecord
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import Ping, Pong

DEADLINE_S = 20.0
LARGE = OWN_SYNC_SIZE_MAX + 1


class Progress:
    """Where the actors' news and answers go; can wait for some."""

    def __init__(self) -> None:
        self.news: list[object] = []
        self.on_send: Callable[[], None] | None = None
        self._changed = threading.Condition()

    def tell(self, message: Synced) -> None:
        self._note([message])

    def send(self, answers: Sequence[Outbound]) -> None:
        if self.on_send is not None:
            self.on_send()
        self._note([outbound.inbound.peer.decode() for outbound in answers])

    def _note(self, news: list[str] | list[Synced]) -> None:
        with self._changed:
            self.news += news
            self._changed.notify_all()

    def wait_for(self, wanted: object) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: wanted in self.news, DEADLINE_S), self.news


def answer(name: str) -> Outbound:
    """An answer that ``Progress`` notes under this name."""
    return Outbound(Inbound(name.encode(), Ping(request_id=1), (), 0), Pong(request_id=1))


class FakeJournal:
    """Notes writes and syncs; each can be held up or fail."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self.log: list[str] = []
        self.sync_began = threading.Semaphore(0)
        self.may_sync = threading.Semaphore(0)
        self.may_write = threading.Event()
        self.may_write.set()
        self.write_began = threading.Semaphore(0)
        self.error: BaseException | None = None
        self.threads: list[int] = []  # that wrote and synced

    def append(self, records: Sequence[JournalRecord]) -> object:
        self.write_began.release()
        assert self.may_write.wait(DEADLINE_S)
        self.writes.append(len(records))
        self.threads.append(threading.get_ident())
        self.log.append("write")
        return None

    def note_synced(self) -> None:
        self.log.append("note")

    def sync(self) -> object:
        self.log.append("sync")
        self.threads.append(threading.get_ident())
        self.sync_began.release()
        assert self.may_sync.acquire(timeout=DEADLINE_S)
        if self.error is not None:
            raise self.error
        return None


class Journals:
    """Both actors; group n tells ``write n`` and ``sync n``, and Synced(n)."""

    def __init__(self, *, unsynced_size_max: int = 1 << 30, sync_us: int = 0) -> None:
        self.file = FakeJournal()
        self.now_ms = 1_000_000
        self.progress = Progress()
        self.failures: list[BaseException] = []
        self.failed = threading.Event()
        self.space = SpaceGate("b-test")
        self.synced = SyncProgress()
        clock_us = count(step=sync_us)  # each fsync takes as long
        self.queue = SyncQueue(
            self.file, self.progress, self.progress.send, self.synced, now_us=clock_us.__next__
        )
        self.queue.lone_sync.synced(sync_us)
        self.syncer = JournalSyncActor.start(self.queue, self._fail)
        self.door = JournalDoor(self.queue)
        self.writer = JournalActor.start(
            self.queue,
            self.syncer,
            self.space,
            unsynced_size_max=unsynced_size_max,
            stop_bookie=self._fail,
            door=self.door,
            now_ms=lambda: self.now_ms,
        )

    def _fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.failed.set()

    def append(
        self,
        ticket: int,
        *,
        is_sync_needed: bool,
        record_count: int = 1,
        size: int = LARGE,
        is_sync_news: bool = True,
        has_volatile: bool = True,
    ) -> None:
        """Pass the writer a group; ``has_volatile``: an answer in it waits for the write only."""
        self.writer.tell(
            self.group(
                ticket,
                is_sync_needed=is_sync_needed,
                record_count=record_count,
                size=size,
                is_sync_news=is_sync_news,
                has_volatile=has_volatile,
            )
        )

    def group(
        self,
        ticket: int,
        *,
        is_sync_needed: bool,
        record_count: int = 1,
        size: int = 100,
        is_sync_news: bool = True,
        has_volatile: bool = False,
    ) -> AppendGroup:
        record = LedgerKeyRecord(7, bytes(16), LedgerType.PD_JOURNAL)
        return AppendGroup(
            ticket=ticket,
            records=[record] * record_count,
            size=size,
            after_write=[answer(f"write {ticket}")] if has_volatile else [],
            after_sync=[answer(f"sync {ticket}")],
            is_sync_news=is_sync_news,
            is_sync_needed=is_sync_needed,
        )


@pytest.fixture
def make() -> Iterator[Callable[..., Journals]]:
    yield Journals
    pykka.ActorRegistry.stop_all(timeout=5)


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
