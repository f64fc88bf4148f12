"""The bookies that receive copies."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.memory_store import named_tree
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.target_policies import PlacementTarget
from zbk.metadata.paths import registration_path
from zbk.metadata.records.instance import initialise
from zbk.metadata.values import BookieRegistration, encode
from zbk.protocol.repair.repair_effects import ChooseTarget

CHOICE_COUNT = 50  # among four bookies, so that not all are right by chance


class Cluster:
    """The registered bookies, and the choice of a worker among them."""

    def __init__(self) -> None:
        name = f"test-copy-target-{uuid4().hex}"
        self.uri = f"memory://{name}"
        self.store = named_tree(name).open_session()
        initialise(self.store)

    def register(self, text: str, *, is_readonly: bool = False) -> None:
        """Register bookies out of ``"a:rack1 b"``."""
        for word in text.split():
            bookie_id, _, rack = word.partition(":")
            registration = BookieRegistration(
                bookie_id=bookie_id,
                address="tcp://127.0.0.1:1",
                incarnation=1,
                is_readonly=is_readonly,
                started_ms=0,
                version="0",
                rack=rack,
            )
            path = registration_path(bookie_id, is_readonly=is_readonly)
            self.store.create(path, encode(registration), make_parents=True)

    def targets(self, ensemble: tuple[str, ...], slot: int) -> set[str | None]:
        """Choose a target for a slot many times; return all that were chosen."""
        with ClusterConnection(self.uri) as connection:
            return self.choose(connection, ensemble, slot)

    def choose(
        self, connection: ClusterConnection, ensemble: tuple[str, ...], slot: int
    ) -> set[str | None]:
        """Do the same over an open connection."""
        wanted = ChooseTarget(ensemble, slot, frozenset())
        policy = PlacementTarget(connection.placer)
        return {policy.choose(wanted).bookie_id for _choice in range(CHOICE_COUNT)}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    yield found
    found.store.close()


def test_a_copy_goes_to_a_rack_without_a_replica(cluster: Cluster) -> None:
    cluster.register("a:r1 b:r2 d:r1 e:r2 f:r2 g:r3")

    assert cluster.targets(("a", "b", "lost"), 2) == {"g"}


def test_without_racks_any_bookie_receives_copies(cluster: Cluster) -> None:
    cluster.register("a b d e f g")

    assert cluster.targets(("a", "b", "lost"), 2) == {"d", "e", "f", "g"}


def test_the_rack_of_a_readonly_replica_counts(cluster: Cluster) -> None:
    cluster.register("a:r1 d:r1 e:r2 f:r3")
    cluster.register("full:r2", is_readonly=True)

    assert cluster.targets(("a", "full", "lost"), 2) == {"f"}


def test_the_last_rack_of_a_replica_that_is_away_counts(cluster: Cluster) -> None:
    cluster.register("a:r1 d:r1 e:r2 f:r3 away:r2")

    with ClusterConnection(cluster.uri) as connection:
        cluster.store.delete(registration_path("away", is_readonly=False))
        wait_until(lambda: not connection.placer.is_writable("away"), what="the end of a bookie")

        assert cluster.choose(connection, ("a", "away", "lost"), 2) == {"f"}
