"""A cluster with entries moves from SQLite to ZooKeeper and back."""

import signal
from pathlib import Path

import zbk
from tests.support.cluster import Shell, lone_ledger

DIRECTORIES = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")
RUN = ("bookie", "run", *DIRECTORIES, "--listen", "tcp://127.0.0.1:0", "--http", "off")


def test_a_bookie_serves_its_ledgers_from_each_store(tmp_path: Path, zookeeper_uri: str) -> None:
    addresses = (f"sqlite://{tmp_path}/a.db", zookeeper_uri, f"sqlite://{tmp_path}/b.db")
    shell = Shell(tmp_path)
    shell.run("bookie", "init", *DIRECTORIES, "--metadata", addresses[0])
    written: list[bytes] = []
    for number, address in enumerate(addresses):
        if number:
            shell.run("metadata", "export", f"{number}", "--metadata", addresses[number - 1])
            shell.run("metadata", "import", f"{number}", "--metadata", address)
        with shell.start(*RUN, "--metadata", address) as process:
            assert process.stderr is not None
            next(line for line in iter(process.stderr.readline, b"") if b"READY" in line)
            with zbk.connect(address) as client:
                written.append(b"entry %d" % number)
                with lone_ledger(client) as ledger:
                    ledger.append(written[-1])
                read = [
                    bytes(entry.payload)
                    for ledger_id in client.list_ledgers()
                    for entry in client.open_ledger(ledger_id).read(0, 0)
                ]
            assert read == written
            shell.run("metadata", "check", "--metadata", address)
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
