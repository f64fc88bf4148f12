"""The admin API over real HTTP, with a client and a metadata store in memory."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from starlette.applications import Starlette

from tests.support.fake_client import BOOKIES, FakeClient
from tests.support.fake_connection import FakeConnection
from tests.support.http import Answer, ask
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.actors.process.bookie import Bookie
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.admin.access import Access
from zbk.admin.cluster import Cluster
from zbk.admin.routes import admin_routes
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.client.api import Client
from zbk.config import BookieConfig
from zbk.config.running import RunningOptions
from zbk.http import serve
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.instance import initialise
from zbk.metadata.values import Cookie


class DataSetClient(FakeClient):
    """A client that has data sets, too."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.data_set_store = DataSetStore(store)

    def next_ledger_id(self) -> int:
        """Return the id of the next ledger."""
        return len(self.metadata)


class Api:
    """A served API, and what it operates."""

    def __init__(self) -> None:
        self.store = MemoryStore(MemoryTree())
        self.client = DataSetClient(self.store)
        instance = initialise(self.store)
        cookie = Cookie(
            bookie_id=BOOKIES[0],
            instance_id=instance,
            journal_dirs=(),
            ledger_dirs=(),
            created_ms=1,
        )
        BookieRegistry(self.store).create_cookie(cookie)
        self.connection = FakeConnection(self.store)
        self.cluster = Cluster(
            "memory://",
            running=RunningOptions(
                BookieConfig(journal_dir="/no/journal", ledger_dir="/no/ledgers")
            ),
            connect=lambda _address: cast("Client", self.client),
            open_connection=lambda _address: cast("ClusterConnection", self.connection),
        )
        self.cluster.bookie_id = BOOKIES[0]
        self.unsynced: list[UnsyncedLedger] = []
        own_bookie = SimpleNamespace(unsynced_ledgers=lambda: self.unsynced)
        self.cluster.own_bookie = cast("Bookie", own_bookie)
        self.url = ""

    def get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        """Return the body of a request that succeeds."""
        answer = self.ask("GET", path, **parameters)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def ask(self, method: str, path: str, **parameters: object) -> Answer:
        """Return the answer to a request."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return ask(f"{self.url}{path}?{query}" if query else f"{self.url}{path}", method)


def serving(access: Access) -> Iterator[Api]:
    """Serve the API with rights of access; end it afterwards."""
    api = Api()
    server = serve(Starlette(routes=admin_routes(api.cluster, access)), "127.0.0.1:0")
    api.url = server.url
    yield api
    server.close()
    api.cluster.jobs.close()
    api.store.close()
