"""A bookie whose disk is full, for real: a small tmpfs, a ballast file that fills it and goes."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import zbk
from tests.integration.test_ensemble_change import ENTRY, Load, check_all, ensemble
from tests.support.cluster import Shell
from tests.support.mounts import Mount, missing_program
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

MIB = 1024 * 1024
DISK_SIZE = 96 * MIB
RESERVE_SIZE = 2 * MIB
OPTIONS: dict[str, int | str] = {
    "session_timeout_ms": 2_000,
    "journal_segment_size": 4 * MIB,
    "entry_log_size_max": 4 * MIB,
    "disk_reserve_size": RESERVE_SIZE,
    "checkpoint_interval_ms": 500,
}
LIMITS: list[dict[str, int | str]] = [
    {"disk_warn_free": 0, "disk_readonly_free": 0},
    {"disk_warn_free": "25%", "disk_readonly_free": "8 MiB"},
]
WRITTEN_COUNT = 300

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a tmpfs is mounted by root only"),
    pytest.mark.skipif(missing_program() != "", reason="no mount command here"),
]


class FullDisk:
    """A cluster whose bookie 0 has a small disk of its own."""

    def __init__(self, cluster: LocalCluster, disk: Path) -> None:
        self.cluster = cluster
        self.bookie_id = cluster.bookies[0].bookie_id
        self._disk = disk
        self._ballast = disk / "ballast"
        self._shell = Shell(disk.parent)
        self._is_draining = threading.Event()
        self._filler = threading.Thread(target=self._keep_full, daemon=True)

    def fill(self) -> None:
        """Take all space that there is, and from now on what comes free, but for the reserves."""
        self._take(DISK_SIZE)
        self._filler.start()

    def drain(self) -> None:
        """Give all of it back. Twice is fine."""
        self._is_draining.set()
        if self._filler.is_alive():
            self._filler.join()
        self._ballast.unlink(missing_ok=True)

    def _keep_full(self) -> None:
        while not self._is_draining.wait(0.01):
            disk = os.statvfs(self._disk)
            self._take(disk.f_bavail * disk.f_bsize - self._owed_size())

    def _owed_size(self) -> int:
        """Return what the bookie has taken from its reserves."""
        size = 0
        for name in ("journal", "ledgers"):
            size += RESERVE_SIZE
            with suppress(FileNotFoundError):
                size -= (self._disk / name / "reserve").stat().st_size
        return size

    def _take(self, size: int) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while size > 0:
                size -= file.write(bytes(min(size, 64 * 1024)))

    def state(self) -> str:
        """Return what ``zbk bookie ls`` says."""
        done = self._shell.run(
            "bookie", "ls", "--metadata", self.cluster.metadata_uri, "-o", "json"
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return str(next(row["state"] for row in rows if row["bookie_id"] == self.bookie_id))

    def wait_for(self, state: str) -> None:
        wait_until(lambda: self.state() == state, timeout_s=30, what=f"{state} in `bookie ls`")

    def wait_for_line(self, line: str) -> None:
        """Wait for a state that a load may end again before ``bookie ls`` has looked."""
        wait_until(lambda: line in self.log(), timeout_s=30, what=f"{line!r} in the log")

    def log(self) -> str:
        return (self.cluster.folder / "bookie0.log").read_text()


def on_small_disk(
    folder: Path, bookie_count: int, options: dict[str, int | str]
) -> Iterator[FullDisk]:
    with LocalCluster(folder, bookie_count=bookie_count, bookie_options=options):
        pass  # the bookies are made
    disk, made = folder / "bookie0", folder / "made"
    disk.rename(made)
    disk.mkdir()
    try:
        mount = Mount(disk, "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "zbk-test")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error.stderr.strip()}")
    try:
        shutil.copytree(made, disk, dirs_exist_ok=True)
        with LocalCluster(folder, bookie_count=bookie_count, bookie_options=options) as cluster:
            full = FullDisk(cluster, disk)
            yield full
            full.drain()
    finally:
        mount.unmount(is_lazy=True)


@pytest.fixture(params=LIMITS, ids=["ENOSPC", "limits"])
def with_spare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullDisk]:
    """Four bookies: one more than an ensemble."""
    folder = tmp_path / "data"
    yield from on_small_disk(folder, 4, OPTIONS | request.param)


@pytest.fixture(params=LIMITS, ids=["ENOSPC", "limits"])
def without_spare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullDisk]:
    folder = tmp_path / "data"
    yield from on_small_disk(folder, 3, OPTIONS | request.param)


def ledger_on(client: zbk.Client, bookie_id: str) -> zbk.LedgerWriter:
    """Return a new PD ledger with this bookie in its ensemble."""
    while True:
        ledger = client.create_ledger()
        if bookie_id in ensemble(ledger):
            return ledger
        ledger.close()


def test_a_writer_goes_on_with_another_bookie_and_the_full_one_comes_back(
    with_spare: FullDisk,
) -> None:
    full = with_spare
    with zbk.connect(full.cluster.metadata_uri) as client:
        ledger = ledger_on(client, full.bookie_id)
        load = Load(ledger, is_many=True)
        load.wait_for_more()

        full.fill()
        wait_until(lambda: full.bookie_id not in ensemble(ledger), what="another bookie")
        load.wait_for_more()
        load.stop()
        full.wait_for("read-only")
        info = client.bookie_info(full.bookie_id)
        assert info.is_readonly
        assert full.bookie_id not in ensemble(client.create_ledger()), "it is chosen no more"
        ledger.close()
        check_all(client, ledger.ledger_id, load.acked_count)

        full.drain()
        full.wait_for("writable")
        assert not client.bookie_info(full.bookie_id).is_readonly
    with zbk.connect(full.cluster.metadata_uri) as client:  # that has not seen it fail
        again = ledger_on(client, full.bookie_id)
        again.append_many([ENTRY % n for n in range(WRITTEN_COUNT)]).result(30)
        again.close()
        check_all(client, again.ledger_id, WRITTEN_COUNT)
    assert full.cluster.deaths() == {}
    assert full.log().count("READ-ONLY") == 1
    assert full.log().count("writable again") == 1


def test_without_a_spare_the_failure_is_clear_and_reads_fences_and_recovery_go_on(
    without_spare: FullDisk,
) -> None:
    """B8: a fence put on a bookie that is full holds, and outlives its process."""
    full = without_spare
    with (
        zbk.connect(full.cluster.metadata_uri, quorum_grace_ms=1_000) as client,
        zbk.connect(full.cluster.metadata_uri) as other,
    ):
        left = client.create_ledger(ack_quorum_size=3)
        left.append_many([ENTRY % n for n in range(WRITTEN_COUNT)]).result(30)
        ledger = client.create_ledger(ack_quorum_size=3)
        ledger.append_many([ENTRY % n for n in range(WRITTEN_COUNT)]).result(30)
        full.fill()

        with pytest.raises(zbk.ZbkError, match="read-only"):
            append_until_refused(ledger)
        full.wait_for("read-only")

        check_all_recovered(other, ledger.ledger_id)
        check_all_recovered(other, left.ledger_id)
        with pytest.raises(zbk.LedgerFencedError):
            left.append(b"late")
        full.cluster.kill(0)
        full.cluster.restart(0)
        assert full.state() == "read-only", "it starts on the full disk"
        check_all_recovered(other, left.ledger_id)

        full.drain()
        full.wait_for("writable")
        fresh = other.create_ledger(ack_quorum_size=3)
        fresh.append_many([ENTRY % n for n in range(WRITTEN_COUNT)]).result(30)
        fresh.close()
        check_all_recovered(other, fresh.ledger_id)


def test_a_writer_goes_on_without_the_full_bookie_and_takes_it_back(
    without_spare: FullDisk,
) -> None:
    full = without_spare
    with zbk.connect(full.cluster.metadata_uri) as client:
        ledger = client.create_ledger()
        load = Load(ledger, is_many=True)
        load.wait_for_more()
        full.fill()
        full.wait_for("read-only")
        load.wait_for_more()
        full.drain()
        full.wait_for_line("writable again")
        load.wait_for_more()

        full.cluster.kill(1)
        load.wait_for_more()
        load.stop()
        ledger.close()
        check_all(client, ledger.ledger_id, load.acked_count)


def append_until_refused(ledger: zbk.LedgerWriter) -> None:
    for _ in range(1_000):
        ledger.append_many([b"." * 10_000] * 10).result(30)


def check_all_recovered(client: zbk.Client, ledger_id: int) -> None:
    """The ledger is closed, by a recovery if need be, and its first entries are whole."""
    client.recover_ledger(ledger_id)
    with client.open_ledger(ledger_id) as reader:
        found = [bytes(entry.payload) for entry in reader.read(0, WRITTEN_COUNT - 1)]
    assert found == [ENTRY % number for number in range(WRITTEN_COUNT)]
