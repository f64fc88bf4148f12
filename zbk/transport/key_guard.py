"""The guard of a bookie's front: which keys may connect, and whose a message is.

libzmq asks about each encrypted connection before it delivers anything (ZAP, ZeroMQ's RFC 27). The
answer depends on the key alone: a key of no principal is refused. libzmq then names the key with
each message, and the front compares it with the one that said HELLO: a routing id, which a peer
chooses, identifies nothing.

A connection without encryption has no key. It comes through an address of its own, or not at all.
libzmq asks nothing about it, and takes what it says of itself: also a ``User-Id``, which is where
the key of others is. So a key there has the *seal* of this process, which no peer can know.

Runs in the thread of the front (``zbk.transport.router``), under its lock. It adds no thread and no
wake-up: the front polls the descriptor of the guard with its own.

Decision: pyzmq's ``zmq.auth`` answers in a thread or an event loop of its own, and logs each
connection; this is the part of it that a bookie needs.
"""

import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import zmq
from zmq.utils import z85

from zbk.errors import KeyRefusedError
from zbk.security.keys import is_key
from zbk.security.principals import KeyTable
from zbk.system.event_log import EventLog
from zbk.system.report_pace import ReportPace
from zbk.transport.curve import DOMAIN
from zbk.transport.frames import has_message

LOG = EventLog("zbk.transport")

ZAP_ENDPOINT: Final = "inproc://zeromq.zap.01"
ZAP_VERSION: Final = b"1.0"
ZAP_FRAME_COUNT: Final = 7  # of a request by CURVE
KEY_SIZE: Final = 32
SEAL_SIZE: Final = 16  # random bytes; twice as many characters
OnRefused: TypeAlias = Callable[[str, str, str], None]
"""Is told the key of a refused connection, its address and the reason; what is unknown is ""."""

ANSWER_COUNT_MAX: Final = 64
"""Answers in one turn of the front; the next turn follows at once."""

REMEMBERED_COUNT_MAX: Final = 1_024
"""Refused connections that are remembered until they end; the oldest is forgotten."""

REPORT_MS: Final = 60_000


class KeyGuard:
    """Answers libzmq's questions about keys, and knows the key of a message."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", keys: KeyTable, *, accepts_plain: bool
    ) -> None:
        """Bind the endpoint that libzmq asks. The front binds its own after that."""
        self.keys = keys
        self._seal: Final = secrets.token_hex(SEAL_SIZE)
        self._accepts_plain = accepts_plain
        self.refused_count = 0
        self._unended = deque[tuple[int, str]](maxlen=REMEMBERED_COUNT_MAX)
        """When, and from which host: refused connections whose end was not reported yet."""
        self.on_refused: OnRefused | None = None
        self._refusals = ReportPace[tuple[str, str]](REPORT_MS)
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(ZAP_ENDPOINT)
        self.fd: Final = int(self._socket.FD)

    def close(self) -> None:
        """Close the socket; the front's is closed before."""
        self._socket.close(0)

    @property
    def remembered_count(self) -> int:
        """The number of refused connections whose end was not reported yet."""
        return len(self._unended)

    def has_question(self) -> bool:
        """Return whether libzmq asks about a connection."""
        return has_message(self._socket)

    def answer(self, now_ms: int) -> bool:
        """Answer the questions that wait; return whether those were all."""
        for _ in range(ANSWER_COUNT_MAX):
            if not has_message(self._socket):
                break
            question = self._socket.recv_multipart(zmq.NOBLOCK)
            self._socket.send_multipart(self._answer(question, now_ms), zmq.NOBLOCK)
        due = self._refusals.take_due(now_ms)
        if due is not None:
            count, (key, address) = due
            LOG.warning(
                "connection.key_refused",
                "refused key %(key)s from %(address)s: it belongs to no principal "
                "(%(refused_count)d refused since the last report)",
                key=key,
                address=address,
                refused_count=count,
            )
        return not has_message(self._socket)

    def admits(self, key: str) -> bool:
        """Return whether a connection may go on; ``key`` is "" without encryption."""
        return key in self.keys if key else self._accepts_plain

    def was_refused(self, address: str, accepted_ms: int) -> bool:
        """Return whether the end of a connection without a HELLO is that of a refused key.

        libzmq does not tell which connection has a key, but from which host. A refusal that is
        older than the connection belongs to another one, which the front ended itself.
        """
        host = address.rpartition(":")[0].strip("[]")
        for at, (refused_ms, refused_host) in enumerate(self._unended):
            if refused_host == host and refused_ms >= accepted_ms:
                del self._unended[at]
                return True
        return False

    def has_role(self, key: str) -> bool:
        """Return whether a key is that of a principal with a role in the cluster."""
        principal = self.keys.find(key)
        return principal is not None and bool(principal.roles)

    def key_of(self, frame: zmq.Frame) -> str:
        """Return the key of the connection that a frame came through; "" without encryption."""
        try:
            seal, colon, key = str(frame.get("User-Id")).partition(":")
        except (zmq.ZMQError, UnicodeError):
            return ""
        is_sealed = bool(colon) and secrets.compare_digest(seal.encode(), self._seal.encode())
        return key if is_sealed else ""

    def check_key(self, bookie_id: str, key: str) -> None:
        """Check the key of a connection that says HELLO.

        Raises:
            KeyRefusedError: it belongs to no principal, or no longer.
        """
        if not self.admits(key):
            if self.on_refused is not None:
                self.on_refused(key, "", "its HELLO has no key that is accepted")
            raise KeyRefusedError(bookie_id, refusal_of(key))

    def _answer(self, question: list[bytes], now_ms: int) -> list[bytes]:
        request_id = question[1] if len(question) > 1 else b""
        key = _key_of(question)
        if key in self.keys:
            return [ZAP_VERSION, request_id, b"200", b"OK", f"{self._seal}:{key}".encode(), b""]
        address = question[3].decode("ascii", "replace")[:80] if len(question) > 3 else ""
        self.refused_count += 1
        self._unended.append((now_ms, address))
        self._refusals.note((key or "none", address))
        if self.on_refused is not None:
            self.on_refused(key, address, "the key belongs to no principal")
        return [ZAP_VERSION, request_id, b"400", b"the key belongs to no principal", b"", b""]


def refusal_of(key: str) -> str:
    """Return why a key is refused, with the cure."""
    shown = f"key {key}" if key else "a connection without a key"
    return (
        f"it refuses {shown}: no principal has it. An operator admits it with "
        "`zbk principal add NAME --key KEY`"
    )


def _key_of(question: list[bytes]) -> str:
    """Return the key in a question of ZAP; "" if it is none by CURVE."""
    if len(question) != ZAP_FRAME_COUNT or question[0] != ZAP_VERSION:
        return ""
    _version, _request_id, domain, _address, _identity, mechanism, key = question
    if domain != DOMAIN or mechanism != b"CURVE" or len(key) != KEY_SIZE:
        return ""
    found = z85.encode(key).decode()
    return found if is_key(found) else ""
