"""The node of a demo in somebody's ZooKeeper, which leaves nothing there."""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryTree
from zbk.cluster import scratch
from zbk.cluster.scratch import scratch_root
from zbk.metadata.dumps.store_check import problems_in
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.store import MetadataStore

URI = "zk://zk1:2181/zbk"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataStore]:
    """The cluster whose ZooKeeper it is."""
    tree = MemoryTree()
    stores = {URI: tree, f"{URI}/": tree}
    monkeypatch.setattr(scratch, "open_store", lambda uri: stores[uri].open_session())
    store = tree.open_session()
    initialise(store)
    yield store
    store.close()


def test_a_demo_leaves_no_node_in_the_cluster_around_it(cluster: MetadataStore) -> None:
    before = cluster.children("/")
    with scratch_root(URI) as address:
        assert address is not None
        assert address.startswith(f"{URI}/demo-")
        for path in ("", "/ledgers", "/ledgers/L1"):
            cluster.create(address.removeprefix(URI) + path)

    assert cluster.children("/") == before
    assert problems_in(cluster) == []


def test_a_demo_that_made_nothing_ends_well(cluster: MetadataStore) -> None:
    with scratch_root(f"{URI}/"):
        pass
    assert problems_in(cluster) == []
