"""Crashes under load, for SOAK_SECONDS: what was acknowledged is read back, again and again.

Each round writes a ledger, kills a bookie somewhere in the middle, goes on with the ack quorum that
is left, closes, restarts the bookie, and compares the ledger with what was acknowledged. Now and
then all bookies are killed at once, with nothing under way. Ledgers of earlier rounds are compared
too, so that a later crash cannot take back what an earlier one left.
"""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

import zbk
from tests.support.cluster import QUICK
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

pytestmark = pytest.mark.soak

KEPT_LEDGER_COUNT = 6
BATCH_COUNT = 150
TIMEOUT_S = 60.0


class Written(msgspec.Struct, frozen=True):
    """A ledger, and how its entries can be made again."""

    ledger_id: int
    seed: int
    entry_count: int


def payload_batches(seed: int) -> Iterator[list[bytes]]:
    """Yield the same batches for the same seed: entries of many sizes, empty ones among them."""
    dice = random.Random(seed)
    for _ in range(BATCH_COUNT):
        size_max = dice.choice([0, 20, 200, 5_000])
        yield [dice.randbytes(dice.randint(0, size_max)) for _ in range(dice.randint(1, 400))]


def test_what_was_acknowledged_survives_crashes(tmp_path: Path) -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", "60"))
    seed = int(os.environ.get("SOAK_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SOAK_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    dice = random.Random(seed)
    deadline_s = monotonic_s() + seconds
    kept: list[Written] = []
    round_count = 0
    with LocalCluster(tmp_path / "data", bookie_options=QUICK) as cluster:
        while monotonic_s() < deadline_s:
            round_count += 1
            with zbk.connect(cluster.metadata_uri) as client:
                kept.append(write_through_a_crash(client, cluster, dice))
            if dice.random() < 0.25:
                crash_all(cluster)
            with zbk.connect(cluster.metadata_uri) as client:
                for written in kept:
                    compare(client, written)
                while len(kept) > KEPT_LEDGER_COUNT:
                    client.delete_ledger(kept.pop(dice.randrange(len(kept))).ledger_id)
        assert cluster.deaths() == {}
    print(f"{round_count} rounds")  # noqa: T201 - for whoever runs it with -s


def write_through_a_crash(
    client: "zbk.Client", cluster: LocalCluster, dice: random.Random
) -> Written:
    """Write a ledger; kill a bookie in the middle and restart it; return what was acknowledged."""
    seed = dice.randrange(2**32)
    victim = dice.randrange(len(cluster.bookies))
    crash_at = dice.randrange(BATCH_COUNT)
    back_at = dice.randrange(crash_at, BATCH_COUNT)
    futures: list[Future[range]] = []
    restart = threading.Thread(target=cluster.restart, args=(victim,))
    with client.create_ledger(ledger_type=dice.choice(list(zbk.LedgerType))) as ledger:
        for number, batch in enumerate(payload_batches(seed)):
            if number == crash_at:
                cluster.kill(victim)
            if number == back_at:
                restart.start()  # it comes back while the writer goes on
            futures.append(ledger.append_many(batch))
            if dice.random() < 0.05:
                assert ledger.sync(timeout=TIMEOUT_S) == ledger.last_add_pushed
        acknowledged = [future.result(TIMEOUT_S) for future in futures]
    restart.join()
    assert acknowledged[-1].stop == sum(map(len, acknowledged)), "ids without a gap"
    return Written(ledger.ledger_id, seed, acknowledged[-1].stop)


def crash_all(cluster: LocalCluster) -> None:
    """Kill every bookie, and start all of them again."""
    for bookie in cluster.bookies:
        cluster.kill(bookie.index)
    for bookie in cluster.bookies:
        cluster.restart(bookie.index)


def compare(client: "zbk.Client", written: Written) -> None:
    """Read a whole ledger and compare it with what was acknowledged."""
    wanted = [payload for batch in payload_batches(written.seed) for payload in batch]
    reader = client.open_ledger(written.ledger_id)

    assert reader.last_add_confirmed == written.entry_count - 1 == len(wanted) - 1
    found = [
        payload
        for batch in reader.read_batches(0, written.entry_count - 1, timeout=TIMEOUT_S)
        for payload in batch
    ]
    for entry_id, (expected, actual) in enumerate(zip(wanted, found, strict=True)):
        assert actual == expected, f"ledger {written.ledger_id} entry {entry_id}"
