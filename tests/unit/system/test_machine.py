"""What Linux says of this machine: the functions, on a machine that is not chosen."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zbk.config.http_address import HTTP_PORT_STEP
from zbk.system import machine
from zbk.system.fsync_probe import PROBE_COUNT_MAX, fsync_times_us
from zbk.system.ports import PortLeases, free_ports, is_free_port, lasting_port, port_use


def test_every_setting_has_a_value_or_is_neutral() -> None:
    soft, hard = machine.descriptor_limits()

    assert soft is None or soft > 0
    assert hard is None or soft is None or hard >= soft
    assert machine.huge_pages() in ("", "always", "madvise", "never")
    assert machine.is_clock_synchronized() in (True, False, None)
    assert machine.used_swap_size() >= 0
    assert "\n" not in machine.clock_source()


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="no /proc")
def test_a_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    assert machine.file_system("/proc/self") == "proc"
    assert machine.file_system(str(tmp_path)) not in ("", "proc")
    assert machine.file_system("/proc-like") == machine.file_system("/")


def test_a_probe_leaves_nothing_and_is_sorted(tmp_path: Path) -> None:
    times_us = fsync_times_us(str(tmp_path))

    assert 1 <= len(times_us) <= PROBE_COUNT_MAX
    assert times_us == sorted(times_us)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_a_directory_that_is_not_there_fails(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        fsync_times_us(str(tmp_path / "gone"))


def test_a_port_is_free_or_has_an_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = port_use("127.0.0.1", port)

    assert not found.is_free
    assert found.pid == os.getpid()
    assert Path(sys.executable).name in found.command
    assert port_use("127.0.0.1", port).is_free


def test_an_address_of_another_machine_is_not_free() -> None:
    found = port_use("192.0.2.1", 3_181)

    assert not found.is_free
    assert found.reason


@pytest.fixture
def leases() -> Iterator[PortLeases]:
    leases = PortLeases()
    yield leases
    leases.release()


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="no /proc")
def test_a_lasting_port_is_free_and_no_connection_gets_it() -> None:
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    port = lasting_port()

    assert 0 < port < first_ephemeral
    assert is_free_port(port)


def test_no_lasting_port_is_that_of_another_bookies_http() -> None:
    ports = {lasting_port() for _ in range(200)}

    assert not ports & {port + HTTP_PORT_STEP for port in range(10_000, 16_000)}
    assert len({(port - 10_000) // HTTP_PORT_STEP for port in ports}) == 2


def test_a_port_that_is_in_use_or_reserved_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        used = server.getsockname()[1]
        monkeypatch.setattr("zbk.system.ports._LASTING_PORT_MIN", used)
        monkeypatch.setattr("zbk.system.ports._first_ephemeral_port", lambda: used + 1)
        assert lasting_port() == 0
    assert lasting_port() == used
    assert lasting_port({used}) == 0


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="no /proc")
def test_a_leased_port_is_for_one_server_only(
    leases: PortLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = leases.take()
    monkeypatch.setattr("zbk.system.ports._LASTING_PORT_MIN", port)
    monkeypatch.setattr("zbk.system.ports._first_ephemeral_port", lambda: port + 1)

    assert port
    assert leases.take() == lasting_port() == 0  # the server did not start yet
    with socket.create_server(("127.0.0.1", port)):
        assert leases.take() == 0
    assert leases.take() == 0  # it is down for a while
    assert leases.take(former=port) == port
    leases.release()
    assert lasting_port() == port


def test_a_former_port_that_another_server_has_is_not_leased(leases: PortLeases) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        assert leases.take(former=used) != used
    assert leases.take(former=used) == used


def test_a_former_port_with_remembered_connections_is_taken_again(leases: PortLeases) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()  # the server's side closes first: the kernel remembers it
        client.close()

    assert leases.take(former=port) == port
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free_port(port)


def test_free_ports_are_different_and_are_there_without_lasting_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zbk.system.ports._LASTING_TRIES", 0)

    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert all(map(is_free_port, ports))
