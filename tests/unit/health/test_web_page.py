"""Pages at registered URLs: whatever is there, they are read within a size and a time."""

import socket
import threading
from collections.abc import Iterator

import pytest

from zbk.health.bookie_api import NoAnswer, ask_admin_apis
from zbk.health.web_page import web_page

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
TIMEOUT_S = 0.2
BYTE_COUNT = 200


class Dripping:
    """A server whose answers come byte by byte, each in time."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.sent_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="dripping")
        self._thread.start()

    def close(self) -> None:
        self.is_over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(4_096)
            connection.sendall(HEAD % BYTE_COUNT)
            while self.sent_count < BYTE_COUNT and not self.is_over.wait(TIMEOUT_S / 4):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return
                self.sent_count += 1


@pytest.fixture
def dripping() -> Iterator[Dripping]:
    server = Dripping()
    yield server
    server.close()


def test_a_page_that_drips_is_given_up_in_time(dripping: Dripping) -> None:
    assert web_page(dripping.url, TIMEOUT_S, 4_096) == b""
    assert dripping.sent_count < BYTE_COUNT / 2


def test_an_answer_that_drips_is_given_up_in_time(dripping: Dripping) -> None:
    found = ask_admin_apis({"b-1": dripping.url}, "/", timeout_s=TIMEOUT_S)
    assert isinstance(found["b-1"], NoAnswer)
    assert found["b-1"].is_silent
    assert dripping.sent_count < BYTE_COUNT / 2
