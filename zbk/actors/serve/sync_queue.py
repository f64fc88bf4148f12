"""The sync side of a journal: groups that are written, and one fsync for all of them.

A *ticket* numbers the groups of the storage actor. An fsync covers exactly the groups that were
written before it began. ``SyncProgress`` says how far it came and may be read in any thread; a
thread is only woken for it if it waits.

A failed fsync is final: nothing is answered after it.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from zbk.actors.messages import Sink
from zbk.actors.serve.journal_times import NO_WRITE, NONE, UNTIMED, JournalTimes, WriteTime
from zbk.durability.lone_sync import LoneSync
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import JournalRecord
from zbk.system.clock import monotonic_us
from zbk.transport.inbound import Outbound

if TYPE_CHECKING:
    from zbk.tracing.request_spans import RequestSpan

Send: TypeAlias = Callable[[Sequence[Outbound]], None]


class JournalFile(Protocol):
    """The journal, as its actors use it. ``append`` and ``sync`` may run at the same time."""

    def append(self, records: Sequence[JournalRecord]) -> object:
        """Write records to the page cache, in order."""
        ...

    def note_synced(self) -> None:
        """Write the evidence of the last sync, if no record has come to carry it."""
        ...

    def sync(self) -> object:
        """Bring everything appended before this call to stable storage."""
        ...


class AppendGroup(msgspec.Struct):
    """Records to write under one ticket, and the answers that follow. No records: a barrier."""

    ticket: int
    records: Sequence[JournalRecord]
    size: int  # bytes
    after_write: Sequence[Outbound]  # answers to send once the records are in the page cache
    after_sync: Sequence[Outbound]  # and once they are on stable storage
    is_sync_news: bool  # the storage actor waits for ``Synced``
    is_sync_needed: bool  # the storage actor or a client waits for the sync
    received_us: int = 0  # when the front received the requests; ``UNTIMED``; 0: there are none
    lone_count: int = 1  # of lone groups, for how many it stands in metrics
    handed_us: int = 0  # when it was handed to the journal, or its write began; 0: not yet
    spans: "Sequence[RequestSpan]" = ()  # of its requests that are traced
    write_types: Sequence[LedgerType] = ()  # of the ledgers with adds answered after the write
    sync_types: Sequence[LedgerType] = ()  # and with adds answered after the sync

    def note(self, stage: str) -> None:
        """Record in the spans that the group has come so far."""
        for span in self.spans:
            span.event(stage)


class Synced(msgspec.Struct, frozen=True):
    """To the storage actor: one journal is on stable storage up to this ticket."""

    ticket: int
    journal_no: int = 0


class SyncProgress:
    """How far one journal is on stable storage: a number that may be read in any thread.

    A thread that waits for it sets ``is_watched`` first and then reads ``synced_ticket``. A sync
    sets ``synced_ticket`` first and then reads ``is_watched``: one of them sees the other. The same
    holds for ``is_awaited`` and ``synced_size``.
    """

    __slots__ = ("is_awaited", "is_watched", "synced_size", "synced_ticket", "written_size")

    def __init__(self) -> None:
        self.synced_ticket = 0  # written by the ``SyncQueue``
        self.is_watched = False  # written by the storage actor: it waits for each ``Synced``
        self.is_awaited = False  # likewise: requests are held until a sync ends
        self.written_size = 0  # bytes of all groups that were written; by the ``SyncQueue``
        self.synced_size = 0  # bytes of the groups whose sync was needed; by the ``SyncQueue``


class SyncQueue:
    """Groups that are written and not synced, and the fsync for all of them. Any thread.

    ``run`` takes the groups that are queued, syncs once, and sends the answers of all. One run at a
    time; a group that is queued during a run waits for the next.
    """

    def __init__(
        self,
        journal: JournalFile,
        storage: Sink[Synced],
        send: Send,
        progress: SyncProgress,
        journal_no: int = 0,
        now_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self.lone_sync = LoneSync()
        self.times = JournalTimes()
        self.journal = journal
        self.send = send
        self._journal_no = journal_no
        self._storage = storage
        self._progress = progress
        self._now_us = now_us
        self._groups: list[AppendGroup] = []
        self._running: Sequence[AppendGroup] = ()  # that the fsync under way covers
        self._groups_lock = threading.Lock()
        self._run_lock = threading.Lock()
        self.unsynced_size = 0
        self.sync_count = 0
        self._running_size = 0  # bytes that the fsync under way covers
        self._waiting_since_us = 0  # when the oldest of the queued groups was handed over
        self._running_since_us = 0  # and the oldest of those that the fsync under way covers

    @property
    def is_running(self) -> bool:
        """True while an fsync is under way."""
        return self._run_lock.locked()

    @property
    def volatile_size(self) -> int:
        """Bytes that are written and not on stable storage. Any thread."""
        return self.unsynced_size + self._running_size

    @property
    def volatile_us(self) -> int:
        """The age of the oldest bytes that are not on stable storage; 0: none. Any thread."""
        since = [one for one in (self._running_since_us, self._waiting_since_us) if one]
        return self._now_us() - min(since) if since else 0

    def unsynced_groups(self) -> list[AppendGroup]:
        """Return the groups that are not on stable storage, the oldest first. Any thread."""
        with self._groups_lock:
            return [*self._running, *self._groups]

    def put(self, groups: Sequence[AppendGroup]) -> None:
        """Queue groups that have been written."""
        with self._groups_lock:
            if not self._waiting_since_us:  # nothing that waits has records
                since_us = (group.handed_us for group in groups if group.records)
                self._waiting_since_us = next(since_us, 0)
            self._groups += groups
            size = sum(group.size for group in groups)
            self.unsynced_size += size
            self._progress.written_size += size

    def run(self, write: WriteTime = NO_WRITE) -> None:
        """Sync the groups that are queued, and send their answers.

        ``write``: what the caller has observed just before.

        Raises:
            StorageFailedError: the fsync failed; nothing was sent.
        """
        with self._run_lock:
            groups = self._take()
            if not groups:
                self.observe(write)
                return
            begun_us = self._now_us()
            self.journal.sync()  # covers these groups: they were written before it began
            ended_us = self._now_us()
            had_records = any(group.records for group in groups)  # else it may have done nothing
            if had_records:
                self.lone_sync.synced(ended_us - begun_us)
            self._running_since_us = self._running_size = 0
            self._running = ()
            self._tell(groups)
            is_timed = len(groups) > 1 or groups[0].received_us != UNTIMED
            if is_timed and self.times.observed is not None:
                fsync_us = ended_us - begun_us if had_records else NONE
                self._observe_sync(groups, write, fsync_us, ended_us)

    def observe(self, write: WriteTime) -> None:
        """Record a write that no sync follows, if there is one."""
        observed = self.times.observed
        if observed is not None and write is not NO_WRITE:
            observed.put((*write, NONE, (), NONE))

    def _observe_sync(
        self, groups: Sequence[AppendGroup], write: WriteTime, fsync_us: int, ended_us: int
    ) -> None:
        observed = self.times.observed
        assert observed is not None, "the caller has looked"
        _, wait_us, write_us = write
        answers = [
            (group.lone_count, group.sync_types, ended_us - group.received_us)
            for group in groups
            if group.sync_types and group.received_us > 0
        ]
        if len(groups) == 1 == len(answers):  # one row
            count, types, answer_us = answers.pop()
            observed.put((count, wait_us, write_us, fsync_us, types, answer_us))
        elif write_us != NONE or fsync_us != NONE:
            count = groups[0].lone_count if len(groups) == 1 else 1
            observed.put((count, wait_us, write_us, fsync_us, (), NONE))
        for count, types, answer_us in answers:
            observed.put((count, NONE, NONE, NONE, types, answer_us))

    def _take(self) -> list[AppendGroup]:
        with self._groups_lock:
            groups = self._running = self._groups
            self._groups = []
            self._running_since_us, self._waiting_since_us = self._waiting_since_us, 0
            self._running_size, self.unsynced_size = self.unsynced_size, 0
        return groups

    def _tell(self, groups: Sequence[AppendGroup]) -> None:
        progress = self._progress
        progress.synced_ticket = groups[-1].ticket
        progress.synced_size += sum([group.size for group in groups if group.is_sync_needed])
        self.sync_count += 1
        for group in groups:
            if group.spans:
                group.note("synced")
        answers = [answer for group in groups for answer in group.after_sync]
        if answers:
            self.send(answers)
        if (
            progress.is_watched
            or progress.is_awaited
            or any(group.is_sync_news for group in groups)
        ):
            self._storage.tell(Synced(groups[-1].ticket, self._journal_no))
