"""Requests that a client sends through its connections, and the news that come back."""

from typing import Protocol, TypeAlias

import msgspec

from zbk.errors import BookieUnavailableError, ZbkError
from zbk.security.credentials import ANONYMOUS, Credentials
from zbk.transport.frames import Frame
from zbk.wire.messages import Answer, Hello, Message


class Reply(msgspec.Struct, frozen=True):
    """The outcome of one request: an answer with its frames, or an error."""

    bookie_id: str
    key: object  # the caller's, from the request
    outcome: Answer | ZbkError
    frames: tuple[bytes, ...] = ()

    @property
    def error(self) -> ZbkError:
        """The error of a request whose answer is missing, or is of another kind."""
        if isinstance(self.outcome, ZbkError):
            return self.outcome
        reason = f"gave an answer of another kind: {type(self.outcome).__name__}"
        return BookieUnavailableError(self.bookie_id, reason)


class BookieUp(msgspec.Struct, frozen=True):
    """The connection to a bookie is ready."""

    bookie_id: str
    incarnation: int
    entry_size_max: int
    key: object = None  # the subscriber's, from ``subscribe``
    version: int = 0  # of the protocol, as both agreed; 0: not known


class BookieDown(msgspec.Struct, frozen=True):
    """The connection to a bookie was lost, or an attempt to connect failed."""

    bookie_id: str
    error: ZbkError
    key: object = None  # the subscriber's, from ``subscribe``


News: TypeAlias = Reply | BookieUp | BookieDown


class Sink(Protocol):
    """The receiver of news. Called in the pool's thread; must not block."""

    def deliver(self, news: list[News]) -> None:
        """Handle news, in the order in which it happened."""
        ...


class Outgoing(msgspec.Struct, gc=False):
    """One request on its way. ``size`` counts against the credit."""

    bookie_id: str
    request: Message  # its request id and incarnation are filled in when it is sent
    frames: tuple[Frame, ...]
    sink: Sink
    key: object
    timeout_ms: int
    size: int
    handed_ms: int = 0  # when it was handed to the bookie; the connection writes this and the rest
    refused_count: int = 0  # for want of a HELLO
    is_large: bool = False  # it is in the large lane (``zbk.transport.request_queue``)
    needs_own_try: bool = False  # the failure of a try that began before it is no answer to it

    @property
    def ledger_id(self) -> int | None:
        """The ledger that the request is about; ``None``: it is about none."""
        return getattr(self.request, "ledger_id", None)


class DealerOptions(msgspec.Struct, frozen=True):
    """The client's identity, and its time-outs."""

    instance_id: str
    software: str
    connect_timeout_ms: int
    idle_ms: int = 60_000  # after which an unused connection is closed
    spin_us: int = 0  # of busy polling after each event, before the thread sleeps
    credentials: Credentials = ANONYMOUS

    def hello(self, request_id: int, bookie_id: str) -> Hello:
        """Return the first message to a bookie."""
        return Hello(
            request_id=request_id,
            instance_id=self.instance_id,
            bookie_id=bookie_id,
            software=self.software,
        )
