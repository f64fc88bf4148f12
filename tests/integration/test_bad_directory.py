"""A real bookie with two directories of each kind, one of which is on a disk that dies.

The disk is an ext4 of its own that is shut down: every write to it fails from then on.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.chaos import power
from tests.integration.test_limbo import PAYLOADS, closed, connect, holdings, limbo
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

LEDGER_COUNT = 6
KINDS = ["journal", "ledger"]


@pytest.fixture(scope="module", autouse=True)
def needs_a_disk_that_dies(tmp_path_factory: pytest.TempPathFactory) -> None:
    reason = power.why_not(tmp_path_factory.mktemp("probe"))
    if reason:
        pytest.skip(reason)


class TwoDisks(LocalCluster):
    """Bookie 0 has two journal and two ledger directories, one of them on a disk of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(
            folder,
            bookie_options={
                **QUICK,
                "limbo_grace_ms": 1_000,
                "checkpoint_interval_ms": 500,
                "journal_segment_size": 4 << 20,
                "disk_reserve_size": 2 << 20,
                "disk_warn_free": 0,
                "disk_readonly_free": 0,
            },
        )
        self.kind = kind
        self.disk = power.PowerDisk(folder.parent / "bad.ext4", folder.parent / "bad")
        self.bad = str(folder.parent / "bad" / "zbk")

    def directories(self, kind: str) -> tuple[str, str]:
        """Return the directories of bookie 0 of a kind."""
        own = self.folder / "bookie0"
        return str(own / f"{kind}s"), self.bad if kind == self.kind else str(own / f"{kind}s-2")

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        options = super()._bookie_options(index, port)
        if index == 0:
            several = {f"{kind}_dir": self.directories(kind) for kind in KINDS}
            return {**options, **several}  # type: ignore[dict-item] # several paths are a tuple
        return options

    def _bookie_command(self, index: int, port: int) -> list[str]:
        command = super()._bookie_command(index, port)
        for kind in KINDS if index == 0 else ():
            at = command.index(f"--{kind}-dir")
            given = [part for one in self.directories(kind) for part in (f"--{kind}-dir", one)]
            command[at : at + 2] = given
        return command

    def log(self) -> str:
        return (self.folder / "bookie0.log").read_text()


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TwoDisks]:
    running = TwoDisks(tmp_path / "data", request.param)
    try:
        with running:
            yield running
    finally:
        running.disk.unmount()


def payloads(client: zbk.Client, ledger_id: int) -> list[bytes]:
    reader = client.open_ledger(ledger_id)
    return [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]


def test_the_bookie_goes_on_without_the_directory_and_takes_a_new_one(
    cluster: TwoDisks, tmp_path: Path
) -> None:
    """B10: nothing is promised after the failed write, and nothing that was lost is denied."""
    shell = Shell(tmp_path)
    with connect(cluster) as client:
        ledger_ids = [closed(client) for _ in range(LEDGER_COUNT)]
        (before,) = [one for one in client.list_bookies() if one.bookie_id == bookie_id(cluster)]
        pid = cluster._children[0].pid
        with client.create_ledger() as writing:
            writing.append_many(PAYLOADS).result(30)
            cluster.disk.lose_power()
            for _ in range(4):  # of both journals and both ledger directories
                with client.create_ledger() as ledger:  # its bookie may stay silent
                    ledger.append_many(PAYLOADS).result(30)

            wait_until(lambda: incarnation(client, cluster) > before.incarnation, 30, "a new start")
            writing.append_many(PAYLOADS).result(30)
        assert cluster._children[0].pid == pid
        assert cluster._children[0].exit_code is None
        assert cluster.log().count("OUT OF SERVICE") == 1
        assert f"{cluster.bad} is OUT OF SERVICE" in cluster.log()
        wait_until(lambda: out_of_service(cluster) == cluster.bad, what="what it says of itself")

        assert all(payloads(client, ledger_id) == PAYLOADS for ledger_id in ledger_ids)
        assert payloads(client, writing.ledger_id) == PAYLOADS * 2
        wait_until(lambda: limbo(client, cluster, 0) == ("", 0), 60, "everything back from peers")
        for ledger_id in ledger_ids:
            assert holdings(cluster, 0, ledger_id).ranges == [(0, len(PAYLOADS) - 1)]

        cluster.kill(0)
        cluster.restart(0)  # it knows by the note
        assert cluster.log().count("OUT OF SERVICE") == 1
        assert cluster.terminate(0) == 0

        cluster.disk.power_on()
        places = [
            part
            for kind in KINDS
            for one in cluster.directories(kind)
            for part in (f"--{kind}-dir", one)
        ]
        shell.run("bookie", "renew-dir", cluster.bad, "--yes", *places)
        cluster.restart(0)
        assert out_of_service(cluster) == ""
        later = [closed(client) for _ in range(4)]
        assert all(payloads(client, one) == PAYLOADS for one in (*ledger_ids, *later))


def bookie_id(cluster: TwoDisks) -> str:
    return cluster.bookies[0].bookie_id


def out_of_service(cluster: TwoDisks) -> str:
    with connect(cluster) as client:
        return client.bookie_info(bookie_id(cluster)).out_of_service


def incarnation(client: zbk.Client, cluster: TwoDisks) -> int:
    found = [one for one in client.list_bookies() if one.bookie_id == bookie_id(cluster)]
    return found[0].incarnation if found else 0
