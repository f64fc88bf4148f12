"""Ids that no ledger has yet can be claimed at no bookie: the ledgers made later are their own."""

from collections.abc import Iterator

import pytest

import zbk
from tests.support.bookie_peer import Peer
from tests.support.cluster import QUICK
from tests.support.storage_actor import add, batch, read_lac, write_lac
from zbk.cluster.local import LocalCluster
from zbk.errors import NoSuchLedgerError, UnauthorizedError
from zbk.protocol.entry.digest import ledger_key

CLAIM_COUNT = 50


def create(client: zbk.Client, password: bytes = b"") -> zbk.LedgerWriter:
    return client.create_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, password=password
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One bookie: a ledger that it does not take has no other place."""
    folder = tmp_path_factory.mktemp("claims") / "data"
    with LocalCluster(folder, bookie_count=1, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


@pytest.fixture
def peer(cluster: LocalCluster) -> Iterator[Peer]:
    made = Peer(cluster)
    yield made
    made.close()


def test_ledgers_made_after_claims_of_their_ids_are_written_and_read(
    client: zbk.Client, peer: Peer
) -> None:
    """The stranger knows the keys: those of ledgers without a password are no secret."""
    first_id = create(client).ledger_id + 1
    ids = range(first_id, first_id + CLAIM_COUNT)
    claims = []
    for ledger_id in ids:
        key = ledger_key(b"", ledger_id)
        claims += [
            peer.send(read_lac(ledger_id=ledger_id, key=key, is_fencing=True)),
            peer.send(*add(batch(0, [b"a stranger's"], ledger_id=ledger_id), key=key)),
            peer.send(write_lac(7, key=key, ledger_id=ledger_id)),
        ]
    refusals = [peer.wait_for(claim) for claim in claims]
    assert {type(refusal) for refusal in refusals} == {NoSuchLedgerError}

    for ledger_id in ids:
        with create(client) as ledger:
            assert ledger.ledger_id == ledger_id
            ledger.append(b"its writer's")
        with client.open_ledger(ledger_id) as reader:
            assert [bytes(entry.payload) for entry in reader.read(0, 0)] == [b"its writer's"]


def test_a_ledger_that_nobody_has_written_yet_takes_its_own_key_only(
    client: zbk.Client, peer: Peer
) -> None:
    with create(client, b"secret") as ledger:
        stranger = ledger_key(b"guessed", ledger.ledger_id)

        answer = peer.ask(read_lac(ledger_id=ledger.ledger_id, key=stranger, is_fencing=True))

        assert isinstance(answer, UnauthorizedError)
        assert ledger.append(b"its writer's") == 0
