"""Bookies of an older zbk beside new ones: they get no ledgers that they do not know."""

from collections.abc import Iterator

import pytest

import zbk
from tests.support.waiting import wait_until
from zbk import LedgerType
from zbk.cluster.local import LocalCluster
from zbk.errors import OldBookiesError

OLD_PROGRAM = ("-m", "tests.support.bookie_of_old", "bookie", "run")
OLD = range(3)
ALL_NEW = range(3, 6)
BYPASS, VD = LedgerType.VD_BYPASS_JOURNAL, LedgerType.VD_JOURNAL


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Bookies 0 to 2 are old, 3 to 5 new."""
    with LocalCluster(
        tmp_path_factory.mktemp("mixed") / "data",
        bookie_count=6,
        bookie_programs=dict.fromkeys(OLD, OLD_PROGRAM),
    ) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    options = {"quorum_grace_ms": 5_000, "request_timeout_ms": 2_000}
    with zbk.connect(cluster.metadata_uri, **options) as connected:  # type: ignore[arg-type] # numbers
        yield connected


def ids(cluster: LocalCluster, numbers: range) -> set[str]:
    return {cluster.bookies[number].bookie_id for number in numbers}


@pytest.mark.parametrize("ledger_type", [BYPASS, VD])
def test_a_ledger_that_old_bookies_do_not_know_goes_to_new_ones(
    cluster: LocalCluster, client: zbk.Client, ledger_type: LedgerType
) -> None:
    for _ in range(5):
        with client.create_ledger(ledger_type=ledger_type) as ledger:
            ledger.append_many([b"one", b"two"]).result()
            ledger.sync()
        placed = client.get_ledger_metadata(ledger.ledger_id).fragments[0].bookies
        assert set(placed) == ids(cluster, ALL_NEW)
        assert [one.payload for one in client.open_ledger(ledger.ledger_id).read(0, 1)] == [
            b"one",
            b"two",
        ]


def test_old_bookies_keep_the_ledgers_that_they_know(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    with client.create_ledger(ensemble_size=6, write_quorum_size=6, ack_quorum_size=6) as ledger:
        ledger.append(b"to all")
    placed = client.get_ledger_metadata(ledger.ledger_id).fragments[0].bookies
    assert set(placed) >= ids(cluster, OLD)


def test_too_few_new_bookies_are_an_error_before_anything_is_written(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    before = list(client.list_ledgers())
    for ledger_type in (BYPASS, VD):
        with pytest.raises(OldBookiesError) as found:
            client.create_ledger(ensemble_size=4, write_quorum_size=4, ledger_type=ledger_type)
        assert set(found.value.bookie_ids.split(", ")) == ids(cluster, OLD)
        assert (found.value.needed_count, found.value.able_count) == (4, 3)
    assert list(client.list_ledgers()) == before


def test_an_old_bookie_replaces_none_of_a_bypass_ledger(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    with client.create_ledger(ledger_type=BYPASS) as ledger:
        ledger.append_many([b"one"] * 100).result()
        cluster.kill(5)
        ledger.append_many([b"two"] * 100).result(30)
        ledger.sync(timeout=30)
        ledger.append_many([b"three"] * 100).result(30)
        ledger.sync(timeout=30)
    fragments = client.get_ledger_metadata(ledger.ledger_id).fragments
    assert {one for fragment in fragments for one in fragment.bookies} == ids(cluster, ALL_NEW)
    gone = cluster.bookies[5].bookie_id
    wait_until(lambda: gone not in {one.bookie_id for one in client.list_bookies()}, 60, "its end")
    with pytest.raises(OldBookiesError):
        client.create_ledger(ledger_type=BYPASS)
    cluster.restart(5)
