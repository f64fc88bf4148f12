"""The copier: carries out copies of entries to a bookie, at a limited rate.

It blocks the thread of the caller. ``zbk.protocol.repair.fragment_copy`` decides what is read,
verified, added and confirmed. Copiers that share a ``SharedThrottle`` share a rate.

>>> copier = Copier(requests)                                            # doctest: +SKIP
>>> copier.copy(order, Secret.of(metadata, password=None)).is_whole      # doctest: +SKIP
True
"""

import threading
from collections.abc import Callable
from typing import Final, Self, assert_never

import msgspec

from zbk.client.cluster.ledger_calls import BuiltRequest, LedgerRequests, body_of, info_request
from zbk.client.cluster.requests import ReplyBox, Requests, answer_of
from zbk.errors import ZbkError
from zbk.protocol.entry.digest import DigestFunction, digest_function, ledger_key
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.fragment_copy_events import (
    AddAnswered,
    CopyAdvanced,
    CopyEnded,
    CopyLimits,
    CopyResult,
    CopyStarted,
    CopyStopped,
    Effect,
    Event,
    HoldingsAnswered,
    ReadAnswered,
    SendAdd,
    SendRead,
)
from zbk.protocol.repair.holdings import AskHoldings, HeldPages
from zbk.protocol.throttle import Throttle
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply
from zbk.wire.messages import AddAnswer, LedgerInfo

LOOK_S: Final = 0.1
"""The interval at which a copy that waits for an answer checks whether it is stopped."""


class Secret(msgspec.Struct, frozen=True):
    """The key that bookies require, and the digest that verifies entries, if it is known."""

    ledger_key: bytes
    digest: DigestFunction | None  # None: entries cannot be verified
    password: bytes | None = None

    @classmethod
    def of(cls, metadata: LedgerMetadata, password: bytes | None = None) -> Self:
        """Return the secret of a ledger; without its password it may lack the digest."""
        ledger_id, digest_type = metadata.ledger_id, metadata.digest_type
        key = metadata.ledger_key or ledger_key(password or b"", ledger_id)
        is_verifiable = digest_type is DigestType.XXH3 or (
            digest_type is DigestType.MAC and password is not None
        )
        if not is_verifiable:
            return cls(key, None, password)
        return cls(key, digest_function(digest_type, password or b"", ledger_id), password)

    def __repr__(self) -> str:
        return "Secret(...)"


class SharedThrottle:
    """A throttle for several threads. 0: no limit."""

    def __init__(self, rate_size: int = 0) -> None:
        self._throttle = Throttle(rate_size)
        self._lock = threading.Lock()

    def change(self, rate_size: int) -> None:
        """Set another rate."""
        with self._lock:
            self._throttle.change(rate_size)

    def wait(self, size: int, is_stopped: threading.Event) -> None:
        """Wait until ``size`` more bytes may pass, or ``is_stopped`` is set."""
        with self._lock:
            wait_ms = self._throttle.wait_ms(size, monotonic_ms())
        if wait_ms:
            is_stopped.wait(wait_ms / 1000)


class Copier:
    """A copier. Any thread may use it; each call is one copy."""

    def __init__(
        self,
        requests: Requests,
        throttle: SharedThrottle | None = None,
        limits: CopyLimits | None = None,
    ) -> None:
        self._requests = requests
        self._throttle = throttle or SharedThrottle()
        self._limits = limits or CopyLimits()

    def copy(
        self,
        order: CopyOrder,
        secret: Secret,
        *,
        on_progress: Callable[[int, int], None] = lambda _count, _size: None,
        is_stopped: threading.Event | None = None,
    ) -> CopyResult:
        """Carry out an order; return the result. Errors of bookies are part of the result.

        ``on_progress`` is called with entries and bytes each time the target has fsynced more.
        """
        stop = is_stopped or threading.Event()
        core = FragmentCopy(order, secret.digest, self._limits)
        run = _Run(self._requests, order, secret, self._throttle, stop, on_progress)
        return run.until_the_end(core, self._limits.read_size)


class _Run:
    """One copy under way."""

    def __init__(
        self,
        requests: Requests,
        order: CopyOrder,
        secret: Secret,
        throttle: SharedThrottle,
        is_stopped: threading.Event,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._requests = requests
        self._ledger = LedgerRequests.of(order.metadata, secret.ledger_key)
        self._throttle = throttle
        self._is_stopped = is_stopped
        self._on_progress = on_progress
        self._read_size = 0  # bytes that one answer may bring
        self._box = ReplyBox()
        self._result: CopyResult | None = None

    def until_the_end(self, core: FragmentCopy, read_size: int) -> CopyResult:
        """Carry out the effects of the core until it has ended."""
        self._read_size = read_size
        event: Event | None = CopyStarted()
        while True:
            if self._is_stopped.is_set():
                event = CopyStopped()
            if event is not None:
                for effect in core.handle(event, monotonic_ms()):
                    self._carry_out(effect)
            if self._result is not None:
                return self._result
            reply = self._box.next(LOOK_S)
            event = None if reply is None else event_of(reply)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendRead(entry_ids=ids, is_checked=is_checked):
                self._send(effect, self._ledger.read(ids, self._read_size, is_checked=is_checked))
            case SendAdd(batch=batch, lac=lac):
                self._throttle.wait(batch.size, self._is_stopped)
                self._send(effect, self._ledger.add(batch, lac, is_recovery=True))
            case AskHoldings(span=(first_id, _)):
                self._send(effect, info_request(self._ledger.ledger_id, first_id))
            case CopyAdvanced(count, size):
                self._on_progress(count, size)
            case CopyEnded(result):
                self._result = result
            case _:
                assert_never(effect)

    def _send(self, effect: SendRead | SendAdd | AskHoldings, built: BuiltRequest) -> None:
        self._requests.send(effect.bookie_id, *built, self._box, effect)


def event_of(reply: Reply) -> Event:
    """Return the core's event for a reply whose key is the effect that sent the request."""
    match reply.key:
        case SendRead(request_id):
            return ReadAnswered(request_id, body_of(reply))
        case SendAdd(request_id):
            is_added = isinstance(reply.outcome, AddAnswer)
            return AddAnswered(request_id, None if is_added else reply.error)
        case AskHoldings(_, span):
            info = answer_of(reply, LedgerInfo)
            if isinstance(info, ZbkError):
                return HoldingsAnswered(info)
            pages = HeldPages(span)
            pages.add(info.ranges, info.next_entry_id, is_in_limbo=info.is_in_limbo)
            return HoldingsAnswered(pages.holdings)
    raise AssertionError("a copy sends no other request")
