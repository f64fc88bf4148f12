"""A console over a store that computes its nodes."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from tests.support.fake_client import FakeClient
from tests.support.synthetic_store import SyntheticStore
from zbk.admin.access import Access
from zbk.admin.cluster import Cluster
from zbk.admin.routes import admin_routes
from zbk.client.api import Client
from zbk.console.app import make_app
from zbk.console.collector import Collector
from zbk.errors import MetadataUnavailableError
from zbk.health.cluster_health import BookieFacts, ClusterFacts
from zbk.http import serve
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore

BOOKIE_COUNT = 2_000
LEDGER_COUNT = 1_000_000


def drawn(figure: object, kind: str) -> list[ET.Element]:
    """Return the elements of a figure whose class begins with a text."""
    root = ET.fromstring(str(figure))  # noqa: S314 - our own
    assert root.get("aria-label")
    return [one for one in root.iter() if (one.get("class") or "").startswith(kind)]


class StillCollector(Collector):
    """A collector with the facts that a test gives it; it starts no thread."""

    def __init__(self) -> None:
        super().__init__("zk://ann:secret-word@h/zbk")
        self.store = SyntheticStore(LEDGER_COUNT, BOOKIE_COUNT)
        self.is_silent = False
        self.facts = ClusterFacts(
            metadata=self.metadata,
            cookies=tuple(f"b-{n:04d}" for n in range(BOOKIE_COUNT + 1)),
            ledger_count=LEDGER_COUNT,
            bookies=tuple(
                BookieFacts(
                    bookie_id=f"b-{n:04d}",
                    address=f"tcp://h{n}:3181",
                    is_readonly=n == 7,
                    version="0.1.0",
                )
                for n in range(BOOKIE_COUNT)
            ),
        )

    def connection(self) -> Any:  # noqa: ANN401 - only what pages use
        if self.is_silent:
            raise MetadataUnavailableError("zk://h/zbk", "no answer")
        store = cast("Any", self.store)
        return SimpleNamespace(
            store=store,
            ledgers=LedgerStore(store),
            tasks=UnderreplicationStore(store),
            requests=None,
            registered=frozenset[str],
        )


class Site(SimpleNamespace):
    """A served console."""

    url: str
    collector: StillCollector


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    collector = StillCollector()
    client = cast("Client", FakeClient())
    connection = cast("Any", collector.connection())
    cluster = Cluster("zk://h/zbk", connect=lambda _: client, open_connection=lambda _: connection)
    api = admin_routes(cluster, Access(is_loopback=True, has_actions=True))
    server = serve(make_app(collector, allow_actions=True, api=api), "127.0.0.1:0")
    yield Site(url=server.url, collector=collector)
    server.close()
