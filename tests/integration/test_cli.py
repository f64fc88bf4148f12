"""The command line on real bookies."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import zbk
from tests.support.cluster import Shell, client, cluster
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

__all__ = ["client", "cluster"]


@pytest.fixture
def shell(cluster: LocalCluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})


def test_what_append_writes_cat_reads(shell: Shell) -> None:
    content = b"".join(b"line %d\n" % number for number in range(5_000))
    (shell.home / "input").write_bytes(content)

    shown = json.loads(shell.run("ledger", "append", "input", "-o", "json").stdout)

    assert (shown["entry_count"], shown["state"]) == (5_000, "CLOSED")
    ledger_id = str(shown["ledger_id"])
    assert shell.run("ledger", "cat", ledger_id, "--lines").stdout == content
    listed = shell.run("ledger", "ls", "-o", "json").stdout.splitlines()
    assert shown["ledger_id"] in [json.loads(line)["ledger_id"] for line in listed]
    shell.run("ledger", "delete", ledger_id, "--yes")
    shell.run("ledger", "show", ledger_id, exit_code=1)


def test_a_reserved_ledger_is_filled_once_with_its_password(shell: Shell) -> None:
    shell.environment["ZBK_PASSWORD"] = "s3cret"
    ledger_id = shell.run("ledger", "create", "--type", "vd").stdout.decode().strip()
    shell.run("ledger", "append", ledger_id, "--chunk", "64KiB", stdin=bytes(200_000))

    shell.run("ledger", "append", ledger_id, stdin=b"x", exit_code=1)
    assert len(shell.run("ledger", "cat", ledger_id).stdout) == 200_000
    del shell.environment["ZBK_PASSWORD"]
    refused = shell.run("ledger", "cat", ledger_id, exit_code=1)
    assert refused.stderr.decode() == f"zbk: wrong password for ledger {ledger_id}\n"


def test_sync_makes_an_open_vd_ledger_readable(shell: Shell) -> None:
    made = shell.run(
        "ledger", "append", "--type", "vd", "--keep-open", "-o", "json", stdin=b"a\nb\nc\n"
    )
    ledger_id = str(json.loads(made.stdout)["ledger_id"])

    synced = json.loads(shell.run("ledger", "sync", ledger_id, "-o", "json").stdout)

    assert synced["last_durable_id"] == 2


def test_bookies_are_listed_and_asked(shell: Shell, cluster: LocalCluster) -> None:
    lines = shell.run("bookie", "ls", "-o", "json").stdout.splitlines()
    listed = {json.loads(line)["bookie_id"]: json.loads(line)["address"] for line in lines}

    assert listed == {bookie.bookie_id: bookie.address for bookie in cluster.bookies}
    info = json.loads(shell.run("bookie", "show", next(iter(listed)), "-o", "json").stdout)
    assert info["bookie_id"] in listed


def test_without_a_cluster_the_cures_are_named(tmp_path: Path) -> None:
    failed = Shell(tmp_path).run("ledger", "ls", exit_code=1)

    assert b"zbk up" in failed.stderr
    assert failed.stdout == b""


def test_a_bookie_is_made_run_and_stopped_by_hand(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db"})
    directories = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")
    bookie_id = shell.run("bookie", "init", *directories).stdout.decode().strip()
    again = shell.run("bookie", "init", *directories, exit_code=6)
    assert b"belong" in again.stderr

    arguments = ("bookie", "run", *directories, "--listen", "tcp://127.0.0.1:0")
    with shell.start(*arguments, "--log-format", "json") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        messages = (json.loads(line)["message"] for line in lines)
        ready = next(message for message in messages if message.startswith("READY"))
        assert bookie_id in ready
        second = shell.run(*arguments, exit_code=6)
        assert b"in use" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


class TestUp:
    """`zbk up`, its context, and its end."""

    @pytest.fixture
    def shell(self, tmp_path: Path) -> Shell:
        return Shell(tmp_path)

    @pytest.fixture
    def up(self, shell: Shell) -> Iterator[subprocess.Popen[bytes]]:
        with shell.start("up", "-o", "json", "--bookies", "3") as process:
            yield process
            process.kill()

    def test_other_commands_find_it_and_ctrl_c_ends_it(
        self, shell: Shell, up: subprocess.Popen[bytes]
    ) -> None:
        assert up.stdout is not None
        shown = json.loads(up.stdout.readline())
        assert shown["is_context"]
        with urlopen(f"{shown['console']}/index.json", timeout=30) as page:  # noqa: S310 - our own
            assert json.loads(page.read())["title"] == "Overview"
        pids = [bookie["pid"] for bookie in shown["bookies"]] + [shown["autorecovery"]["pid"]]

        shell.run("ledger", "append", stdin=b"kept\n")
        up.send_signal(signal.SIGINT)

        assert up.wait(30) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert b"zbk up" in shell.run("ledger", "ls", exit_code=1).stderr
        with shell.start("up") as again:  # on its data, for people
            assert again.stdout is not None
            lines = [again.stdout.readline().decode() for _ in range(7)]
            assert "autorecovery  pid" in lines[5]
            assert lines[6].startswith("READY")
            assert shell.run("ledger", "cat", "0", "--lines").stdout == b"kept\n"
            again.terminate()
            assert again.wait(30) == 0
            rest = again.stdout.read().decode()
        assert "the web console, in a browser" in rest
        assert len(lines) + len(rest.splitlines()) <= 13

    def test_its_bookies_have_as_long_to_start_as_it_is_told(self, shell: Shell) -> None:
        late = shell.run("up", "--start-timeout", "1ms", "--bookies", "1", exit_code=6)

        assert b"bookie 0 runs and is not registered after 0.001 s" in late.stderr
        assert b"--start-timeout" in late.stderr

    def test_it_goes_on_while_a_bookie_runs_that_was_started_again_by_hand(
        self, shell: Shell
    ) -> None:
        with shell.start("up", "-o", "json", "--bookies", "2", "--no-autorecovery") as up:
            assert up.stdout is not None
            assert up.stderr is not None
            bookies = json.loads(up.stdout.readline())["bookies"]
            told = iter(up.stderr.readline, b"")

            os.kill(bookies[0]["pid"], signal.SIGKILL)
            start = b"zbk: to restart it: zbk "
            command = next(line for line in told if line.startswith(start)).decode()
            assert b"continues with 1 of 2 bookies" in next(told)
            with shell.start(*shlex.split(command.removeprefix(start.decode()))) as by_hand:
                assert next(told) == b"zbk: bookie 0 runs again, started by hand\n"
                os.kill(bookies[1]["pid"], signal.SIGKILL)
                assert any(b"continues with 1 of 2 bookies" in line for line in told)
                lone = ("-E", "1", "-w", "1", "-a", "1")
                shell.run("ledger", "append", *lone, stdin=b"served\n")
                assert up.poll() is None
                by_hand.terminate()
                by_hand.communicate(timeout=30)
            assert next(told) == b"zbk: bookie 0, started by hand, has ended\n"
            assert b"every bookie has ended" in next(told)
            assert up.wait(30) == 6

    def test_its_bookies_end_with_it_even_if_it_is_killed(
        self, shell: Shell, up: subprocess.Popen[bytes]
    ) -> None:
        assert up.stdout is not None
        assert up.stderr is not None
        pids = [bookie["pid"] for bookie in json.loads(up.stdout.readline())["bookies"]]
        os.kill(pids[1], signal.SIGKILL)
        told = iter(up.stderr.readline, b"")
        assert b"bookie 1 ended by SIGKILL" in next(told)
        assert any(b"continues with 2 of 3 bookies" in line for line in told)

        up.kill()
        up.wait()

        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        stale = shell.run("ledger", "ls", exit_code=1).stderr.decode()
        assert "is gone" in stale
        assert "rm " in stale

    def test_autorecovery_runs_beside_it_and_its_end_is_told(
        self, shell: Shell, up: subprocess.Popen[bytes]
    ) -> None:
        assert up.stdout is not None
        assert up.stderr is not None
        shown = json.loads(up.stdout.readline())
        pid = shown["autorecovery"]["pid"]
        log = Path(shown["data_dir"]) / "autorecovery.log"
        wait_until(lambda: b"READY" in log.read_bytes(), 30)
        wait_until(lambda: shell.run("autorecovery", "status").stdout.count(b"lost bookies") == 1)
        assert shell.run("autorecovery", "whoisauditor").stdout.endswith(b"-%d\n" % pid)
        assert not [line for line in log.read_text().splitlines() if " INFO " not in line]

        os.kill(pid, signal.SIGKILL)

        told = iter(up.stderr.readline, b"")
        assert b"autorecovery ended by SIGKILL" in next(told)
        assert any(b"zbk autorecovery run" in line for line in told)
        assert up.poll() is None

    def test_it_may_run_without_autorecovery(self, shell: Shell) -> None:
        with shell.start("up", "-o", "json", "--bookies", "1", "--no-autorecovery") as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["autorecovery"] is None
            noted = shell.run("autorecovery", "trigger").stderr
            assert b"no process audits now" in noted
            assert (
                b"zbk autorecovery run"
                in shell.run("autorecovery", "whoisauditor", exit_code=3).stderr
            )
            process.terminate()
            assert process.wait(30) == 0

    def test_one_folder_is_for_one_cluster(self, shell: Shell, up: subprocess.Popen[bytes]) -> None:
        assert up.stdout is not None
        up.stdout.readline()

        refused = shell.run("up", exit_code=6)

        assert b"in use by another local cluster" in refused.stderr


@pytest.fixture
def _no_ignored_signals() -> Iterator[None]:
    """Start commands as from a terminal, where ``nohup`` or ``&`` started these tests, too."""
    both = (signal.SIGHUP, signal.SIGINT)
    ignored = [one for one in both if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        signal.signal(one, signal.SIG_DFL)
    yield
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


@pytest.mark.usefixtures("_no_ignored_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_append_that_is_told_to_end_closes_its_ledger_and_says_where(
    shell: Shell, cluster: LocalCluster, number: signal.Signals
) -> None:
    fifo = shell.home / "fifo"
    os.mkfifo(fifo)
    with zbk.connect(cluster.metadata_uri) as client:
        known = set(client.list_ledgers())
        process = shell.start("ledger", "append", "fifo")
        with fifo.open("wb") as source:
            source.write(b"one\ntwo\n")
            source.flush()
            wait_until(lambda: bool(set(client.list_ledgers()) - known), what="the ledger")
            (ledger_id,) = set(client.list_ledgers()) - known
            with client.open_ledger(ledger_id) as reader:
                wait_until(lambda: reader.read_last_add_confirmed() == 1, what="the entries")
            process.send_signal(number)
            _, said = process.communicate(timeout=30)

        assert process.returncode == 130
        where = "its entries up to 1 are confirmed, up to 1 acknowledged"
        assert said.decode().splitlines() == [
            f"zbk: ledger {ledger_id} is closed; {where}",
            "zbk: interrupted",
        ]
        assert client.get_ledger_metadata(ledger_id).last_entry_id == 1


def test_an_append_to_a_log_that_is_told_to_end_says_where(
    shell: Shell, cluster: LocalCluster
) -> None:
    fifo = shell.home / "fifo"
    os.mkfifo(fifo)
    with zbk.connect(cluster.metadata_uri) as client:
        process = shell.start("log", "append", "told", "fifo")
        with fifo.open("wb") as source:
            source.write(b"one\n")
            source.flush()
            wait_until(lambda: "told" in client.list_logs(), what="the log")
            assert next(iter(client.tail_log("told"))).payload == b"one"
            process.terminate()
            _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"entries up to " in said
    assert said.endswith(b"are in log told\nzbk: interrupted\n")


def test_nohup_keeps_an_append_running(shell: Shell) -> None:
    fifo = shell.home / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "zbk", "ledger", "append", "fifo", "-o", "json"]
    process = subprocess.Popen(
        ["/usr/bin/env", "nohup", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=shell.environment, cwd=shell.home,
    )  # fmt: skip
    with fifo.open("wb") as source:  # opened: its handlers are set
        source.write(b"one\n")
        source.flush()
        process.send_signal(signal.SIGHUP)
        source.write(b"two\n")
    said, errors = process.communicate(timeout=60)

    assert (process.returncode, json.loads(said)["entry_count"]) == (0, 2), errors


def test_what_log_append_writes_log_cat_reads(shell: Shell) -> None:
    first = b"".join(b"line %d\n" % number for number in range(2_000))
    shown = json.loads(
        shell.run("log", "append", "cli", "--roll-size", "4KiB", "-o", "json", stdin=first).stdout
    )
    assert shown["entry_count"] == 2_000
    again = json.loads(shell.run("log", "append", "cli", "-o", "json", stdin=b"more\n").stdout)
    assert again["first"] == again["last"]

    assert shell.run("log", "cat", "cli", "--lines").stdout == first + b"more\n"
    position = again["first"]
    assert shell.run("log", "cat", "cli", "--lines", "--from", position).stdout == b"more\n"

    found = json.loads(shell.run("log", "show", "cli", "-o", "json").stdout)
    assert found["ledger_count"] == len(found["ledgers"]) >= 2
    assert {ledger["state"] for ledger in found["ledgers"]} == {"CLOSED"}
    cut_command = ("log", "truncate", "cli", position, "--yes", "-o", "json")
    cut = json.loads(shell.run(*cut_command).stdout)
    assert cut["deleted_ledger_count"] == found["ledger_count"] - 1
    assert shell.run("log", "cat", "cli", "--lines").stdout == b"more\n"
    shell.run("log", "cat", "cli", "--from", shown["first"], exit_code=1)
    shell.run("log", "delete", "cli", "--yes")
    shell.run("log", "show", "cli", exit_code=1)


@pytest.mark.parametrize("kind", ["log", "ledger"])
def test_cat_follows_until_it_is_interrupted(
    shell: Shell, client: zbk.Client, name: str, kind: str
) -> None:
    with client.open_log(name) as log:
        log.append(b"first")
        what = name if kind == "log" else str(log.ledger_id)
        process = shell.start(kind, "cat", what, "--lines", "--follow")
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        log.append(b"second")
        assert process.stdout.readline() == b"second\n"
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"interrupted" in said


def test_read_follows_a_ledger_to_its_end(shell: Shell, client: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        process = shell.start("ledger", "read", str(ledger.ledger_id), "--follow", "-o", "json")
        assert process.stdout is not None
        for number in range(3):
            ledger.append(b"%d" % number)
            assert json.loads(process.stdout.readline())["entry_id"] == number
    rest, _ = process.communicate(timeout=30)

    assert (process.returncode, rest) == (0, b"")
