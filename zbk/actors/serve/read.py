"""The read actor: fetches entries from the entry logs, so that adds do not wait for the disk.

mailbox     Fetch, from the storage actor, which has looked up where the entries are
answers     the client, through the front; or the storage actor, with ``ResolveAgain``
owns        nothing: entry logs may be read from any thread
on failure  the bookie stops; an entry that cannot be read is an answer, not a failure

A log may be compacted, and removed, between the look into the index and the reading. Its entries
are elsewhere then: the storage actor, whose index it is, is asked once more, and no client sees it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.serve.refusals import refusal_of
from zbk.actors.serve.sync_queue import Send
from zbk.errors import EntryUnreadableError, ZbkError
from zbk.metrics.buckets import Buckets
from zbk.metrics.refusals import Refusals
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.system.clock import monotonic_ns
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import ReadAnswer

RESOLVE_COUNT_MAX: Final = 2
"""How often a read is looked up once more; then a log that is not there is damage."""


class Fetch(msgspec.Struct, frozen=True):
    """Entries to read, where they are, and what to say with them."""

    inbound: Inbound
    resolved: Resolved
    lac: int
    resolve_count: int = 0  # how often it was looked up once more


class ResolveAgain(msgspec.Struct, frozen=True):
    """To the storage actor: where these entries were they are not any more."""

    fetch: Fetch


class MovedEntries(msgspec.Struct, frozen=True):
    """How entries are found again whose log was compacted."""

    is_gone: Callable[[Resolved], bool]  # whether the log of the first one is not there
    resolve_again: Callable[[ResolveAgain], None]


class ReadCounts(msgspec.Struct):
    """What was read; written by the actor's thread."""

    request_count: int = 0
    entry_count: int = 0
    size: int = 0


class ReadActor(BookieActor):
    """Reads entries and answers."""

    def __init__(
        self,
        fetch: Callable[[Resolved], tuple[int, bytes]],
        send: Send,
        incarnation: int,
        stop_bookie: StopBookie,
        moved: MovedEntries | None = None,  # None: nothing is compacted
    ) -> None:
        super().__init__(stop_bookie)
        self._fetch = fetch
        self._moved = moved
        self._send = send
        self._incarnation = incarnation
        self.counts = ReadCounts()
        self.times = Buckets()  # of single reads
        self.refusals = Refusals()

    def handle(self, message: list[Fetch]) -> None:
        """Read and answer one after another: each answer may be megabytes."""
        for one in message:
            span = one.inbound.span
            if span is not None:
                span.event("admitted")
            begun_us = monotonic_ns() // 1_000
            answer = self._answer(one)
            self.times.observe(monotonic_ns() // 1_000 - begun_us)
            if span is not None:
                span.event("read")
            if answer is not None:
                self._send([answer])

    def _answer(self, one: Fetch) -> Outbound | None:
        try:
            count, body = self._fetch(one.resolved)
        except ZbkError as error:
            moved = self._moved
            if moved is not None and _may_have_moved(one, error) and moved.is_gone(one.resolved):
                moved.resolve_again(ResolveAgain(one))
                return None
            self.refusals.count(error)
            return Outbound(one.inbound, refusal_of(one.inbound, self._incarnation, error))
        self.counts.request_count += 1
        self.counts.entry_count += count
        self.counts.size += len(body)
        answer = ReadAnswer(
            request_id=one.inbound.request.request_id,
            incarnation=self._incarnation,
            count=count,
            lac=one.lac,
        )
        return Outbound(one.inbound, answer, (body,))


def _may_have_moved(one: Fetch, error: ZbkError) -> bool:
    return isinstance(error, EntryUnreadableError) and one.resolve_count < RESOLVE_COUNT_MAX
