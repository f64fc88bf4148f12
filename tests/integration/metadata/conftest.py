"""The three bodies of the metadata port, one after another, for the conformance suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.metadata_bodies import Body, MemoryBody, SqliteBody, ZooKeeperBody
from zbk.metadata.store import MetadataStore


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
