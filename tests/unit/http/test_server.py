import asyncio
import errno
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.http import ask
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.errors import InvalidOptionError
from zbk.http import HttpServer, connection, guard, serve, server
from zbk.http.server import PatientListener
from zbk.system.clock import monotonic_ms


@contextmanager
def serving(
    respond: Callable[[Request], Awaitable[Response]], *methods: str
) -> Iterator[HttpServer]:
    route = Route("/{rest:path}", respond, methods=list(methods) or None)
    one = serve(Starlette(routes=[route]), "127.0.0.1:0")
    try:
        yield one
    finally:
        one.close()


async def nothing(_request: Request) -> Response:
    return Response(b"")


async def echo(request: Request) -> Response:
    return PlainTextResponse(f"{request.url.path}?{request.url.query}")


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with serving(echo) as one:
        yield one


def url(http: HttpServer, path: str = "/") -> str:
    return f"{http.url}{path}"


def raw(http: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected:
        connected.sendall(request)
        connected.shutdown(socket.SHUT_WR)
        return everything(connected)


def everything(connected: socket.socket) -> bytes:
    received = b""
    while data := connected.recv(65_536):
        received += data
    return received


def test_a_request_is_answered_and_the_answer_is_not_stored(http: HttpServer) -> None:
    answer = ask(url(http, "/a%20b?verbose"))
    assert (answer.status, answer.body) == (200, "/a b?verbose")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


def test_head_has_the_length_and_no_body(http: HttpServer) -> None:
    answer = ask(url(http, "/livez"), "HEAD")
    assert (answer.status, answer.body) == (200, "")
    assert answer.headers["content-length"] == str(len("/livez?"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(http: HttpServer, method: str) -> None:
    answer = ask(url(http), method)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x00\x01\x02\xff garbage\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # without Host
        (b"GET http://other/ HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", b"505"),
        (b"GET //[%zz%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 400_000, b"431"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n", b"413"),
    ],
)
def test_garbage_gets_an_error_and_the_next_request_an_answer(
    http: HttpServer, request_bytes: bytes, status: bytes
) -> None:
    assert raw(http, request_bytes)[:12] == b"HTTP/1.1 " + status
    assert ask(url(http)).status == 200


@pytest.mark.parametrize("head", [b"Content-Length: 2000000", b"Transfer-Encoding: chunked"])
def test_a_body_over_its_limit_is_refused(head: bytes) -> None:
    async def read(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    chunk = b"%x\r\n" % 60_000 + b"a" * 60_000 + b"\r\n"
    with serving(read, "POST") as http:
        assert ask(url(http), "POST", body=b"a" * guard.BODY_SIZE_MAX).status == 200
        with socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected:
            connected.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
            connected.sendall(chunk * 20)
            assert connected.recv(65_536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9181", 200),
        ("10.1.2.3", 200),
        ("[::1]:9181", 200),
        ("localhost:1", 200),
        ("zbk.localhost", 200),
        (socket.gethostname(), 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("evil.example:9181", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("[evil]", 421),
    ],
)
def test_a_name_that_another_may_own_is_refused(http: HttpServer, host: str, status: int) -> None:
    assert ask(url(http), headers={"Host": host}).status == status


def test_beyond_loopback_any_name_is_served() -> None:
    async def app(request: Request) -> Response:
        return await echo(request)

    http = serve(Starlette(routes=[Route("/", app)]), "0.0.0.0:0")
    try:
        here = f"http://127.0.0.1:{http.port}/"
        assert ask(here, headers={"Host": "b1.example.org"}).status == 200
    finally:
        http.close()


def test_a_request_in_pieces_is_one_request(http: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected:
        for piece in (b"GE", b"T /x HT", b"TP/1.1\r\n", b"Host: localhost\r\n\r", b"\n"):
            connected.sendall(piece)
        assert connected.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_connection_serves_several_requests(http: HttpServer) -> None:
    request = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answers = raw(http, request % 1 + request % 2 + request % 3)
    assert answers.count(b"HTTP/1.1 200") == 3


def test_silent_clients_delay_nobody_and_the_oldest_gives_way(http: HttpServer) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", http.port), timeout=20)
        for _ in range(connection.CONNECTION_COUNT_MAX + 1)
    ]
    try:
        assert ask(url(http)).status == 200
        assert is_closed(silent[0])  # for one of the later ones
        assert http.connection_count <= connection.CONNECTION_COUNT_MAX
    finally:
        for one in silent:
            one.close()
    wait_until(lambda: http.connection_count == 0)


def test_requests_that_are_served_do_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECTION_COUNT_MAX", 3)

    async def stream(_request: Request) -> Response:
        async def ticks() -> AsyncIterator[bytes]:
            yield b"begun"
            await asyncio.Event().wait()

        return StreamingResponse(ticks())

    with serving(stream) as http, ExitStack() as stack:
        busy = []
        for _ in range(3):
            one = socket.create_connection(("127.0.0.1", http.port), timeout=20)
            stack.enter_context(one)
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one.recv(65_536).startswith(b"HTTP/1.1 200")
            busy.append(one)
        with socket.create_connection(("127.0.0.1", http.port), timeout=20) as late:
            assert is_closed(late)
        assert http.connection_count == 3
        begun_ms = monotonic_ms()
        http.close()
        assert monotonic_ms() - begun_ms < 1_000 * server.CLOSE_TIMEOUT_S, "the streams end at once"


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
        b"garbage\r\n\r\n",
    ],
)
def test_a_connection_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr(connection, "DEADLINE_S", 0.05)

    async def read(request: Request) -> Response:
        return Response(await request.body())

    with (
        serving(read, "POST") as http,
        socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected,
    ):
        connected.sendall(begin)
        assert is_closed(connected)


def test_a_client_that_reads_no_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DEADLINE_S", 0.1)

    async def large(_request: Request) -> Response:
        return Response(bytes(30_000_000))

    with (
        serving(large) as http,
        socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected,
    ):
        connected.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: http.connection_count == 1)
        wait_until(lambda: http.connection_count == 0)


def test_a_large_answer_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000

    async def large(_request: Request) -> Response:
        return Response(body)

    with serving(large) as http:
        answer = raw(http, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.partition(b"\r\n\r\n")[2] == body


def test_a_bug_is_an_answer_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def respond(_request: Request) -> Response:
        raise ValueError("a bug")

    with serving(respond) as http:
        assert ask(url(http)).status == 500
        assert ask(url(http)).status == 500
    assert caplog.text.count("a request for / failed") == 2
    assert "a bug" in caplog.text


def test_a_client_that_leaves_within_its_body_is_no_error_of_zbk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Any client could fill the log with tracebacks otherwise."""
    begun, ended = threading.Event(), threading.Event()

    async def read(request: Request) -> Response:
        begun.set()
        try:
            return PlainTextResponse(str(len(await request.body())))
        finally:
            ended.set()

    with serving(read, "PUT") as http:
        with socket.create_connection(("127.0.0.1", http.port), timeout=20) as connected:
            connected.sendall(b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nfour")
            assert begun.wait(20)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ended.wait(20)
        assert ask(url(http), "PUT", body=b"whole").body == "5"
    assert not [one for one in caplog.records if one.name == "zbk.http"]


def test_a_port_that_is_taken_is_a_clear_error(http: HttpServer) -> None:
    with pytest.raises(InvalidOptionError, match="another process has this port") as caught:
        serve(Starlette(), http.address)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EADDRINUSE


def test_an_address_of_another_machine_is_a_clear_error() -> None:
    with pytest.raises(InvalidOptionError, match="an address of this machine"):
        serve(Starlette(), "192.0.2.1:0")


def test_close_ends_the_thread_and_frees_the_port() -> None:
    threads = NewThreads()
    http = serve(Starlette(), "127.0.0.1:0")
    http.close()
    http.close()
    assert threads.names() == []
    serve(Starlette(), http.address).close()


PAUSE_MS = 1_000
"""After a lack of descriptors. Half of it must not pass in the middle of a row of accepts."""


class ExhaustedListener(PatientListener):
    """A listener with a connection that no descriptor is left for."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.bind(("127.0.0.1", 0))
        self.listen()
        self.tried_ms: list[int] = []
        self.is_exhausted = False

    def _accept(self) -> tuple[int, object]:
        if not self.is_exhausted:
            return super()._accept()  # type: ignore[misc,no-any-return]  # what accept calls
        self.tried_ms.append(monotonic_ms())
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_a_descriptor_the_server_frees_one_and_does_not_try_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", PAUSE_MS / 1_000)
    listener = ExhaustedListener()
    http = HttpServer(Starlette(), listener, ())
    address = ("127.0.0.1", http.port)
    with (
        socket.create_connection(address, timeout=20) as oldest,
        socket.create_connection(address, timeout=20),
    ):
        http.start()
        wait_until(lambda: http.connection_count == 2)
        listener.is_exhausted = True
        tried_ms = listener.tried_ms
        try:
            with socket.create_connection(address):
                assert is_closed(oldest)
                assert http.connection_count == 1
                wait_until(lambda: tried_ms[-1] - tried_ms[0] >= 2.5 * PAUSE_MS)
        finally:
            http.close()
    pause_count = (tried_ms[-1] - tried_ms[0]) / PAUSE_MS
    assert len(tried_ms) <= pause_count + 2


def is_closed(connected: socket.socket) -> bool:
    try:
        while data := connected.recv(65_536):
            assert data.startswith(b"HTTP/1.1 400"), "nothing but the answer to garbage"
    except ConnectionResetError:
        pass
    return True


def test_a_process_without_http_does_not_load_the_server() -> None:
    code = (
        "import sys\n"
        "import zbk.cli.main, zbk.auditor.bookie_process, zbk.auditor.process\n"
        "from zbk.metrics.endpoint import Endpoint\n"
        "from zbk.metrics.serving import serving\n"
        "with serving(Endpoint('1', 'bookie'), 'off', 0): pass\n"
        "assert not {'uvicorn', 'starlette', 'zbk.http'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
