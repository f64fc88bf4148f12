"""Requests to bookies, and waiting for their replies. Readers, repairs and tools use it."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from zbk.client.arrivals import Arrivals
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s
from zbk.system.deadline import rounded_s, wait_s
from zbk.transport.dealer import BookiePool
from zbk.transport.events import News, Outgoing, Reply, Sink
from zbk.wire.messages import Answer, Message

REQUEST_OVERHEAD_SIZE = 512

AnswerT = TypeVar("AnswerT", bound=Answer)


def answer_of(reply: Reply, kind: type[AnswerT]) -> AnswerT | ZbkError:
    """Return the answer in a reply if it is of this kind, else the reply's error."""
    return reply.outcome if isinstance(reply.outcome, kind) else reply.error


class ReplyBox(Arrivals[Reply]):
    """A sink of replies whose owner waits for them."""

    def deliver(self, news: list[News]) -> None:
        """Keep replies; a reply box subscribes to nothing else."""
        for one in news:
            if isinstance(one, Reply):
                self.put(one)


class Requests:
    """Sends requests to bookies through a pool. Each is answered, at the latest by its time-out.

    The time-out of a request starts when the request is handed to the bookie, and anew while the
    bookie works through earlier requests of this client: see ``zbk.transport.outstanding``.
    """

    def __init__(self, pool: BookiePool, timeout_ms: int) -> None:
        self._pool = pool
        self._timeout_ms = timeout_ms

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        """Send one request; its reply goes into ``box`` under ``key``.

        ``wait_ms``: the bookie may wait so long before it answers. ``needs_own_try``: as in
        ``Outgoing``; a request that has another bookie to turn to fails at once instead.
        """
        self._pool.request(
            Outgoing(
                bookie_id=bookie_id,
                request=request,
                frames=frames,
                sink=box,
                key=key,
                timeout_ms=self._timeout_ms + wait_ms,
                size=REQUEST_OVERHEAD_SIZE + sum(map(len, frames)),
                needs_own_try=needs_own_try,
            )
        )

    def call(self, bookie_id: str, request: Message, kind: type[AnswerT]) -> AnswerT:
        """Send one request and return its answer, which is of this kind.

        Raises:
            ZbkError: the bookie refuses, does not answer in time, or answers something else.
        """
        answer = answer_of(self.ask(bookie_id, request), kind)
        if isinstance(answer, ZbkError):
            raise answer
        return answer

    def ask(self, bookie_id: str, request: Message, frames: tuple[bytes, ...] = ()) -> Reply:
        """Send one request and wait for its reply.

        Raises:
            RequestTimeoutError: the reply did not come before the caller's deadline.
        """
        return self.ask_all([bookie_id], request, frames)[bookie_id]

    def ask_all(
        self, bookie_ids: Sequence[str], request: Message, frames: tuple[bytes, ...] = ()
    ) -> dict[str, Reply]:
        """Send the same request to several bookies and wait for all replies. As ``ask``."""
        return self.ask_each(dict.fromkeys(bookie_ids, (request, frames)))

    def ask_each(self, built: Mapping[str, tuple[Message, tuple[bytes, ...]]]) -> dict[str, Reply]:
        """Send each bookie its request and wait for all replies. As ``ask``.

        A bookie that has just come back answers: an older failure to connect counts for nothing.
        """
        started_s = monotonic_s()
        box = ReplyBox()
        for bookie_id, (request, frames) in built.items():
            self.send(bookie_id, request, frames, box, bookie_id, needs_own_try=True)
        replies: dict[str, Reply] = {}
        while len(replies) < len(built):
            reply = box.next(wait_s())
            if reply is None:
                silent = ", ".join(sorted(built.keys() - replies.keys()))
                raise RequestTimeoutError(f"bookie {silent}", rounded_s(monotonic_s() - started_s))
            replies[reply.bookie_id] = reply
        return replies
