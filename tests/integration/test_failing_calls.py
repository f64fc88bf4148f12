"""System calls that fail under real bookies, by ``strace``: a sample of what the unit tests have.

``tests/unit/storage/test_failing_calls.py`` has every call of a life; here it is seen that the
process does with the error what storage says: the bookie ends with exit code 1 and the file's name,
or is read-only, or lets the client go to another replica. What was acknowledged is read afterwards.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.integration.test_ensemble_change import ENTRY, Load
from tests.support.injection import WRITES, failing, strace
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalBookie, LocalCluster

__all__ = ["strace"]

OPTIONS: dict[str, int | str] = {"session_timeout_ms": 2_000, "checkpoint_interval_ms": 300}


@pytest.fixture(scope="module")
def cluster(strace: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    assert strace is None, "or all of this is skipped"
    folder = tmp_path_factory.mktemp("failing") / "data"
    with LocalCluster(folder, bookie_options=OPTIONS) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


@pytest.fixture
def bookie(cluster: LocalCluster) -> Iterator[LocalBookie]:
    """A bookie to be broken; afterwards it runs again."""
    yield cluster.bookies[0]
    if 0 in cluster.deaths():
        cluster.restart(0)


def newest(bookie: LocalBookie, pattern: str) -> Path:
    return max(bookie.folder.glob(pattern), key=lambda path: path.name)


def entry_count(client: zbk.Client, ledger_id: int) -> int:
    """Read a ledger from end to end; return how many of its entries are as they should be."""
    with client.open_ledger(ledger_id) as reader:
        payloads = [bytes(one.payload) for one in reader.read(0, reader.last_add_confirmed)]
    assert payloads == [ENTRY % number for number in range(len(payloads))]
    return len(payloads)


def ledger_read_at(client: zbk.Client, bookie_id: str) -> zbk.LedgerWriter:
    """Return a new ledger whose readers ask this bookie first."""
    while True:
        ledger = client.create_ledger()
        bookies = ledger.metadata.last_fragment.bookies
        if bookies[ledger.ledger_id % len(bookies)] == bookie_id:  # readers begin at their id
            return ledger
        ledger.close()


@pytest.mark.parametrize(
    ("error", "pattern", "ledger_type"),
    [
        ("EIO", "journal/*.journal", zbk.LedgerType.PD_JOURNAL),
        ("ENOSPC", "journal/*.journal", zbk.LedgerType.VD_JOURNAL),
        ("EIO", "ledgers/logs/*.log", zbk.LedgerType.PD_JOURNAL),
    ],
)
def test_a_bookie_whose_fsync_fails_ends_and_names_the_file(
    cluster: LocalCluster,
    client: zbk.Client,
    bookie: LocalBookie,
    tmp_path: Path,
    error: str,
    pattern: str,
    ledger_type: zbk.LedgerType,
) -> None:
    ledger = client.create_ledger(ledger_type=ledger_type)
    load = Load(ledger, is_many=True)
    load.wait_for_more()
    file = newest(bookie, pattern)

    with failing(bookie.pid, "fdatasync", error, file, tmp_path / "trace"):
        wait_until(lambda: 0 in cluster.deaths(), timeout_s=30, what="the end of the bookie")

    load.wait_for_more()  # with the two others
    load.stop()
    ledger.close()
    told = str(cluster.deaths()[0])
    assert "ended with exit code 1" in told
    assert f"fsync of {file} failed" in told
    assert entry_count(client, ledger.ledger_id) == load.acked_count
    cluster.restart(0)
    cluster.kill(1)
    try:
        assert entry_count(client, ledger.ledger_id) == load.acked_count
    finally:
        cluster.restart(1)


def test_a_bookie_that_finds_no_space_in_an_entry_log_is_read_only_meanwhile(
    cluster: LocalCluster, client: zbk.Client, bookie: LocalBookie, tmp_path: Path
) -> None:
    ledger = client.create_ledger()
    load = Load(ledger, is_many=True)
    load.wait_for_more()

    def is_readonly() -> bool:
        return client.bookie_info(bookie.bookie_id).is_readonly

    file = newest(bookie, "ledgers/logs/*.log")
    with failing(bookie.pid, WRITES, "ENOSPC", file, tmp_path / "trace"):
        wait_until(is_readonly, timeout_s=30, what="read-only")
        load.wait_for_more()
    wait_until(lambda: not is_readonly(), timeout_s=30, what="writable again")
    load.stop()
    ledger.close()

    assert cluster.deaths() == {}
    assert entry_count(client, ledger.ledger_id) == load.acked_count


def test_a_reader_goes_on_while_a_bookie_cannot_read_its_log(
    cluster: LocalCluster, client: zbk.Client, bookie: LocalBookie, tmp_path: Path
) -> None:
    """B3: what cannot be read is no "no such entry"."""
    with ledger_read_at(client, bookie.bookie_id) as ledger:
        ledger.append_many([ENTRY % number for number in range(500)]).result(30)
    file = newest(bookie, "ledgers/logs/*.log")

    with failing(bookie.pid, "pread64", "EIO", file, tmp_path / "trace") as has_failed:

        def has_met_it() -> bool:
            assert entry_count(client, ledger.ledger_id) == 500
            return has_failed()

        wait_until(has_met_it, what="a read that comes to this bookie")

    assert cluster.deaths() == {}
