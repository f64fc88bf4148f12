"""A bookie makes the journal's next segment before it is needed, checkpoint or not."""

from pathlib import Path

import zbk
from tests.support.cluster import QUICK
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

MIB = 1024 * 1024


def test_the_next_segment_is_there_before_this_one_is_full(tmp_path: Path) -> None:
    options = QUICK | {"journal_segment_size": MIB, "checkpoint_interval_ms": 3_600_000}
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
        client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1) as ledger,
    ):
        before = len(list(cluster.folder.glob("**/*.journal")))
        ledger.append_many([b"x" * 1_000] * 700).result(30)

        wait_until(
            lambda: len(list(cluster.folder.glob("**/*.journal"))) == before + 1,
            what="the next segment",
        )

        info = client.bookie_info(cluster.bookies[0].bookie_id)
        assert info.journal_position.startswith("1:"), "the first one is still written"
        assert (info.checkpoint_count, info.is_checkpointing) == (0, False)
