"""``zbk cluster check-security``, on clusters that are open and on one that is not."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import QUICK, Shell
from tests.support.http import ask
from tests.support.waiting import wait_until
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


@contextmanager
def console(shell: Shell, *flags: str) -> Iterator[str]:
    """Run a console; yield its URL."""
    running = shell.start("console", "-o", "json", *flags)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()[1].decode()
        yield json.loads(line)["url"]
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)


def knows_its_cluster(url: str) -> bool:
    with suppress(OSError):  # it starts
        return "cluster" in ask(f"{url}/version").body
    return False


def of_endpoints(shell: Shell, *arguments: str) -> list[tuple[str, list[str]]]:
    """Return kinds and subjects of what is found beside the open bookie."""
    found = report(shell, 10, *arguments)["findings"]
    return [(one["kind"], one["subjects"]) for one in found if one["kind"] != "bookie-local"]


def test_consoles_and_autorecovery_on_the_network_are_found(tmp_path: Path) -> None:
    """In each state: on loopback, with actions and with a token, and beyond loopback."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    port = lasting_port()
    recovery = f"http://0.0.0.0:{port}"
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster:
        shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
        cluster.start_autorecovery({"http": f"0.0.0.0:{port}"})
        wait_until(lambda: knows_its_cluster(recovery))
        local = ["--http", "127.0.0.1:0"]
        open_recovery = ("endpoint-open", [recovery])
        assert of_endpoints(shell) == [open_recovery]
        with console(shell, *local):
            assert of_endpoints(shell) == [open_recovery], "a console that only reads, on loopback"
            assert report(shell, 10)["endpoints"] == 2
        with console(shell, *local, "--allow-actions", "--http-token-file", str(token)) as url:
            assert set_of(of_endpoints(shell)) == {open_recovery[0], "endpoint-actions"}
            (found,) = [one for one in report(shell, 10)["findings"] if url in one["subjects"]]
            assert "--allow-actions" in found["command"]
        with console(shell, "--http", f"0.0.0.0:{lasting_port()}") as url:
            assert ("console-open", [url]) in of_endpoints(shell)
            assert "endpoint-api" not in set_of(of_endpoints(shell)), "it needs a token there"
            shown = shell.run("cluster", "check-security", exit_code=10).stdout.decode()
            assert f"console at {url} is reached by other machines" in shown

        assert set_of(of_endpoints(shell, "--url", recovery)) == {"endpoint-open"}
        shell.run("cluster", "check-security", "--url", "http://127.0.0.1:1", exit_code=1)


def set_of(found: list[tuple[str, list[str]]]) -> set[str]:
    return {kind for kind, _subjects in found}


def test_a_bookie_with_actions_and_no_token_is_found(tmp_path: Path) -> None:
    with LocalCluster(
        tmp_path / "data",
        bookie_count=1,
        bookie_options=QUICK,
        bookie_flags=["--allow-actions"],
    ) as cluster:
        shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})

        assert kinds(shell) == ["bookie-local", "http-actions"]


def test_what_belongs_to_another_cluster_is_not_its_concern(tmp_path: Path) -> None:
    with (
        LocalCluster(tmp_path / "one", bookie_count=1, bookie_options=QUICK) as one,
        LocalCluster(tmp_path / "two", bookie_count=1, bookie_options=QUICK) as two,
    ):
        shell = Shell(tmp_path, {"ZBK_METADATA": one.metadata_uri})
        other = Shell(tmp_path, {"ZBK_METADATA": two.metadata_uri})
        with console(other, "--http", f"0.0.0.0:{lasting_port()}") as url:
            assert of_endpoints(shell) == []
            assert of_endpoints(shell, "--url", url) == [("console-open", [url])]
