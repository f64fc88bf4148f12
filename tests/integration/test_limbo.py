"""Real bookies that lost something: they deny nothing until they have it back from their peers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.errors import BookieError, BookieUnavailableError, UnknownLedgerStateError
from zbk.wire.messages import BookieInfo, GetLedgerInfo, LedgerInfo

PAYLOADS = [b"entry %d " % number * 10 for number in range(2_000)]


class LossyCluster(LocalCluster):
    """A cluster whose machine may boot anew, and whose bookies may be wiped on purpose."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bookie_options={**QUICK, "limbo_grace_ms": 1_000})
        self.boot_count = 0
        self.flags: dict[int, list[str]] = {}

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        return super()._bookie_options(index, port) | {"boot_id": f"boot-{self.boot_count}"}

    def _bookie_command(self, index: int, port: int) -> list[str]:
        return [*super()._bookie_command(index, port), *self.flags.get(index, [])]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LossyCluster]:
    with LossyCluster(tmp_path / "data") as running:
        yield running


def connect(cluster: LocalCluster) -> zbk.Client:
    return zbk.connect(cluster.metadata_uri, request_timeout_ms=1_000, quorum_grace_ms=2_000)


def left_open(
    cluster: LocalCluster, ledger_type: zbk.LedgerType = zbk.LedgerType.PD_JOURNAL
) -> int:
    """Return a ledger of all payloads whose writer is gone."""
    with connect(cluster) as client:
        ledger = client.create_ledger(ledger_type=ledger_type)
        append_to_all(ledger)
        return ledger.ledger_id


def closed(client: zbk.Client) -> int:
    with client.create_ledger() as ledger:
        append_to_all(ledger)
    return ledger.ledger_id


def append_to_all(ledger: zbk.LedgerWriter) -> None:
    """Append all payloads, and wait for the bookies beyond the quorum, too."""
    ledger.append_many(PAYLOADS).result(30)
    wait_until(lambda: not ledger.unanswered_size, 30, "the copies beyond the quorum")


def holdings(cluster: LocalCluster, index: int, ledger_id: int) -> LedgerInfo:
    with ClusterConnection(cluster.metadata_uri) as connection:
        request = GetLedgerInfo(request_id=0, ledger_id=ledger_id)
        found: list[LedgerInfo] = []

        def is_told() -> bool:
            outcome = connection.requests.ask(cluster.bookies[index].bookie_id, request).outcome
            found.extend([outcome] if isinstance(outcome, LedgerInfo) else [])
            return bool(found)

        wait_until(is_told, what="the bookie's answer")
        return found[-1]


def limbo(client: zbk.Client, cluster: LocalCluster, index: int) -> tuple[str, int | None]:
    """Ask until the client, whose last attempt to connect may be from before, is connected."""
    told: list[BookieInfo] = []

    def is_told() -> bool:
        try:
            told.append(client.bookie_info(cluster.bookies[index].bookie_id))
        except BookieUnavailableError:
            return False
        return True

    wait_until(is_told, what="the bookie's answer about itself")
    return told[0].limbo, told[0].limbo_ledger_count


def is_whole(client: zbk.Client, cluster: LocalCluster, index: int) -> bool:
    return not limbo(client, cluster, index)[0]


def wipe(cluster: LossyCluster, shell: Shell, index: int) -> None:
    folder = cluster.bookies[index].folder
    assert cluster.terminate(index) == 0
    shell.run(
        *("bookie", "format", "--yes"),
        *("--journal-dir", str(folder / "journal"), "--ledger-dir", str(folder / "ledgers")),
    )


def test_a_bookie_wiped_on_purpose_gets_everything_back_from_its_peers(
    cluster: LossyCluster, tmp_path: Path
) -> None:
    """B10: meanwhile it denies nothing, and a recovery finds every entry."""
    shell = Shell(tmp_path)
    open_id = left_open(cluster)
    with connect(cluster) as client:
        closed_id = closed(client)
        deleted_id = closed(client)
        client.delete_ledger(deleted_id)
        wipe(cluster, shell, 0)
        with pytest.raises(BookieError, match="--wiped-on-purpose"):
            cluster.restart(0)
        cluster.flags[0] = ["--wiped-on-purpose"]
        cluster.restart(0)

        wait_until(lambda: limbo(client, cluster, 0) == ("wiped", 1), 30, "all but the open one")

        assert holdings(cluster, 0, closed_id).ranges == [(0, len(PAYLOADS) - 1)]
        assert not holdings(cluster, 0, closed_id).is_in_limbo
        assert holdings(cluster, 0, open_id).is_in_limbo
        assert not holdings(cluster, 0, deleted_id).is_in_limbo
        assert list(client.recover_ledger(open_id).read(0, len(PAYLOADS) - 1))
        wait_until(lambda: limbo(client, cluster, 0) == ("", 0), 30, "the open one, too")
        assert holdings(cluster, 0, open_id).ranges == [(0, len(PAYLOADS) - 1)]

    del cluster.flags[0]  # it is an ordinary bookie again
    cluster.kill(0)
    cluster.restart(0)
    for index in (1, 2):
        cluster.kill(index)
    with connect(cluster) as client:
        for ledger_id in (open_id, closed_id):
            reader = client.open_ledger(ledger_id)
            read = [entry.payload for entry in reader.read(0, reader.last_add_confirmed)]
            assert read == PAYLOADS, "from the bookie that was wiped alone"


def test_a_live_writer_goes_on_without_a_bookie_that_may_have_lost_a_fence(
    cluster: LossyCluster, tmp_path: Path
) -> None:
    """B10: and it leaves the connection to that bookie to others, who ask it something else."""
    with connect(cluster) as client:
        ledgers = [client.create_ledger(ledger_type=kind) for kind in zbk.LedgerType]
        for ledger in ledgers:
            ledger.append_many(PAYLOADS).result(30)
        wipe(cluster, Shell(tmp_path), 0)
        cluster.flags[0] = ["--wiped-on-purpose"]
        cluster.restart(0)

        for _ in range(100):
            for ledger in ledgers:
                ledger.append(b"more")
            assert limbo(client, cluster, 0)[0] == "wiped"

        assert not holdings(cluster, 0, ledgers[0].ledger_id).ranges
        for ledger in ledgers:
            ledger.close()
        wait_until(partial(is_whole, client, cluster, 0), 30, "the end of its limbo")
        for ledger in ledgers:
            held = holdings(cluster, 0, ledger.ledger_id).ranges
            assert held == [(0, len(PAYLOADS) + 99)]


def test_what_nobody_else_has_is_never_denied(cluster: LossyCluster, tmp_path: Path) -> None:
    """B10: a ledger with one replica, wiped with it: not "no such entry", now and later."""
    shell = Shell(tmp_path)
    with connect(cluster) as client:
        with client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
        ) as ledger:
            ledger.append_many(PAYLOADS).result(30)
        (bookie_id,) = client.get_ledger_metadata(ledger.ledger_id).fragments[0].bookies
        index = [one.bookie_id for one in cluster.bookies].index(bookie_id)
        wipe(cluster, shell, index)
        cluster.flags[index] = ["--wiped-on-purpose"]
        cluster.restart(index)
        wait_until(lambda: limbo(client, cluster, index) == ("wiped", 1), 30, "a round")

        reader = client.open_ledger(ledger.ledger_id)
        with pytest.raises(UnknownLedgerStateError, match="zbk bookie show"):
            list(reader.read(0, 0))


def test_after_a_boot_the_page_cache_is_not_trusted_and_after_a_kill_it_is(
    cluster: LossyCluster,
) -> None:
    ledger_id = left_open(cluster, zbk.LedgerType.VD_JOURNAL)
    with connect(cluster) as client:
        cluster.kill(0)
        cluster.restart(0)
        assert limbo(client, cluster, 0) == ("", 0)

        cluster.kill(1)
        cluster.kill(2)
        cluster.kill(0)
        cluster.boot_count += 1
        cluster.restart(0)
        assert limbo(client, cluster, 0)[0] == "unclean stop"
        assert holdings(cluster, 0, ledger_id).is_in_limbo
        for index in (1, 2):
            cluster.restart(index)
        for index in range(3):
            wait_until(partial(is_whole, client, cluster, index), 30, "the end of its limbo")

        reader = client.recover_ledger(ledger_id)
        assert [entry.payload for entry in reader.read(0, len(PAYLOADS) - 1)] == PAYLOADS

        assert cluster.terminate(0) == 0
        cluster.boot_count += 1
        cluster.restart(0)
        assert limbo(client, cluster, 0) == ("", 0), "it had stopped in good order"
