"""What a ZooKeeper server says to ``srvr``, against sockets that only answer."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zbk.errors import KeyFileError
from zbk.metadata.stores import zookeeper_server
from zbk.metadata.stores.zookeeper_address import ZooKeeperAddress
from zbk.metadata.stores.zookeeper_server import ServerAnswer, ask_servers, warn_of_outdated

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


@pytest.mark.parametrize(
    ("version", "is_outdated"),
    [
        ("3.4.14", True), ("3.7.2", True), ("3.8.0", True), ("3.8.5", True), ("3.8.6", False),
        ("3.9.4", True), ("3.9.5", False), ("3.9.10", False), ("3.10.0", False), ("4.0", False),
        ("", False), ("unknown", False),
    ],
)  # fmt: skip
def test_a_version_with_known_flaws_is_outdated(version: str, is_outdated: bool) -> None:
    """S15: 3.8 from 3.8.6 on, 3.9 from 3.9.5 on."""
    assert ServerAnswer(address="zk1:2181", version=version).is_outdated == is_outdated


@pytest.mark.parametrize(("version", "warning_count"), [(b"3.8.0", 1), (b"3.9.5", 0)])
def test_an_outdated_server_is_named_after_the_start(
    version: bytes, warning_count: int, caplog: pytest.LogCaptureFixture
) -> None:
    with server(SRVR.replace(b"3.9.5", version)) as port, caplog.at_level(logging.INFO):
        warn_of_outdated(f"zk://127.0.0.1:{port}/zbk")

    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warning_count
    if said:
        assert f"127.0.0.1:{port} has version 3.8.0" in said[0]
        assert "3.8.6 or 3.9.5" in said[0]


def test_a_start_says_nothing_of_other_stores_and_of_silent_servers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_outdated("sqlite:///tmp/zbk.db")
    warn_of_outdated("zk://127.0.0.1:1/zbk")

    assert not caplog.records


def test_a_certificate_that_cannot_be_used_ends_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> list[ServerAnswer]:
        raise KeyFileError("ca.pem", "it is gone")

    monkeypatch.setattr(zookeeper_server, "ask_servers", fail)

    warn_of_outdated("zk+tls://127.0.0.1:1/zbk")
