"""Each metric of a bookie moves when its cause happens, in real processes."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import lone_ledger
from tests.support.http import Scrape, ask
from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metrics.table import METRICS, metrics_of

ENTRY = b"x" * 1_000

BY_LOAD = {
    "zbk_bookie_adds_total",
    "zbk_bookie_added_entries_total",
    "zbk_bookie_added_bytes_total",
    "zbk_bookie_reads_total",
    "zbk_bookie_read_entries_total",
    "zbk_bookie_read_bytes_total",
    "zbk_bookie_messages_total",
    "zbk_bookie_ledgers",
    "zbk_bookie_queue_seconds",
    "zbk_bookie_answer_seconds",
    "zbk_bookie_read_seconds",
    "zbk_journal_written_bytes_total",
    "zbk_journal_queue_seconds",
    "zbk_journal_write_seconds",
    "zbk_journal_fsync_seconds",
    "zbk_index_page_lookups_total",
    "zbk_open_file_lookups_total",
    "zbk_index_memory_bytes",
    "zbk_checkpoints_total",
    "zbk_checkpoint_seconds",
    "zbk_gc_rounds_total",
    "zbk_scrub_passes_total",
    "zbk_scrub_read_bytes",
}
BY_CONNECTIONS = {
    "zbk_bookie_connections",
    "zbk_bookie_peers",
    "zbk_bookie_connections_ended_total",
}
BY_VOLATILE_LEDGERS = {
    "zbk_journal_unsynced_bytes",
    "zbk_journal_unsynced_age_seconds",
    "zbk_index_dirty_bytes",
}
BY_BYPASS_LEDGERS = {"zbk_entry_log_unsynced_bytes", "zbk_entry_log_unsynced_age_seconds"}
BY_UNCOVERED_WRITES = {"zbk_checkpoint_age_seconds"}
BY_DELETIONS = {
    "zbk_gc_ledgers_total",
    "zbk_gc_logs_total",
    "zbk_gc_freed_bytes_total",
    "zbk_entry_logs",
    "zbk_entry_log_bytes",
    "zbk_entry_log_dead_bytes",
    "zbk_compaction_logs_total",
    "zbk_compaction_copied_bytes_total",
    "zbk_compaction_freed_bytes_total",
}
BY_REFUSALS = {"zbk_bookie_refusals_total", "zbk_index_header_lookups_total"}
BY_A_FULL_DISK = {"zbk_bookie_read_only"}
BY_AN_UNCLEAN_STOP = {"zbk_limbo_ledgers"}
BY_DAMAGE = {"zbk_scrub_damaged_entries", "zbk_scrub_damaged_ledgers"}
BY_A_START = {
    "zbk_build_info",
    "zbk_metadata_connected",
    "zbk_bookie_registered",
    "zbk_disk_free_bytes",
    "zbk_disk_size_bytes",
}
ELSEWHERE = {
    "zbk_audit_records_total": "tests/security/test_audit_log.py",
    "zbk_bookie_insecure": "tests/security/test_default_closed.py",
    "zbk_bookie_keys_refused_total": "tests/security/test_cluster_with_keys.py",
    "zbk_bookie_handshakes_failed_total": "tests/security/test_cluster_with_keys.py",
    "zbk_metadata_interruptions_total": "tests/unit/metadata/stores/test_session_metrics.py",
    "zbk_bookie_in_flight_bytes": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_bookie_dropped_answers_total": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_disk_reserve_missing": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_bookie_failed_directories": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_gc_gave_up": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_scrub_running": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_scrub_progress_ratio": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_scrub_damaged_files": "tests/unit/actors/process/test_bookie_metrics.py",
    "zbk_scrub_unreported_ledgers": "tests/unit/actors/process/test_bookie_metrics.py",
}
"""What a real process shows for a moment only, or after a failing disk; and the test of it."""

QUICK: dict[str, int | str] = {
    "checkpoint_interval_ms": 200,
    "gc_interval_ms": 200,
    "gc_confirm_delay_ms": 10,
    "entry_log_size_max": 1024 * 1024,
    "compaction_major_interval_ms": 200,
    "compaction_major_threshold": "0.9",
    "scrub_interval_ms": 300,
    "scrub_rate_size": 0,
    "handshake_ms": 200,
    "boot_id": "one",
}


def test_each_metric_of_a_bookie_has_a_test_that_moves_it() -> None:
    moved = BY_LOAD | BY_CONNECTIONS | BY_VOLATILE_LEDGERS | BY_DELETIONS | BY_REFUSALS
    moved |= BY_BYPASS_LEDGERS | BY_UNCOVERED_WRITES
    moved |= BY_A_FULL_DISK | BY_AN_UNCLEAN_STOP | BY_DAMAGE | BY_A_START | ELSEWHERE.keys()
    assert moved == {metric.name for metric in metrics_of("bookie")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with LocalCluster(folder, bookie_count=1, bookie_options=options_of()) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


class Rebooted(LocalCluster):
    """A cluster whose machine may boot anew."""

    boot_id = "one"

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        return super()._bookie_options(index, port) | {"boot_id": self.boot_id}


def options_of(**others: int | str) -> dict[str, int | str]:
    return QUICK | {"session_timeout_ms": 2_000} | others


def url_of(client: zbk.Client) -> str:
    (found,) = client.list_bookies()
    assert found.http, "it has an endpoint"
    return found.http


def wait_moved(url: str, before: Scrape, names: set[str], timeout_s: float = 30) -> None:
    """Wait until each of the metrics was seen above its value in an earlier scrape."""
    unmoved = set(names)

    def have_moved() -> bool:
        now = Scrape(url)
        for name in list(unmoved):
            if now.total(name) > before.total(name):
                unmoved.discard(name)
        return not unmoved

    try:
        wait_until(have_moved, timeout_s)
    except AssertionError:
        raise AssertionError(f"not moved: {sorted(unmoved)}") from None


def test_every_metric_is_exposed_from_the_start(client: zbk.Client) -> None:
    scrape = Scrape(url_of(client))
    assert scrape.names() == {metric.name for metric in metrics_of("bookie")}
    for name in BY_A_START:
        assert scrape.total(name) > 0, name


def test_appends_and_reads_move_the_metrics_of_load(client: zbk.Client) -> None:
    url = url_of(client)
    before = Scrape(url)
    for ledger_type in (zbk.LedgerType.PD_JOURNAL, zbk.LedgerType.VD_JOURNAL):
        write_twenty(client, ledger_type)
    wait_moved(url, before, BY_LOAD)
    assert Scrape(url).value("zbk_bookie_read_entries_total") >= 40


def test_the_age_of_the_last_checkpoint_grows_while_entries_come(client: zbk.Client) -> None:
    """It is reset by each checkpoint, and while one would have nothing to write."""
    url = url_of(client)
    (name,) = BY_UNCOVERED_WRITES
    ages = [math.inf]
    with client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1) as ledger:

        def has_grown() -> bool:
            ledger.append(b"x")
            ages.append(Scrape(url).total(name))
            return ages[-1] > min(ages)

        wait_until(has_grown)


def write_twenty(client: zbk.Client, ledger_type: zbk.LedgerType) -> None:
    """Write and read 20 entries of a new ledger in two requests."""
    with client.create_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, ledger_type=ledger_type
    ) as ledger:
        ledger.append(ENTRY)  # the first one waits for a look at the metadata
        ledger.append_many([ENTRY] * 19).result()
        if ledger_type.is_volatile:
            ledger.sync()
    assert len(list(client.open_ledger(ledger.ledger_id).read(0, 19))) == 20


def test_the_label_type_has_a_value_for_each_ledger_type() -> None:
    """So that no metric counts a type under the name of another one."""
    for metric in METRICS:
        if "type" in metric.labels:
            assert metric.labels["type"] == tuple(one.value.lower() for one in zbk.LedgerType)


TYPED = {metric.name for metric in metrics_of("bookie") if "type" in metric.labels}


@pytest.mark.parametrize("ledger_type", zbk.LedgerType)
def test_a_ledger_moves_the_metrics_of_its_type_and_of_no_other(
    client: zbk.Client, ledger_type: zbk.LedgerType
) -> None:
    url = url_of(client)
    before = Scrape(url)
    write_twenty(client, ledger_type)
    after = Scrape(url)
    counts = {
        "zbk_bookie_adds_total": range(2, 3),
        "zbk_bookie_added_entries_total": range(20, 21),
        "zbk_bookie_added_bytes_total": range(20_000, 22_000),
        "zbk_bookie_answer_seconds_count": range(1, 3),
    }
    assert {name.removesuffix("_count") for name in counts} == TYPED
    for name, expected in counts.items():
        for kind in zbk.LedgerType:
            label = kind.value.lower()
            moved = after.value(name, type=label) - before.value(name, type=label)
            assert moved in (expected if kind is ledger_type else range(1)), (name, label)


def test_silent_and_greeted_connections_count_and_their_ends_too(client: zbk.Client) -> None:
    url = url_of(client)
    before = Scrape(url)
    (bookie,) = client.list_bookies()
    client.bookie_info(bookie.bookie_id)
    silent = RawPeer(bookie.address, is_greeting=True)
    try:
        wait_moved(url, before, BY_CONNECTIONS)
    finally:
        silent.close()


def test_an_append_to_a_fenced_ledger_counts_as_a_refusal(client: zbk.Client) -> None:
    url = url_of(client)
    before = Scrape(url)
    name = "zbk_bookie_refusals_total"
    ledger = lone_ledger(client)
    ledger.append(ENTRY)
    client.recover_ledger(ledger.ledger_id)
    with pytest.raises(zbk.LedgerFencedError):
        ledger.append(ENTRY)
    after = Scrape(url)
    assert after.value(name, result="fenced") > before.value(name, result="fenced")
    wait_moved(url, before, BY_REFUSALS)


def test_deleted_ledgers_are_collected_and_their_logs_compacted(client: zbk.Client) -> None:
    url = url_of(client)
    before = Scrape(url)
    kept, deleted = lone_ledger(client), lone_ledger(client)
    for _ in range(40):
        kept.append_many([ENTRY] * 20).result()
        deleted.append_many([ENTRY] * 60).result()
    for ledger in (kept, deleted):
        ledger.close()
    with lone_ledger(client) as whole:
        for _ in range(3):
            whole.append_many([ENTRY] * 1_000).result()
    (bookie,) = client.list_bookies()
    client.switch_compaction(bookie.bookie_id, suspend=("minor", "major"))
    for ledger in (deleted, whole):
        client.delete_ledger(ledger.ledger_id)
    wait_moved(url, before, {"zbk_entry_log_dead_bytes"}, timeout_s=60)  # until it is compacted
    client.switch_compaction(bookie.bookie_id, resume=("minor", "major"))
    wait_moved(url, before, BY_DELETIONS - {"zbk_entry_log_dead_bytes"}, timeout_s=60)
    assert ask(f"{url}/readyz").status == 200


def test_a_bookie_without_space_is_read_only_and_ready(tmp_path: Path) -> None:
    options = options_of(disk_readonly_free="99%")
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        url = url_of(client)
        wait_until(lambda: Scrape(url).value("zbk_bookie_read_only") == 1)
        ready = ask(f"{url}/readyz?verbose")
        assert ready.status == 200
        assert "[i]writable failed" in ready.body


@pytest.mark.parametrize(
    ("ledger_type", "moved", "place"),
    [
        (zbk.LedgerType.VD_JOURNAL, BY_VOLATILE_LEDGERS, "journal"),
        (zbk.LedgerType.VD_BYPASS_JOURNAL, BY_BYPASS_LEDGERS, "entry_log"),
    ],
)
def test_unsynced_bytes_of_a_volatile_ledger_rise_and_fall(
    tmp_path: Path, ledger_type: zbk.LedgerType, moved: set[str], place: str
) -> None:
    options = options_of(sync_interval_ms=0, checkpoint_interval_ms=3_600_000)
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster,
        zbk.connect(cluster.metadata_uri, explicit_lac_ms=0) as client,  # no idle syncs
        client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, ledger_type=ledger_type
        ) as ledger,
    ):
        url = url_of(client)
        ledger.append(ENTRY)
        ledger.sync()
        before = Scrape(url)
        ledger.append_many([ENTRY] * 20).result()
        wait_moved(url, before, moved)
        assert Scrape(url).value(f"zbk_{place}_unsynced_bytes") >= 20_000
        ledger.sync()
        after = Scrape(url)
        assert after.value(f"zbk_{place}_unsynced_bytes") == 0
        assert after.value(f"zbk_{place}_unsynced_age_seconds") == 0


def test_an_unclean_stop_puts_ledgers_into_limbo(tmp_path: Path) -> None:
    options = options_of(limbo_grace_ms=3_600_000)
    with Rebooted(tmp_path / "data", bookie_count=2, bookie_options=options) as cluster:
        with (
            zbk.connect(cluster.metadata_uri) as client,
            client.create_ledger(
                ensemble_size=2,
                write_quorum_size=2,
                ack_quorum_size=1,
                ledger_type=zbk.LedgerType.VD_JOURNAL,
            ) as ledger,
        ):
            ledger.append(ENTRY)
        for index in (0, 1):
            cluster.kill(index)
        cluster.boot_id = "two"
        cluster.restart(0)
        with zbk.connect(cluster.metadata_uri) as client:
            urls = {one.bookie_id: one.http for one in client.list_bookies()}
            url = urls[cluster.bookies[0].bookie_id]
            wait_until(lambda: Scrape(str(url)).value("zbk_limbo_ledgers") > 0, 30)
            assert "[i]limbo failed" in ask(f"{url}/readyz?verbose").body


def test_a_scrub_counts_the_damage_that_it_finds(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options_of()) as cluster:
        with zbk.connect(cluster.metadata_uri) as client, lone_ledger(client) as ledger:
            ledger.append_many([ENTRY] * 3_000).result()
            url = url_of(client)
            wait_until(lambda: Scrape(url).value("zbk_checkpoints_total") > 0)
        before = Scrape(url)  # the next pass may find the damage at once
        log = min((cluster.bookies[0].folder / "ledgers").rglob("*.log"))
        with log.open("r+b") as file:
            file.seek(100_000)
            file.write(b"\xff" * 5_000)
        wait_moved(url, before, BY_DAMAGE, timeout_s=60)
