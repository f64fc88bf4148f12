"""Fences and recovery adds at the storage actor: what is answered, when, and what is refused."""

import errno
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
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
    DuplicateEntryError,
    EntryUnreadableError,
    LedgerFencedError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StorageFailedError,
    UnauthorizedError,
    UnsupportedLedgerError,
    from_wire,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import FenceRecord, LedgerKeyRecord
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.wire.messages import (
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    Read,
    ReadAnswer,
    ReadLac,
    Refused,
    Sync,
    SyncAnswer,
)

FENCED = 9
"""The request id of fences in these tests."""

SEGMENT_SIZE = SEGMENT_HEADER_SIZE + 8192
PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


def bookie(disk: SimulatedDisk | None = None) -> World:
    return World(disk or SimulatedDisk(), "/b", segment_size=SEGMENT_SIZE)


def forgetful(disk: SimulatedDisk) -> World:
    """Return a bookie with room for one ledger, one index header, one open file."""
    return World(disk, "/b", segment_size=SEGMENT_SIZE, open_files_max=1, ledger_count_max=1)


def with_entries(*payloads: bytes, kind: LedgerType = PD) -> World:
    """Return a bookie with a ledger of these entries, all on stable storage."""
    world = bookie()
    world.say(*add(batch(0, payloads), kind=kind))
    world.settle()
    world.answers.clear()
    return world


def fence(kind: LedgerType = PD, *, ledger_id: int = LEDGER_ID) -> ReadLac:
    return read_lac(request_id=FENCED, is_fencing=True, kind=kind, ledger_id=ledger_id)


def error_of(answer: Message) -> type[BaseException]:
    assert isinstance(answer, Refused), answer
    return type(from_wire(answer.code, tuple(answer.fields)))


def is_fenced(world: World) -> bool:
    """Ask with an add that is new; it is taken when the ledger is not fenced."""
    world.answers.clear()
    world.say(*add(batch(1_000, [b"late"])))
    world.settle()
    if isinstance(world.answers[-1], AddAnswer):
        return False
    assert error_of(world.answers[-1]) is LedgerFencedError
    return True


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


def test_a_fence_is_told_of_once_it_is_durable() -> None:
    world = with_entries(b"a")
    world.say(fence())
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=7))
    world.written()
    assert not any(isinstance(one, LedgerInfo) for one in world.answers)

    world.synced()
    world.say(GetLedgerInfo(request_id=4, ledger_id=7))
    told = [one for one in world.answers if isinstance(one, LedgerInfo)]
    assert [(one.request_id, one.is_fenced) for one in told] == [(3, True), (4, True)]


@pytest.mark.parametrize("is_recovery", [False, True])
@pytest.mark.parametrize("kind", list(LedgerType))
def test_what_is_held_is_told_once_it_is_on_stable_storage(
    kind: LedgerType, is_recovery: bool
) -> None:
    """A repair drops another replica for it, and the power may fail."""
    world = with_entries(b"a")
    world.say(*add(batch(0, [b"b"], ledger_id=9), kind=kind, is_recovery=is_recovery))
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=9))
    world.written()
    assert not any(isinstance(one, LedgerInfo) for one in world.answers)

    world.synced()
    (told,) = [one for one in world.answers if isinstance(one, LedgerInfo)]
    assert told.ranges == [(0, 0)]


@pytest.mark.parametrize("kind", list(LedgerType))
def test_a_look_that_promises_nothing_is_answered_at_once_and_syncs_nothing(
    kind: LedgerType,
) -> None:
    world = with_entries(b"a")
    world.say(*add(batch(0, [b"b", b"c"], ledger_id=9), kind=kind))
    world.say(write_lac(0, ledger_id=9, kind=kind))
    world.say(fence(kind, ledger_id=9))
    world.written()
    count = len(world.groups)
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=9, is_at_once=True))
    (told,) = world.answers
    assert isinstance(told, LedgerInfo)
    assert (told.ranges, told.last_entry_id) == ([(0, 1)], 1)
    assert (told.is_fenced, told.lac) == (True, 0), "as it is now"
    assert told.last_add_synced == (0 if kind.is_volatile else -1), "the LAC, and no further"
    assert len(world.groups) == count, "no sync was asked for"


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


# ------------------------------------------------------------------ recovery adds


@pytest.mark.parametrize("kind", LedgerType)
def test_a_recovery_add_is_taken_by_a_fenced_ledger_and_answered_after_the_sync(
    kind: LedgerType,
) -> None:
    """B18: copies of recovery are no late writer's."""
    world = with_entries(b"a", kind=kind)
    world.say(fence(kind))
    world.settle()
    world.answers.clear()

    world.say(*add(batch(1, [b"b"]), kind=kind, is_recovery=True))
    world.written()
    assert world.answers == []
    world.synced()

    assert isinstance(world.answers[-1], AddAnswer)
    world.say(*add(batch(2, [b"c"]), kind=kind))
    assert world.last_error() is LedgerFencedError, "it is fenced as before"


def test_a_recovery_add_makes_a_ledger_known_and_does_not_fence_it() -> None:
    world = bookie()

    world.say(*add(batch(3, [b"d"]), kind=VD, is_recovery=True))
    world.settle()

    assert isinstance(world.answers[-1], AddAnswer)
    world.say(*add(batch(4, [b"e"]), kind=VD))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)


def test_a_recovery_add_of_a_stored_entry_waits_until_that_is_durable() -> None:
    world = bookie()
    world.say(*add(batch(0, [b"a"]), kind=VD))
    world.written()
    world.say(fence(VD))
    world.answers.clear()

    world.say(*add(batch(0, [b"a"]), kind=VD, is_recovery=True, request_id=4))
    world.written()
    assert world.answers == []
    world.synced()

    assert [answer.request_id for answer in world.answers] == [FENCED, 4]


def test_a_recovery_add_with_other_bytes_is_refused() -> None:
    world = with_entries(b"a")

    world.say(*add(batch(0, [b"X"]), is_recovery=True))

    assert world.last_error() is DuplicateEntryError


# ------------------------------------------------------------------ that it stays


def restarted(_world: World, disk: SimulatedDisk) -> World:
    return bookie(disk.crash(Random(1)))


def killed(_world: World, disk: SimulatedDisk) -> World:
    return bookie(disk.process_crash())


def checkpointed_and_restarted(world: World, disk: SimulatedDisk) -> World:
    world.checkpoint()
    for ledger_id in range(20, 24):  # roll the journal: the segment with the fence goes
        body = batch(0, [bytes(1_000)] * 5, ledger_id=ledger_id)
        world.say(*add(body))
        world.settle()
    world.checkpoint()
    world.checkpoint()
    return bookie(disk.crash(Random(2)))


def evicted(world: World, _disk: SimulatedDisk) -> World:
    """Forget it everywhere: table, index headers, file handles, each with a limit of one."""
    world.checkpoint()
    for ledger_id in range(30, 34):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))
        world.settle()
        world.checkpoint()
    return world


@pytest.mark.parametrize("is_unknown", [False, True], ids=["a known ledger", "an unknown ledger"])
@pytest.mark.parametrize("then", [restarted, killed, checkpointed_and_restarted, evicted])
def test_a_fence_that_was_answered_stays(
    then: Callable[[World, SimulatedDisk], World], is_unknown: bool
) -> None:
    """B8: BOOKKEEPER-500, lost at a restart; BOOKKEEPER-815, lost when the handle is evicted."""
    disk = SimulatedDisk()
    world = forgetful(disk)
    if not is_unknown:
        world.say(*add(batch(0, [b"a"])))
    world.say(fence())
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)

    assert is_fenced(then(world, disk))


def test_a_fence_that_cannot_be_written_is_not_answered_and_nothing_goes_on() -> None:
    """B8: a bad disk. Success is only what is journaled; the bookie stops."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.answers.clear()
    disk.faults.append(Fault("pwrite", errno.EIO, path_part="journal"))

    world.say(fence())
    with pytest.raises(StorageFailedError):
        world.written()
    assert world.answers == []
    world.say(*add(batch(0, [b"b"], ledger_id=8)))

    assert world.answers == []
    assert [type(failure) for failure in world.failures] == [StorageFailedError]


def test_a_fence_that_cannot_be_synced_is_not_answered() -> None:
    disk = SimulatedDisk()
    world = bookie(disk)
    disk.faults.append(Fault("sync", errno.EIO, path_part="journal"))

    world.say(read(0, 0, is_fencing=True))
    world.written()
    with pytest.raises(StorageFailedError):
        world.synced()

    assert world.answers == []


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "power lost"])
def test_whatever_step_is_the_last_a_fence_that_was_answered_is_there(is_killed: bool) -> None:
    """B8: at every operation of the disk, from before the fence to behind the checkpoints."""
    step, has_ended = 0, False
    fenced_count = 0
    while not has_ended:
        step += 1
        disk = SimulatedDisk()
        disk.crash_at = step
        answers: list[Message] = []
        try:
            world = bookie(disk)
            answers = world.answers
            world.say(*add(batch(0, [b"a"])))
            world.settle()
            world.checkpoint()
            world.say(fence())
            world.settle()
            world.checkpoint()
            world.say(*add(batch(1, [b"recovered"]), is_recovery=True))
            world.settle()
            world.checkpoint()
            has_ended = True
        except SimulatedCrash:
            pass
        ids = [answer.request_id for answer in answers]
        after = bookie(disk.process_crash() if is_killed else disk.crash(Random(step)))
        if FENCED in ids:
            fenced_count += 1
            assert is_fenced(after)
    assert fenced_count > 20


def test_after_a_fence_was_answered_no_add_succeeds_whatever_comes_between() -> None:
    """B17: 10,000 rounds of first add, fence, sync, power loss and forgetting, in any order."""
    rng = Random(17)
    disk = SimulatedDisk()
    world = forgetful(disk)
    taken: set[int] = set()  # fences
    answered: set[int] = set()
    acked_count = refused_count = crash_count = 0
    for number in range(1, 10_001):
        ledger_id = number // 40 * 3 + rng.randrange(6)
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                world.say(*add(batch(number, [b"an entry"], ledger_id=ledger_id)))
                last = world.answers[-1] if world.answers else None
                is_refused = isinstance(last, Refused) and error_of(last) is LedgerFencedError
                assert is_refused == (ledger_id in taken)
                refused_count += is_refused
                acked_count += not is_refused
            case 4:
                taken.add(ledger_id)
                request_id = FENCED + ledger_id
                if rng.random() < 0.5:
                    request = read(3, 3, is_fencing=True, ledger_id=ledger_id)
                    world.say(replace(request, request_id=request_id))
                else:
                    world.say(replace(fence(ledger_id=ledger_id), request_id=request_id))
            case 5:
                world.written()
            case 6:
                world.synced()
            case 7 if rng.random() < 0.3:
                world.settle()
            case 8 if rng.random() < 0.05:
                world.checkpoint()
            case 9 if rng.random() < 0.05:
                crash_count += 1
                world = forgetful(disk.crash(Random(number)))
                taken = {one for one in taken if one in answered or _is_fenced_on_disk(world, one)}
        world.fetched()
        answered |= {a.request_id - FENCED for a in world.answers if a.request_id >= FENCED}
        world.answers.clear()
    assert acked_count > 1_000
    assert refused_count > 500
    assert crash_count > 20


def _is_fenced_on_disk(world: World, ledger_id: int) -> bool:
    info = world.storage.homes.info(ledger_id)
    return info is not None and info.is_fenced
