"""Data sets, on every body of the metadata port."""

import threading
from contextlib import suppress
from functools import partial
from uuid import uuid4

import pytest

from tests.support.at_once import run_at_once
from tests.support.metadata_bodies import Body
from zbk.errors import (
    DataSetConflictError,
    LoadAbortedError,
    NoSuchDataSetError,
    NoSuchVersionError,
)
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.dataset.dataset import Contents, DataSet, Load, LoadKind, LoadState, new_load_id

NAME = "events"
RACE_COUNT = 150


@pytest.fixture
def sets(store: MetadataStore) -> DataSetStore:
    initialise(store)
    found = DataSetStore(store)
    found.create(NAME, 7)
    return found


@pytest.fixture
def others(other: MetadataStore, sets: DataSetStore) -> DataSetStore:
    assert sets.list() == [NAME]
    return DataSetStore(other)


def begin(sets: DataSetStore, kind: LoadKind = LoadKind.APPEND, *, stream: str = "") -> Load:
    data_set, _ = sets.read(NAME)
    load = Load(
        load_id=new_load_id(100, uuid4().hex),
        data_set_id=data_set.data_set_id,
        kind=kind,
        base_version=data_set.current_version,
        first_ledger_id=0,
        started_ms=0,
        expires_ms=100,
        who="me",
        stream=stream,
        batch_id=0 if stream else -1,
    )
    sets.begin(NAME, load)
    return load


def commit(sets: DataSetStore, load: Load, manifest: int = 5) -> DataSet:
    contents = Contents(
        manifest=manifest, schema_hash="s", password_check="p", ledger_count=1, row_count=1, size=1
    )
    merged = None
    while True:
        found = sets.commit(
            NAME, load.data_set_id, load.load_id, load.base_version, contents, 7, merged
        )
        if found is not None:
            return found[0]
        merged = sets.read(NAME)[0].current  # as if ``manifest`` listed all of it


def state_of(sets: DataSetStore, load: Load) -> LoadState | None:
    found = sets.read_load(NAME, load.data_set_id, load.load_id)
    return None if found is None else found[0].state


def test_a_data_set_is_made_once_and_found_by_all(sets: DataSetStore, others: DataSetStore) -> None:
    others.create(NAME, 8)

    found, version = others.read(NAME)
    assert (found.name, found.created_ms, found.versions, version) == (NAME, 7, (), 0)
    assert sets.read(NAME) == (found, version)
    assert sets.list() == others.list() == [NAME]


def test_a_commit_is_seen_by_all_and_made_once(sets: DataSetStore, others: DataSetStore) -> None:
    load = begin(sets)
    assert others.committed(NAME, load.data_set_id, load.load_id, 0) is None

    data_set = commit(sets, load)

    assert data_set.current_version == 1
    assert others.read(NAME)[0] == data_set
    assert others.committed(NAME, load.data_set_id, load.load_id, 0) == data_set
    assert commit(others, load, manifest=6) == data_set
    aborted = others.abort(NAME, load.data_set_id, load.load_id)
    assert aborted is not None
    assert (aborted.state, aborted.manifest) == (LoadState.COMMITTED, 5)
    assert sets.read(NAME)[0] == data_set


def test_an_aborted_load_is_never_committed(sets: DataSetStore, others: DataSetStore) -> None:
    load = begin(sets)

    aborted = others.abort(NAME, load.data_set_id, load.load_id)

    assert aborted == load.aborted()
    with pytest.raises(LoadAbortedError):
        commit(sets, load)
    with pytest.raises(LoadAbortedError):
        sets.committed(NAME, load.data_set_id, load.load_id, 0)
    assert sets.read(NAME)[0].versions == ()


def test_of_commit_and_abort_exactly_one_happens(body: Body, sets: DataSetStore) -> None:
    """Nobody is told of a commit that an abort has undone, nor the other way round."""
    driver, janitor = DataSetStore(body.open()), DataSetStore(body.open())
    committed_count = 0
    for _ in range(RACE_COUNT):
        load = begin(sets)
        said: dict[str, bool] = {}

        def try_commit(load: Load = load, said: dict[str, bool] = said) -> None:
            try:
                commit(driver, load)
            except LoadAbortedError:
                said["commit"] = False
            else:
                said["commit"] = True

        def try_abort(load: Load = load, said: dict[str, bool] = said) -> None:
            found = janitor.abort(NAME, load.data_set_id, load.load_id)
            assert found is not None
            said["abort"] = found.state is LoadState.ABORTED

        run_at_once([try_commit, try_abort])

        assert said["commit"] is not said["abort"]
        state = LoadState.COMMITTED if said["commit"] else LoadState.ABORTED
        assert state_of(sets, load) is state
        assert sets.read(NAME)[0].versions[-1:] == () or (
            (sets.read(NAME)[0].versions[-1].load_id == load.load_id) is said["commit"]
        )
        committed_count += said["commit"]
    assert sets.read(NAME)[0].next_version == committed_count + 1


def test_appends_at_once_all_become_versions(body: Body, sets: DataSetStore) -> None:
    def append(own: DataSetStore, writer: int) -> None:
        for number in range(5):
            commit(own, begin(own), manifest=100 * writer + number)

    run_at_once([partial(append, DataSetStore(body.open()), n) for n in range(4)])

    data_set, _ = sets.read(NAME)
    assert [one.version for one in data_set.versions] == list(range(1, 21))
    last = data_set.versions[-1]
    assert sorted(last.manifests) == sorted(100 * w + n for w in range(4) for n in range(5))
    assert last.row_count == 20


def test_of_overwrites_at_once_one_is_committed(body: Body, sets: DataSetStore) -> None:
    loads = [begin(sets, LoadKind.OVERWRITE) for _ in range(4)]
    won: list[str] = []
    lock = threading.Lock()

    def overwrite(own: DataSetStore, load: Load) -> None:
        try:
            commit(own, load)
        except DataSetConflictError:
            return
        with lock:
            won.append(load.load_id)

    run_at_once([partial(overwrite, DataSetStore(body.open()), load) for load in loads])

    assert [one.load_id for one in sets.read(NAME)[0].versions] == won
    assert len(won) == 1


def test_an_overwrite_never_hides_an_append_that_it_did_not_see(
    body: Body, sets: DataSetStore
) -> None:
    one, two = DataSetStore(body.open()), DataSetStore(body.open())
    commit(sets, begin(sets))
    for number in range(20):
        base = sets.read(NAME)[0].current_version
        append, overwrite = begin(sets), begin(sets, LoadKind.OVERWRITE)
        done: list[LoadKind] = []

        def run(own: DataSetStore, load: Load, done: list[LoadKind] = done) -> None:
            try:
                commit(own, load, manifest=1000)
            except DataSetConflictError:
                return
            done.append(load.kind)

        run_at_once([partial(run, one, append), partial(run, two, overwrite)])

        kinds = [v.kind for v in sets.read(NAME)[0].versions if v.version > base]
        assert kinds in ([LoadKind.APPEND], [LoadKind.OVERWRITE, LoadKind.APPEND]), number
        assert sorted(kinds) == sorted(done)


def test_a_batch_that_two_loads_bring_is_committed_once(body: Body, sets: DataSetStore) -> None:
    loads = [begin(sets, stream="s") for _ in range(4)]

    def bring(own: DataSetStore, load: Load) -> None:
        assert commit(own, load).batch_by_stream == {"s": 0}

    run_at_once([partial(bring, DataSetStore(body.open()), load) for load in loads])

    assert len(sets.read(NAME)[0].versions) == 1
    states = sorted(str(state_of(sets, load)) for load in loads)
    assert states == ["ABORTED", "ABORTED", "ABORTED", "COMMITTED"]


def test_versions_can_go_and_the_last_one_stays(sets: DataSetStore, others: DataSetStore) -> None:
    for number in range(3):
        commit(sets, begin(sets), manifest=number)

    assert [one.version for one in others.drop_version(NAME, 2).versions] == [1, 3]

    with pytest.raises(NoSuchVersionError):
        sets.drop_version(NAME, 2)
    with pytest.raises(DataSetConflictError):
        sets.drop_version(NAME, 3)
    assert [one.version for one in sets.read(NAME)[0].versions] == [1, 3]


def test_a_dropped_data_set_is_gone_with_its_loads(
    sets: DataSetStore, others: DataSetStore
) -> None:
    ended, live = begin(sets), begin(sets)
    commit(sets, ended)
    old = sets.read(NAME)[0]

    assert others.drop(NAME) == old

    for call in (
        lambda: sets.read(NAME),
        lambda: sets.drop(NAME),
        lambda: sets.drop_version(NAME, 1),
        lambda: sets.loads(NAME, old.data_set_id),
        lambda: sets.begin(NAME, live),
        lambda: commit(sets, live),
    ):
        with pytest.raises(NoSuchDataSetError):
            call()
    assert sets.abort(NAME, old.data_set_id, live.load_id) is None
    assert sets.list() == []


def test_a_load_of_a_dropped_data_set_never_gets_into_a_new_one(
    sets: DataSetStore, others: DataSetStore
) -> None:
    load = begin(sets)
    others.drop(NAME)
    others.create(NAME, 8)

    with pytest.raises(NoSuchDataSetError):
        commit(sets, load)
    assert sets.abort(NAME, load.data_set_id, load.load_id) is None
    assert sets.read(NAME)[0].versions == ()
    assert sets.read(NAME)[0].data_set_id != load.data_set_id


def test_a_drop_and_commits_at_once_leave_all_or_nothing(body: Body, sets: DataSetStore) -> None:
    one, two = DataSetStore(body.open()), DataSetStore(body.open())
    for _ in range(20):
        one.create(NAME, 0)
        load = begin(one)
        outcome: list[DataSet] = []

        def run(load: Load = load, outcome: list[DataSet] = outcome) -> None:
            with suppress(NoSuchDataSetError):
                outcome.append(commit(one, load))

        def drop(outcome: list[DataSet] = outcome) -> None:
            outcome.append(two.drop(NAME))

        run_at_once([run, drop])

        assert sets.list() == []
        dropped = outcome[0] if len(outcome) == 1 else max(outcome, key=lambda d: d.next_version)
        assert dropped.data_set_id == load.data_set_id


def test_loads_are_known_until_they_are_forgotten(sets: DataSetStore, others: DataSetStore) -> None:
    loads = [begin(sets) for _ in range(3)]
    commit(sets, loads[0])
    sets.abort(NAME, loads[1].data_set_id, loads[1].load_id)
    assert others.load_ids(NAME, loads[0].data_set_id) == sorted(one.load_id for one in loads)

    for load in loads[:2]:
        others.forget_load(NAME, load.data_set_id, load.load_id)
        others.forget_load(NAME, load.data_set_id, load.load_id)  # twice is fine

    assert sets.loads(NAME, loads[2].data_set_id) == {loads[2].load_id: loads[2]}
    assert commit(sets, loads[0]) == sets.read(NAME)[0], "its version tells that it was committed"
    with pytest.raises(LoadAbortedError):
        commit(sets, loads[1])
