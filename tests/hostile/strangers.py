"""Those who may not: without a key, with a foreign one, under another's name, without the right.

Each kind sends the same *words*: requests about a ledger of another principal, which would add to
it, read, fence and sync it. An attempt is one connection, or one message of a connection that the
bookie admits because its key is that of a principal.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Self, TypeAlias

import msgspec
import zmq

from tests.hostile.mutations import Message, real_requests
from tests.support.http import Scrape
from tests.support.machine import patient_s
from tests.support.raw_peers import RawPeer, command, greeting, ready
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalBookie
from zbk.errors import AccessDeniedError, HelloRequiredError, RoleRequiredError
from zbk.protocol.entry.digest import ledger_key
from zbk.security.keys import KeyPair
from zbk.transport.curve import connect_encrypted, new_pair
from zbk.transport.dealer_socket import NEVER_AGAIN_MS
from zbk.transport.frames import receive_frames
from zbk.wire import codec
from zbk.wire.messages import AnswerBundle, Bundle, Hello, HelloAnswer, Read, ReadLac, Refused

Socket: TypeAlias = "zmq.Socket[bytes]"
Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"

BULK_COUNT: Final = 50
"""Connections at a time; messages of one connection."""

GREETING_SIZE: Final = 64
"""The greeting of ZeroMQ: its version, and that it wants CURVE."""

WELCOME_SIZE: Final = 2 + 168
"""The answer of CURVE to a peer that knows the key of the bookie, and has not shown its own."""

HARMLESS: Final = {"hello", "ping", "bookie_info", "watch_lacs"}
"""Requests that any principal may send; watches are decided one by one, and these name none."""

READING: Final = {"read", "read_lac", "ledger_info", "bundle"}
"""Requests for which the right to read is enough; of a bundle, some parts."""

RETRY_MS: Final = 200
PATIENCE_MS: Final = int(patient_s(20.0) * 1_000)
REFUSALS: Final = {AccessDeniedError.code, RoleRequiredError.code}


class Target(msgspec.Struct, frozen=True):
    """The bookie, and the ledger that strangers want."""

    bookie: LocalBookie
    public_key: str  # of the bookie
    ledger_id: int

    def words(self) -> list[Message]:
        """Return the messages, as the owner of the ledger would send them."""
        key = ledger_key(b"", self.ledger_id)
        requests = real_requests(self.ledger_id, key, self.bookie.incarnation)
        return [one for one in requests if _tag(one) not in HARMLESS]

    def refused_count(self) -> float:
        """Return how many keys the bookie has refused."""
        return Scrape(self.bookie.http).total("zbk_bookie_keys_refused_total")


Attack: TypeAlias = Callable[[int], None]
"""Makes so many attempts; fails if one is not refused."""


# ------------------------------------------------------------------ without encryption


def mechanism(target: Target, name: bytes, handshake: bytes) -> Attack:
    """Return who greets with a mechanism that the bookie does not have, or does not follow it."""
    words = b"".join(_on_the_wire(one) for one in [_hello(), *target.words()])

    def attack(count: int) -> None:
        for _ in range(count):
            with RawPeer(target.bookie.address) as peer:
                with suppress(ConnectionError):
                    peer.socket.sendall(greeting(name) + handshake + words)
                assert len(peer.receive_all()) <= GREETING_SIZE

    return attack


def null(target: Target) -> Attack:
    """Return who speaks without encryption."""
    return mechanism(target, b"NULL", ready())


def plain(target: Target) -> Attack:
    """Return who gives a name and a password."""
    return mechanism(target, b"PLAIN", command(b"HELLO", b"\5alice\6secret"))


def curve_by_name(target: Target) -> Attack:
    """Return who says that it encrypts, and does not."""
    return mechanism(target, b"CURVE", ready())


# ------------------------------------------------------------------ foreign keys


def unknown_key(target: Target) -> Attack:
    """Return who has the keys of no principal, a new one each time."""

    def attack(count: int) -> None:
        before = target.refused_count()
        done = 0
        with zmq.Context() as context:
            while done < count:
                bulk = min(BULK_COUNT, count - done)
                done += bulk
                with _many(context, target, [new_pair("stranger") for _ in range(bulk)]) as sockets:
                    wait_until(lambda: target.refused_count() >= before + done)  # noqa: B023
                    assert not any(socket.poll(0) for socket in sockets)

    return attack


@contextmanager
def _many(context: Context, target: Target, pairs: Sequence[KeyPair]) -> Iterator[list[Socket]]:
    """Connect with each of these keys, and send the words."""
    words = [_hello(), *target.words()]
    sockets = [_socket(context, target, one) for one in pairs]
    try:
        for socket in sockets:
            with suppress(zmq.Again):  # it was refused meanwhile
                for message in words:
                    socket.send_multipart(message, zmq.NOBLOCK)
        yield sockets
    finally:
        for socket in sockets:
            socket.close(0)


# ------------------------------------------------------------------ another's name


def stolen_routing_id(target: Target, thief: KeyPair, victim: KeyPair) -> Attack:
    """Return a principal that takes the name of another one's connection, open and then ended."""

    def attack(count: int) -> None:
        done = 0
        with zmq.Context() as context:
            while done < count:
                bulk = min(BULK_COUNT, count - done)
                done += bulk
                name = b"v" + os.urandom(8)
                victims = _greeted(context, target, victim, name)
                _take_open(_socket(context, target, thief, name), victims, target, bulk // 2)
                victims.close(0)
                _take_ended(context, target, thief, name, bulk - bulk // 2)

    return attack


def _take_open(beside: Socket, victims: Socket, target: Target, count: int) -> None:
    """Send words under the name of a connection that is open; it goes on."""
    for message in [_hello(), *_series(target.words(), count)]:
        beside.send_multipart(message)
    _greet(victims)
    while beside.poll(0):
        _check_refused(receive_frames(beside), {HelloRequiredError.code})
    beside.close(0)


def _take_ended(context: Context, target: Target, thief: KeyPair, name: bytes, count: int) -> None:
    """Send words under the name of a connection that has ended: it was greeted, this one is not."""
    first, *others = _series(target.words(), count)
    while True:
        socket = _socket(context, target, thief, name)
        socket.send_multipart(first)
        if socket.poll(RETRY_MS):  # the bookie knows of the end, and the name is free
            break
        socket.close(0)
    for message in others:
        socket.send_multipart(message)
    left_count = sum(map(_request_count, [first, *others]))
    while left_count:
        left_count -= _check_refused(_receive(socket), {HelloRequiredError.code})
    socket.close(0)


# ------------------------------------------------------------------ replayed bytes


def replayed(target: Target, victim: KeyPair) -> Attack:
    """Return who has recorded a connection of a principal, and sends its bytes once more.

    Each time in a connection of its own.
    """

    def attack(count: int) -> None:
        recorded = b""
        for number in range(count):
            if number % BULK_COUNT == 0:
                with Repeated(target, victim) as connection:
                    connection.wait_until_ended()
                    recorded = connection.recorded
            with RawPeer(target.bookie.address) as peer:
                with suppress(ConnectionError):
                    peer.socket.sendall(recorded)
                assert len(peer.receive_all()) <= GREETING_SIZE + WELCOME_SIZE

    return attack


class Repeated:
    """A connection of a principal whose last message came twice, from someone on the way."""

    def __init__(self, target: Target, victim: KeyPair) -> None:
        host, _, port = target.bookie.address.removeprefix("tcp://").rpartition(":")
        self._proxy = TcpProxy((host, int(port)), is_recording=True)
        self._context: Context = zmq.Context()
        address = f"tcp://127.0.0.1:{self._proxy.port}"
        self._socket = _socket(self._context, target, victim, address=address)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        _greet(self._socket)
        greeted_size = len(self._proxy.recorded["to_server"])
        _greet(self._socket)
        self.recorded = bytes(self._proxy.recorded["to_server"])
        self._proxy.repeat(self.recorded[greeted_size:])

    def wait_until_ended(self) -> None:
        """Return once the bookie has ended it. The message that came again has no answer."""
        assert self._monitor.poll(PATIENCE_MS), "a connection with a repeated message goes on"
        assert not self._socket.poll(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()
        self._proxy.close()


# ------------------------------------------------------------------ without the right


def without_right(target: Target, pair: KeyPair, *, may_read: bool = False) -> Attack:
    """Return a principal that has no right in the ledger, or only the one to read."""
    allowed = READING if may_read else set[str]()
    words = [one for one in target.words() if _tag(one) not in allowed]
    assert any("fencing" in _tag(one) for one in words)

    def attack(count: int) -> None:
        done = 0
        with zmq.Context() as context, _greeted(context, target, pair) as socket:
            while done < count:
                bulk = _series(words, min(BULK_COUNT, count - done))
                for message in bulk:
                    socket.send_multipart(message)
                left_count = sum(map(_request_count, bulk))
                while left_count:
                    left_count -= _check_refused(_receive(socket), REFUSALS)
                done += len(bulk)

    return attack


def _request_count(message: Message) -> int:
    request = codec.decode_request(message[0])
    return len(request.parts) if isinstance(request, Bundle) else 1


def _check_refused(frames: list[bytes], codes: set[int]) -> int:
    """Check that a message has refusals only; return how many."""
    answer = codec.decode_answer(frames[0])
    parts = answer.parts if isinstance(answer, AnswerBundle) else [answer]
    for one in parts:
        assert isinstance(one, Refused), one
        assert one.code in codes, one
    return len(parts)


# ------------------------------------------------------------------ sockets


def _socket(
    context: Context, target: Target, pair: KeyPair, name: bytes = b"", address: str = ""
) -> Socket:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
    socket.setsockopt(zmq.RECONNECT_IVL, NEVER_AGAIN_MS)
    if name:
        socket.setsockopt(zmq.ROUTING_ID, name)
    connect_encrypted(socket, pair, target.public_key)
    socket.connect(address or target.bookie.address)
    return socket


def _greeted(context: Context, target: Target, pair: KeyPair, name: bytes = b"") -> Socket:
    """Return a connection of a principal that has said HELLO."""
    socket = _socket(context, target, pair, name)
    _greet(socket)
    return socket


def _greet(socket: Socket) -> None:
    """Say HELLO, and wait for the answer."""
    socket.send_multipart(_hello())
    answer = codec.decode_answer(_receive(socket)[0])
    assert isinstance(answer, HelloAnswer), answer


def _receive(socket: Socket) -> list[bytes]:
    assert socket.poll(PATIENCE_MS), "no answer"
    return receive_frames(socket)


def _hello() -> Message:
    return [codec.encode(Hello(request_id=1))]


def _tag(message: Message) -> str:
    request = codec.decode_request(message[0])
    is_fencing = isinstance(request, Read | ReadLac) and request.is_fencing
    return ("fencing " if is_fencing else "") + str(request.__struct_config__.tag)


def _series(words: Sequence[Message], count: int) -> list[Message]:
    return [words[number % len(words)] for number in range(count)]


def _on_the_wire(message: Message) -> bytes:
    return b"".join(
        RawPeer.frame(one, has_more=number < len(message) - 1) for number, one in enumerate(message)
    )
