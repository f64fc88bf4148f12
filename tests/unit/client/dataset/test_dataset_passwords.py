"""Passwords of data sets: a reader of a version and a load that appends to it need its own."""

import pytest

from tests.support.data_set_world import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.errors import DataSetConflictError, InvalidOptionError, UnauthorizedError
from zbk.protocol.dataset.dataset import LoadKind

__all__ = ["world"]


def test_a_mac_takes_the_password_of_the_data_set(world: World) -> None:
    sets = world.client.data_sets(world.clock, b"secret")

    sets.check_options(digest_type="MAC")
    ticket = sets.begin(NAME)
    with sets.create_ledger(ticket, partition=0, attempt=0, digest_type="MAC") as ledger:
        made = world.client.get_ledger_metadata(ledger.ledger_id)
    assert made.digest_type == "MAC"


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
