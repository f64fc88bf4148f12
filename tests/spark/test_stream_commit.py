"""Commits that are not answered, or that others overtake, without Spark and without bookies."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import zbk
from pyspark_zbk import writer
from pyspark_zbk.options import Connection, Options
from pyspark_zbk.stream_writer import BatchWritten, MicroBatch, ZbkStreamWriter
from pyspark_zbk.writer import LedgerWritten, ZbkWriter
from tests.support.fake_data_sets import FakeDataSetClient
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.metadata.paths import data_set_list_path
from zbk.metadata.records.compare_and_swap import ATTEMPT_COUNT_MAX
from zbk.metadata.records.ledgers import initialise

NAME = "counts"
SCHEMA = StructType([StructField("id", LongType())])
BATCH = MicroBatch("query", 3, "run")


class Cluster:
    """A store in memory that fails on cue, for planners that connect to it."""

    def __init__(self) -> None:
        tree = MemoryTree("stream commits")
        self.store = HookedStore(tree)
        self.other_store = tree.open_session()
        initialise(self.store)
        self.client = FakeDataSetClient(self.store, {})

    @contextmanager
    def planning_client(self, _connection: Connection) -> Iterator[FakeDataSetClient]:
        yield self.client

    def lose_the_answer(self, failure_count: int = 1) -> None:
        """Make the next commit; lose its answer, and those of looks at its outcome."""

        def lose() -> None:
            self.store.lose_next_reply()
            self.store.interrupt(lambda: self.store.fail_next(failure_count), "get")

        self.store.interrupt(lose, "multi", NAME)

    def overtake(self, count: int) -> None:
        """Overtake the next ``count`` attempts at a commit by another change."""
        data_set_id = self.client.data_set_store.read(NAME)[0].data_set_id
        path = data_set_list_path(NAME, data_set_id)

        def touch() -> None:
            node = self.other_store.get(path)
            self.other_store.set(path, node.value, node.version)

        self.store.interrupt(touch, "multi", NAME, count=count)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()

    def versions(self) -> list[int]:
        history = self.client.data_set_store.read(NAME)[0].versions
        return [one.version for one in history]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(writer, "planning_client", made.planning_client)
    monkeypatch.setattr(writer, "located", lambda connection, _client: connection)
    monkeypatch.setattr(writer, "_check", lambda *_: None)
    monkeypatch.setattr(writer, "PAUSE_S", 0.0)
    yield made
    made.close()


def sink(*, overwrite: bool) -> ZbkStreamWriter:
    return ZbkStreamWriter(Options({"path": NAME}), SCHEMA, overwrite=overwrite)


def test_an_empty_result_whose_commit_was_not_answered_is_committed_once(cluster: Cluster) -> None:
    """Output mode complete: no task had a row, so no task began the load."""
    cluster.client.data_set_store.create(NAME, 0)
    cluster.lose_the_answer()

    sink(overwrite=True).commit([BatchWritten(BATCH, None, None, "app")], BATCH.number)

    assert cluster.versions() == [1]
    data_set = cluster.client.data_set_store.read(NAME)[0]
    assert data_set.batch_by_stream == {BATCH.query_id: BATCH.number}


def test_an_empty_result_whose_load_was_aborted_is_not_committed(cluster: Cluster) -> None:
    one = sink(overwrite=True)

    def abort() -> None:
        store = cluster.client.data_set_store
        data_set = store.read(NAME)[0]
        for load_id in store.load_ids(NAME, data_set.data_set_id):
            store.abort(NAME, data_set.data_set_id, load_id)

    cluster.client.data_set_store.create(NAME, 0)
    cluster.store.interrupt(abort, "multi", NAME)
    with pytest.raises(zbk.LoadAbortedError):
        one.commit([BatchWritten(BATCH, None, None, "app")], BATCH.number)
    assert cluster.versions() == []


def test_a_commit_that_others_overtake_again_and_again_is_made(cluster: Cluster) -> None:
    """An error here would have Spark delete all that the tasks have written."""
    one = ZbkWriter(Options({"path": NAME}), SCHEMA, overwrite=False)
    cluster.overtake(ATTEMPT_COUNT_MAX)

    one.commit([LedgerWritten(None, "app")])

    assert cluster.versions() == [1]


def test_commits_that_never_win_end(cluster: Cluster) -> None:
    one = ZbkWriter(Options({"path": NAME}), SCHEMA, overwrite=False)
    cluster.overtake(ATTEMPT_COUNT_MAX * writer.ATTEMPT_COUNT_MAX)

    with pytest.raises(zbk.MetadataConflictError):
        one.commit([LedgerWritten(None, "app")])
    assert cluster.versions() == []


def test_a_conflict_that_stays_one_is_not_repeated(cluster: Cluster) -> None:
    first, second = (ZbkWriter(Options({"path": NAME}), SCHEMA, overwrite=True) for _ in range(2))
    first.commit([LedgerWritten(None, "app")])

    with pytest.raises(zbk.DataSetConflictError):
        second.commit([LedgerWritten(None, "app")])
    assert cluster.versions() == [1]


def test_a_commit_whose_outcome_stays_unknown_says_that_it_may_be_made(cluster: Cluster) -> None:
    """A job that is run again would append its rows twice."""
    one = ZbkWriter(Options({"path": NAME}), SCHEMA, overwrite=False)
    cluster.lose_the_answer(failure_count=writer.ATTEMPT_COUNT_MAX)

    with pytest.raises(zbk.MetadataUnavailableError, match=f"zbk dataset history {NAME}"):
        one.commit([LedgerWritten(None, "app")])
    cluster.store.heal()
    one.abort([])
    assert cluster.versions() == [1]
