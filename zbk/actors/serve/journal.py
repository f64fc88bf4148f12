"""The two actors of a journal: one writes and one syncs, so that both go on at the same time.

A bookie has both for each of its journals, independent of the others.

``JournalActor``
    mailbox     AppendGroup, from the storage actor, in order; NoteSynced, from the ticker. If the
                group is small and the disk is fast, the storage actor's thread takes this turn
    answers     clients whose answer waits for the page cache only, through the front
    owns        the write side of the Journal

``JournalSyncActor``
    mailbox     Flush, from the journal actor; SyncDue, from the ticker
    answers     through ``SyncQueue``: clients whose answer waits for the disk; Synced, to the
                storage actor
    owns        nothing: the sync side of the Journal belongs to the ``SyncQueue``

Groups form by themselves: those that queue while a write, or an fsync, is under way go together in
the next one. Each has a ticket (``zbk.actors.serve.sync_queue``).

The journal actor itself syncs a small group that no other group follows, where no client waits
longer for that (``zbk.durability.lone_sync``): waking another thread would cost a lone add more
than it gains.

On a full disk groups wait, in order, and are retried: nothing after them could be promised without
them. Adds among them are refused at once, so that their writer takes another bookie. Fences are
answered when their group is written in the end.

On failure the bookie stops: after a failed write or fsync nothing can be promised.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, LendingActor, StopBookie
from zbk.actors.messages import Sink
from zbk.actors.serve.journal_times import NO_WRITE, NONE, UNTIMED, WriteTime
from zbk.actors.serve.refusals import refusal_of
from zbk.actors.serve.sync_queue import AppendGroup, SyncQueue
from zbk.actors.space_gate import SpaceGate
from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.metrics.refusals import Refusals
from zbk.system.clock import monotonic_ms, monotonic_ns
from zbk.system.direct_inbox import Door
from zbk.transport.inbound import Outbound
from zbk.wire.messages import AddAnswer

WRITE_SIZE_MAX: Final = 8 * 1024 * 1024
"""Bytes of one gathered write; more waits for the next."""

OWN_SYNC_SIZE_MAX: Final = 64 * 1024
"""Bytes of a group that the journal actor may sync itself when no other group follows."""


class JournalSink(Protocol):
    """The door of a journal actor."""

    def tell(self, group: AppendGroup) -> None:
        """Deliver without waiting."""
        ...

    def take(self, group: AppendGroup) -> None:
        """Deliver the only group of a turn; wait for its write where that is faster."""
        ...


class NoteSynced(msgspec.Struct, frozen=True):
    """Write the evidence of the last sync, if no group waits to be written."""


class Flush(msgspec.Struct, frozen=True):
    """Sync the groups that were written: a client waits, or they are many bytes."""


class SyncDue(msgspec.Struct, frozen=True):
    """Sync the groups that were written, though no client waits."""


WriteMessage: TypeAlias = AppendGroup | NoteSynced
SyncMessage: TypeAlias = Flush | SyncDue


class JournalActor(LendingActor):
    """Writes groups. It does not wait for the disk while another group waits for it."""

    def __init__(
        self,
        queue: SyncQueue,
        syncer: Sink[Flush],
        space: SpaceGate,
        *,
        unsynced_size_max: int,
        stop_bookie: StopBookie,
        door: Door | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(stop_bookie, door or Door())
        self._now_ms = now_ms
        self._journal = queue.journal
        self._send = queue.send
        self._space = space
        self._queue = queue
        self._syncer = syncer
        self._unsynced_size_max = unsynced_size_max
        self._groups: list[AppendGroup] = []
        self._size = 0
        self._observed: WriteTime = NO_WRITE  # the last write, until it is recorded
        self.refusals = Refusals()

    def handle(self, message: WriteMessage) -> None:
        """Queue a group; write those that are queued when no other comes, or they are large."""
        match message:
            case AppendGroup():
                self._groups.append(message)
                self._size += message.size
            case NoteSynced():
                if not self._groups:
                    self._note_synced()
                    return
            case _:
                assert_never(message)
        if self._size >= WRITE_SIZE_MAX or self.actor_inbox.empty():
            self._write()

    def _write(self) -> None:
        groups, self._groups = self._groups, []
        self._size = 0
        written: Sequence[AppendGroup] = groups
        failure = self._append(groups)
        if failure is not None:
            written, failure = self._append_singly(groups)
        if failure is not None:
            self._wait_for_space(groups[len(written) :], failure)
        if written:
            self._written(written)

    def _append(self, groups: Sequence[AppendGroup]) -> NoSpaceError | None:
        """Append groups in one write; return the error if there was no space."""
        records = [record for group in groups for record in group.records]
        if records:
            begun_us = monotonic_ns() // 1_000
            for group in groups:
                group.handed_us = group.handed_us or begun_us
            try:
                self._journal.append(records)
            except NoSpaceError as error:
                return error
            is_lone = len(groups) == 1
            if not (is_lone and groups[0].received_us == UNTIMED):
                count = groups[0].lone_count if is_lone else 1
                wait_us = begun_us - groups[0].handed_us
                self._observed = count, wait_us, monotonic_ns() // 1_000 - begun_us
        return None

    def _append_singly(
        self, groups: Sequence[AppendGroup]
    ) -> tuple[Sequence[AppendGroup], NoSpaceError | None]:
        """Append as many groups as there is space for; return them, and the error of the next.

        The reserve has just been released, and may be enough for all.
        """
        for count, group in enumerate(groups):
            self._observe_write()  # the one before
            failure = self._append([group])
            if failure is not None:
                return groups[:count], failure
        return groups, None

    def _wait_for_space(self, groups: Sequence[AppendGroup], failure: NoSpaceError) -> None:
        is_busy = isinstance(failure, OutOfDescriptorsError)
        error = failure if is_busy else self._space.refusal()
        refusals = []
        for group in groups:
            for outbound in (*group.after_write, *group.after_sync):
                answer = outbound.answer
                if isinstance(answer, AddAnswer):
                    refused = refusal_of(outbound.inbound, answer.incarnation, error)
                    refusals.append(Outbound(outbound.inbound, refused))
                    self.refusals.count(error)
        if refusals:
            self._send(refusals)
        self._groups = [
            msgspec.structs.replace(
                group,
                after_write=_without_adds(group.after_write),
                after_sync=_without_adds(group.after_sync),
            )
            for group in groups
        ]
        self._size = sum(group.size for group in groups)

    def _note_synced(self) -> None:
        if self._space.is_readonly:
            return  # notes are large, and the room that is left is for fences
        with suppress(NoSpaceError):
            self._journal.note_synced()

    def _written(self, groups: Sequence[AppendGroup]) -> None:
        """Answer the requests that wait for the write, and have the groups synced."""
        size = sum(group.size for group in groups)
        answers = [answer for group in groups for answer in group.after_write]
        queue = self._queue
        for group in groups:
            if group.spans:
                group.note("written")
        if answers:
            self._send(answers)
            queue.lone_sync.written(self._now_ms())
            self._observe_answers(groups)
        kept = [one for one in groups if one.records or one.is_sync_needed or one.is_sync_news]
        if kept:  # the others are adds of bypass ledgers: the journal has nothing of them to sync
            queue.put(kept)
        is_awaited = any(group.is_sync_needed for group in groups)
        if is_awaited and self._may_sync(size):
            write, self._observed = self._observed, NO_WRITE
            queue.run(write)
            return
        if is_awaited or queue.unsynced_size >= self._unsynced_size_max:
            self._syncer.tell(Flush())
        self._observe_write()

    def _observe_write(self) -> None:
        """Record the last write, if that is not done."""
        write, self._observed = self._observed, NO_WRITE
        self._queue.observe(write)

    def _observe_answers(self, groups: Sequence[AppendGroup]) -> None:
        observed = self._queue.times.observed
        if observed is None:
            return
        now_us = monotonic_ns() // 1_000
        for group in groups:
            if group.write_types and group.received_us > 0:
                answer_us = now_us - group.received_us
                observed.put((group.lone_count, NONE, NONE, NONE, group.write_types, answer_us))

    def _may_sync(self, size: int) -> bool:
        """Return whether this thread syncs what it has just written."""
        queue = self._queue
        is_lone = size <= OWN_SYNC_SIZE_MAX and self.actor_inbox.empty()
        return is_lone and not queue.is_running and queue.lone_sync.is_for_writer(self._now_ms())


class JournalDoor(Door):
    """Where the storage actor hands groups to one journal actor, in order."""

    def __init__(self, queue: SyncQueue) -> None:
        super().__init__()
        self._queue = queue

    def tell(self, message: object) -> None:
        """Leave a group, or another message, to the actor."""
        if isinstance(message, AppendGroup):
            message.handed_us = monotonic_ns() // 1_000
        super().tell(message)

    def take(self, group: AppendGroup) -> None:
        """Write a lone group in the calling thread, if it is small and fsyncs are fast.

        Otherwise the actor writes it.
        """
        queue = self._queue
        is_quick = group.size <= OWN_SYNC_SIZE_MAX and queue.lone_sync.is_quick
        if queue.is_running or not (is_quick and self.hand(group)):
            self.tell(group)


class JournalSyncActor(BookieActor):
    """Runs the fsyncs that the journal actor does not run itself."""

    def __init__(self, queue: SyncQueue, stop_bookie: StopBookie) -> None:
        super().__init__(stop_bookie)
        self._queue = queue

    def handle(self, message: SyncMessage) -> None:
        """Sync. The last of several messages in a row is enough."""
        match message:
            case Flush() | SyncDue():
                if self.actor_inbox.empty():
                    self._queue.run()
            case _:
                assert_never(message)


def _without_adds(answers: Sequence[Outbound]) -> list[Outbound]:
    return [one for one in answers if not isinstance(one.answer, AddAnswer)]
