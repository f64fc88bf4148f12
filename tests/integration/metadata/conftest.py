"""The bodies of the metadata port, an SQLite file, and a ZooKeeper that fails on cue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.metadata_bodies import Body, MemoryBody, SqliteBody, ZooKeeperBody
from tests.support.sqlite_places import Place
from tests.support.zookeeper_proxy import ZooKeeperProxy
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.stores.zookeeper import ZooKeeperStore


@pytest.fixture(params=["memory", "sqlite", "zookeeper"])
def body(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Body]:
    """A place that several stores share, empty."""
    body: Body
    match request.param:
        case "memory":
            body = MemoryBody()
        case "sqlite":
            body = SqliteBody(tmp_path)
        case _:
            body = ZooKeeperBody(request.getfixturevalue("zookeeper_uri"))
    yield body
    body.close()


@pytest.fixture
def store(body: Body) -> MetadataStore:
    """One client's store."""
    return body.open()


@pytest.fixture
def other(body: Body, store: MetadataStore) -> MetadataStore:
    """Another client's store of the same place."""
    assert store.get("/").version == 0
    return body.open()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A file of SQLite metadata; its stores are closed in the end."""
    place = Place(tmp_path / "m.db")
    yield place
    for store in place.stores:
        store.close()


@pytest.fixture
def proxy(zookeeper_server: LocalZooKeeper) -> Iterator[ZooKeeperProxy]:
    """A proxy before the server, which fails on cue."""
    proxy = ZooKeeperProxy(zookeeper_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def direct(zookeeper_uri: str) -> Iterator[ZooKeeperStore]:
    """A store with a good connection."""
    store = ZooKeeperStore(zookeeper_uri)
    yield store
    store.close()


@pytest.fixture
def proxied(
    proxy: ZooKeeperProxy, zookeeper_uri: str, direct: ZooKeeperStore
) -> Iterator[ZooKeeperStore]:
    """A store of the same root as ``direct``, behind the proxy."""
    assert direct.get("/").version == 0
    uri = proxy.uri_like(zookeeper_uri)
    store = ZooKeeperStore(uri, timeout_s=5, session_timeout_ms=4000)
    yield store
    proxy.unblock()
    store.close()
