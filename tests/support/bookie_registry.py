"""Cookies and registrations of bookies on a store in memory that fails on cue.

A test module that wants the fixture imports it by name.
"""

from collections.abc import Iterator

import msgspec
import pytest

from tests.support.memory_store import MemoryTree
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.values import BookieRegistration, Cookie

COOKIE = Cookie(
    bookie_id="b1", instance_id="i", journal_dirs=("/j",), ledger_dirs=("/l",), created_ms=1
)
B1 = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:1",
    incarnation=1,
    is_readonly=False,
    started_ms=1,
    version="0",
)
B1_READONLY = msgspec.structs.replace(B1, is_readonly=True)
B2 = msgspec.structs.replace(B1, bookie_id="b2", address="tcp://127.0.0.1:2")


class Cluster:
    """A tree, the bookie's own client of it, and somebody else's."""

    def __init__(self) -> None:
        self.tree = MemoryTree("test")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store)
        self.registry = BookieRegistry(self.store, session_timeout_ms=200)
        self.others = BookieRegistry(self.other_store, session_timeout_ms=200)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without bookies, and two clients of its tree."""
    cluster = Cluster()
    yield cluster
    cluster.close()
