"""Logs, on every body of the metadata port."""

from functools import partial

import pytest

from tests.support.at_once import run_at_once
from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from zbk.errors import BadVersionError, NoSuchLogError
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.logs import LogStore
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.log.metadata import LogMetadata


@pytest.fixture
def logs(store: MetadataStore) -> LogStore:
    initialise(store)
    return LogStore(store)


@pytest.fixture
def others(other: MetadataStore, logs: LogStore) -> LogStore:
    assert logs.list() == []
    return LogStore(other)


def test_a_log_is_made_once_and_found_by_all(logs: LogStore, others: LogStore) -> None:
    logs.create("orders", 7)
    others.create("orders", 8)

    found, version = others.read("orders")
    assert (found.name, found.created_ms, found.ledger_ids, version) == ("orders", 7, (), 0)
    assert logs.read("orders") == (found, version)
    assert logs.list() == others.list() == ["orders"]


def test_of_many_who_write_on_one_version_one_does(body: Body, logs: LogStore) -> None:
    logs.create("orders", 0)
    log, version = logs.read("orders")
    won: list[int] = []

    def write(own: LogStore, ledger_id: int) -> None:
        try:
            own.write(log.with_ledger(ledger_id), version)
        except BadVersionError:
            return
        won.append(ledger_id)

    run_at_once([partial(write, LogStore(body.open()), n) for n in range(4)])

    assert logs.read("orders") == (log.with_ledger(*won), version + 1)


def test_concurrent_changes_are_all_made(body: Body, logs: LogStore) -> None:
    logs.create("orders", 0)
    log, version = logs.read("orders")
    for ledger_id in range(20):
        version = logs.write(log := log.with_ledger(ledger_id), version)

    def truncate(own: LogStore) -> None:
        for _ in range(4):
            own.update("orders", lambda current: current.without_first(1))

    run_at_once([partial(truncate, LogStore(body.open())) for _ in range(4)])

    found, _ = logs.read("orders")
    assert (found.ledger_ids, found.first_index) == ((16, 17, 18, 19), 16)


def test_a_deleted_log_is_gone_and_its_name_is_free(logs: LogStore, others: LogStore) -> None:
    logs.create("orders", 0)
    old, version = logs.read("orders")

    assert others.delete("orders") == old

    for call in (
        lambda: logs.read("orders"),
        lambda: logs.delete("orders"),
        lambda: logs.write(old.with_ledger(1), version),
        lambda: logs.update("orders", lambda log: log),
    ):
        with pytest.raises(NoSuchLogError):
            call()
    assert logs.list() == []
    others.create("orders", 1)
    assert logs.read("orders")[0].log_id != old.log_id


def test_the_list_of_a_deleted_log_never_overwrites_that_of_a_new_one(
    logs: LogStore, others: LogStore
) -> None:
    logs.create("orders", 0)
    old, version = logs.read("orders")
    others.delete("orders")
    others.create("orders", 1)
    new, same_version = others.read("orders")
    assert version == same_version, "the version alone would not tell them apart"

    with pytest.raises(NoSuchLogError):
        logs.write(old.with_ledger(1), version)

    assert others.read("orders") == (new, same_version)


def test_a_watch_sees_every_last_state(logs: LogStore, others: LogStore) -> None:
    logs.create("orders", 0)
    log, version = logs.read("orders")
    seen: Recorder[tuple[LogMetadata, int] | None] = Recorder()
    watch = logs.watch(log, seen)
    seen.wait_last((log, version))

    longer = log.with_ledger(3)
    others.write(longer, version)
    seen.wait_last((longer, version + 1))
    others.delete("orders")
    seen.wait_last(None)

    watch.cancel()
