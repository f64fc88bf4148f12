"""Autorecovery as its own processes: bookies, auditors and workers die, ledgers become whole."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import zbk
from tests.support.audit_ledgers import ledger
from tests.support.cluster import QUICK, Shell
from tests.support.lost_bookies import (
    ALL_ACKNOWLEDGE,
    BIG_COUNT,
    KINDS,
    SLOW,
    WHOLE_S,
    Autorecoveries,
    Ledgers,
    Watched,
)
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.config import AutorecoveryConfig
from zbk.metadata.records.underreplication import MissingReason
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata

LEDGER_COUNT = 1_500
"""More than an auditor reads in one step."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Six bookies: two to lose, and one to spare."""
    with LocalCluster(tmp_path / "data", bookie_count=6, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri, request_timeout_ms=1_000) as connected:
        yield connected


@pytest.fixture
def connection(cluster: LocalCluster) -> Iterator[ClusterConnection]:
    with ClusterConnection(cluster.metadata_uri) as opened:
        yield opened


@pytest.fixture
def processes(cluster: LocalCluster, tmp_path: Path) -> Iterator[Autorecoveries]:
    with Autorecoveries(cluster.metadata_uri, tmp_path) as started:
        yield started


@pytest.fixture
def shell(cluster: LocalCluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})


@pytest.fixture
def watched(connection: ClusterConnection) -> Watched:
    return Watched(connection)


def test_all_that_a_lost_bookie_held_is_whole_again_and_what_nobody_has_is_reported_once(
    cluster: LocalCluster,
    client: zbk.Client,
    watched: Watched,
    processes: Autorecoveries,
    shell: Shell,
) -> None:
    """B21, B41: empty ledgers are moved as well; what only it had waits until it comes back."""
    victim = cluster.bookies[0]
    ledgers = Ledgers(client, victim.bookie_id)
    empty = Ledgers(client, victim.bookie_id, kinds=[{}], entry_count=0)
    alone = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
    single = Ledgers(client, victim.bookie_id, kinds=[alone])
    (single_id,) = single.contents
    processes.start(repair_retry_ms_max=16)
    watched.wait_ready()

    cluster.kill(0)
    watched.wait_lost(victim.bookie_id)
    watched.wait_whole()

    ledgers.check_whole_without(victim.bookie_id)
    assert victim.bookie_id not in empty.named()
    (row,) = shell.run("ledger", "underreplicated", "-o", "json").stdout.splitlines()
    shown = json.loads(row)
    assert (shown["ledger_id"], shown["state"]) == (single_id, "unrepairable")
    assert f"{len(single.contents[single_id])} entries, 0 .. 1999" in shown["why"]
    told = f"ledger {single_id} cannot be repaired"
    assert processes.log().count(told) == 1

    shell.run("ledger", "underreplicated", "--watch")  # nothing is left to be waited for
    cluster.restart(0)
    wait_until(lambda: not list(watched.tasks.list_unrepairable()), what="it to be tried again")
    watched.wait_whole()
    with client.open_ledger(single_id) as reader:
        found = [bytes(entry.payload) for entry in reader.read(0, 1_999)]
    assert found == single.contents[single_id]
    assert processes.log().count(told) == 1


@pytest.mark.parametrize(
    ("share", "is_braked"), [(20, True), (50, False)], ids=["a third is too much", "is not"]
)
def test_two_bookies_lost_at_once_are_not_waited_for_but_with_the_brake(
    cluster: LocalCluster,
    client: zbk.Client,
    watched: Watched,
    processes: Autorecoveries,
    share: int,
    is_braked: bool,
) -> None:
    """F20: the delay is for one lost bookie; two of six are looked at again, if so configured."""
    victims = [bookie.bookie_id for bookie in cluster.bookies[:2]]
    ledgers = Ledgers(client, *victims, kinds=[ALL_ACKNOWLEDGE] * 2)
    hold = f"{int(patient_s(1.5) * 1_000)}ms"
    processes.start(lost_bookie_delay_ms="1h", brake_share_percent=share, brake_hold_ms=hold)
    watched.wait_ready()

    cluster.terminate(0)
    watched.wait_lost(victims[0])
    assert watched.status.pending == (victims[0],), "one alone may come back"
    cluster.terminate(1)
    if is_braked:
        wait_until(lambda: bool(watched.status.brake), what="the brake")
        assert not list(watched.tasks.list())
    watched.wait_lost(*victims)
    watched.wait_whole()

    ledgers.check_whole_without(*victims)
    log = processes.log()
    assert ("2 of 6 bookies are lost" in log) is is_braked
    if is_braked:
        assert log.index("looked again; lost: b") < log.index("scan for lost bookies begins")


def test_a_bookie_that_restarts_is_not_reported_with_the_default_delay(
    cluster: LocalCluster, client: zbk.Client, watched: Watched, processes: Autorecoveries
) -> None:
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=KINDS[:1])
    processes.start(lost_bookie_delay_ms=AutorecoveryConfig().lost_bookie_delay_ms)
    watched.wait_ready()

    cluster.kill(0)
    watched.wait_lost(victim)
    assert watched.status.pending == (victim,)
    cluster.restart(0)
    watched.wait_lost()

    assert not watched.status.pending
    assert "begins" not in processes.log()
    assert victim in ledgers.named()


def test_a_worker_that_dies_in_the_middle_of_a_fragment_is_replaced(
    cluster: LocalCluster, client: zbk.Client, watched: Watched, processes: Autorecoveries
) -> None:
    """Nothing is doubled, nothing lost: what it had copied counts for nothing, or is there."""
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=[ALL_ACKNOWLEDGE], entry_count=BIG_COUNT)
    (ledger_id,) = ledgers.contents
    first = processes.start(**SLOW)
    watched.wait_ready()
    cluster.terminate(0)
    watched.wait_halfway(ledger_id)

    first.kill()
    assert victim in ledgers.named()
    processes.start()
    wait_until(lambda: victim not in ledgers.named(), WHOLE_S, "the other one to finish")
    watched.wait_whole()

    ledgers.check_whole_without(victim)
    assert len(client.get_ledger_metadata(ledger_id).fragments) == 1
    assert not watched.tasks.locked_ids()


def test_a_report_that_comes_while_its_ledger_is_repaired_is_looked_at_too(
    cluster: LocalCluster, client: zbk.Client, watched: Watched, processes: Autorecoveries
) -> None:
    """B42: the worker was about to remove the task, and what was added to it."""
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=[ALL_ACKNOWLEDGE], entry_count=BIG_COUNT)
    (ledger_id,) = ledgers.contents
    processes.start(**SLOW)
    watched.wait_ready()
    cluster.terminate(0)
    watched.wait_halfway(ledger_id)

    (other, *_) = ledgers.named() - {victim}
    watched.tasks.report(ledger_id, [other], MissingReason.CHECKED)
    watched.wait_whole()

    ledgers.check_whole_without(victim)
    (done,) = re.findall(rf"ledger {ledger_id} is whole: (.*)", processes.log())
    assert done.startswith("0 entries copied"), "it was looked at once more"


def test_an_auditor_that_dies_in_the_middle_of_an_audit_is_replaced(
    cluster: LocalCluster,
    watched: Watched,
    connection: ClusterConnection,
    processes: Autorecoveries,
) -> None:
    """What it had not reported yet, the next one reports."""
    victim, *others = (bookie.bookie_id for bookie in cluster.bookies)
    for _ in range(LEDGER_COUNT):
        connection.ledgers.create(lambda number: empty_ledger(number, victim, *others[:2]))
    started = {child.pid: child for child in (processes.start(), processes.start())}
    wait_until(lambda: watched.auditor_pid() in started, what="an auditor")
    watched.wait_ready()
    first = watched.auditor_pid()

    cluster.terminate(0)
    wait_until(lambda: watched.has_tasks, what="the first reports")
    started[first].kill()

    def left() -> list[int]:
        every = ((one, connection.ledgers.read(one)[0]) for one in connection.ledgers.list())
        return [one for one, metadata in every if victim in metadata.last_fragment.bookies]

    assert left(), "in the middle"
    wait_until(lambda: watched.auditor_pid() not in (0, first), what="another auditor")
    wait_until(lambda: not watched.has_tasks and not left(), WHOLE_S, "every ledger to be whole")
    watched.wait_whole()
    assert "reported; lost: " not in processes.log(list(started).index(first))


def empty_ledger(ledger_id: int, *bookie_ids: str) -> LedgerMetadata:
    """Return the metadata of a closed ledger of which no bookie has heard."""
    made = ledger(ledger_id, bookie_ids, last=NO_ENTRY)
    return msgspec.structs.replace(made, ledger_key=bytes(16), length=0)
