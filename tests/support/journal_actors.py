"""The actors of a journal around one in memory, and where their news and answers go."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pykka
import pytest

from zbk.actors.serve.journal import OWN_SYNC_SIZE_MAX, JournalActor, JournalDoor, JournalSyncActor
from zbk.actors.serve.sync_queue import AppendGroup, Synced, SyncProgress, SyncQueue
from zbk.actors.space_gate import SpaceGate
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import JournalRecord, LedgerKeyRecord
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
        """Return a group of records of a ledger key."""
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
    """A way to start both actors, which end after the test."""
    yield Journals
    pykka.ActorRegistry.stop_all(timeout=5)
