"""What one client may ask for in a second, at a real bookie, and another one beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.secure_cluster import Keyring
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

FENCE_RATE = 20
SIZE_RATE = 100_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options = QUICK | {"identity_fence_rate": FENCE_RATE, "identity_rate_size": SIZE_RATE}
    folder: Path = tmp_path_factory.mktemp("rates") / "data"
    with LocalCluster(folder, bookie_count=1, bookie_options=options) as running:
        yield running


def test_a_storm_of_fences_takes_its_time_and_another_client_does_not(
    cluster: LocalCluster,
) -> None:
    with (
        zbk.connect(cluster.metadata_uri) as hostile,
        zbk.connect(cluster.metadata_uri) as modest,
        lone_ledger(modest) as own,
    ):
        writers = hostile.create_ledgers(
            3 * FENCE_RATE, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
        )
        began_s = monotonic_s()
        recoveries = [hostile.recover_ledger(one.ledger_id) for one in writers]
        took_s = monotonic_s() - began_s
        own.append(b"not throttled")

        assert len(recoveries) == 3 * FENCE_RATE
        assert took_s > (3 * FENCE_RATE - FENCE_RATE // 4 - 1) / FENCE_RATE - 0.1


def test_a_client_that_writes_more_than_its_rate_is_slowed_down_and_loses_nothing(
    cluster: LocalCluster,
) -> None:
    payload = b"." * 10_000
    count = 3 * SIZE_RATE // len(payload)
    with zbk.connect(cluster.metadata_uri) as client:
        began_s = monotonic_s()
        with lone_ledger(client) as ledger:
            for _ in range(count):
                ledger.append(payload)
        took_s = monotonic_s() - began_s

        assert took_s > 2.5
        assert ledger.last_add_confirmed == count - 1
        kept = client.open_ledger(ledger.ledger_id).read(0, count - 1)
        assert sum(len(entry.payload) for entry in kept) == count * len(payload)


def test_all_connections_with_one_key_have_one_rate(tmp_path: Path) -> None:
    keys = Keyring.of(tmp_path / "keys", "bookie", "guest", "alice")
    with LocalCluster(
        tmp_path / "data",
        bookie_count=1,
        bookie_options=QUICK | {"identity_fence_rate": FENCE_RATE},
        bookie_flags=("--key", keys.path("bookie")),
    ) as cluster:
        keys.admit(cluster, "guest", "guest")
        keys.admit(cluster, "alice", "alice")
        keys.wait_for(cluster, "guest", "alice")
        with (
            keys.connect(cluster, "guest") as one,
            keys.connect(cluster, "guest") as other,
            keys.connect(cluster, "alice") as alice,
        ):
            writers = one.create_ledgers(
                3 * FENCE_RATE, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
            )
            began_s = monotonic_s()
            for number, writer in enumerate(writers):
                (one, other)[number % 2].recover_ledger(writer.ledger_id)
            took_s = monotonic_s() - began_s
            with lone_ledger(alice) as own:
                own.append(b"x")
            alice.recover_ledger(own.ledger_id)

            assert took_s > (3 * FENCE_RATE - FENCE_RATE // 4 - 1) / FENCE_RATE - 0.1
