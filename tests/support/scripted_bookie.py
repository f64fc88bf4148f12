"""A bookie that is only a socket: a function says what it answers to each message, and when."""

import threading
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

import zmq

from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID
from zbk.system.wakeup import Wakeup
from zbk.wire import codec
from zbk.wire.messages import Answer, Hello, HelloAnswer, Message

Script: TypeAlias = Callable[[Message], Sequence[Answer]]


class ScriptedBookie:
    """Answers one connection as the script says. What is given to ``say`` is sent, too."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind("tcp://127.0.0.1:*")
        self.endpoint = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self.seen: list[Message] = []
        self._name = b""
        self._to_say: list[Answer] = []
        self._wakeup = Wakeup()
        self._is_stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._is_stopping = True
        self._wakeup.wake()
        self._thread.join(10)

    def say(self, *answers: Answer) -> None:
        """Send answers to the connection that wrote last."""
        with self._lock:
            self._to_say += answers
        self._wakeup.wake()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wakeup.fd, zmq.POLLIN)
        while not self._is_stopping:
            ready = dict(poller.poll())
            self._wakeup.clear()
            with self._lock:
                to_say, self._to_say = self._to_say, []
            self._send(to_say)
            if self._socket in ready:
                self._name, header, *_frames = self._socket.recv_multipart()
                message = codec.decode_request(header)
                self.seen.append(message)
                self._send(self._script(message))
        self._context.destroy(linger=0)
        self._wakeup.close()

    def _send(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._socket.send_multipart([self._name, codec.encode(answer)])


def greeted(hello: Hello, *, incarnation: int = 1, credit_size: int = 1 << 20) -> HelloAnswer:
    """Return the answer of a bookie that lets everybody in."""
    return HelloAnswer(
        request_id=hello.request_id,
        incarnation=incarnation,
        version=hello.version_max,
        instance_id=INSTANCE_ID,
        bookie_id=BOOKIE_ID,
        credit_size=credit_size,
        entry_size_max=1 << 20,
        is_readonly=False,
    )
