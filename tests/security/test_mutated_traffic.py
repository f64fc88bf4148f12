"""Changed real messages at a real bookie: it goes on, and nothing of other ledgers changes."""

from pathlib import Path

import pytest

import zbk
from tests.hostile.mutated import MESSAGE_COUNT, mutant_of
from tests.hostile.reads import MIB, Watch
from tests.support.cluster import QUICK, lone_ledger
from tests.support.http import Scrape
from zbk.cluster.local import LocalCluster

RSS_MAX = 300 * MIB
ENTRIES = [b"kept %d" % number for number in range(500)]


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 10_000), pytest.param(2, MESSAGE_COUNT, marks=pytest.mark.soak)]
)
def test_changed_messages_do_no_harm(tmp_path: Path, seed: int, count: int) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster:
        watch = Watch(cluster.bookies[0].pid)
        with zbk.connect(cluster.metadata_uri) as client, lone_ledger(client) as victim:
            victim.append_many(ENTRIES).result(30)
            mutant = mutant_of(client, cluster, seed, victim.ledger_id)
            ledgers = {one: client.open_ledger(one).metadata for one in client.list_ledgers()}

            while mutant.sent.message_count < count:
                mutant.burst()
                victim.append(b"meanwhile")
                assert watch.look() < RSS_MAX
            scrape = Scrape(cluster.bookies[0].http)
            lost_count = scrape.total("zbk_bookie_dropped_answers_total")  # of connections it ended
            assert mutant.sent.answer_count + lost_count > count / 3  # those with a request id
            assert mutant.sent.answer_count > 0

            assert {one: client.open_ledger(one).metadata for one in ledgers} == ledgers
            assert set(client.list_ledgers()) == set(ledgers)
        with zbk.connect(cluster.metadata_uri) as client:
            kept = client.open_ledger(victim.ledger_id).read(0, len(ENTRIES) - 1)
            assert [entry.payload for entry in kept] == ENTRIES
        assert not cluster.deaths()
    log = (tmp_path / "data" / "bookie0.log").read_text()
    assert "ERROR" not in log
    assert "Traceback" not in log
