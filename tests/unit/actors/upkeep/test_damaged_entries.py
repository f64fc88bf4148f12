"""A bookie with damaged entries: which copies it takes, and which entries and LAC it names."""

import pytest

from tests.support.scrub_world import PAYLOAD, ScrubWorld, world
from tests.support.storage_actor import add, batch, read, read_lac
from zbk.errors import DamageError, DuplicateEntryError, EntryUnreadableError
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.wire.messages import AddAnswer, GetLedgerInfo, LacAnswer, LedgerInfo, ReadAnswer

__all__ = ["world"]


def test_a_recovery_add_stores_anew_what_is_damaged_and_answers_behind_the_sync(
    world: ScrubWorld,
) -> None:
    world.damage(7, 2)
    bookie = world.bookie
    wanted = batch(2, [PAYLOAD] * 2)

    bookie.say(*add(wanted, is_recovery=True, request_id=55))
    bookie.written()
    assert not any(one.request_id == 55 for one in bookie.answers), "it waits for the sync"
    bookie.settle()

    assert isinstance(bookie.answers[-1], AddAnswer)
    world.scrub()
    findings = world.scrubber.findings
    assert (findings.file_count, findings.ledger_count) == (1, 0), "nothing points there any more"
    world.restart()
    world.bookie.say(read(0, 19))
    world.bookie.fetched()
    answer = world.bookie.answers[-1]
    assert isinstance(answer, ReadAnswer)
    assert answer.count == 20


def test_other_bytes_beside_a_sound_copy_stay_refused_from_a_recovery_too(
    world: ScrubWorld,
) -> None:
    world.damage(7, 2)
    other = batch(0, [b"y" * 500] * 2)

    world.bookie.say(*add(other, is_recovery=True))

    assert world.bookie.last_error() is DuplicateEntryError


def test_an_ordinary_add_over_a_damaged_copy_is_still_refused(world: ScrubWorld) -> None:
    path, offset = world.place(7, 2)
    world.disk.flip_bit(path, 8 * (offset + 8))  # of the ledger id

    world.bookie.say(*add(batch(2, [PAYLOAD])))

    assert world.bookie.last_error() is EntryUnreadableError


def test_an_index_page_that_is_damaged_says_neither_yes_nor_no_and_takes_no_copy(
    world: ScrubWorld,
) -> None:
    """What the page held is not known: `zbk bookie rebuild-index` knows, from the logs."""
    (path,) = [one for one in world.disk.paths(".idx") if one.endswith("07.idx")]
    world.restart()
    world.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 16))

    world.bookie.say(read(0, 1))
    assert world.bookie.last_error() is EntryUnreadableError
    world.bookie.say(read(500, 501))
    assert world.bookie.last_error() is EntryUnreadableError, "no 'no such entry'"
    world.bookie.say(*add(batch(0, [PAYLOAD] * 2), is_recovery=True))
    assert issubclass(world.bookie.last_error(), DamageError)

    world.scrub()
    assert (world.reports.taken, world.reports.reasons) == ([7], [MissingReason.DAMAGED])
    assert "zbk bookie rebuild-index" in world.scrubber.findings.files[0].reason
    assert [one.last_entry_id for one in world.scrubber.findings.ranges] == [1_023]


def held(world: ScrubWorld, ledger_id: int) -> list[tuple[int, int]]:
    world.bookie.say(GetLedgerInfo(request_id=70, ledger_id=ledger_id))
    answer = world.bookie.answers[-1]
    assert isinstance(answer, LedgerInfo)
    return answer.ranges


def test_a_bookie_does_not_say_that_it_holds_what_is_damaged_until_it_is_stored_anew(
    world: ScrubWorld,
) -> None:
    """So a repair that asks what is held copies just that."""
    world.damage(7, 2)
    world.damage(8, 6)
    assert held(world, 7) == [(0, 19)]

    world.scrub()
    while world.go_on():
        continue
    assert held(world, 7) == [(0, 1), (4, 19)]
    assert held(world, 8) == [(0, 5), (8, 19)]
    assert held(world, 9) == [(0, 19)]

    world.bookie.say(*add(batch(2, [PAYLOAD] * 2), is_recovery=True))
    world.bookie.settle()
    assert held(world, 7) == [(0, 19)]
    world.scrub()
    while world.go_on():
        continue
    assert held(world, 7) == [(0, 19)]
    assert held(world, 8) == [(0, 5), (8, 19)]


@pytest.mark.parametrize("at", [25, 100])
def test_a_lac_is_not_taken_from_an_entry_that_is_damaged(world: ScrubWorld, at: int) -> None:
    """B23: what was never confirmed would be readable, and be gone again later."""
    for first in (20, 22):
        world.bookie.say(*add(batch(first, [PAYLOAD] * 2, lac=3), lac=3))
    world.bookie.settle()
    world.bookie.checkpoint()
    world.restart()
    world.bookie.say(read_lac())
    assert lac_of(world) == 3

    world.damage(7, 23, at)
    world.restart()

    world.bookie.say(read_lac())
    assert lac_of(world) == -1


def lac_of(world: ScrubWorld) -> int:
    answer = world.bookie.answers[-1]
    assert isinstance(answer, LacAnswer)
    return answer.lac
