"""What loads leave behind: an abort, a collection and a drop delete it, and nothing else ever."""

import pytest

from tests.support.data_set_janitor import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.client.dataset import ledgers as dataset_ledgers
from zbk.client.dataset.loads import TTL_MS
from zbk.errors import CorruptRecordError, NoSuchDataSetError
from zbk.protocol.dataset.dataset import LoadKind, LoadState

__all__ = ["world"]


# ------------------------------------------------------------------ abort


def test_an_abort_deletes_whatever_the_load_made_and_nothing_else(world: World) -> None:
    world.load()
    before = world.ledger_ids()
    ticket, neighbour = world.driver.begin(NAME), world.driver.begin("other")
    for attempt in range(3):
        write_ledger(world.driver, ticket, attempt=attempt)
    world.driver.create_ledger(ticket, partition=9, attempt=0)  # never closed
    other = write_ledger(world.driver, neighbour)

    aborted = world.janitor.abort(ticket)

    assert (aborted.state, aborted.deleted_count) == (LoadState.ABORTED, 4)
    assert world.ledger_ids() == before | {other.ledger_id}
    assert world.janitor.abort(ticket).deleted_count == 0
    assert world.readable() == [1]


def test_an_abort_looks_at_the_ledgers_since_its_begin_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.load(5)
    ticket = world.driver.begin(NAME)
    write_ledger(world.driver, ticket)

    world.driver.abort(ticket)
    assert world.clients[0].listed_count == 0

    monkeypatch.setattr(dataset_ledgers, "SPAN_COUNT_MAX", 0)  # as after very many ledgers
    ticket = world.driver.begin(NAME)
    write_ledger(world.driver, ticket)
    assert world.driver.abort(ticket).deleted_count == 1
    assert world.clients[0].listed_count == 1
    assert world.readable() == [5]


# ------------------------------------------------------------------ collect


def test_a_collection_finds_every_kind_of_leftover(world: World) -> None:
    """B32: and only what two looks, in this order, have found to be nobody's."""
    world.load(2, failed_count=1)
    dead, live = world.driver.begin(NAME, ttl_ms=5), world.driver.begin(NAME)
    for ticket in (dead, live):
        write_ledger(world.driver, ticket)
    world.load(1, LoadKind.OVERWRITE)
    world.janitor.drop_version(NAME, 1)
    world.clock.now_ms += 5

    would = world.janitor.collect(NAME, is_dry_run=True)
    assert world.state(dead) is LoadState.OPEN
    assert (would.deleted_count, would.aborted_count) == (0, 0)
    done = world.janitor.collect(NAME)

    assert would.leftover == done.leftover
    assert len(done.leftover) == 1 + 1 + 2 + 1, "failed, expired, two dropped and their manifest"
    assert (done.deleted_count, done.aborted_count, done.live_count) == (5, 1, 1)
    assert done.expired == (dead.load_id,)
    assert world.readable() == [1]
    assert world.state(live) is LoadState.OPEN
    again = world.janitor.collect(NAME)
    assert (again.leftover, again.expired) == ((), ())


def test_ended_loads_are_remembered_until_their_time_is_over(world: World) -> None:
    ticket = world.load()
    world.janitor.collect(NAME)
    assert world.state(ticket) is LoadState.COMMITTED
    world.clock.now_ms += TTL_MS

    world.janitor.collect(NAME)

    assert world.state(ticket) is None
    assert world.readable() == [1]


def test_a_late_task_of_a_forgotten_load_leaves_a_ledger_that_is_collected(world: World) -> None:
    dead = world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS
    world.janitor.begin(NAME)
    write_ledger(world.driver, dead)

    assert world.janitor.collect(NAME).deleted_count == 1
    assert world.ledger_ids() == set()


def test_a_collection_of_everything_finds_what_dropped_data_sets_left(world: World) -> None:
    """A driver was killed between the drop and the deletes; or a task came later."""
    world.load(2)
    world.clients[0].data_set_store.drop(NAME)
    world.load(1, failed_count=1)
    world.driver.begin("empty")
    before = world.ledger_ids()

    would = list(world.janitor.collect_all(is_dry_run=True))
    assert world.ledger_ids() == before
    done = list(world.janitor.collect_all())

    assert [one.leftover for one in would] == [one.leftover for one in done]
    assert [(one.name, one.is_dropped, one.deleted_count) for one in done] == [
        ("empty", False, 0), (NAME, False, 1), (NAME, True, 3),
    ]  # fmt: skip
    assert world.readable() == [1]


def test_a_collection_of_everything_goes_on_where_one_is_not_ours_to_look_into(
    world: World,
) -> None:
    secret = world.data_sets(b"secret")
    ticket = secret.begin("a-secret")
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket)])
    world.load(failed_count=1)

    found = {one.name: one for one in world.janitor.collect_all()}

    assert "password" in found["a-secret"].refused
    assert found["a-secret"].deleted_count == 0
    assert found[NAME].deleted_count == 1
    assert len(secret.read("a-secret").ledgers) == 1


def test_ledgers_that_are_of_no_data_set_are_never_touched(world: World) -> None:
    plain = world.clients[0].create_ledger(custom_metadata={"job": b"nightly"})
    odd = world.clients[0].create_ledger(
        custom_metadata={"zbk.dataset": b"x", "zbk.dataset.name": b"no/name", "zbk.load": b"y"}
    )
    world.load()

    found = list(world.janitor.collect_all())

    assert {plain.ledger_id, odd.ledger_id} <= world.ledger_ids()
    assert [bool(one.refused) for one in found] == [False, True]
    world.driver.drop(NAME)
    assert world.ledger_ids() == {plain.ledger_id, odd.ledger_id}


def test_a_manifest_that_cannot_be_read_means_that_nothing_is_deleted(world: World) -> None:
    """B32: what is listed is not known, so nothing is known to be unlisted."""
    world.load(failed_count=1)
    current = world.janitor.history(NAME).current
    assert current is not None
    world.payloads[current.manifests[0]][1] = b"damage"
    before = world.ledger_ids()

    with pytest.raises(CorruptRecordError):
        world.janitor.collect(NAME)

    world.clients[0].delete_ledger(current.manifests[0])
    with pytest.raises(CorruptRecordError, match="a manifest is gone"):
        world.janitor.collect(NAME)
    assert world.ledger_ids() == before - {current.manifests[0]}


# ------------------------------------------------------------------ drop


def test_a_dropped_data_set_is_gone_with_all_its_ledgers(world: World) -> None:
    world.load(2, failed_count=1)
    write_ledger(world.driver, world.driver.begin(NAME))
    other = world.driver.begin("other")
    kept = write_ledger(world.driver, other)

    assert world.janitor.drop(NAME) == 5

    assert world.ledger_ids() == {kept.ledger_id}
    for call in (world.janitor.collect, world.janitor.drop, world.janitor.read):
        with pytest.raises(NoSuchDataSetError):
            call(NAME)


def test_a_data_set_made_anew_under_the_name_is_not_touched_by_what_is_left_of_the_old(
    world: World,
) -> None:
    old = world.load(1)
    world.driver.drop(NAME)
    late = write_ledger(world.driver, old)
    world.load(2)

    assert world.janitor.collect(NAME).leftover == ()
    assert late.ledger_id in world.ledger_ids()
    assert world.janitor.abort(old).state is None
    deleted = [one.deleted_count for one in world.janitor.collect_all()]
    assert deleted == [0, 1]
    assert world.readable() == [2]
