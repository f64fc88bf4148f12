"""How a load begins over real metadata in memory, and the ledgers that it makes."""

import pytest

from tests.support.data_set_world import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, write_ledger
from zbk.client.dataset.ledgers import DATA_SET_TAG, LOAD_TAG, NAME_TAG
from zbk.errors import InvalidOptionError, InvalidQuorumError, NoSuchVersionError
from zbk.protocol.dataset.dataset import TEXT_SIZE_MAX, LoadState

__all__ = ["world"]


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
