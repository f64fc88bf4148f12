"""Data sets on a real ZooKeeper whose replies get lost after it did what it was asked for."""

from uuid import uuid4

import pytest

from tests.support.zookeeper_proxy import CREATE, MULTI, SET, ZooKeeperProxy
from zbk.errors import LoadAbortedError
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.stores.zookeeper import ZooKeeperStore
from zbk.protocol.dataset.dataset import Contents, DataSet, Load, LoadKind, LoadState, new_load_id

NAME = "events"
CONTENTS = Contents(
    manifest=5, schema_hash="s", password_check="p", ledger_count=1, row_count=2, size=3
)


@pytest.fixture
def others(direct: ZooKeeperStore) -> DataSetStore:
    """Somebody with a good connection."""
    initialise(direct)
    found = DataSetStore(direct)
    found.create(NAME, 0)
    return found


@pytest.fixture
def sets(proxied: ZooKeeperStore, others: DataSetStore) -> DataSetStore:
    """The driver's, whose connection goes through the proxy."""
    assert others.list() == [NAME]
    return DataSetStore(proxied)


def new_load(sets: DataSetStore) -> Load:
    data_set, _ = sets.read(NAME)
    return Load(
        load_id=new_load_id(100, uuid4().hex),
        data_set_id=data_set.data_set_id,
        kind=LoadKind.APPEND,
        base_version=data_set.current_version,
        first_ledger_id=0,
        started_ms=0,
        expires_ms=100,
        who="me",
    )


def begun(sets: DataSetStore) -> Load:
    load = new_load(sets)
    sets.begin(NAME, load)
    return load


def commit(sets: DataSetStore, load: Load) -> DataSet:
    found = sets.commit(NAME, load.data_set_id, load.load_id, load.base_version, CONTENTS, 7)
    assert found is not None
    return found[0]


def test_a_data_set_and_a_load_that_lost_their_replies_are_made_once(
    proxy: ZooKeeperProxy, sets: DataSetStore, others: DataSetStore
) -> None:
    proxy.lose_next_reply(MULTI)
    sets.create("new", 1)
    assert proxy.reply_was_lost.is_set()
    assert others.read("new")[0].created_ms == 1

    load = new_load(sets)
    proxy.lose_next_reply(CREATE)
    sets.begin(NAME, load)
    assert others.loads(NAME, load.data_set_id) == {load.load_id: load}


def test_a_commit_that_lost_its_reply_is_made_once(
    proxy: ZooKeeperProxy, sets: DataSetStore, others: DataSetStore
) -> None:
    load = begun(sets)
    proxy.lose_next_reply(MULTI)

    data_set = commit(sets, load)

    assert proxy.reply_was_lost.is_set()
    assert [one.load_id for one in data_set.versions] == [load.load_id]
    assert others.read(NAME)[0] == data_set
    aborted = others.abort(NAME, load.data_set_id, load.load_id)
    assert aborted is not None
    assert aborted.state is LoadState.COMMITTED


def test_an_abort_that_lost_its_reply_is_made_once(
    proxy: ZooKeeperProxy, sets: DataSetStore, others: DataSetStore
) -> None:
    load = begun(sets)
    proxy.lose_next_reply(SET)

    assert sets.abort(NAME, load.data_set_id, load.load_id) == load.aborted()

    assert proxy.reply_was_lost.is_set()
    with pytest.raises(LoadAbortedError):
        commit(others, load)


def test_a_drop_that_lost_its_reply_is_known_to_be_done(
    proxy: ZooKeeperProxy, sets: DataSetStore, others: DataSetStore
) -> None:
    load = begun(sets)
    begun(others)
    proxy.lose_next_reply(MULTI)

    assert sets.drop(NAME).data_set_id == load.data_set_id

    assert proxy.reply_was_lost.is_set()
    assert others.list() == []


def test_a_version_whose_drop_lost_its_reply_is_gone(
    proxy: ZooKeeperProxy, sets: DataSetStore, others: DataSetStore
) -> None:
    for _ in range(2):
        commit(others, begun(others))
    proxy.lose_next_reply(SET)

    assert [one.version for one in sets.drop_version(NAME, 1).versions] == [2]

    assert proxy.reply_was_lost.is_set()
    assert [one.version for one in others.read(NAME)[0].versions] == [2]
