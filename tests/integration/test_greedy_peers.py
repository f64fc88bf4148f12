"""Connections that ask and never receive: memory stays, and a client beside them is served."""

from contextlib import ExitStack
from pathlib import Path

import zbk
from tests.hostile.reads import MIB, Glutton, Watch
from tests.support.cluster import QUICK, lone_ledger
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

PEER_COUNT = 6
REQUEST_COUNT = 50_000
RSS_MAX = 400 * MIB
"""Three gigabytes and more it would be without a limit."""


def test_reads_whose_answers_nobody_takes_cost_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster:
        (bookie,) = cluster.bookies
        watch = Watch(bookie.pid)
        with zbk.connect(cluster.metadata_uri) as client, ExitStack() as stack:
            with lone_ledger(client) as ledger:
                ledger.append_many([b"." * (MIB - 1)] * 16).result(30)
            peers = [
                stack.enter_context(Glutton(bookie.address, ledger.ledger_id, bookie.incarnation))
                for _ in range(PEER_COUNT)
            ]
            with client.open_ledger(ledger.ledger_id) as reader:

                def is_enough() -> bool:
                    assert sum(1 for _ in reader.read(0, 15)) == 16
                    assert watch.look() < RSS_MAX
                    return sum(peer.sent_count for peer in peers) > REQUEST_COUNT

                wait_until(is_enough, timeout_s=60)
        assert not cluster.deaths()
    log = (cluster.folder / "bookie0.log").read_text()
    assert "WARN" not in log
    assert "ERROR" not in log
