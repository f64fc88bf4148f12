"""Reading versions over real metadata in memory: old ones, dropped ones and damaged manifests."""

import pytest

from tests.support.data_set_world import World, world
from tests.support.fake_data_sets import NAME, SCHEMA
from zbk.errors import CorruptRecordError, NoSuchVersionError
from zbk.protocol.dataset.dataset import LoadKind

__all__ = ["world"]


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
