"""Striped VD ledgers on real bookies: kill -9 of each in turn, syncs, and power loss of one."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

import zbk
from tests.chaos import power
from tests.chaos.cluster import ChaosCluster
from tests.chaos.network import ProxiedNetwork
from tests.support.cluster import QUICK
from zbk.cluster.local import LocalCluster
from zbk.protocol.ledger.placement import POLICIES, Candidate, RandomPlacement

TYPES = [zbk.LedgerType.VD_JOURNAL, zbk.LedgerType.VD_BYPASS_JOURNAL]
BOOKIE_COUNT = 5
COUNT = 500


def payloads(first: int, count: int) -> list[bytes]:
    return [b"%08d" % number + b"." * 492 for number in range(first, first + count)]


def striped(client: zbk.Client, ledger_type: zbk.LedgerType) -> zbk.LedgerWriter:
    return client.create_ledger(
        ensemble_size=BOOKIE_COUNT,
        write_quorum_size=3,
        ack_quorum_size=2,
        ledger_type=ledger_type,
    )


def read_all(client: zbk.Client, ledger_id: int) -> list[bytes]:
    with client.open_ledger(ledger_id) as reader:
        return [bytes(one.payload) for one in reader.read(0, reader.last_add_confirmed)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path / "data", bookie_count=BOOKIE_COUNT, bookie_options=QUICK
    ) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri, quorum_grace_ms=20_000) as connected:
        yield connected


@pytest.mark.parametrize("ledger_type", TYPES)
def test_bookies_that_are_killed_in_turn_end_no_writer_and_take_no_entry(
    cluster: LocalCluster, client: zbk.Client, ledger_type: zbk.LedgerType
) -> None:
    written: list[bytes] = []
    with striped(client, ledger_type) as ledger:
        for index in range(BOOKIE_COUNT):
            part = payloads(len(written), COUNT)
            written += part
            ledger.append_many(part[: COUNT // 2]).result(30)
            cluster.kill(index)
            ledger.append_many(part[COUNT // 2 :]).result(30)
            cluster.restart(index)
            assert ledger.sync() == len(written) - 1
            assert client.sync_ledger(ledger.ledger_id) == len(written) - 1

    assert read_all(client, ledger.ledger_id) == written


@pytest.mark.parametrize("ledger_type", TYPES)
def test_a_recovery_after_the_kill_of_all_bookies_finds_every_acknowledged_entry(
    cluster: LocalCluster, client: zbk.Client, ledger_type: zbk.LedgerType
) -> None:
    ledger = striped(client, ledger_type)
    written = payloads(0, COUNT)
    ledger.append_many(written).result(30)
    for index in range(BOOKIE_COUNT):
        cluster.kill(index)
    for index in range(BOOKIE_COUNT):
        cluster.restart(index)

    client.recover_ledger(ledger.ledger_id).close()

    assert read_all(client, ledger.ledger_id) == written


@pytest.mark.parametrize("ledger_type", TYPES)
def test_the_loss_of_power_of_one_bookie_takes_no_acknowledged_entry(
    tmp_path: Path, ledger_type: zbk.LedgerType
) -> None:
    reason = power.why_not(tmp_path)
    if reason:
        pytest.skip(f"power loss: {reason}")
    network = ProxiedNetwork(BOOKIE_COUNT)
    with (
        ChaosCluster(
            tmp_path / "cluster",
            network,
            bookie_count=BOOKIE_COUNT,
            use_zookeeper=False,
            has_power=True,
        ) as running,
        zbk.connect(running.uri, quorum_grace_ms=20_000) as client,
    ):
        written = payloads(0, COUNT)
        with striped(client, ledger_type) as ledger:
            ledger.append_many(written[:100]).result(30)
            assert ledger.sync() == 99
            ledger.append_many(written[100:]).result(30)
            running.lose_power([1])
            running.power_on(1)
            assert ledger.sync() == COUNT - 1
        assert read_all(client, ledger.ledger_id) == written


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[LocalCluster]:
    """Run four bookies; the first one speaks version 2 of the protocol."""
    programs = {0: ("-m", "tests.support.version_2_bookie", "bookie", "run")}
    with LocalCluster(tmp_path / "data", bookie_count=4, bookie_programs=programs) as running:
        yield running


class PrefersOne(RandomPlacement):
    """One bookie is in each new ensemble, unless it has failed lately."""

    def __init__(self, bookie_id: str) -> None:
        self._bookie_id = bookie_id
        self.ensembles: list[tuple[str, ...]] = []

    def new_ensemble(
        self,
        candidates: Sequence[Candidate],
        ensemble_size: int,
        exclude: Collection[str] = (),
        avoid: Collection[str] = (),
    ) -> tuple[str, ...]:
        chosen = super().new_ensemble(candidates, ensemble_size, exclude, avoid)
        free = {one.bookie_id for one in candidates}.difference(exclude, avoid, chosen)
        if self._bookie_id in free:
            chosen = (self._bookie_id, *chosen[1:])
        self.ensembles.append(chosen)
        return chosen


def test_a_bookie_of_an_earlier_release_is_replaced_or_named(
    mixed: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = payloads(0, COUNT)
    old = mixed.bookies[0].bookie_id
    policy = PrefersOne(old)
    monkeypatch.setitem(POLICIES, "random", policy)

    def new(client: zbk.Client, ensemble_size: int) -> zbk.LedgerWriter:
        return client.create_ledger(
            ensemble_size=ensemble_size,
            write_quorum_size=2,
            ack_quorum_size=2,
            ledger_type=TYPES[0],
        )

    with zbk.connect(mixed.metadata_uri) as client:
        with new(client, 3) as ledger:
            ledger.append_many(written).result(30)
            assert ledger.sync() == COUNT - 1
            assert old in policy.ensembles[0]
            assert old not in ledger.metadata.last_fragment.bookies
        assert read_all(client, ledger.ledger_id) == written

    with zbk.connect(mixed.metadata_uri, quorum_grace_ms=500) as client:
        alone = new(client, 4)
        with pytest.raises(zbk.NotEnoughBookiesError, match="needs version 4"):
            alone.append_many(written).result(30)
