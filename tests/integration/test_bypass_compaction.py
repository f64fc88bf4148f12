"""Compaction of a real bookie with bypass ledgers, in logs of their own and in shared ones.

Every entry that is kept is compared after each step.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import zbk
from tests.integration.test_compaction import OPTIONS
from tests.integration.test_garbage_collection import log_size, warnings_of
from tests.support.cluster import Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

BYPASS = zbk.LedgerType.VD_BYPASS_JOURNAL
SMALL_COUNT, LARGE_COUNT = 120, 4
SMALL, LARGE = 30, 400  # entries of about 1 KiB: less, and more, than a log of its own needs


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=OPTIONS) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as client:
        yield client


def payloads(ledger_id: int, first: int, count: int) -> list[bytes]:
    """Return entries that differ, always the same ones."""
    dice = Random(ledger_id)
    made = [b"%d:%d:" % (ledger_id, n) + dice.randbytes(1_000) for n in range(first + count)]
    return made[first:]


class Ledgers:
    """Bypass ledgers and how many entries each has. One stays open."""

    def __init__(self, client: zbk.Client) -> None:
        self._client = client
        self._counts: dict[int, int] = {}
        self.open = self._create()

    def _create(self) -> zbk.LedgerWriter:
        ledger = self._client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, ledger_type=BYPASS
        )
        self._counts[ledger.ledger_id] = 0
        return ledger

    def append(self, ledger: zbk.LedgerWriter, count: int) -> None:
        before = self._counts[ledger.ledger_id]
        ledger.append_many(payloads(ledger.ledger_id, before, count)).result(30)
        self._counts[ledger.ledger_id] += count

    def write(self, count: int) -> int:
        """Write a whole ledger; return its id."""
        with self._create() as ledger:
            self.append(ledger, count)
        return ledger.ledger_id

    def delete(self, ledger_id: int) -> None:
        del self._counts[ledger_id]
        self._client.delete_ledger(ledger_id)

    def check(self) -> None:
        """Read and compare every entry."""
        assert self.open.sync(timeout=30) == self._counts[self.open.ledger_id] - 1
        for ledger_id, count in self._counts.items():
            with self._client.open_ledger(ledger_id) as reader:
                assert reader.last_add_confirmed == count - 1
                found = [bytes(one.payload) for one in reader.read(0, count - 1)]
            assert found == payloads(ledger_id, 0, count)


def test_kept_entries_are_the_same_after_each_step(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    (bookie,) = cluster.bookies

    def run(*arguments: str) -> dict[str, object]:
        found = shell.run("bookie", *arguments, bookie.bookie_id, "-o", "json")
        return dict(json.loads(found.stdout))

    def is_connected() -> bool:
        """Whether the client has noticed that the bookie is back: until then requests may fail."""
        with suppress(zbk.NotEnoughBookiesError, zbk.BookieUnavailableError):
            return bool(client.bookie_info(bookie.bookie_id))
        return False

    def has_logs_to_compact() -> bool:
        """Whether the last collection counted any: an earlier one may have come before its logs."""
        run("gc")
        return int(str(run("show")["major_win_log_count"])) > 0

    def start_again() -> None:
        cluster.kill(bookie.index)
        cluster.restart(bookie.index)
        wait_until(is_connected, what="the connection")

    ledgers = Ledgers(client)
    ledgers.append(ledgers.open, LARGE)
    small = [ledgers.write(SMALL) for _ in range(SMALL_COUNT)]
    large = [ledgers.write(LARGE) for _ in range(LARGE_COUNT)]
    ledgers.check()
    before = log_size(cluster)
    assert before > SMALL_COUNT * SMALL * 1_000

    for ledger_id in (*small[::2], *large[::2]):
        ledgers.delete(ledger_id)
    ledgers.check()
    run("gc")
    ledgers.check()
    after_gc = log_size(cluster)
    assert after_gc < before - LARGE_COUNT // 2 * LARGE * 1_000, "own logs go without a copy"

    ledgers.append(ledgers.open, LARGE)  # it is written while others move
    wait_until(has_logs_to_compact, what="logs to compact")
    told = run("gc", "--major")
    assert told["compaction_gave_up"] == ""
    assert int(str(told["compacted_logs"])) > 0
    ledgers.check()
    assert log_size(cluster) < after_gc

    start_again()
    ledgers.check()
    ledgers.append(ledgers.open, SMALL)
    ledgers.check()
    start_again()
    ledgers.check()
    assert warnings_of(cluster) == []
