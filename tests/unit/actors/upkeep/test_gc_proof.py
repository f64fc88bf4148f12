"""The proof that a ledger was deleted: a metadata store that lies or fails costs no ledger."""

import msgspec
import pytest

from tests.support.garbage_collector import ENTRY_COUNT, GarbageWorld, no_hook, world
from tests.support.storage_actor import read
from zbk.metadata.paths import IDGEN, INSTANCEID, ledger_path
from zbk.metadata.values import IdCounter, Instance, LedgerLayout, encode
from zbk.protocol.ledger.metadata import Fragment
from zbk.wire.messages import ReadAnswer

__all__ = ["world"]


def test_an_empty_list_drops_nothing(world: GarbageWorld) -> None:
    """B32: not even what was deleted."""
    ids = world.create(3)
    world.delete(ids[0])
    world.hide()

    result = world.round()

    assert "lists no ledger at all" in result.gave_up
    assert world.local() == ids


def test_the_space_of_the_last_ledger_is_freed(world: GarbageWorld) -> None:
    ids = world.create(3)
    world.delete(*ids)

    result = world.round()

    assert (result.listed_count, result.dropped_count, result.gave_up) == (0, 3, "")
    assert world.local() == []


def test_ledgers_that_vanish_without_a_deletion_are_kept(world: GarbageWorld) -> None:
    """The list is empty, and so is the store; nothing says that this was wanted."""
    ids = world.create(2)
    for ledger_id in ids:
        world.store.delete(ledger_path(ledger_id, LedgerLayout.HIERARCHICAL))

    result = world.round()

    assert "no note that the last one was deleted" in result.gave_up
    assert world.local() == ids


def test_a_list_that_leaves_one_ledger_out_drops_nothing(
    world: GarbageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """B32: and says so, as a warning."""
    ids = world.create(4)
    world.delete(ids[0])
    world.hide(ids[2])

    result = world.round()

    assert result.gave_up == f"ledger {ids[2]} exists and was not listed"
    assert world.local() == ids
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_store_that_stops_answering_at_any_question_drops_nothing() -> None:
    """B32: in the counter, the list, the first look and the second."""
    number, has_failed = 0, True
    while has_failed:
        number += 1
        world = GarbageWorld()
        ids = world.create(3)
        world.delete(ids[0], ids[2])
        world.fail_at(number, part="")
        result = world.round()
        has_failed = bool(result.gave_up)
        assert world.local() == (ids if has_failed else [ids[1]])
        world.store.before = no_hook
        assert world.round().dropped_count == (2 if has_failed else 0)
        world.close()
    assert number > 8


def test_a_copy_that_the_metadata_name_no_more_is_kept(world: GarbageWorld) -> None:
    """B34: the bookie was replaced; whoever is about to name it again finds everything there."""
    (ledger_id,) = world.create()
    others = (Fragment(0, ("b4", "b5", "b6")),)
    world.ledgers.update(ledger_id, lambda now: msgspec.structs.replace(now, fragments=others))

    result = world.round()

    assert (result.candidate_count, result.dropped_count) == (0, 0)
    assert world.local() == [ledger_id]
    world.bookie.say(read(0, ENTRY_COUNT - 1, ledger_id=ledger_id))
    world.bookie.fetched()
    assert isinstance(world.bookie.answers[-1], ReadAnswer)


def test_a_ledger_whose_metadata_are_damaged_is_kept(world: GarbageWorld) -> None:
    """B32: only "no such ledger" counts."""
    ids = world.create(3)
    world.delete(ids[0])
    world.client.set(world.ledgers._path(ids[1]), b"\xff", 0)
    world.hide(ids[1])

    result = world.round()

    assert (result.candidate_count, result.dropped_count, result.kept_count) == (2, 1, 1)
    assert world.local() == ids[1:]


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_session_that_ends_between_the_looks_begins_the_proof_again(
    world: GarbageWorld, is_at_once: bool
) -> None:
    ids = world.create(3)
    world.delete(ids[0])
    world.begin_round()
    while world.go_on():
        continue
    assert world.ticker.callbacks, "it waits for the second look"
    if is_at_once:
        world.store.expire_session()
    else:
        world.store.suspend()
        world.store.resume()
    world.store.settle()

    result = world.end_round()

    assert (result.proof_count, result.dropped_count) == (2, 1)


def test_a_session_that_never_lasts_drops_nothing(world: GarbageWorld) -> None:
    ids = world.create(3)
    world.delete(ids[0])

    def expire(path: str) -> None:
        if path == IDGEN:
            world.store.before = no_hook
            world.store.expire_session()
            world.store.settle()
            world.store.before = expire

    world.store.before = expire

    result = world.round()

    assert "did not last" in result.gave_up
    assert world.local() == ids


def test_the_store_of_another_cluster_drops_nothing(world: GarbageWorld) -> None:
    """B32: a fresh store at the old address knows no ledger."""
    ids = world.create(3)
    world.delete(ids[0])
    world.client.set(INSTANCEID, encode(Instance(instance_id="another")), 0)

    result = world.round()

    assert "belongs to another cluster" in result.gave_up
    assert world.local() == ids


def test_ids_at_and_above_the_counter_are_kept(world: GarbageWorld) -> None:
    """B32: a store put back from an old copy has not heard of them."""
    ids = world.create(4)
    node = world.client.get(IDGEN)
    world.client.set(IDGEN, encode(IdCounter(next_ledger_id=ids[2])), node.version)
    world.delete(ids[1], ids[2], ids[3])

    result = world.round()

    assert result.dropped_count == 1
    assert world.local() == [ids[0], ids[2], ids[3]]


def test_a_ledger_made_while_the_round_runs_is_kept(world: GarbageWorld) -> None:
    """B32: at whichever step it is made and written."""
    step, has_ended = 0, False
    made: list[int] = []
    while not has_ended:
        step += 1
        ids = world.create(2)
        world.delete(ids[0])
        world.begin_round()
        for _ in range(step):
            has_ended = not world.go_on() and not world.ticker.callbacks
        made += [ids[1], *world.create()]
        result = world.end_round()
        assert result.dropped_count == 1
        assert world.local() == sorted(made)
        if step > 40:
            break
    assert step > 5
