"""A bookie with few file descriptors, and more connections than it has: it stays of use."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.limited_bookie import limited_program
from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

DESCRIPTOR_COUNT = 320
PEER_COUNT = 400
"""More than the bookie has descriptors."""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[LocalCluster]:
    """One bookie, on SQLite."""
    with LocalCluster(
        tmp_path / "data",
        bookie_count=1,
        bookie_options=QUICK | {"handshake_ms": 1_000, "checkpoint_interval_ms": 200},
        bookie_programs={0: limited_program(DESCRIPTOR_COUNT)},
    ) as cluster:
        yield cluster


def descriptor_count(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def append_to_new_ledgers(client: zbk.Client, count: int) -> None:
    for _ in range(count):
        with lone_ledger(client) as ledger:
            ledger.append(b"x", timeout=30)


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_more_connections_than_descriptors_cost_a_client_nothing(
    limited: LocalCluster, *, is_greeting: bool
) -> None:
    (bookie,) = limited.bookies
    with zbk.connect(limited.metadata_uri) as early, ExitStack() as peers:
        append_to_new_ledgers(early, 3)
        for _ in range(PEER_COUNT):
            peers.enter_context(RawPeer(bookie.address, is_greeting=is_greeting))
        append_to_new_ledgers(early, 30)
        with zbk.connect(limited.metadata_uri) as late:
            append_to_new_ledgers(late, 3)
        wait_until(
            lambda: descriptor_count(bookie.pid) < DESCRIPTOR_COUNT // 2,
            what="the end of the silent connections",
        )
    assert not limited.deaths()
    log = (limited.folder / "bookie0.log").read_text()
    assert "had said no HELLO" in log
    assert "WARN" not in log
    assert "ERROR" not in log


CLIENT = """
import os, resource, sys
import zbk
LONE = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}

def fill(left_count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    for fd in taken[len(taken) - left_count:]:
        os.close(fd)

client = zbk.connect(sys.argv[1])
with client.create_ledger(**LONE) as ledger:
    ledger.append(b"x")
fill(int(sys.argv[2]))
try:
    zbk.connect(sys.argv[1])
except zbk.ZbkError as error:
    print(type(error).__name__)
print("still", client.create_ledger(**LONE).append(b"x"))
"""


def test_a_client_process_without_descriptors_is_told_so(limited: LocalCluster) -> None:
    for left_count in (1, 9):  # libzmq would end the process for want of a few
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, limited.metadata_uri, str(left_count)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.split() == ["TooManyOpenFilesError", "still", "0"], done.stderr
