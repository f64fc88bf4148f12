"""A real bookie: filled, stopped, looked into, its index lost and made anew, read back."""

import json
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import Shell

BYPASS = zbk.LedgerType.VD_BYPASS_JOURNAL


def start(shell: Shell, places: list[str]) -> "subprocess.Popen[bytes]":
    """Start the bookie; return when it serves."""
    process = shell.start("bookie", "run", *places, "--listen", "tcp://127.0.0.1:0")
    assert process.stderr is not None
    told = []
    for line in iter(process.stderr.readline, b""):
        told.append(line)
        if b"READY" in line:
            return process
    raise AssertionError(told)


def stop(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    process.send_signal(number)
    process.wait(20)
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("ledger_type", [zbk.LedgerType.PD_JOURNAL, BYPASS])
def test_a_bookie_whose_index_was_lost_has_all_of_its_entries_back(
    tmp_path: Path, ledger_type: zbk.LedgerType
) -> None:
    """B3: it denies nothing, in between it does not start; B8: what was fenced is fenced."""
    shell = Shell(tmp_path, {"ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db"})
    places = ["--journal-dir", str(tmp_path / "j"), "--ledger-dir", str(tmp_path / "l")]
    config = ["--journal-segment-size", "1 MiB", "--entry-log-size-max", "1 MiB"]
    bookie_id = shell.run("bookie", "init", *places).stdout.decode().strip()
    process = start(shell, [*places, *config])
    payloads = [b"entry %d " % number * 20 for number in range(20_000)]
    with zbk.connect(shell.environment["ZBK_METADATA"]) as client:
        create = partial(
            client.create_ledger,
            ensemble_size=1,
            write_quorum_size=1,
            ack_quorum_size=1,
            ledger_type=ledger_type,
        )
        with create() as plain:
            plain.append_many(payloads).result()
        with create(password=b"s3cret") as secret:
            secret.append_many(payloads[:100]).result()
    shown = shell.run("bookie", "cookie", "delete", bookie_id, "--yes", exit_code=6)
    assert b"stop it first" in shown.stderr
    shell.run("bookie", "sanity", *places, exit_code=6)
    logs = sorted(map(str, (tmp_path / "l" / "logs").iterdir()))
    shell.run("inspect", "entrylog", *logs, "--limit", "3")  # of a bookie that runs
    stop(process, signal.SIGTERM)
    stop(start(shell, [*places, *config]), signal.SIGTERM)  # a start ends with a checkpoint

    checked = json.loads(shell.run("bookie", "sanity", *places, "-o", "json").stdout)
    assert (checked["entry_count"], checked["ledger_count"]) == (20_100, 2)
    journals = sorted(map(str, (tmp_path / "j").glob("*.journal")))
    shell.run("inspect", "journal", *journals, "-o", "json")
    indexes = [str(path) for path in (tmp_path / "l" / "index").rglob("*.idx")]
    shell.run("inspect", "index", *indexes)

    shutil.rmtree(tmp_path / "l" / "index")
    (tmp_path / "l" / "index.flush").unlink(missing_ok=True)
    refused = shell.run("bookie", "run", *places, exit_code=6)
    assert b"rebuild-index" in refused.stderr
    rebuilt = shell.run("bookie", "rebuild-index", *places, "-o", "json")
    assert json.loads(rebuilt.stdout)["entry_count"] == 20_100
    shell.run("bookie", "sanity", *places)

    process = start(shell, [*places, *config])
    with zbk.connect(shell.environment["ZBK_METADATA"]) as client:
        reader = client.open_ledger(plain.ledger_id)
        assert [bytes(entry.payload) for entry in reader.read(0, 19_999)] == payloads
        reader = client.open_ledger(secret.ledger_id, password=b"s3cret")
        assert [bytes(entry.payload) for entry in reader.read(0, 99)] == payloads[:100]
    stop(process, signal.SIGKILL)
