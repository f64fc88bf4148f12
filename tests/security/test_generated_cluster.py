"""A bookie, autorecovery and a console with the environment that `zbk generate` prints: closed."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.support.cluster import Shell
from tests.support.http import ask
from tests.support.secure_cluster import Keyring
from tests.support.waiting import wait_until
from tests.support.zookeeper_users import successes_of
from zbk.cli.generate.closed import SECURITY_DIR, Closing, close_compose
from zbk.cli.generate.compose import METADATA, compose_file
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.system.ports import free_ports

PASSWORD = "made-for-this-test-only"


@contextmanager
def running(shell: Shell, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = shell.start(*command)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def is_ready(url: str) -> bool:
    try:
        return ask(f"{url}/readyz").status == 200
    except OSError:  # it starts
        return False


def test_the_generated_services_make_a_closed_cluster(tmp_path: Path) -> None:
    keys = Keyring.of(tmp_path / "keys", "bookie", "autorecovery", "console", "operator")
    password_file = tmp_path / "keys" / "zookeeper.password"
    password_file.write_text(PASSWORD)
    password_file.chmod(0o600)
    closing = Closing(source="./keys", metadata=METADATA, metadata_user="zbk")
    services = close_compose(compose_file(1, "zbk:1"), closing)["services"]
    listen, http, recovery = free_ports(3)
    with LocalZooKeeper(tmp_path / "zookeeper") as zookeeper, ExitStack() as stack:
        stand_ins = {
            METADATA: zookeeper.uri("/zbk"),
            SECURITY_DIR: str(tmp_path / "keys"),
            "tcp://0.0.0.0:3181": f"tcp://127.0.0.1:{listen}",
            "tcp://bookie1:3181": f"tcp://127.0.0.1:{listen}",
            "/data": str(tmp_path / "data"),
        }

        def shell(service: str, port: int) -> Shell:
            text = json.dumps(services[service]["environment"])
            for one, other in (stand_ins | {"0.0.0.0:9181": f"127.0.0.1:{port}"}).items():
                text = text.replace(one, other)
            return Shell(tmp_path, json.loads(text))

        bookie = shell("bookie1", http)
        bookie.run("bookie", "init")
        user = Shell(tmp_path, bookie.environment | {"ZBK_KEY": keys.path("operator")})
        for name, role in (
            ("bookie", "bookie"), ("autorecovery", "bookie"), ("console", "auditor"),
            ("operator", "operator"),
        ):  # fmt: skip
            public = str(tmp_path / "keys" / f"{name}.pub")
            user.run("principal", "add", name, "--key", public, "--role", role)
        stack.enter_context(running(bookie, "bookie", "run"))
        stack.enter_context(running(shell("autorecovery", recovery), "autorecovery", "run"))
        console = stack.enter_context(
            running(shell("console", 0), "console", "--http", "127.0.0.1:0", "-o", "json")
        )
        assert console.stdout is not None
        assert json.loads(console.stdout.readline())["url"]
        for port in (http, recovery):
            wait_until(lambda: is_ready(f"http://127.0.0.1:{port}"))  # noqa: B023

        sizes = ("-E", "1", "-w", "1", "-a", "1", "-o", "json")
        done = user.run("ledger", "append", "-", *sizes, stdin=b"one\n")
        ledger_id = json.loads(done.stdout)["ledger_id"]
        assert user.run("ledger", "cat", str(ledger_id)).stdout == b"one"
        found = json.loads(user.run("cluster", "check-security", "-o", "json").stdout)
        assert (found["is_closed"], found["findings"]) == (True, [])
        assert (found["bookies"], found["endpoints"], found["principals"]) == (1, 2, 4)

        stranger = KazooClient(f"127.0.0.1:{zookeeper.port}")
        stranger.start()
        try:
            assert successes_of(stranger, ["/zbk/principals", "/zbk/ledgers"]) == []
        finally:
            stranger.stop()
            stranger.close()
