"""Damage on a real bookie's disk: found, reported, and never seen by a reader."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.protocol.repair.underreplicated import MissingReason

MIB = 1024 * 1024
OPTIONS = QUICK | {
    "entry_log_size_max": MIB,
    "checkpoint_interval_ms": 50,
    "gc_interval_ms": 0,
    "gc_confirm_delay_ms": 50,
    "scrub_rate_size": 0,
}
PAYLOADS = [b"%d " % number * 200 for number in range(4_000)]
PASSWORD = b"secret"
PREFIX_AT, PAYLOAD_AT = 9, 100
"""Of an entry: inside of its ledger id, and of its payload."""


NO_CHECKPOINTS = OPTIONS | {"checkpoint_interval_ms": 3_600_000}
"""None comes by itself; a pass that is asked for begins with one."""


@pytest.fixture
def options() -> Mapping[str, int]:
    return OPTIONS


@pytest.fixture
def cluster(tmp_path: Path, options: Mapping[str, int]) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_options=options) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as client:
        yield client


def filled(
    client: zbk.Client,
    digest_type: zbk.DigestType,
    ledger_type: zbk.LedgerType = zbk.LedgerType.PD_JOURNAL,
) -> int:
    """Return a ledger on all three bookies, in several entry logs."""
    with client.create_ledger(
        ensemble_size=3,
        write_quorum_size=3,
        ack_quorum_size=2,
        digest_type=digest_type,
        ledger_type=ledger_type,
        password=PASSWORD,
    ) as ledger:
        for first in range(0, len(PAYLOADS), 500):
            ledger.append_many(PAYLOADS[first : first + 500]).result(30)
    return ledger.ledger_id


def damage(cluster: LocalCluster, index: int, ledger_id: int, entry_id: int, at: int) -> Path:
    """Flip a bit of an entry in one bookie's first entry log; return the log."""
    (path,) = cluster.folder.glob(f"bookie{index}/ledgers/logs/00000001.log")
    content = bytearray(path.read_bytes())
    ids = ledger_id.to_bytes(8, "little") + entry_id.to_bytes(8, "little")
    start = content.find(ids) - 8
    assert start > 0, "the entry is in the first log"
    content[start + at] ^= 1
    with path.open("r+b") as file:  # in place: the bookie has it open
        file.seek(start + at)
        file.write(content[start + at : start + at + 1])
    return path


def read_all(client: zbk.Client, ledger_id: int) -> list[bytes]:
    with client.open_ledger(ledger_id, PASSWORD) as reader:
        return [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]


def warnings_of(cluster: LocalCluster, index: int) -> list[str]:
    lines = (cluster.folder / f"bookie{index}.log").read_text().splitlines()
    return [line for line in lines if "WARNING" in line or "ERROR" in line]


def scrub(cluster: LocalCluster, shell: Shell, exit_code: int, *arguments: str) -> list[dict]:  # type: ignore[type-arg]  # rows of JSON
    done = shell.run(
        "bookie", "scrub", *arguments, "--metadata", cluster.metadata_uri, "-o", "json",
        exit_code=exit_code,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("options", [NO_CHECKPOINTS])
@pytest.mark.parametrize(
    ("ledger_type", "at"),
    [
        (zbk.LedgerType.PD_JOURNAL, PREFIX_AT),
        (zbk.LedgerType.PD_JOURNAL, PAYLOAD_AT),
        (zbk.LedgerType.VD_BYPASS_JOURNAL, PAYLOAD_AT),
    ],
)
def test_a_flipped_bit_is_found_and_reported_and_no_reader_sees_it(
    cluster: LocalCluster,
    client: zbk.Client,
    tmp_path: Path,
    ledger_type: zbk.LedgerType,
    at: int,
) -> None:
    """B3: neither as wrong bytes nor as an entry that is not there."""
    ledger_id = filled(client, zbk.DigestType.XXH3, ledger_type)
    other_id = filled(client, zbk.DigestType.MAC)
    shell = Shell(tmp_path)
    healthy = scrub(cluster, shell, 0, "--all", "--wait")
    assert [row["kind"] for row in healthy] == ["pass"] * 3
    assert [row for row in healthy if row["read_size"] <= 6 * MIB] == []
    assert [warnings_of(cluster, index) for index in range(3)] == [[], [], []]
    bookie = cluster.bookies[1]
    path = damage(cluster, 1, ledger_id, 137, at)

    assert read_all(client, ledger_id) == PAYLOADS
    rows = scrub(cluster, shell, 4, bookie.bookie_id, "--wait")

    file, entries = (next(row for row in rows if row["kind"] == k) for k in ("file", "entries"))
    assert (file["path"], file["ledger_id"]) == (str(path), ledger_id)
    assert entries["ledger_id"] == ledger_id
    assert entries["first_entry_id"] <= 137 <= entries["last_entry_id"]
    (warning,) = warnings_of(cluster, 1)
    assert str(path) in warning
    info = client.bookie_info(bookie.bookie_id)
    assert (info.scrub_file_count, info.scrub_ledger_count, info.is_scrubbing) == (1, 1, False)
    assert info.scrub_pass_count == 2
    store = open_store(cluster.metadata_uri)
    tasks = UnderreplicationStore(store)
    wait_until(lambda: tasks.read(ledger_id) is not None, what="the report")
    found = tasks.read(ledger_id)
    assert found is not None
    assert found[0].missing == {bookie.bookie_id: (MissingReason.CHECKED,)}
    assert tasks.read(other_id) is None
    store.close()
    assert read_all(client, ledger_id) == PAYLOADS
    assert read_all(client, other_id) == PAYLOADS
    again = scrub(cluster, shell, 4, bookie.bookie_id, "--status")
    assert [row["kind"] for row in again] == [row["kind"] for row in rows]

    cluster.start_autorecovery()
    store = open_store(cluster.metadata_uri)
    tasks = UnderreplicationStore(store)
    wait_until(lambda: tasks.read(ledger_id) is None, 60, what="the repair")
    store.close()
    mended = scrub(cluster, shell, 0, bookie.bookie_id, "--wait")
    assert [row["kind"] for row in mended] == ["pass"], "nothing is missed any more"


def test_a_scrub_that_nobody_waits_for_goes_on_under_load(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    """No false alarm while entries are added, checkpoints go on, and ledgers are collected."""
    shell = Shell(tmp_path)
    kept = client.create_ledger()
    counts = [0, 0, 0]

    def is_enough() -> bool:
        doomed = client.create_ledger()
        doomed.append_many(PAYLOADS[:1_500]).result(30)
        kept.append_many(PAYLOADS[:500]).result(30)
        doomed.close()
        client.delete_ledger(doomed.ledger_id)
        for index, bookie in enumerate(cluster.bookies):
            client.collect_garbage(bookie.bookie_id)
            counts[index] = client.scrub(bookie.bookie_id).ended_pass
        return min(counts) >= 3

    begun = scrub(cluster, shell, 0, "--all")
    assert [row["pass"] for row in begun] == [1, 1, 1]
    wait_until(is_enough, 60, what="three passes on each bookie")

    kept.close()
    assert [warnings_of(cluster, index) for index in range(3)] == [[], [], []]


def test_a_bookie_stops_in_good_order_in_the_middle_of_a_pass(tmp_path: Path) -> None:
    options = OPTIONS | {"scrub_rate_size": 1_000, "scrub_interval_ms": 50}
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        with client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
        ) as ledger:
            ledger.append_many(PAYLOADS).result(30)
        (bookie,) = cluster.bookies
        wait_until(lambda: client.bookie_info(bookie.bookie_id).is_scrubbing, what="a pass")
        with pytest.raises(zbk.RequestTimeoutError):
            client.follow_scrub(bookie.bookie_id, client.scrub(bookie.bookie_id), timeout=0.5)

        assert cluster.terminate(bookie.index) == 0
        assert warnings_of(cluster, 0) == []
