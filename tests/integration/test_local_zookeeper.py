"""A ZooKeeper that we start: it comes up, dies and ends as told, and says why it does not."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from zbk.cluster.java import find_java
from zbk.cluster.zookeeper import START_TIMEOUT_S, LocalZooKeeper
from zbk.errors import MetadataUnavailableError
from zbk.metadata.stores.connect import open_store
from zbk.system.clock import monotonic_s


def fake_java(folder: Path, script: str) -> dict[str, str]:
    """Return an environment whose Java is a shell script."""
    program = folder / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return dict(os.environ) | {"JAVA_HOME": str(folder / "home")}


def listening_addresses(port: int) -> list[str]:
    """Return the addresses, as the kernel writes them, on which somebody listens at a port."""
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, _, local_port = local.rpartition(":")
            if state == "0A" and int(local_port, 16) == port:
                found.append(address)
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2][1] != "Z"
    except OSError:
        return False


def test_it_listens_on_loopback_and_its_data_outlives_it_in_any_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder, \u00fc\\odd"
    with LocalZooKeeper(folder) as server:
        pid, port = server.pid, server.port
        assert server.start() is server
        assert (server.pid, server.port) == (pid, port)
        assert server.uri() == f"zk://127.0.0.1:{port}/zbk"
        assert listening_addresses(port) == ["0100007F"]
        store = open_store(server.uri())
        store.create("/a", b"x")
        store.close()
    server.stop()

    assert not server.is_running
    assert not is_alive(pid)
    with LocalZooKeeper(folder) as again:
        store = open_store(again.uri())
        assert store.get("/a").value == b"x"
        store.close()


def test_it_does_not_outlive_its_owner(tmp_path: Path) -> None:
    code = (
        "import sys, threading\n"
        "from zbk.cluster.zookeeper import LocalZooKeeper\n"
        "print(LocalZooKeeper(sys.argv[1]).start().pid, flush=True)\n"
        "threading.Event().wait()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.send_signal(signal.SIGKILL)

    wait_until(lambda: not is_alive(pid))


def test_a_port_that_is_taken_is_told_with_the_servers_own_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = LocalZooKeeper(tmp_path, port=port)
        with pytest.raises(MetadataUnavailableError) as caught:
            server.start()

    assert "the port is taken" in str(caught.value)
    assert "Address already in use" in str(caught.value)
    assert not server.is_running


def test_a_free_port_that_somebody_else_gets_first_is_given_up_for_another(tmp_path: Path) -> None:
    take_the_port = (
        "import socket, sys, threading; "
        "s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); "
        "open('taken', 'w').close(); threading.Event().wait(30)"
    )
    real = find_java(os.environ)
    environment = fake_java(
        tmp_path,
        f"""if [ -e taken ]; then exec {real} "$@"; fi
        port=$(sed -n 's/^clientPort=//p' zoo.cfg)
        {sys.executable} -c "{take_the_port}" "$port" &
        echo $! > other.pid; echo "$port" > lost.port
        while [ ! -e taken ]; do sleep 0.05; done
        exit 1""",
    )
    folder = tmp_path / "data"
    server = LocalZooKeeper(folder, environment=environment)
    try:
        server.start()
        assert server.port != int((folder / "lost.port").read_text(encoding="ascii"))
        open_store(server.uri()).close()
    finally:
        server.stop()
        os.kill(int((folder / "other.pid").read_text(encoding="ascii")), signal.SIGKILL)


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    environment = fake_java(tmp_path, "echo 'no room for a heap' >&2; exit 3")
    server = LocalZooKeeper(tmp_path / "data", environment=environment)

    with pytest.raises(MetadataUnavailableError, match=r"exit code 3(.|\n)*no room for a heap"):
        server.start()
    assert not server.is_running


def test_a_server_that_never_answers_is_given_up_in_time(tmp_path: Path) -> None:
    environment = fake_java(tmp_path, "exec sleep 60")
    server = LocalZooKeeper(tmp_path / "data", environment=environment)
    begin_s = monotonic_s()

    with pytest.raises(MetadataUnavailableError, match="runs and does not answer"):
        server.start(timeout_s=0.2)
    assert monotonic_s() - begin_s < START_TIMEOUT_S / 2
    assert not server.is_running
