"""What VD writers keep because it is not durable is bounded, for each ledger and for the client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from zbk.cluster.local import LocalCluster

PAYLOAD = b"." * 1_000
BATCH_SIZE = 8 * 1024
LIMIT = 64 * 1024
COUNT = 1_000


@pytest.fixture
def lazy(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three bookies that sync VD ledgers only when they are asked to."""
    with LocalCluster(tmp_path / "data", bookie_options={"sync_interval_ms": 0}) as running:
        yield running


def unsynced_size(ledger: zbk.LedgerWriter) -> int:
    """Bytes of payload that are acknowledged beyond the LAC, about: the two move one by one."""
    return (ledger.last_add_acknowledged - ledger.last_add_confirmed) * len(PAYLOAD)


@pytest.mark.parametrize("limit", ["unsynced_size_max", "all_unsynced_size_max"])
def test_writers_sync_by_themselves_before_they_keep_too_much(
    lazy: LocalCluster, limit: str
) -> None:
    options: zbk.ClientOptions = {
        "batch_size_max": BATCH_SIZE,
        "explicit_lac_ms": 0,  # an idle writer asks for no sync
    }
    options[limit] = LIMIT  # type: ignore[literal-required]
    with zbk.connect(lazy.metadata_uri, **options) as client:
        ledgers = [client.create_ledger(ledger_type="VD_JOURNAL") for _ in range(2)]
        futures = [ledger.append_many([PAYLOAD] * COUNT) for ledger in ledgers]
        for future in futures:
            future.result(60)

        sizes = [unsynced_size(ledger) for ledger in ledgers]

        kept_size = sum(sizes) if limit == "all_unsynced_size_max" else max(sizes)
        assert kept_size <= LIMIT + len(ledgers) * BATCH_SIZE
        assert all(ledger.last_add_confirmed > COUNT // 2 for ledger in ledgers)
        for ledger in ledgers:
            assert ledger.close(timeout=30) == COUNT - 1


def test_a_sync_does_not_wait_for_a_limit(lazy: LocalCluster) -> None:
    with zbk.connect(lazy.metadata_uri, explicit_lac_ms=0) as client:
        ledger = client.create_ledger(ledger_type="VD_JOURNAL")
        ledger.append_many([PAYLOAD] * 100).result(30)
        assert ledger.last_add_confirmed == -1, "far below the limits nothing is synced by itself"

        assert ledger.sync(timeout=30) == 99
