"""Facts of healthy clusters and machines, for tests that break one of them."""

from typing import Any

from zbk.health.cluster_health import BookieFacts, ClusterFacts
from zbk.wire.messages import BookieInfo

GIB = 1 << 30


def bookie_info(bookie_id: str = "b-1", **fields: Any) -> BookieInfo:  # noqa: ANN401 - the struct's
    """Return the info of a bookie that is well, but for ``fields``."""
    counts = dict.fromkeys(
        [
            "uptime_ms", "ledger_count", "connection_count", "add_batch_count", "add_entry_count",
            "add_size", "read_entry_count", "read_size", "journal_write_size",
            "journal_sync_count", "checkpoint_count", "refused_message_count", "rss_size",
            "cpu_ms", "disk_write_size",
        ],
        0,
    )  # fmt: skip
    known: dict[str, Any] = {
        "request_id": 1,
        "bookie_id": bookie_id,
        "instance_id": "i",
        "software": "zbk",
        "is_readonly": False,
        "journal_position": "1:0",
        "last_log_mark": "1:0",
        "free_size": 100 * GIB,
        "journal_free_size": 100 * GIB,
    }
    return BookieInfo(**(counts | known | fields))


def bookie_facts(bookie_id: str, **fields: Any) -> BookieFacts:  # noqa: ANN401 - the struct's
    """Return a registered bookie that is well, but for ``fields``."""
    known: dict[str, Any] = {
        "bookie_id": bookie_id,
        "address": "tcp://h:1",
        "is_readonly": False,
        "version": "0.1.0",
        "info": bookie_info(bookie_id),
    }
    return BookieFacts(**(known | fields))


def cluster_facts(*bookies: BookieFacts, **fields: Any) -> ClusterFacts:  # noqa: ANN401 - likewise
    """Return a healthy cluster of three bookies, or of ``bookies``, but for ``fields``."""
    registered = bookies or tuple(map(bookie_facts, ["b-1", "b-2", "b-3"]))
    known: dict[str, Any] = {
        "metadata": "zk://h/zbk",
        "cookies": tuple(one.bookie_id for one in registered),
        "bookies": registered,
        "auditor": "host-1",
    }
    return ClusterFacts(**(known | fields))
