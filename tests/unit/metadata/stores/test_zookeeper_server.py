"""What a ZooKeeper server says to ``srvr``, against sockets that only answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zbk.metadata.stores.zookeeper_address import ZooKeeperAddress
from zbk.metadata.stores.zookeeper_server import ask_servers

SRVR = b"""Zookeeper version: 3.9.5-0123abc, built on 2026-01-01 00:00 UTC
Latency min/avg/max: 0/1.25/7
Received: 5
Mode: follower
Node count: 5
"""


@contextmanager
def server(answer: bytes) -> Iterator[int]:
    """Run a server that reads four letters and gives this answer, once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_server_tells_version_mode_and_latency() -> None:
    with server(SRVR) as port:
        (found,) = ask_servers(ZooKeeperAddress((("127.0.0.1", port),), "/zbk"), 5.0)

    assert (found.error, found.version, found.mode) == ("", "3.9.5", "follower")
    assert found.latency_avg_ms == 1.25
    assert found.connect_ms > 0


def test_a_server_that_forbids_the_command_is_named() -> None:
    with server(b"srvr is not executed because it is not in the whitelist.\n") as port:
        (found,) = ask_servers(ZooKeeperAddress((("127.0.0.1", port),), "/zbk"), 5.0)

    assert "no answer to srvr" in found.error
    assert "whitelist" in found.error


def test_a_server_that_is_not_there_is_an_error() -> None:
    (found,) = ask_servers(ZooKeeperAddress((("127.0.0.1", 1),), "/zbk"), 1.0)

    assert found.error
    assert found.address == "127.0.0.1:1"
