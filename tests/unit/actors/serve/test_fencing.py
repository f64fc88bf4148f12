"""A fence is answered once it is durable, and from then on adds of a writer are refused."""

from collections.abc import Callable

import pytest

from tests.support.fences import FENCED, bookie, error_of, fence, forgetful, is_fenced, with_entries
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import (
    KEY,
    LEDGER_ID,
    OTHER_KEY,
    World,
    add,
    batch,
    read,
    read_lac,
    write_lac,
)
from zbk.errors import (
    EntryUnreadableError,
    LedgerFencedError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnsupportedLedgerError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import FenceRecord, LedgerKeyRecord
from zbk.wire.messages import AddAnswer, LacAnswer, Read, ReadAnswer, ReadLac, Sync, SyncAnswer

VD = LedgerType.VD_JOURNAL


# ------------------------------------------------------------------ when it is answered


def entries_of(world: World) -> None:
    assert isinstance(world.answers[0], ReadAnswer)


def lac_of(world: World) -> None:
    assert isinstance(world.answers[0], LacAnswer)


def no_such_entry(world: World) -> None:
    assert error_of(world.answers[0]) is NoSuchEntryError


def unreadable(world: World) -> None:
    assert error_of(world.answers[0]) is EntryUnreadableError


@pytest.mark.parametrize(
    ("request_", "is_answered_with", "is_damaged"),
    [
        (read(0, 1, is_fencing=True), entries_of, False),
        (read_lac(is_fencing=True), lac_of, False),
        (read(5, 9, is_fencing=True), no_such_entry, False),
        (read(0, 1, is_fencing=True), unreadable, True),
        (read(0, 1, is_fencing=True, ledger_id=8), no_such_entry, False),
        (read_lac(is_fencing=True, ledger_id=8), lac_of, False),
    ],
    ids=["entries", "the LAC", "no such entry", "damage", "an unknown ledger", "its LAC"],
)
def test_every_answer_to_a_fencing_request_waits_until_the_fence_is_durable(
    request_: Read | ReadLac, is_answered_with: Callable[[World], None], is_damaged: bool
) -> None:
    """B9: a negative answer, too, would be counted, and a power loss would undo the fence."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a", b"b"])))
    world.settle()
    if is_damaged:
        path = disk.paths("logs")[0]
        disk.set_content(path, bytes(len(disk.content(path))))
    world.answers.clear()

    world.say(request_)
    world.fetched()
    assert world.answers == []
    world.written()
    world.fetched()
    assert world.answers == []
    world.synced()
    world.fetched()

    assert len(world.answers) == 1
    is_answered_with(world)


def test_a_second_fence_does_not_get_an_answer_before_the_first_is_durable() -> None:
    """B9: no record is written for it, so there is nothing of its own to wait for."""
    world = with_entries(b"a")
    world.say(fence())
    world.written()

    world.say(fence())
    world.say(read(5, 5, is_fencing=True))
    world.say(read(0, 0, is_fencing=True))
    world.fetched()
    assert world.answers == []
    world.settle()

    assert len(world.answers) == 4
    records = [record for group in world.groups for record in group.records]
    assert sum(isinstance(record, FenceRecord) for record in records) == 1


def test_a_ledger_is_not_forgotten_while_its_fence_is_on_its_way() -> None:
    """B17: made again from what storage notes, it would look as if the fence were durable."""
    world = forgetful(SimulatedDisk())
    world.say(fence())
    for ledger_id in range(30, 34):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))

    world.say(read(0, 0, is_fencing=True))

    assert world.answers == []
    world.settle()
    assert len(world.answers) == 6


def test_once_the_fence_is_durable_recovery_reads_cost_no_sync() -> None:
    world = with_entries(b"a", b"b")
    world.say(fence())
    world.settle()
    group_count = len(world.groups)

    for request in (read(0, 0, is_fencing=True), read(7, 7, is_fencing=True), fence()):
        world.say(request)
    world.fetched()

    assert len(world.answers) == 4
    assert len(world.groups) == group_count


def test_a_fence_tells_the_highest_lac_known_after_a_sync_of_all_before_it() -> None:
    world = with_entries(b"a", b"b")
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))

    world.say(fence())
    assert world.answers == []
    world.settle()

    assert world.answers[-1] == LacAnswer(request_id=FENCED, incarnation=3, lac=1)


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("kind", LedgerType)
def test_adds_are_refused_from_the_moment_a_fence_is_taken(kind: LedgerType) -> None:
    world = with_entries(b"a", kind=kind)
    world.say(fence(kind))

    world.say(*add(batch(1, [b"b"]), kind=kind))

    assert world.last_error() is LedgerFencedError


def test_a_recovery_read_fences_a_bookie_that_the_fence_had_not_reached() -> None:
    """B1: its "no such entry" is final, as the writer's late add is refused."""
    world = bookie()
    world.say(read(0, 0, is_fencing=True))
    world.settle()
    assert world.last_error() is NoSuchEntryError

    world.say(*add(batch(0, [b"late"])))

    assert world.last_error() is LedgerFencedError


def test_what_came_before_the_fence_in_a_turn_is_in_and_what_came_behind_is_refused() -> None:
    world = bookie()

    world.say_together(
        add(batch(0, [b"before"]), request_id=1),
        (read(0, 0, is_fencing=True),),
        add(batch(1, [b"behind"]), request_id=3),
    )
    world.settle()

    refused, added, found = world.answers
    assert (refused.request_id, error_of(refused)) == (3, LedgerFencedError)
    assert isinstance(added, AddAnswer)
    assert isinstance(found, ReadAnswer), "an add that will be acknowledged was found"


def test_what_came_before_the_fence_in_a_turn_is_answered_before_it() -> None:
    world = bookie()

    world.say_together(add(batch(0, [b"before"]), request_id=1), (fence(),))
    world.settle()

    added, fenced = world.answers
    assert isinstance(added, AddAnswer)
    assert isinstance(fenced, LacAnswer)


def test_an_add_sent_again_is_refused_on_a_fenced_ledger_though_it_is_stored() -> None:
    world = with_entries(b"a")
    world.say(fence())

    world.say(*add(batch(0, [b"a"])))

    assert world.last_error() is LedgerFencedError


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (read_lac(is_fencing=True, key=OTHER_KEY), UnauthorizedError),
        (read(0, 0, is_fencing=True, key=OTHER_KEY), UnauthorizedError),
        (read_lac(is_fencing=True, kind=VD), UnsupportedLedgerError),
        (read(1, 0, is_fencing=True), MalformedMessageError),
    ],
    ids=["another key", "another key on a read", "another type", "malformed"],
)
def test_a_request_that_is_refused_fences_nothing(
    request_: Read | ReadLac, error: type[BaseException]
) -> None:
    """B8: BOOKKEEPER-135, fencing without the password."""
    world = with_entries(b"a")

    world.say(request_)

    assert world.last_error() is error
    assert not is_fenced(world)


def test_an_unknown_ledger_becomes_known_and_fenced_and_is_empty() -> None:
    world = bookie()
    world.say(fence())
    assert [type(record) for record in world.groups[-1].records] == [LedgerKeyRecord, FenceRecord]
    world.settle()
    assert world.answers == [LacAnswer(request_id=FENCED, incarnation=3, lac=-1)]

    world.say(read(0, 0))
    assert world.last_error() is NoSuchEntryError
    world.say(read_lac(key=OTHER_KEY))
    assert world.last_error() is UnauthorizedError
    assert is_fenced(world)


def test_a_reader_neither_fences_nor_makes_a_ledger_known() -> None:
    world = bookie()
    world.say(read_lac())
    assert world.last_error() is NoSuchLedgerError

    world.say(read(0, 0))

    assert world.last_error() is NoSuchLedgerError
    assert not is_fenced(world)


def test_an_explicit_lac_is_kept_on_a_fenced_ledger() -> None:
    world = with_entries(b"a", b"b")
    world.say(fence())

    world.say(write_lac(1))
    world.settle()
    world.say(read_lac())

    assert world.answers[-1] == LacAnswer(request_id=5, incarnation=3, lac=1)


def test_a_fenced_ledger_does_not_tell_its_sync_cursor() -> None:
    """What a recovery has written back here another one may have left out."""
    world = with_entries(b"a", kind=VD)
    world.say(Sync(request_id=1, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1))
    world.settle()
    assert isinstance(world.answers[-1], SyncAnswer)
    world.say(fence(VD))
    world.settle()
    world.say(*add(batch(1, [b"b"]), kind=VD, is_recovery=True))
    world.settle()

    world.say(Sync(request_id=2, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1))
    world.settle()

    assert error_of(world.answers[-1]) is LedgerFencedError
