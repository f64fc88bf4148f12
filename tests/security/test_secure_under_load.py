"""A cluster that works is closed to strangers, and nothing stops meanwhile."""

import json
import threading
from pathlib import Path

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from tests.support.zookeeper_users import identity_of, make_access
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.config import MetadataAccess


def config_of(folder: Path, access: MetadataAccess) -> str:
    path = folder / f"{access.user}.toml"
    path.write_text(
        f'[security]\nmetadata_user = "{access.user}"\n'
        f'metadata_password_file = "{access.password_file}"\n'
    )
    return str(path)


class Writer:
    """Creates ledgers and appends to them in a thread, until it is stopped."""

    def __init__(self, client: zbk.Client) -> None:
        self._client = client
        self._is_stopped = threading.Event()
        self.ledger_count = 0
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_stopped.is_set():
                with self._client.create_ledger() as ledger:
                    ledger.append_many([b"x"] * 10)
                self.ledger_count += 1
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.errors.append(error)

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join(30)


def test_a_conversion_stops_nobody_who_has_a_user(tmp_path: Path) -> None:
    users = {name: make_access(tmp_path, name) for name in ("operator", "bookie", "app")}
    configs = {name: config_of(tmp_path, access) for name, access in users.items()}
    with LocalZooKeeper(tmp_path / "zookeeper") as server:
        uri = server.uri("/load/zbk")
        shell = Shell(tmp_path, {"ZBK_CONFIG": configs["operator"], "ZBK_METADATA": uri})
        flags = ("--config", configs["bookie"])
        with (
            LocalCluster(  # this process has no user, so that the tree is open
                tmp_path / "data", metadata=uri, bookie_options=QUICK, bookie_flags=flags
            ) as cluster,
            zbk.connect(
                uri,
                metadata_user="app",
                metadata_password_file=users["app"].password_file,
            ) as client,
        ):
            writer = Writer(client)
            wait_until(lambda: writer.ledger_count >= 3 or bool(writer.errors))

            roles = ("--bookie", identity_of(users["bookie"]), "--client")
            shell.run("cluster", "secure", *roles, identity_of(users["app"]))
            before = writer.ledger_count
            wait_until(lambda: writer.ledger_count >= before + 10 or bool(writer.errors))
            writer.stop()

            assert writer.errors == []
            again = shell.run("cluster", "secure", "--dry-run", "-o", "json").stdout
            rows = [json.loads(line) for line in again.splitlines()]
            assert [row for row in rows if row["changed"] or row["open"]] == []
            assert len(client.list_bookies()) == len(cluster.bookies) == 3
        done = Shell(tmp_path, {"ZBK_METADATA": uri}).run("bookie", "ls", exit_code=3)
        assert b"this process has no user" in done.stderr
