"""``zbk cluster check-security``, on clusters that are open and on one that is not."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import QUICK, Shell
from tests.support.zookeeper_users import successes_of
from zbk.cluster.local import LocalCluster
from zbk.system.ports import lasting_port


def report(shell: Shell, exit_code: int, *arguments: str) -> dict[str, Any]:
    done = shell.run("cluster", "check-security", "-o", "json", *arguments, exit_code=exit_code)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kinds(shell: Shell, *arguments: str) -> list[str]:
    return [one["kind"] for one in report(shell, 10, *arguments)["findings"]]


@contextmanager
def secure_cluster(home: Path, *flags: str) -> Iterator[tuple[dict[str, Any], Shell]]:
    """Run ``zbk up --secure``; yield its report, and the shell of its user."""
    shell = Shell(home)
    running = shell.start("up", "--secure", "--data", "cluster", "-o", "json", *flags)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()[1].decode()
        ready = json.loads(line)
        yield ready, Shell(home, ready["environment"] | {"ZBK_METADATA": ready["metadata"]})
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)


@pytest.mark.parametrize("flags", [[], ["--zookeeper"]])
def test_the_secure_cluster_of_one_machine_is_closed(tmp_path: Path, flags: list[str]) -> None:
    with secure_cluster(tmp_path, *flags) as (_ready, user):
        found = report(user, 0)

        assert (found["is_closed"], found["findings"]) == (True, [])
        assert (found["bookies"], found["principals"]) == (3, 4)
        assert b"closed" in user.run("cluster", "check-security").stdout


def test_its_zookeeper_refuses_strangers_and_its_user_works(tmp_path: Path) -> None:
    from kazoo.client import KazooClient  # noqa: PLC0415 - of one test

    with secure_cluster(tmp_path, "--zookeeper") as (ready, user):
        done = user.run("ledger", "append", "-", "-o", "json", stdin=b"one\n")
        ledger_id = json.loads(done.stdout)["ledger_id"]
        assert user.run("ledger", "cat", str(ledger_id)).stdout == b"one"
        assert user.run("autorecovery", "status").stdout

        password = Path(ready["environment"]["ZBK_METADATA_PASSWORD_FILE"]).read_bytes().strip()
        shown = [path.read_bytes() for path in Path(ready["data_dir"]).glob("**/*.log")]
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or belongs to another user
                shown += [(process / name).read_bytes() for name in ("cmdline", "environ")]
        assert not any(password in text for text in shown)
        assert any(str(ready["data_dir"]).encode() in text for text in shown)

        address = ready["metadata"].removeprefix("zk://").partition("/")[0]
        stranger = KazooClient(address)
        stranger.start()
        try:
            assert successes_of(stranger, ["/zbk", "/zbk/ledgers"]) == [
                "delete /zbk: NotEmptyError()"  # of ZooKeeper's own root
            ]
        finally:
            stranger.stop()
            stranger.close()


def test_a_key_that_was_replaced_and_a_file_of_everyone_are_found(tmp_path: Path) -> None:
    with secure_cluster(tmp_path) as (ready, user):
        user.run("key", "generate", "next")
        user.run("principal", "add", "client", "--key", "next.pub")
        key = Path(ready["data_dir"], "bookie0", "ledgers")
        key.chmod(0o777)

        assert kinds(user, "--ledger-dir", str(key)) == ["file-exposed", "principal-two-keys"]
        shown = user.run("cluster", "check-security", "--ledger-dir", str(key), exit_code=10)
        assert f"next: chmod o-w {key}" in shown.stdout.decode()


def test_a_cluster_without_keys_is_open_to_the_users_of_its_machine(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster:
        assert kinds(Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})) == ["bookie-local"]


def test_an_open_zookeeper_and_http_beyond_loopback_are_found(tmp_path: Path) -> None:
    with LocalCluster(
        tmp_path / "data",
        bookie_count=1,
        use_zookeeper=True,
        bookie_options=QUICK | {"http": f"0.0.0.0:{lasting_port()}"},
    ) as cluster:
        shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})

        found = report(shell, 10)["findings"]

        assert [one["kind"] for one in found] == [
            "zookeeper-open",
            "bookie-local",
            "http-without-token",
        ]
        assert "ledgers" in found[0]["subjects"]
        assert "zbk cluster secure" in found[0]["command"]
