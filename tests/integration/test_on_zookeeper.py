"""Ledgers on a real ZooKeeper: the whole path, a paused metadata store, lost registrations."""

from collections.abc import Iterator

import pytest

import zbk
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper_uri: str) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("on-zookeeper") / "data"
    with LocalCluster(folder, metadata=zookeeper_uri) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(
        cluster.metadata_uri, connect_timeout_ms=4_000, session_timeout_ms=4_000
    ) as connected:
        yield connected


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_what_is_appended_is_read(client: zbk.Client, ledger_type: zbk.LedgerType) -> None:
    with client.create_ledger(ledger_type=ledger_type) as ledger:
        ledger.append_many([b"%d" % n for n in range(3_000)]).result(20)

    with client.open_ledger(ledger.ledger_id) as reader:
        found = [bytes(entry.payload) for entry in reader.read(0, 2_999)]
    assert found == [b"%d" % n for n in range(3_000)]
    assert ledger.ledger_id in set(client.list_ledgers())


def test_while_zookeeper_is_paused_writing_and_reading_go_on(
    client: zbk.Client, zookeeper_server: LocalZooKeeper
) -> None:
    ledger = client.create_ledger()
    ledger.append(b"before")
    zookeeper_server.pause()
    try:
        assert ledger.append(b"during") == 1
        with pytest.raises(zbk.MetadataUnavailableError):
            client.create_ledger()
    finally:
        zookeeper_server.resume()

    def is_closed() -> bool:
        try:
            return ledger.close() == 1
        except zbk.MetadataUnavailableError:
            return False

    wait_until(is_closed, what="closing after the pause")
    wait_until(lambda: len(client.list_bookies()) == 3, 30, "all bookies registered again")
    with client.open_ledger(ledger.ledger_id) as reader:
        assert [bytes(entry.payload) for entry in reader.read(0, 1)] == [b"before", b"during"]
    with client.create_ledger() as another:
        assert another.append(b"after") == 0
