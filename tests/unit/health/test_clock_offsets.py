"""The offsets of clocks, as bookies of all kinds tell their time."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from zbk.health.clock_offsets import clock_offsets_ms
from zbk.system.clock import sleep_ms, wall_ms
from zbk.system.ports import free_ports


@contextmanager
def told(page: Any, delay_ms: int = 0) -> Iterator[str]:  # noqa: ANN401 - bytes, or an offset
    """Yield the URL of a server whose clock is off by ``page`` ms, or which sends these bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sleep_ms(delay_ms)
            body = page
            if not isinstance(page, bytes):
                body = json.dumps({"version": "1", "time_ms": wall_ms() + page}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with serving(Handler) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("offset_ms", [-3_600_000, -5_000, 5_000, 3_600_000])
def test_an_offset_is_known_to_half_the_round_trip(offset_ms: int) -> None:
    with told(offset_ms) as url:
        found = clock_offsets_ms({"b": url}, 20.0)

    assert abs(found["b"] - offset_ms) < 1_000


def test_a_slow_answer_is_no_offset() -> None:
    with told(0, delay_ms=200) as url:
        assert clock_offsets_ms({"b": url}, 20.0) == {"b": 0}


@pytest.mark.parametrize(
    "page", [b"", b"{}", b"\xff\x00", b'{"version": "1"}', b'{"time_ms": "x"}', b"[" * 9_000]
)
def test_a_bookie_that_tells_no_time_is_left_out(page: bytes) -> None:
    with told(page) as url:
        assert clock_offsets_ms({"b": url}, 20.0) == {}


def test_a_bookie_without_http_is_left_out() -> None:
    urls = {"a": "", "b": "file:///etc/hostname", "c": f"http://127.0.0.1:{free_ports(1)[0]}"}

    assert clock_offsets_ms(urls, 1.0) == {}
    assert clock_offsets_ms({}) == {}


def test_a_server_of_another_protocol_and_one_that_refuses_have_no_clock() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/refused"):
                self.send_error(503)
            else:
                self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

        def log_message(self, *_arguments: object) -> None:
            pass

    with serving(Other) as url:
        assert clock_offsets_ms({"a": url, "b": f"{url}/refused"}, 20.0) == {}
