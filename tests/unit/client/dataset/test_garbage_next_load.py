"""The next load deletes what loads before it left, and forgets those that ended."""

import pytest

from tests.support.data_set_janitor import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.client.dataset.garbage import LOOK_COUNT_MAX, SETTLE_COUNT_MAX
from zbk.client.dataset.loads import TTL_MS
from zbk.errors import BusyError, LoadAbortedError, UnauthorizedError
from zbk.protocol.dataset.dataset import LOAD_COUNT_MAX, REMEMBERED_COUNT, LoadKind, LoadState

__all__ = ["world"]


def test_the_next_load_deletes_what_an_expired_one_left(world: World) -> None:
    """A driver was killed: nobody aborts its load, and nobody but the next driver comes by."""
    world.load()
    before = world.ledger_ids()
    dead = world.driver.begin(NAME)
    write_ledger(world.driver, dead)
    world.clock.now_ms += TTL_MS - 1
    world.janitor.begin(NAME)
    assert world.state(dead) is LoadState.OPEN
    world.clock.now_ms += 1

    world.janitor.begin(NAME)

    assert world.ledger_ids() == before
    assert world.state(dead) is None
    with pytest.raises(LoadAbortedError):
        world.driver.commit(dead, SCHEMA, [])


def test_the_next_load_deletes_failed_attempts_of_those_before_it(world: World) -> None:
    ticket = world.load(2, failed_count=3)
    assert len(world.ledger_ids()) == 6
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME)

    assert len(world.ledger_ids()) == 3
    assert world.readable() == [2]
    assert world.state(ticket) is None
    assert world.driver.commit(ticket, SCHEMA, []).current_version == 1, "its version tells"


def test_a_load_costs_no_look_at_any_ledger_while_nothing_is_due(world: World) -> None:
    for _ in range(5):
        world.load(failed_count=1)

    world.janitor.begin(NAME)

    assert world.clients[1].looked == []
    assert world.clients[1].listed_count == 0


def test_a_load_settles_a_bounded_number_of_others(world: World) -> None:
    for _ in range(SETTLE_COUNT_MAX + 3):
        world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME)
    assert len(world.janitor.loads(NAME)) == 3 + 1
    world.janitor.begin(NAME)
    assert len(world.janitor.loads(NAME)) == 2


def test_where_very_many_loads_are_known_those_that_ended_are_forgotten_early(
    world: World,
) -> None:
    live = world.driver.begin(NAME, ttl_ms=TTL_MS - 1)  # the first one to be looked at
    for _ in range(REMEMBERED_COUNT + 2 * SETTLE_COUNT_MAX):
        world.load(0, LoadKind.OVERWRITE)

    known = world.janitor.loads(NAME)

    assert len(known) <= REMEMBERED_COUNT + SETTLE_COUNT_MAX
    assert known[live.load_id].state is LoadState.OPEN


def test_live_loads_do_not_keep_those_that_ended_from_being_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed drivers leave loads that are OPEN until their time is over."""
    monkeypatch.setattr("zbk.client.dataset.garbage.REMEMBERED_COUNT", LOOK_COUNT_MAX)
    live = [world.driver.begin(NAME, ttl_ms=TTL_MS - 1) for _ in range(2 * LOOK_COUNT_MAX)]
    for _ in range(3 * LOOK_COUNT_MAX):
        world.load(0, LoadKind.OVERWRITE)

    known = world.janitor.loads(NAME)

    assert len(known) <= len(live) + LOOK_COUNT_MAX + SETTLE_COUNT_MAX
    assert all(known[one.load_id].state is LoadState.OPEN for one in live)


def test_too_many_live_loads_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOAD_COUNT_MAX > LOOK_COUNT_MAX
    monkeypatch.setattr("zbk.client.dataset.datasets.LOAD_COUNT_MAX", 3)
    for _ in range(3):
        world.driver.begin(NAME)

    with pytest.raises(BusyError, match="3 loads are known"):
        world.driver.begin(NAME)


def test_a_load_begins_though_an_expired_one_cannot_be_settled(world: World) -> None:
    dead = world.driver.begin(NAME)
    world.clock.now_ms += TTL_MS
    world.stores[1].interrupt(world.stores[1].fail_next, "get", dead.load_id)

    world.janitor.begin(NAME)

    assert world.state(dead) is LoadState.OPEN


def test_a_load_begins_though_an_expired_batch_cannot_be_looked_into(world: World) -> None:
    """There are versions with two passwords, and manifests tell what a batch has listed."""
    secret = world.data_sets(b"secret")
    ticket = secret.begin(NAME)
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket)])
    ticket = world.driver.begin(NAME, LoadKind.OVERWRITE)
    world.driver.commit(ticket, SCHEMA, [write_ledger(world.driver, ticket)])
    batch = world.driver.begin(NAME, stream="s", batch_id=0, ttl_ms=1)
    write_ledger(world.driver, batch)
    behind = world.driver.begin(NAME, ttl_ms=2)
    world.clock.now_ms += 2

    world.janitor.begin(NAME)

    assert world.state(batch) is LoadState.ABORTED, "its ledger stays until somebody can look"
    assert world.state(behind) is None
    secret.drop_version(NAME, 1)
    assert world.janitor.collect(NAME).deleted_count == 1 + 2


def test_failed_attempts_of_a_load_with_another_password_wait_for_a_collection(
    world: World,
) -> None:
    secret = world.data_sets(b"secret")
    ticket = secret.begin(NAME)
    write_ledger(secret, ticket)
    secret.commit(ticket, SCHEMA, [write_ledger(secret, ticket, attempt=1)])
    world.clock.now_ms += TTL_MS

    world.janitor.begin(NAME, LoadKind.OVERWRITE)

    assert len(world.ledger_ids()) == 3
    with pytest.raises(UnauthorizedError):
        world.janitor.collect(NAME)
    assert secret.collect(NAME).deleted_count == 1
    assert len(secret.read(NAME).ledgers) == 1
