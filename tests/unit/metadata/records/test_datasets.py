"""DataSetStore on a store in memory that fails on cue."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import (
    BusyError,
    CorruptRecordError,
    InvalidOptionError,
    LoadAbortedError,
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchDataSetError,
)
from zbk.metadata.paths import data_set_list_path, data_set_path, load_path
from zbk.metadata.records.compare_and_swap import ATTEMPT_COUNT_MAX
from zbk.metadata.records.datasets import DROP_LOAD_COUNT_MAX, DataSetStore
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.stores.arguments import OPERATION_COUNT_MAX
from zbk.metadata.values import encode
from zbk.protocol.dataset.dataset import (
    Contents,
    DataSet,
    Load,
    LoadKind,
    LoadState,
    Version,
    new_load_id,
)

NAME = "events"
CONTENTS = Contents(
    manifest=5, schema_hash="s", password_check="p", ledger_count=1, row_count=2, size=3
)


class Cluster:
    """A tree, and two clients of it."""

    def __init__(self) -> None:
        self.tree = MemoryTree("datasets")
        self.store = HookedStore(self.tree)
        self.other_store = self.tree.open_session()
        initialise(self.store)
        self.pauses_s: list[float] = []
        self.sets = self.client(self.store)
        self.others = self.client(self.other_store)
        self.count = 0

    def client(self, store: MemoryStore) -> DataSetStore:
        return DataSetStore(store, pause=self.pauses_s.append)

    def new_load(self, kind: LoadKind = LoadKind.APPEND) -> Load:
        self.others.create(NAME, 0)
        data_set, _ = self.others.read(NAME)
        self.count += 1
        return Load(
            load_id=new_load_id(100, f"{self.count:020x}"),
            data_set_id=data_set.data_set_id,
            kind=kind,
            base_version=data_set.current_version,
            first_ledger_id=0,
            started_ms=0,
            expires_ms=100,
            who="",
        )

    def begin(self, kind: LoadKind = LoadKind.APPEND) -> Load:
        load = self.new_load(kind)
        self.others.begin(NAME, load)
        return load

    def commit(self, load: Load, contents: Contents = CONTENTS) -> DataSet:
        found = self.sets.commit(
            NAME, load.data_set_id, load.load_id, load.base_version, contents, 7
        )
        assert found is not None
        return found[0]

    def abort(self, load: Load) -> Load | None:
        return self.sets.abort(NAME, load.data_set_id, load.load_id)

    def commit_other(self, load: Load) -> None:
        """Commit a load through the other client."""
        args = (NAME, load.data_set_id, load.load_id, load.base_version, CONTENTS, 7)
        assert self.others.commit(*args) is not None

    def versions(self) -> tuple[Version, ...]:
        return self.others.read(NAME)[0].versions

    def state(self, load: Load) -> LoadState | None:
        found = self.others.read_load(NAME, load.data_set_id, load.load_id)
        return None if found is None else found[0].state

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.mark.parametrize("operation", ["multi", "set"])
def test_a_change_that_the_store_refuses_says_so_at_once(cluster: Cluster, operation: str) -> None:
    """A commit, and an abort."""
    load = cluster.begin()

    def refuse() -> None:
        raise MetadataAccessError(cluster.store.address, "no right to write")

    def change() -> None:
        if operation == "multi":
            cluster.commit(load)
        else:
            cluster.sets.abort(NAME, load.data_set_id, load.load_id)

    cluster.store.interrupt(refuse, operation, count=ATTEMPT_COUNT_MAX + 1)
    with pytest.raises(MetadataAccessError, match="no right to write"):
        change()
    assert cluster.pauses_s == []
    assert cluster.state(load) is LoadState.OPEN


# ------------------------------------------------------------------ lost replies


@pytest.mark.parametrize("is_first", [True, False])
def test_a_create_whose_reply_was_lost_is_found_again(cluster: Cluster, is_first: bool) -> None:
    if not is_first:
        cluster.sets.create("first", 0)  # makes the parent
    cluster.store.lose_next_reply()

    cluster.sets.create(NAME, 0)

    assert cluster.others.read(NAME)[0].versions == ()


def test_a_create_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.sets.create("first", 0)
    cluster.store.fail_next()

    cluster.sets.create(NAME, 0)

    assert cluster.others.list() == [NAME, "first"]


def test_a_begin_whose_reply_was_lost_is_found_again(cluster: Cluster) -> None:
    load = cluster.new_load()
    cluster.store.lose_next_reply()

    cluster.sets.begin(NAME, load)

    assert cluster.state(load) is LoadState.OPEN


def test_a_begin_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    load = cluster.new_load()
    cluster.store.fail_next()

    cluster.sets.begin(NAME, load)

    assert cluster.state(load) is LoadState.OPEN


def test_a_begin_of_which_nobody_knows_says_so(cluster: Cluster) -> None:
    load = cluster.new_load()
    cluster.store.fail_next(2)  # the create, and the reading back

    with pytest.raises(MetadataUnavailableError):
        cluster.sets.begin(NAME, load)


def test_a_commit_whose_reply_was_lost_is_known_to_be_made(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.lose_next_reply()

    data_set = cluster.commit(load)

    assert [one.load_id for one in data_set.versions] == [load.load_id]
    assert cluster.versions() == data_set.versions


def test_a_commit_whose_reply_was_lost_and_that_others_built_on_is_known(cluster: Cluster) -> None:
    """The version's place is found by the load, not by being the last one."""
    load, other = cluster.begin(), cluster.begin()
    cluster.store.lose_next_reply()
    cluster.store.interrupt(
        lambda: cluster.commit_other(other), "get", load.load_id, skip_count=1
    )  # before it is read back

    data_set = cluster.commit(load)

    assert [one.load_id for one in data_set.versions] == [load.load_id, other.load_id]


def test_a_commit_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.interrupt(cluster.store.fail_next, "multi")

    assert len(cluster.commit(load).versions) == 1
    assert len(cluster.versions()) == 1


def test_a_commit_of_which_nobody_knows_says_so(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        cluster.commit(load)
    cluster.store.resume()

    assert len(cluster.commit(load).versions) == 1


def test_an_abort_whose_reply_was_lost_is_known_to_be_made(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.lose_next_reply()

    found = cluster.sets.abort(NAME, load.data_set_id, load.load_id)

    assert found == load.aborted()


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_refused_end_of_a_load_is_an_error_at_once(cluster: Cluster, is_commit: bool) -> None:
    load = cluster.begin()

    def refuse() -> None:
        raise MetadataAccessError("memory://", "refused")

    has_come = cluster.store.interrupt(refuse, "multi" if is_commit else "set")

    end = partial(cluster.commit if is_commit else cluster.abort, load)

    with pytest.raises(MetadataAccessError):
        end()

    assert has_come()
    assert cluster.pauses_s == []
    assert cluster.state(load) is LoadState.OPEN


def test_a_drop_whose_reply_was_lost_is_known_to_be_made(cluster: Cluster) -> None:
    """Its caller goes on to delete the ledgers."""
    load = cluster.begin()
    cluster.store.lose_next_reply()

    assert cluster.sets.drop(NAME).data_set_id == load.data_set_id
    assert cluster.others.list() == []


def test_a_drop_whose_reply_was_lost_spares_the_next_of_that_name(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.lose_next_reply()
    sets = DataSetStore(cluster.store, pause=lambda _s: cluster.others.create(NAME, 1))

    assert sets.drop(NAME).data_set_id == load.data_set_id
    assert cluster.others.read(NAME)[0].data_set_id != load.data_set_id


def test_a_dropped_version_whose_reply_was_lost_is_gone_and_no_error(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.commit(cluster.begin())
    cluster.store.lose_next_reply()

    left = cluster.sets.drop_version(NAME, 2)

    assert [one.version for one in left.versions] == [1, 3]
    assert cluster.versions() == left.versions


def test_a_forgotten_load_whose_reply_was_lost_may_be_forgotten_again(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.lose_next_reply()

    with pytest.raises(MetadataUnavailableError):
        cluster.sets.forget_load(NAME, load.data_set_id, load.load_id)
    cluster.sets.forget_load(NAME, load.data_set_id, load.load_id)

    assert cluster.state(load) is None


# ------------------------------------------------------------------ others are quicker


def test_a_drop_that_a_commit_overtakes_drops_that_version_too(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.interrupt(lambda: cluster.commit_other(load), "multi")

    assert [one.load_id for one in cluster.sets.drop(NAME).versions] == [load.load_id]


def test_a_commit_that_a_drop_overtakes_is_an_error(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.others.drop(NAME)

    with pytest.raises(NoSuchDataSetError):
        cluster.commit(load)


def test_a_commit_that_an_abort_overtakes_after_it_was_read_is_refused(cluster: Cluster) -> None:
    load = cluster.begin()
    cluster.store.interrupt(
        lambda: cluster.others.abort(NAME, load.data_set_id, load.load_id), "multi"
    )

    with pytest.raises(LoadAbortedError):
        cluster.commit(load)
    assert cluster.versions() == ()


def test_endless_conflicts_end(cluster: Cluster) -> None:
    load = cluster.begin()
    path = data_set_list_path(NAME, load.data_set_id)

    def touch() -> None:
        node = cluster.other_store.get(path)
        cluster.other_store.set(path, node.value, node.version)

    cluster.store.interrupt(touch, "multi", count=ATTEMPT_COUNT_MAX)

    with pytest.raises(MetadataConflictError):
        cluster.commit(load)
    assert cluster.state(load) is LoadState.OPEN
    assert len(cluster.pauses_s) >= ATTEMPT_COUNT_MAX


def test_more_loads_than_one_step_can_remove_are_dropped_if_they_have_ended(
    cluster: Cluster,
) -> None:
    for _ in range(OPERATION_COUNT_MAX + 4):
        load = cluster.begin()
        cluster.sets.abort(NAME, load.data_set_id, load.load_id)
    cluster.begin()

    cluster.sets.drop(NAME)

    assert cluster.others.list() == []


def test_too_many_live_loads_are_not_dropped(cluster: Cluster) -> None:
    for _ in range(DROP_LOAD_COUNT_MAX + 1):
        cluster.begin()

    with pytest.raises(BusyError, match=f"{DROP_LOAD_COUNT_MAX + 1} loads are open"):
        cluster.sets.drop(NAME)


# ------------------------------------------------------------------ damage, names


def test_what_is_another_one_s_is_damage(cluster: Cluster) -> None:
    load = cluster.begin()
    data_set, version = cluster.sets.read(NAME)
    wrong_load = Load(
        load_id="0" * 32, data_set_id=load.data_set_id, kind=LoadKind.APPEND, base_version=0,
        first_ledger_id=0, started_ms=0, expires_ms=0, who="",
    )  # fmt: skip
    cluster.store.set(load_path(NAME, load.data_set_id, load.load_id), encode(wrong_load), 0)

    with pytest.raises(CorruptRecordError):
        cluster.sets.read_load(NAME, load.data_set_id, load.load_id)

    wrong = DataSet(name="other", data_set_id=data_set.data_set_id, created_ms=0)
    cluster.store.set(data_set_list_path(NAME, data_set.data_set_id), encode(wrong), version)

    with pytest.raises(CorruptRecordError):
        cluster.sets.read(NAME)


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "-a", "a b", "x" * 129, "\xe4"])
def test_a_name_that_can_be_no_node_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(InvalidOptionError):
        cluster.sets.create(name, 0)


def test_a_name_is_the_name_of_a_node() -> None:
    assert data_set_path("orders.eu:1_2-3") == "/datasets/orders.eu:1_2-3"
    assert load_path("a", "b", "c") == "/datasets/a/b/c"
