import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.http import ask
from tests.support.waiting import wait_until
from zbk.errors import InvalidOptionError
from zbk.metrics import http_server
from zbk.metrics.http_server import HttpServer, Request, Response
from zbk.system.clock import monotonic_ms


@contextmanager
def serving(respond: Callable[[Request], Response]) -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, respond)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with serving(lambda request: Response(200, f"{request.path}?{request.query}".encode())) as one:
        yield one


def url(server: HttpServer, path: str = "/") -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def raw(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected:
        connected.sendall(request)
        connected.shutdown(socket.SHUT_WR)
        received = b""
        while data := connected.recv(65_536):
            received += data
        return received


def test_a_request_is_answered_and_its_connection_ends(server: HttpServer) -> None:
    answer = ask(url(server, "/a%20b?verbose"))
    assert (answer.status, answer.body) == (200, "/a b?verbose")
    assert answer.headers["connection"] == "close"


def test_head_has_the_length_and_no_body(server: HttpServer) -> None:
    answer = ask(url(server, "/livez"), "HEAD")
    assert (answer.status, answer.body) == (200, "")
    assert answer.headers["content-length"] == str(len("/livez?"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(server: HttpServer, method: str) -> None:
    answer = ask(url(server), method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x00\x01\x02\xff garbage\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET http://other/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"505"),
        (b"GET //[%zz%ff HTTP/1.1\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2_000 + b"\r\n", b"431"),
    ],
)
def test_garbage_gets_an_error_and_the_next_request_an_answer(
    server: HttpServer, request_bytes: bytes, status: bytes
) -> None:
    assert raw(server, request_bytes).startswith(b"HTTP/1.1 " + status)
    assert ask(url(server)).status == 200


def test_a_request_in_pieces_is_one_request(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected:
        for piece in (b"GE", b"T /x HT", b"TP/1.1\r\n", b"Host: a\r\n\r", b"\n"):
            connected.sendall(piece)
        assert connected.recv(65_536).startswith(b"HTTP/1.1 200")


def test_silent_clients_delay_nobody_and_the_oldest_gives_way(server: HttpServer) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", server.port), timeout=20)
        for _ in range(http_server.CONNECTION_COUNT_MAX + 1)
    ]
    try:
        assert ask(url(server)).status == 200
        assert silent[0].recv(1) == b""  # closed for one of the later ones
        assert server.connection_count <= http_server.CONNECTION_COUNT_MAX
    finally:
        for one in silent:
            one.close()
    wait_until(lambda: server.connection_count == 0)


def test_a_connection_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "DEADLINE_MS", 50)
    with (
        serving(lambda _request: Response(200, b"")) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected,
    ):
        connected.sendall(b"GET / HT")
        assert connected.recv(1) == b""


def test_a_large_answer_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000
    with serving(lambda _request: Response(200, body)) as server:
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")[2] == body


def test_a_bug_is_an_answer_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def respond(_request: Request) -> Response:
        raise ValueError("a bug")

    with serving(respond) as server:
        assert ask(url(server)).status == 500
        assert ask(url(server)).status == 500
    assert "a bug" in caplog.text


def test_a_port_that_is_taken_is_a_clear_error(server: HttpServer) -> None:
    with pytest.raises(InvalidOptionError, match="another process has this port") as caught:
        HttpServer("127.0.0.1", server.port, lambda _request: Response(200, b""))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EADDRINUSE


def test_an_address_of_another_machine_is_a_clear_error() -> None:
    with pytest.raises(InvalidOptionError, match="an address of this machine"):
        HttpServer("192.0.2.1", 0, lambda _request: Response(200, b""))


def test_stop_ends_the_thread() -> None:
    server = HttpServer("127.0.0.1", 0, lambda _request: Response(200, b""))
    server.start()
    server.stop()
    server.stop()
    assert not [one for one in threading.enumerate() if one.name == "zbk-http"]


class ExhaustedListener:
    """A listener with a connection that no descriptor is left for."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.tried_ms: list[int] = []

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> None:
        self.tried_ms.append(monotonic_ms())
        raise OSError(errno.EMFILE, "Too many open files")

    def close(self) -> None:
        self._listener.close()


def test_without_a_descriptor_the_server_does_not_try_all_the_time() -> None:
    server = HttpServer("127.0.0.1", 0, lambda _request: Response(200, b""))
    listener = ExhaustedListener(server._listener)
    server._listener = listener  # type: ignore[assignment]
    with socket.create_connection(("127.0.0.1", server.port)):
        server.start()
        try:
            wait_until(lambda: len(listener.tried_ms) >= 3)
        finally:
            server.stop()

    first, _, third = listener.tried_ms[:3]
    assert third - first >= 2 * http_server.PAUSE_MS
