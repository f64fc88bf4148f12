"""A bookie that may have lost something: what it answers and takes, and when it denies again."""

from random import Random

import pytest

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
from zbk.durability.limbo import LossReason
from zbk.errors import (
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLedgerStateError,
    from_wire,
)
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import (
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    ReadAnswer,
    Refused,
    Sync,
    SyncAnswer,
)

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
NEW_ID = LEDGER_ID + 1
"""A ledger that was made after the loss."""

LOSSES = [
    (LossReason.UNCLEAN_STOP, VD),
    (LossReason.WIPED, PD),
    (LossReason.WIPED, VD),
    (LossReason.DIRECTORY_LOST, PD),
]
"""Losses, and types of ledgers that they concern."""

concerned = pytest.mark.parametrize(("reason", "kind"), LOSSES)


def after(reason: LossReason, disk: SimulatedDisk | None = None) -> World:
    """Return a bookie after a loss that concerns the ledger of these tests."""
    world = World(disk or SimulatedDisk(), "/b")
    world.storage.limbo.note_loss(reason, LEDGER_ID + 1)
    return world


def told(world: World, *request: object) -> Message:
    """Return the answer to a request once all is on stable storage."""
    world.say_together(request)
    world.settle()
    return world.answers[-1]


def refused_with(world: World, *request: object) -> type[BaseException]:
    answer = told(world, *request)
    assert isinstance(answer, Refused), answer
    return type(from_wire(answer.code, tuple(answer.fields)))


def sync() -> Sync:
    return Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1)


@concerned
@pytest.mark.parametrize("is_fencing", [False, True])
def test_a_ledger_that_is_not_there_is_neither_here_nor_not(
    reason: LossReason, kind: LedgerType, is_fencing: bool
) -> None:
    world = after(reason)

    assert refused_with(world, read(0, 9, kind=kind, is_fencing=is_fencing)) is (
        UnknownLedgerStateError
    )


@concerned
@pytest.mark.parametrize("is_fencing", [False, True])
def test_what_is_here_is_answered_and_what_is_not_is_unknown(
    reason: LossReason, kind: LedgerType, is_fencing: bool
) -> None:
    world = after(reason)
    told(world, *add(batch(0, [b"a", b"b"]), kind=kind, is_recovery=True))

    answer = told(world, read(0, 9, kind=kind, is_fencing=is_fencing))

    assert isinstance(answer, ReadAnswer)
    assert answer.count == 2
    assert refused_with(world, read(2, 9, kind=kind, is_fencing=is_fencing)) is (
        UnknownLedgerStateError
    )


@concerned
def test_once_cleared_a_no_is_a_no_also_after_a_restart(
    reason: LossReason, kind: LedgerType
) -> None:
    disk = SimulatedDisk()
    world = after(reason, disk)
    told(world, *add(batch(0, [b"a"]), kind=kind, is_recovery=True))
    assert refused_with(world, read(1, 1, kind=kind)) is UnknownLedgerStateError

    assert world.storage.limbo.clear([(LEDGER_ID, LEDGER_ID)])

    assert refused_with(world, read(1, 1, kind=kind)) is NoSuchEntryError
    again = World(disk.crash(Random(3)), "/b")
    assert refused_with(again, read(1, 1, kind=kind)) is NoSuchEntryError
    assert refused_with(again, read(1, 1, kind=kind, ledger_id=LEDGER_ID - 1)) is (
        UnknownLedgerStateError
    )


@concerned
def test_before_it_is_cleared_a_restart_changes_nothing(
    reason: LossReason, kind: LedgerType
) -> None:
    disk = SimulatedDisk()
    after(reason, disk)

    again = World(disk.crash(Random(3)), "/b")

    assert refused_with(again, read(1, 1, kind=kind)) is UnknownLedgerStateError


@concerned
def test_a_ledger_of_after_the_loss_is_as_any_other(reason: LossReason, kind: LedgerType) -> None:
    world = after(reason)

    assert refused_with(world, read(0, 0, kind=kind, ledger_id=NEW_ID)) is NoSuchLedgerError
    assert isinstance(told(world, *add(batch(0, [b"a"], ledger_id=NEW_ID), kind=kind)), AddAnswer)
    assert isinstance(told(world, read_lac(kind=kind, ledger_id=NEW_ID)), LacAnswer)
    assert refused_with(world, read(1, 1, kind=kind, ledger_id=NEW_ID)) is NoSuchEntryError


def test_after_an_unclean_stop_a_pd_ledger_is_as_any_other() -> None:
    world = after(LossReason.UNCLEAN_STOP)
    assert refused_with(world, read(0, 0)) is NoSuchLedgerError

    assert isinstance(told(world, *add(batch(0, [b"a"]))), AddAnswer)

    assert refused_with(world, read(1, 1)) is NoSuchEntryError
    assert isinstance(told(world, read_lac()), LacAnswer)


@concerned
def test_a_fence_is_put_on_as_ever_and_holds(reason: LossReason, kind: LedgerType) -> None:
    disk = SimulatedDisk()
    world = after(reason, disk)
    world.say(read_lac(is_fencing=True, kind=kind))
    assert not world.answers, "not before it is on stable storage"
    world.settle()

    assert isinstance(world.answers[-1], LacAnswer)
    again = World(disk.crash(Random(2)), "/b")
    assert refused_with(again, *add(batch(0, [b"a"]), kind=kind)) is LedgerFencedError


def test_after_an_unclean_stop_a_writer_goes_on() -> None:
    """Fences were synced: who is not fenced was not."""
    world = after(LossReason.UNCLEAN_STOP)

    assert isinstance(told(world, *add(batch(5, [b"a"]), kind=VD)), AddAnswer)

    assert refused_with(world, read(4, 4, kind=VD)) is UnknownLedgerStateError


@pytest.mark.parametrize("reason", [LossReason.WIPED, LossReason.DIRECTORY_LOST])
def test_where_a_fence_may_be_lost_no_writer_goes_on_cleared_or_not(reason: LossReason) -> None:
    """B10: a recovery may have counted this bookie as fenced, and closed the ledger."""
    world = after(reason)
    assert refused_with(world, *add(batch(0, [b"a"]))) is UnknownLedgerStateError

    assert world.storage.limbo.clear([(0, LEDGER_ID)])

    assert refused_with(world, *add(batch(0, [b"a"]))) is UnknownLedgerStateError
    assert world.storage.ledger_count == 0


@pytest.mark.parametrize("reason", [LossReason.WIPED, LossReason.DIRECTORY_LOST])
def test_where_a_fence_may_be_lost_a_recovery_brings_entries_back(reason: LossReason) -> None:
    world = after(reason)

    assert isinstance(told(world, *add(batch(0, [b"a"]), is_recovery=True)), AddAnswer)

    assert isinstance(told(world, read(0, 0)), ReadAnswer)
    assert refused_with(world, *add(batch(1, [b"b"]))) is UnknownLedgerStateError
    wrong = add(batch(1, [b"b"]), key=OTHER_KEY)
    assert refused_with(world, *wrong) is UnauthorizedError


def test_who_writes_to_a_ledger_that_is_surely_fenced_is_told_so() -> None:
    world = after(LossReason.WIPED)
    told(world, read_lac(is_fencing=True))

    assert refused_with(world, *add(batch(0, [b"a"]))) is LedgerFencedError


@pytest.mark.parametrize("reason", [LossReason.WIPED, LossReason.DIRECTORY_LOST])
def test_a_reader_is_told_no_lac_that_may_be_lower_than_what_others_have_read(
    reason: LossReason,
) -> None:
    world = after(reason)
    told(world, *add(batch(0, [b"a"]), is_recovery=True))
    assert refused_with(world, read_lac()) is UnknownLedgerStateError

    assert world.storage.limbo.clear([(0, LEDGER_ID)])

    assert refused_with(world, read_lac()) is UnknownLedgerStateError
    assert isinstance(told(world, read_lac(is_fencing=True)), LacAnswer), "a recovery is"


def test_after_an_unclean_stop_a_reader_is_told_the_lac_that_others_were_told() -> None:
    disk = SimulatedDisk()
    world = World(disk, "/b")
    told(world, *add(batch(0, [b"a"], lac=-1), kind=VD))
    told(world, *add(batch(1, [b"b"], lac=0), kind=VD, lac=0))
    before = told(world, read_lac(kind=VD))
    assert isinstance(before, LacAnswer)
    world.say(*add(batch(2, [b"c"], lac=1), kind=VD, lac=1))
    world.written()  # and acknowledged; then the power fails

    again = after(LossReason.UNCLEAN_STOP, disk.crash(Random(1)))
    answer = told(again, read_lac(kind=VD))

    assert isinstance(answer, LacAnswer)
    assert answer.lac >= before.lac == 0


@concerned
def test_who_asks_what_is_held_is_told_and_told_that_more_may_be_lost(
    reason: LossReason, kind: LedgerType
) -> None:
    world = after(reason)
    absent = told(world, GetLedgerInfo(request_id=1, ledger_id=LEDGER_ID))
    told(world, *add(batch(3, [b"a", b"b"]), kind=kind, is_recovery=True))
    present = told(world, GetLedgerInfo(request_id=1, ledger_id=LEDGER_ID))
    world.storage.limbo.clear([(LEDGER_ID, LEDGER_ID)])
    cleared = told(world, GetLedgerInfo(request_id=1, ledger_id=LEDGER_ID))

    assert isinstance(absent, LedgerInfo)
    assert isinstance(present, LedgerInfo)
    assert isinstance(cleared, LedgerInfo)
    assert (absent.is_known, absent.is_in_limbo) == (False, True)
    assert (present.ranges, present.is_in_limbo) == ([(3, 4)], True)
    assert (cleared.ranges, cleared.is_in_limbo) == ([(3, 4)], False)


def test_a_sync_of_a_ledger_that_may_have_been_here_is_not_denied() -> None:
    world = after(LossReason.UNCLEAN_STOP)
    assert refused_with(world, sync()) is UnknownLedgerStateError

    told(world, *add(batch(0, [b"a"]), kind=VD))

    assert isinstance(told(world, sync()), SyncAnswer)


def test_an_explicit_lac_is_taken_as_ever() -> None:
    assert isinstance(told(after(LossReason.WIPED), write_lac(4)), LacAnswer)


@concerned
def test_a_ledger_that_was_collected_is_denied(reason: LossReason, kind: LedgerType) -> None:
    world = after(reason)
    world.storage.mark_deleted([LEDGER_ID])

    assert refused_with(world, read(0, 0, kind=kind)) is NoSuchLedgerError


def test_the_error_names_bookie_and_ledger_and_what_to_look_at() -> None:
    answer = told(after(LossReason.WIPED), read(0, 0))
    assert isinstance(answer, Refused)

    error = from_wire(answer.code, tuple(answer.fields))

    assert str(error) == (
        "bookie b-test may have lost parts of ledger 7, and says neither yes nor no until it has "
        "checked it against its peers: try again, or see `zbk bookie show b-test`"
    )
    assert error.is_retriable
