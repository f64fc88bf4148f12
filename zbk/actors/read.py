"""The read actor: fetches entries from the entry logs, so that adds do not wait for the disk.

mailbox     Fetch, from the storage actor, which has looked up where the entries are
answers     the client, through the front
owns        nothing: entry logs may be read from any thread
on failure  the bookie stops; an entry that can not be read is an answer, not a failure
"""

from collections.abc import Callable

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.journal import Send
from zbk.errors import ZbkError
from zbk.storage.entry_reader import Resolved
from zbk.transport.router import Inbound, Outbound
from zbk.wire.codec import refusal
from zbk.wire.messages import ReadAnswer


class Fetch(msgspec.Struct, frozen=True):
    """Entries to read, where they are, and what to say with them."""

    inbound: Inbound
    resolved: Resolved
    lac: int


class ReadCounts(msgspec.Struct):
    """What was read; written by the actor's thread."""

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
    ) -> None:
        super().__init__(stop_bookie)
        self._fetch = fetch
        self._send = send
        self._incarnation = incarnation
        self.counts = ReadCounts()

    def handle(self, message: list[Fetch]) -> None:
        """Read and answer one after another: each answer may be megabytes."""
        for one in message:
            self._send([self._answer(one)])

    def _answer(self, one: Fetch) -> Outbound:
        request_id = one.inbound.request.request_id
        try:
            count, body = self._fetch(one.resolved)
        except ZbkError as error:
            return Outbound(one.inbound, refusal(request_id, self._incarnation, error))
        self.counts.entry_count += count
        self.counts.size += len(body)
        answer = ReadAnswer(
            request_id=request_id, incarnation=self._incarnation, count=count, lac=one.lac
        )
        return Outbound(one.inbound, answer, (body,))
