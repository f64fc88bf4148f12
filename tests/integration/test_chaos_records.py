"""What the harness of `make chaos` writes down, and how it becomes a history."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.metadata_history import NodeVersion, SqliteHistory, ZooKeeperHistory
from tests.chaos.recording import MetadataLine, Recorder, merge, read_lines
from tests.support.ledgers import metadata_maker
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.errors import LedgerFencedError, NoSuchEntryError
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import decode
from zbk.protocol.ledger.metadata import LedgerMetadata


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "one.jsonl", "one")
    yield made
    made.close()


def test_a_batch_is_one_line_and_becomes_an_event_an_entry(
    recorder: Recorder, tmp_path: Path
) -> None:
    begun = recorder.begin("add", ledger_id=7, values=["a", "b"])
    recorder.ok(begun, first=3)

    events = merge([tmp_path / "one.jsonl"]).events

    assert [(e.kind, e.entry_id, e.value_hash) for e in events] == [
        ("invoke", None, "a"), ("invoke", None, "b"), ("ok", 3, "a"), ("ok", 4, "b"),
    ]  # fmt: skip
    assert [e.invoked_at for e in events[2:]] == [events[0].index, events[1].index]


def test_a_call_that_a_kill_interrupted_has_no_end(recorder: Recorder, tmp_path: Path) -> None:
    recorder.begin("add", ledger_id=7, values=["a"])
    path = tmp_path / "one.jsonl"
    path.write_bytes(path.read_bytes() + b'{"at_ns":1,"process":"on')  # the line was cut off, too

    (event,) = merge([path]).events

    assert (event.kind, event.value_hash) == ("invoke", "a")


def test_an_add_that_was_fenced_may_have_happened(recorder: Recorder, tmp_path: Path) -> None:
    recorder.error(recorder.begin("add", ledger_id=7, values=["a"]), LedgerFencedError(7))

    end = merge([tmp_path / "one.jsonl"]).events[-1]

    assert (end.kind, end.error) == ("info", "LedgerFencedError")


def test_a_read_that_fails_in_the_middle_ends_for_what_it_read_and_for_the_next_one(
    recorder: Recorder, tmp_path: Path
) -> None:
    begun = recorder.begin("read", ledger_id=7, first=10, count=5)
    recorder.ok(begun, values=["a", "b"])
    recorder.error(begun, NoSuchEntryError(7, 12), done_count=2)

    ends = [e for e in merge([tmp_path / "one.jsonl"]).events if e.kind != "invoke"]

    assert [(e.kind, e.entry_id, e.value_hash) for e in ends] == [
        ("ok", 10, "a"), ("ok", 11, "b"), ("fail", 12, None),
    ]  # fmt: skip


def test_lines_of_several_processes_come_in_order_of_time(tmp_path: Path) -> None:
    one, other = Recorder(tmp_path / "1.jsonl", "1"), Recorder(tmp_path / "2.jsonl", "2")
    first = one.begin("create")
    other.ok(other.begin("create"), ledger_id=1)
    one.ok(first, ledger_id=0)
    other.fault("b0", "kill_bookie")

    history = merge([tmp_path / "1.jsonl", tmp_path / "2.jsonl"])

    assert [(e.process, e.kind) for e in history] == [
        ("1", "invoke"), ("2", "invoke"), ("2", "ok"), ("1", "ok"), ("b0", "info"),
    ]  # fmt: skip
    assert len(read_lines(tmp_path / "1.jsonl")) == 2


def change_ledgers(uri: str) -> list[tuple[int, LedgerMetadata]]:
    """Make and change ledgers; return every version that there was."""
    store = open_store(uri)
    try:
        initialise(store)
        ledgers = LedgerStore(store)
        made = []
        for _ in range(2):
            metadata, version = ledgers.create(metadata_maker())
            made.append((version, metadata))
        for change in (LedgerMetadata.with_recovery, lambda m: m.with_closed(4, 50)):
            metadata, version = ledgers.update(0, change)
            made.append((version, metadata))
        return made
    finally:
        store.close()


def ledgers_of(versions: Iterator[NodeVersion]) -> list[tuple[int, LedgerMetadata]]:
    found = [v for v in versions if v.is_ledger]
    lines = [
        MetadataLine(v.at_ns, v.version, decode(LedgerMetadata, v.value, v.path)) for v in found
    ]
    return [(one.version, one.metadata) for one in merge([], lines).metadata.ledgers]


def test_sqlite_tells_every_version(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    open_store(uri).close()
    history = SqliteHistory(uri)

    assert ledgers_of(history.versions()) == []
    made = change_ledgers(uri)

    assert ledgers_of(history.versions()) == made


def test_the_transaction_log_of_zookeeper_tells_every_version(tmp_path: Path) -> None:
    with LocalZooKeeper(tmp_path) as zookeeper:
        made = change_ledgers(zookeeper.uri("/a"))
        change_ledgers(zookeeper.uri("/b"))
        zookeeper.kill()
        zookeeper.start()

        assert ledgers_of(ZooKeeperHistory(tmp_path / "data", "/a").versions()) == made
