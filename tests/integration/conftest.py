"""A real ZooKeeper for each test process, and a name for the log of each test."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from zbk.cluster.zookeeper import START_TIMEOUT_S, LocalZooKeeper


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    """A running server. Whoever pauses or kills it sets it right again."""
    server = LocalZooKeeper(tmp_path_factory.mktemp("session-zookeeper"))
    with server.start(4 * START_TIMEOUT_S):  # more than a hundred tests hang on this one start
        yield server


@pytest.fixture
def zookeeper_uri(zookeeper_server: LocalZooKeeper) -> str:
    """The address of a root that nobody else uses."""
    return zookeeper_server.uri(f"/test-{uuid4().hex}/zbk")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A log of this test's own."""
    return str(request.node.name).replace("[", "-").replace("]", "")[:100]
