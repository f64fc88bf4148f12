"""Fences, recovery adds and long polls at real bookies, spoken to over the wire."""

from collections.abc import Iterator

import pytest

from tests.support.bookie_peer import Peer
from tests.support.cluster import QUICK
from tests.support.made_ledgers import make_ledgers
from tests.support.storage_actor import LEDGER_ID, add, batch, read, read_lac, write_lac
from zbk.cluster.local import LocalCluster
from zbk.errors import LedgerFencedError, NoSuchEntryError, ZbkError
from zbk.metadata.stores.connect import open_store
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_ms
from zbk.wire.messages import (
    Add,
    AddAnswer,
    GetBookieInfo,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    ReadAnswer,
)

WAIT_MS = 30_000
"""Far longer than anything takes that wakes a reader."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One bookie of this module's own: it is killed."""
    folder = tmp_path_factory.mktemp("fencing") / "data"
    with LocalCluster(folder, bookie_count=1, bookie_options=QUICK) as running:
        store = open_store(running.metadata_uri)
        make_ledgers(store, [LEDGER_ID, 101, 102, 110, 120, 121, 122, *range(200, 230)])
        make_ledgers(store, [111], LedgerType.VD_JOURNAL)
        make_ledgers(store, [112], LedgerType.VD_BYPASS_JOURNAL)
        store.close()
        yield running


@pytest.fixture
def peer(cluster: LocalCluster) -> Iterator[Peer]:
    made = Peer(cluster)
    yield made
    made.close()


def killed_and_restarted(cluster: LocalCluster, peer: Peer) -> None:
    cluster.kill(0)
    cluster.restart(0)
    peer.look_again()


def test_a_fence_over_the_wire_survives_kill_9(cluster: LocalCluster, peer: Peer) -> None:
    """B8: a ledger with entries, and one that the bookie has never heard of."""
    assert isinstance(peer.ask(*add(batch(0, [b"a", b"b"], ledger_id=101))), AddAnswer)
    assert _lac(peer.ask(read_lac(is_fencing=True, ledger_id=101))) == -1
    assert isinstance(peer.ask(read(0, 0, is_fencing=True, ledger_id=102)), NoSuchEntryError)

    killed_and_restarted(cluster, peer)

    for ledger_id in (101, 102):
        late = peer.ask(*add(batch(5, [b"late"], ledger_id=ledger_id)))
        assert isinstance(late, LedgerFencedError)
        info = peer.ask(GetLedgerInfo(request_id=0, ledger_id=ledger_id))
        assert isinstance(info, LedgerInfo)
        assert info.is_fenced


@pytest.mark.parametrize("kind", LedgerType)
def test_a_recovery_add_is_taken_behind_a_fence_and_is_there_after_kill_9(
    cluster: LocalCluster, peer: Peer, kind: LedgerType
) -> None:
    ledger_id = 110 + list(LedgerType).index(kind)
    part = batch(0, [b"copied"], ledger_id=ledger_id)
    peer.ask(read_lac(is_fencing=True, ledger_id=ledger_id, kind=kind))
    assert isinstance(peer.ask(*add(part, kind=kind)), LedgerFencedError)

    assert isinstance(peer.ask(*add(part, kind=kind, is_recovery=True)), AddAnswer)
    killed_and_restarted(cluster, peer)

    found = peer.ask(read(0, 0, is_fencing=True, ledger_id=ledger_id, kind=kind))
    assert isinstance(found, ReadAnswer)
    assert isinstance(peer.ask(*add(part, kind=kind, is_recovery=True)), AddAnswer), "sent again"


def test_a_reader_that_waits_hears_of_a_lac_at_once(peer: Peer) -> None:
    """It is woken by the sync, well before its time is up."""
    ledger_id = 120
    peer.ask(*add(batch(0, [b"a"], ledger_id=ledger_id)))
    waits = [peer.send(read_lac(wait_ms=WAIT_MS, ledger_id=ledger_id)) for _ in range(3)]
    began_ms = monotonic_ms()

    peer.ask(*add(batch(1, [b"b"], lac=0, ledger_id=ledger_id), lac=0))

    for wait in waits:
        assert _lac(peer.wait_for(wait)) == 0
    assert monotonic_ms() - began_ms < WAIT_MS / 2


def test_a_reader_that_waits_hears_of_a_fence_at_once(peer: Peer) -> None:
    ledger_id = 121
    peer.ask(*add(batch(0, [b"a"], ledger_id=ledger_id)))
    wait = peer.send(read_lac(wait_ms=WAIT_MS, ledger_id=ledger_id))
    began_ms = monotonic_ms()

    peer.ask(read_lac(is_fencing=True, ledger_id=ledger_id))

    assert _lac(peer.wait_for(wait)) == -1
    assert monotonic_ms() - began_ms < WAIT_MS / 2


def test_a_reader_that_waits_in_vain_is_answered_at_its_deadline(peer: Peer) -> None:
    ledger_id = 122
    peer.ask(*add(batch(0, [b"a"], ledger_id=ledger_id)))
    began_ms = monotonic_ms()

    answer = peer.ask(read_lac(wait_ms=300, ledger_id=ledger_id))

    assert _lac(answer) == -1
    assert 300 <= monotonic_ms() - began_ms < WAIT_MS / 2


def test_an_explicit_lac_that_was_read_is_read_after_kill_9(
    cluster: LocalCluster, peer: Peer
) -> None:
    """B23: at a real bookie."""
    peer.ask(*add(batch(0, [b"a"] * 10)))
    assert _lac(peer.ask(write_lac(9))) == 9

    killed_and_restarted(cluster, peer)

    assert _lac(peer.ask(read_lac())) == 9


def test_after_a_fence_was_answered_no_concurrent_add_succeeds(
    cluster: LocalCluster, peer: Peer
) -> None:
    """B17: first adds of a ledger on one connection, the fence on another, again and again."""
    other = Peer(cluster)
    other.ask(GetBookieInfo(request_id=0))  # its connection is there
    for ledger_id in range(200, 230):
        adds = [peer.send(*_entry(ledger_id, entry_id)) for entry_id in range(40)]
        assert isinstance(other.ask(read_lac(is_fencing=True, ledger_id=ledger_id)), LacAnswer)
        adds += [peer.send(*_entry(ledger_id, entry_id)) for entry_id in range(40, 43)]

        outcomes = [peer.wait_for(key) for key in adds]

        assert all(isinstance(outcome, LedgerFencedError) for outcome in outcomes[-3:])
        are_taken = [isinstance(outcome, AddAnswer) for outcome in outcomes]
        assert are_taken == sorted(are_taken, reverse=True), "refused from the fence on"
        peer.forget()
    other.close()


def _entry(ledger_id: int, entry_id: int) -> tuple[Add, bytes, bytes]:
    return add(batch(entry_id, [b"x"], ledger_id=ledger_id))


def _lac(outcome: Message | ZbkError) -> int:
    assert isinstance(outcome, LacAnswer), outcome
    return outcome.lac
