"""DataSets over real metadata in memory: loads, commits, reading, and what goes wrong between."""

from collections.abc import Iterator

import pytest

from tests.support.fake_data_sets import SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.client.dataset.ledgers import DATA_SET_TAG, LOAD_TAG, NAME_TAG
from zbk.errors import (
    CorruptRecordError,
    DataSetConflictError,
    InvalidOptionError,
    InvalidQuorumError,
    LoadAbortedError,
    MetadataUnavailableError,
    NoSuchDataSetError,
    NoSuchLedgerError,
    NoSuchVersionError,
    NotEnoughBookiesError,
    UnauthorizedError,
)
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import (
    MANIFEST_COUNT_MAX,
    TEXT_SIZE_MAX,
    DataSet,
    LoadKind,
    LoadState,
)
from zbk.protocol.dataset.manifest import DataLedger

NAME = "events"


class World:
    """A tree in memory, a driver, and others who work on the same data sets."""

    def __init__(self) -> None:
        self.tree = MemoryTree("data sets")
        self.store = HookedStore(self.tree)  # the driver's
        self.other_store = self.tree.open_session()
        initialise(self.other_store)
        self.payloads: dict[int, list[bytes]] = {}
        self.clock = Clock()
        self.client = FakeDataSetClient(self.store, self.payloads)
        self.other_client = FakeDataSetClient(self.other_store, self.payloads)
        self.sets = self.client.data_sets(self.clock)
        self.others = self.other_client.data_sets(self.clock)

    def load(
        self, ledger_count: int = 1, kind: LoadKind = LoadKind.APPEND, sets: DataSets | None = None
    ) -> DataSet:
        """Load so many ledgers, a row each; return the data set afterwards."""
        by = sets or self.others
        ticket = by.begin(NAME, kind)
        ledgers = [write_ledger(by, ticket, partition=n) for n in range(ledger_count)]
        return by.commit(ticket, SCHEMA, ledgers)

    def ledger_ids(self) -> set[int]:
        return self.other_client.ledger_ids()

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


# ------------------------------------------------------------------ begin


def test_a_load_is_visible_as_a_whole_and_only_then(world: World) -> None:
    ticket = world.sets.begin(NAME, who="me")
    ledgers = [write_ledger(world.sets, ticket, 3, partition=n) for n in range(2)]
    with pytest.raises(NoSuchVersionError):
        world.others.read(NAME)

    data_set = world.sets.commit(ticket, SCHEMA, ledgers)

    snapshot = world.others.read(NAME)
    assert (snapshot.schema, snapshot.ledgers) == (SCHEMA, tuple(ledgers))
    assert snapshot.version == data_set.current
    assert (snapshot.version.row_count, snapshot.version.who) == (6, "me")
    assert world.others.list() == [NAME]


def test_each_ledger_says_whose_it_is(world: World) -> None:
    ticket = world.sets.begin(NAME)
    with world.sets.create_ledger(
        ticket, partition=3, attempt=1, custom_metadata={"mine": b"1", LOAD_TAG: b"forged"}
    ) as ledger:
        ledger.append(b"x")

    tags = world.client.get_ledger_metadata(ledger.ledger_id).custom_metadata
    assert tags == {
        DATA_SET_TAG: ticket.data_set_id.encode(), NAME_TAG: NAME.encode(),
        LOAD_TAG: ticket.load_id.encode(), "zbk.partition": b"3", "zbk.attempt": b"1",
        "mine": b"1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"who": "x" * (TEXT_SIZE_MAX + 1)},
        {"stream": "\xe4" * TEXT_SIZE_MAX, "batch_id": 1},
        {"ttl_ms": 0},
        {"stream": "s"},
        {"batch_id": 1},
    ],
)
def test_impossible_loads_are_refused(world: World, options: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        world.sets.begin(NAME, **options)  # type: ignore[arg-type]  # wrong on purpose
    assert world.sets.list() == []


def test_options_of_ledgers_are_checked_before_any_is_made(world: World) -> None:
    world.sets.check_options(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
    with pytest.raises(InvalidQuorumError):
        world.sets.check_options(ensemble_size=1)
    with pytest.raises(InvalidOptionError, match="needs a password"):
        world.sets.check_options(digest_type="MAC")


def test_a_mac_takes_the_password_of_the_data_set(world: World) -> None:
    sets = world.client.data_sets(world.clock, b"secret")

    sets.check_options(digest_type="MAC")
    ticket = sets.begin(NAME)
    with sets.create_ledger(ticket, partition=0, attempt=0, digest_type="MAC") as ledger:
        made = world.client.get_ledger_metadata(ledger.ledger_id)
    assert made.digest_type == "MAC"


def test_a_begin_whose_data_set_is_dropped_meanwhile_makes_it_anew(world: World) -> None:
    world.load()
    old = world.sets.history(NAME)

    for operation in ("children", "create"):
        world.store.interrupt(lambda: world.others.drop(NAME), operation, old.data_set_id)
        ticket = world.sets.begin(NAME)
        assert ticket.data_set_id != old.data_set_id
        assert (ticket.base_version, world.sets.history(NAME).versions) == (0, ())
        old = world.sets.history(NAME)


def test_a_begin_whose_reply_was_lost_goes_on(world: World) -> None:
    world.load()
    world.store.lose_next_reply()

    ticket = world.sets.begin(NAME)

    assert [one.state for one in world.others.loads(NAME).values()].count(LoadState.OPEN) == 1
    assert ticket.load_id in world.others.loads(NAME)


# ------------------------------------------------------------------ commit


def test_commit_twice_is_once(world: World) -> None:
    ticket = world.sets.begin(NAME)
    ledgers = [write_ledger(world.sets, ticket)]
    first = world.sets.commit(ticket, SCHEMA, ledgers)
    before = world.ledger_ids()

    again = world.others.commit(ticket, SCHEMA, ledgers)

    assert again == first
    assert world.ledger_ids() == before, "no manifest is written for nothing"


def test_an_empty_load_is_a_version_with_a_schema(world: World) -> None:
    data_set = world.load(0)

    snapshot = world.others.read(NAME)
    assert (snapshot.schema, snapshot.ledgers) == (SCHEMA, ())
    assert data_set.current is not None
    assert data_set.current.row_count == 0


def test_two_drivers_append_at_once_and_both_are_seen(world: World) -> None:
    one, two = world.sets.begin(NAME), world.others.begin(NAME)
    a, b = write_ledger(world.sets, one), write_ledger(world.others, two)

    world.others.commit(two, SCHEMA, [b])
    world.sets.commit(one, SCHEMA, [a])

    assert [found.ledger_id for found in world.sets.read(NAME).ledgers] == [
        b.ledger_id, a.ledger_id,
    ]  # fmt: skip


def test_an_overwrite_that_was_overtaken_is_a_conflict_and_leaves_no_manifest(
    world: World,
) -> None:
    world.load()
    ticket = world.sets.begin(NAME, LoadKind.OVERWRITE)
    ledger = write_ledger(world.sets, ticket)
    world.load()
    before = world.ledger_ids()

    with pytest.raises(DataSetConflictError):
        world.sets.commit(ticket, SCHEMA, [ledger])

    assert world.ledger_ids() == before
    assert world.sets.abort(ticket).deleted_count == 1
    assert len(world.sets.read(NAME).ledgers) == 2


def test_an_append_of_another_schema_is_a_conflict_and_leaves_no_manifest(world: World) -> None:
    world.load()
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)
    before = world.ledger_ids()

    with pytest.raises(DataSetConflictError, match="another schema"):
        world.sets.commit(ticket, b"another", [ledger])

    assert world.ledger_ids() == before


def test_a_commit_after_an_abort_is_refused_and_leaves_nothing(world: World) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)

    assert world.others.abort(ticket).deleted_count == 1

    with pytest.raises(LoadAbortedError):
        world.sets.commit(ticket, SCHEMA, [ledger])
    assert world.ledger_ids() == set()


def test_a_commit_that_an_abort_overtakes_after_the_manifest_leaves_no_manifest(
    world: World,
) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)
    world.store.interrupt(lambda: world.others.abort(ticket), "multi", ticket.load_id)

    with pytest.raises(LoadAbortedError):
        world.sets.commit(ticket, SCHEMA, [ledger])
    assert world.ledger_ids() == set()


def test_an_abort_after_a_commit_deletes_nothing(world: World) -> None:
    """Spark aborts after a commit that raised, though it may have been made."""
    ticket = world.sets.begin(NAME)
    world.sets.commit(ticket, SCHEMA, [write_ledger(world.sets, ticket)])
    before = world.ledger_ids()

    aborted = world.others.abort(ticket)

    assert (aborted.state, aborted.deleted_count) == (LoadState.COMMITTED, 0)
    assert world.ledger_ids() == before
    assert len(world.sets.read(NAME).ledgers) == 1


def test_a_commit_of_which_nobody_knows_keeps_all_until_it_is_known(world: World) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)

    def lose() -> None:
        world.store.lose_next_reply()
        world.store.interrupt(world.store.fail_next, "get", ticket.load_id)  # and reading it back

    world.store.interrupt(lose, "multi", ticket.load_id)
    with pytest.raises(MetadataUnavailableError):
        world.sets.commit(ticket, SCHEMA, [ledger])

    assert world.others.abort(ticket).deleted_count == 0
    assert world.sets.commit(ticket, SCHEMA, [ledger]).current_version == 1
    assert len(world.others.read(NAME).ledgers) == 1


def test_a_commit_to_a_dropped_data_set_says_so(world: World) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)

    assert world.others.drop(NAME) == 1

    with pytest.raises(NoSuchDataSetError):
        world.sets.commit(ticket, SCHEMA, [ledger])
    assert world.sets.abort(ticket).state is None
    assert world.ledger_ids() == set()


@pytest.mark.parametrize("problem", ["open", "foreign", "twice", "short"])
def test_a_ledger_that_is_not_as_it_should_be_is_not_committed(world: World, problem: str) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket, 2)
    ledgers = [ledger]
    match problem:
        case "open":
            writer = world.sets.create_ledger(ticket, partition=1, attempt=0)
            ledgers.append(_like(ledger, writer.ledger_id, 0))
        case "foreign":
            ledgers.append(write_ledger(world.sets, world.sets.begin(NAME)))
        case "twice":
            ledgers.append(ledger)
        case _:
            ledgers = [_like(ledger, ledger.ledger_id, 3)]

    with pytest.raises(InvalidOptionError, match="ledgers="):
        world.sets.commit(ticket, SCHEMA, ledgers)
    assert world.sets.history(NAME).versions == ()


def test_a_ledger_that_was_deleted_by_hand_is_not_committed(world: World) -> None:
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)
    world.client.delete_ledger(ledger.ledger_id)

    with pytest.raises(NoSuchLedgerError):
        world.sets.commit(ticket, SCHEMA, [ledger])


def test_a_batch_is_committed_once_and_what_the_other_load_wrote_goes(world: World) -> None:
    def bring(batch_id: int) -> tuple[LoadTicket, DataLedger, DataSet]:
        ticket = world.sets.begin(NAME, stream="s", batch_id=batch_id)
        ledger = write_ledger(world.sets, ticket)
        return ticket, ledger, world.sets.commit(ticket, SCHEMA, [ledger])

    bring(0)
    before = world.ledger_ids()
    ticket, ledger, data_set = bring(0)

    assert data_set.current_version == 1
    assert world.ledger_ids() == before
    assert world.sets.commit(ticket, SCHEMA, [ledger]) == data_set, "and it stays so"
    assert bring(1)[2].current_version == 2


# ------------------------------------------------------------------ manifests


def test_many_appends_are_merged_and_nothing_is_lost_or_there_twice(world: World) -> None:
    for _ in range(2 * MANIFEST_COUNT_MAX + 5):
        world.load(sets=world.sets)

    snapshot = world.others.read(NAME)
    ids = [one.ledger_id for one in snapshot.ledgers]
    assert ids == sorted(set(ids))
    assert len(ids) == 2 * MANIFEST_COUNT_MAX + 5 == snapshot.version.row_count
    assert (
        max(len(one.manifests) for one in world.sets.history(NAME).versions) == MANIFEST_COUNT_MAX
    )
    assert len(world.others.read(NAME, 3).ledgers) == 3


def test_a_merge_that_others_overtake_is_made_again(world: World) -> None:
    for _ in range(MANIFEST_COUNT_MAX):
        world.load()
    ticket = world.sets.begin(NAME)
    ledger = write_ledger(world.sets, ticket)
    world.store.interrupt(world.load, "multi", ticket.load_id, count=3)  # the first one merges

    world.sets.commit(ticket, SCHEMA, [ledger])

    snapshot = world.others.read(NAME)
    assert len(snapshot.ledgers) == len({one.ledger_id for one in snapshot.ledgers})
    assert len(snapshot.ledgers) == MANIFEST_COUNT_MAX + 4
    assert world.others.collect(NAME).leftover == ()


def test_a_manifest_fits_on_the_bookies_that_there_are(world: World) -> None:
    """A cluster of one bookie can be loaded into, with ledgers of one copy."""
    world.client.bookie_count = 1
    ticket = world.sets.begin(NAME)
    with world.sets.create_ledger(
        ticket, partition=0, attempt=0, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1,
        ledger_type="VD_JOURNAL",
    ) as writer:  # fmt: skip
        writer.append(b"x")
    ledger = _like(_sample(ticket), writer.ledger_id, 1)

    data_set = world.sets.commit(ticket, SCHEMA, [ledger])

    assert data_set.current is not None
    (manifest,) = data_set.current.manifests
    metadata = world.client.get_ledger_metadata(manifest)
    assert not metadata.ledger_type.is_volatile
    assert (metadata.write_quorum_size, metadata.ack_quorum_size) == (1, 1)
    world.client.bookie_count = 0
    with pytest.raises(NotEnoughBookiesError):
        world.sets.commit(world.sets.begin(NAME), SCHEMA, [])


# ------------------------------------------------------------------ reading


def test_old_versions_stay_readable_until_they_are_dropped(world: World) -> None:
    world.load(2)
    world.load(1, LoadKind.OVERWRITE)

    assert len(world.sets.read(NAME, 1).ledgers) == 2
    assert len(world.sets.read(NAME).ledgers) == 1

    world.sets.drop_version(NAME, 1)
    with pytest.raises(NoSuchVersionError):
        world.sets.read(NAME, 1)
    assert world.sets.collect(NAME).deleted_count == 3
    assert len(world.sets.read(NAME).ledgers) == 1


def test_a_version_that_is_dropped_while_it_is_read_is_said_to_be_gone(world: World) -> None:
    world.load()
    world.load(1, LoadKind.OVERWRITE)

    def drop() -> None:
        world.client.on_open = lambda: None
        world.others.drop_version(NAME, 1)
        world.others.collect(NAME)

    world.client.on_open = drop

    with pytest.raises(NoSuchVersionError):
        world.sets.read(NAME, 1)


def test_the_last_version_can_be_read_while_others_overwrite_and_drop_it(world: World) -> None:
    world.load()
    rounds = iter(range(3))

    def overwrite() -> None:
        if next(rounds, None) is not None:
            last = world.load(2, LoadKind.OVERWRITE).current_version
            world.others.drop_version(NAME, last - 1)
            world.others.collect(NAME)

    world.client.on_open = overwrite

    assert len(world.sets.read(NAME).ledgers) == 2


def test_a_manifest_that_was_deleted_by_hand_is_damage(world: World) -> None:
    current = world.load().current
    assert current is not None
    world.client.delete_ledger(current.manifests[0])

    with pytest.raises(CorruptRecordError, match="a manifest is gone"):
        world.sets.read(NAME)


def test_a_manifest_that_is_no_closed_ledger_or_another_one_s_is_damage(world: World) -> None:
    current = world.load().current
    assert current is not None
    (manifest,) = current.manifests
    payloads = world.payloads[manifest]
    world.payloads[manifest] = [b"x", *payloads[1:]]
    with pytest.raises(CorruptRecordError):
        world.sets.read(NAME)

    ticket = world.sets.begin("other")
    other = world.sets.commit(ticket, SCHEMA, []).current
    assert other is not None
    world.payloads[manifest] = world.payloads[other.manifests[0]] + payloads[1:]
    with pytest.raises(CorruptRecordError):
        world.sets.read(NAME)


def test_a_manifest_that_lists_fewer_ledgers_than_the_version_has_is_damage(world: World) -> None:
    first = world.load(1)
    current = world.load(2).current
    assert current is not None
    assert first.current is not None
    world.payloads[current.manifests[-1]] = world.payloads[first.current.manifests[0]]

    with pytest.raises(CorruptRecordError, match="list 2 ledgers"):
        world.sets.read(NAME)


# ------------------------------------------------------------------ passwords


def test_a_data_set_with_a_password_is_read_with_it_only(world: World) -> None:
    sets = world.client.data_sets(world.clock, b"secret")
    world.load(sets=sets)

    assert len(sets.read(NAME).ledgers) == 1
    with pytest.raises(UnauthorizedError):
        world.sets.read(NAME)
    assert world.sets.history(NAME).current_version == 1


def test_an_append_with_another_password_is_refused_before_any_data_moves(world: World) -> None:
    sets = world.client.data_sets(world.clock, b"secret")
    world.load(sets=sets)
    before = world.ledger_ids()

    with pytest.raises(DataSetConflictError, match="another password") as caught:
        world.sets.begin(NAME)

    assert "secret" not in str(caught.value)
    assert world.ledger_ids() == before


def test_of_two_first_loads_with_two_passwords_one_is_committed(world: World) -> None:
    sets = world.client.data_sets(world.clock, b"secret")
    one, two = sets.begin(NAME), world.others.begin(NAME)
    a, b = write_ledger(sets, one), write_ledger(world.others, two)
    sets.commit(one, SCHEMA, [a])

    with pytest.raises(DataSetConflictError, match="another password"):
        world.others.commit(two, SCHEMA, [b])
    assert len(sets.read(NAME).ledgers) == 1


def test_an_overwrite_may_change_the_password(world: World) -> None:
    world.load()
    sets = world.client.data_sets(world.clock, b"secret")

    world.load(2, LoadKind.OVERWRITE, sets)

    assert len(sets.read(NAME).ledgers) == 2
    assert len(world.sets.read(NAME, 1).ledgers) == 1


def test_a_single_ledger_has_no_password_of_its_own(world: World) -> None:
    ticket = world.sets.begin(NAME)

    with pytest.raises(InvalidOptionError) as caught:
        world.sets.create_ledger(ticket, partition=0, attempt=0, password=b"secret")
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------ private


def _sample(ticket: LoadTicket) -> DataLedger:
    return DataLedger(
        ledger_id=0, entry_count=1, row_count=1, size=1, load_id=ticket.load_id, partition=0,
        attempt=0,
    )  # fmt: skip


def _like(ledger: DataLedger, ledger_id: int, entry_count: int) -> DataLedger:
    return DataLedger(
        ledger_id=ledger_id, entry_count=entry_count, row_count=1, size=1,
        load_id=ledger.load_id, partition=1, attempt=0,
    )  # fmt: skip
