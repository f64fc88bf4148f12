"""Commits over real metadata in memory, what gets in their way, and the manifests they write."""

import pytest

from tests.support.data_set_world import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.client.dataset.datasets import LoadTicket
from zbk.errors import (
    DataSetConflictError,
    InvalidOptionError,
    LoadAbortedError,
    MetadataUnavailableError,
    NoSuchDataSetError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
)
from zbk.protocol.dataset.dataset import MANIFEST_COUNT_MAX, DataSet, LoadKind, LoadState
from zbk.protocol.dataset.manifest import DataLedger

__all__ = ["world"]


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
