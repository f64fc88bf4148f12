"""Power fails at every bookie at once, for real: an ext4 for each, cut off without a flush."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.chaos import power
from tests.chaos.cluster import ChaosCluster
from tests.chaos.network import ProxiedNetwork

ENTRY = b"%08d" + b"." * 492
COUNT = 3_000


@pytest.fixture(scope="module", autouse=True)
def _machine_can_lose_power(tmp_path_factory: pytest.TempPathFactory) -> None:
    reason = power.why_not(tmp_path_factory.mktemp("probe"))
    if reason:
        pytest.skip(f"power loss: {reason}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ChaosCluster]:
    with ChaosCluster(
        tmp_path / "cluster",
        ProxiedNetwork(3),
        bookie_count=3,
        use_zookeeper=False,
        has_power=True,
    ) as running:
        yield running


@pytest.fixture
def client(cluster: ChaosCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.uri, quorum_grace_ms=20_000) as connected:
        yield connected


def lose_power(cluster: ChaosCluster) -> None:
    cluster.lose_power(cluster.indexes)
    for index in cluster.indexes:
        cluster.power_on(index)


def payloads(first: int, last: int) -> list[bytes]:
    return [ENTRY % number for number in range(first, last + 1)]


def test_what_a_persistent_ledger_acknowledged_outlives_the_power(
    client: zbk.Client, cluster: ChaosCluster
) -> None:
    ledger = client.create_ledger()
    acked = ledger.append_many(payloads(0, COUNT - 1)).result(20)
    lose_power(cluster)

    with client.recover_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == acked[-1] == COUNT - 1
        assert [bytes(e.payload) for e in reader.read(0, COUNT - 1)] == payloads(0, COUNT - 1)


@pytest.mark.parametrize(
    ("ledger_type", "count"),
    [
        ("VD_JOURNAL", 100),
        ("VD_BYPASS_JOURNAL", 100),  # in the shared entry log
        ("VD_BYPASS_JOURNAL", 1_500),  # in its own
    ],
)
def test_what_a_volatile_ledger_synced_outlives_the_power_and_nothing_else_is_promised(
    client: zbk.Client, cluster: ChaosCluster, ledger_type: str, count: int
) -> None:
    """B24: bookies lost what they had acknowledged, and sync() knows it."""
    ledger = client.create_ledger(ledger_type=zbk.LedgerType(ledger_type))
    ledger.append_many(payloads(0, count - 1)).result(20)
    synced = ledger.sync()
    assert synced == count - 1
    ledger.append_many(payloads(count, COUNT - 1)).result(20)
    lose_power(cluster)

    try:
        durable = ledger.sync()
    except zbk.CannotAdvanceError as error:
        durable = error.last_durable_id
    assert durable >= synced
    with client.recover_ledger(ledger.ledger_id) as reader:
        last = reader.last_add_confirmed
        assert last >= durable
        assert [bytes(e.payload) for e in reader.read(0, last)] == payloads(0, last)


def test_a_fence_outlives_the_power(client: zbk.Client, cluster: ChaosCluster) -> None:
    """B8, B9: it was on disk before any answer that the recoverer counted."""
    ledger = client.create_ledger()
    ledger.append_many(payloads(0, 9)).result(20)
    with zbk.connect(cluster.uri) as taker:
        assert taker.recover_ledger(ledger.ledger_id).last_add_confirmed == 9
    lose_power(cluster)

    with pytest.raises(zbk.LedgerFencedError):
        ledger.append(ENTRY % 10)

    with client.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == 9
