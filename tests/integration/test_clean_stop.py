"""A bookie that stops in good order is quick to start again: its journal holds nothing of use."""

import re
from pathlib import Path

import zbk
from tests.support.cluster import QUICK
from zbk.cluster.local import LocalCluster

NOTES_MAX = 4  # records by which a journal says how far it was synced


def test_after_a_clean_stop_the_next_start_replays_nothing(tmp_path: Path) -> None:
    options = QUICK | {"checkpoint_interval_ms": 3_600_000}
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster:
        with zbk.connect(cluster.metadata_uri) as client:
            with client.create_ledger(
                ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
            ) as ledger:
                for _ in range(50):
                    ledger.append_many([b"x" * 100] * 10).result(30)
                ledger_id = ledger.ledger_id
            assert cluster.terminate(0) == 0

            cluster.restart(0)

            with client.open_ledger(ledger_id) as reader:
                assert sum(1 for _ in reader.read(0, reader.last_add_confirmed)) == 500
        log = (tmp_path / "data" / "bookie0.log").read_text()
        counts = [int(one) for one in re.findall(r"storage open: (\d+) journal records", log)]
        assert len(counts) == 2
        assert counts[1] <= NOTES_MAX
        assert "WARN" not in log
        assert "ERROR" not in log
