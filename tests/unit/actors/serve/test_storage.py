"""The storage actor on real files: what it admits, when it answers, what it refuses."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.simulated_disk import Fault, SimulatedDisk
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
from zbk.actors.serve.storage_door import Quiesce
from zbk.errors import (
    CorruptRecordError,
    DuplicateEntryError,
    EntryTooLargeError,
    EntryUnreadableError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StorageFailedError,
    UnauthorizedError,
    UnsupportedLedgerError,
    ZbkError,
)
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.system.files import OsFiles
from zbk.wire.codec import encode_ids
from zbk.wire.messages import (
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    ReadAnswer,
    Sync,
    SyncAnswer,
)

ONE_PAGE = 9000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(OsFiles(), str(tmp_path))
    yield made
    made.storage.close()


def test_a_persistent_add_is_answered_after_the_sync_not_after_the_write(world: World) -> None:
    world.say(*add(batch(0, [b"a", b"b"])))
    world.written()
    assert world.answers == []

    world.synced()

    assert world.answers == [AddAnswer(request_id=1, incarnation=3, last_add_synced=NO_ENTRY)]


def test_a_volatile_add_is_answered_after_the_write_and_tells_what_is_synced(world: World) -> None:
    world.say(*add(batch(0, [b"a", b"b"]), kind=LedgerType.VD_JOURNAL))
    assert world.answers == []
    world.written()
    assert world.answers == [AddAnswer(request_id=1, incarnation=3, last_add_synced=NO_ENTRY)]
    world.synced()

    world.say(*add(batch(2, [b"c"]), kind=LedgerType.VD_JOURNAL))
    world.written()

    assert world.answers[-1] == AddAnswer(request_id=1, incarnation=3, last_add_synced=1)


def test_sync_is_answered_after_the_fsync_with_the_cursor(world: World) -> None:
    world.say(*add(batch(0, [b"a"] * 5), kind=LedgerType.VD_JOURNAL))
    world.written()
    world.say(Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=NO_ENTRY))
    assert world.groups[-1].is_sync_needed
    world.written()
    assert len(world.answers) == 1

    world.synced()

    assert world.answers[-1] == SyncAnswer(request_id=9, incarnation=3, last_add_synced=4)


def test_a_lac_lifts_the_cursor_over_a_hole(world: World) -> None:
    world.say(*add(batch(5, [b"f"]), kind=LedgerType.VD_JOURNAL))
    world.written()
    world.synced()
    world.say(*add(batch(6, [b"g"], None), kind=LedgerType.VD_JOURNAL, lac=4))
    world.written()

    assert world.answers[-1] == AddAnswer(request_id=1, incarnation=3, last_add_synced=5)


def test_adds_of_one_turn_are_one_ticket(world: World) -> None:
    world.say_together(*(add(batch(entry_id, [b"a"])) for entry_id in range(3)))

    assert len(world.groups) == 1
    assert len(world.groups[0].records) == 4  # the ledger's key comes first
    world.written()
    world.synced()
    assert len(world.answers) == 3


def test_the_same_add_again_is_answered_once_it_is_durable_and_not_stored_twice(
    world: World,
) -> None:
    world.say(*add(batch(0, [b"a", b"b"])))
    records = sum(len(group.records) for group in world.groups)

    world.say(*add(batch(0, [b"a", b"b"])))

    assert sum(len(group.records) for group in world.groups) == records
    assert world.groups[-1].is_sync_needed
    world.written()
    assert world.answers == []
    world.synced()
    assert len(world.answers) == 2


def test_other_bytes_under_a_stored_id_are_refused(world: World) -> None:
    world.say(*add(batch(0, [b"a", b"b"])))

    world.say(*add(batch(1, [b"X"])))

    assert world.last_error() is DuplicateEntryError


def test_what_is_missing_of_a_batch_is_stored(world: World) -> None:
    whole = batch(0, [b"a", b"b", b"c"])
    world.say(*add(whole.select([1])))

    world.say(*add(whole))
    world.written()
    world.synced()

    world.say(read(0, 2))
    count, body = world.storage.home_of(world.fetches[-1].resolved).fetch(
        world.fetches[-1].resolved
    )
    assert (count, body) == (3, whole.body)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": OTHER_KEY}, UnauthorizedError),
        ({"kind": LedgerType.VD_JOURNAL}, UnsupportedLedgerError),
        ({"checksum": 1}, MalformedMessageError),
    ],
    ids=["another key", "another type", "a wrong checksum"],
)
def test_adds_that_do_not_fit_the_ledger_are_refused(
    world: World, change: dict[str, object], error: type[ZbkError]
) -> None:
    world.say(*add(batch(0, [b"a"])))

    world.say(*add(batch(1, [b"b"]), **change))  # type: ignore[arg-type]  # one of three

    assert world.last_error() is error


def test_an_entry_over_the_limit_is_refused(world: World) -> None:
    world.say(*add(batch(0, [b"x" * 1_001])))

    assert world.last_error() is EntryTooLargeError


def test_frames_that_do_not_fit_the_header_are_refused(world: World) -> None:
    request, sizes, body = add(batch(0, [b"a", b"b"]))
    for frames in ([], [sizes], [sizes, body, b""], [body, sizes], [sizes[:4], body], [sizes, b""]):
        world.say(request, *frames)
        assert world.last_error() is MalformedMessageError

    assert world.storage.homes.info(LEDGER_ID) is None


def test_a_striped_add_brings_its_own_ids(world: World) -> None:
    part = batch(0, [b"a", b"c", b"d"], [0, 2, 3])
    request, sizes, body = add(part)
    striped = msgspec.structs.replace(request, is_striped=True)

    world.say(striped, sizes, body, encode_ids([0, 2, 3]))
    world.written()
    world.synced()

    assert isinstance(world.answers[-1], AddAnswer)
    world.say(GetLedgerInfo(request_id=5, ledger_id=LEDGER_ID))
    info = world.answers[-1]
    assert isinstance(info, LedgerInfo)
    assert info.ranges == [(0, 0), (2, 3)]


def test_no_such_entry_and_no_such_ledger_are_told_apart(world: World) -> None:
    world.say(read(0, 0))
    assert world.last_error() is NoSuchLedgerError
    world.say(*add(batch(0, [b"a"])))

    world.say(read(1, 5))

    assert world.last_error() is NoSuchEntryError
    world.say(read(0, 5))
    assert list(world.fetches[-1].resolved.entry_ids) == [0]


@pytest.mark.parametrize("is_fencing", [False, True])
def test_a_checked_read_is_refused_what_is_damaged_on_the_disk(
    world: World, tmp_path: Path, *, is_fencing: bool
) -> None:
    world.say(*add(batch(0, [b"a" * 100])))
    world.settle()
    (log,) = tmp_path.rglob("logs/*.log")
    log.write_bytes(log.read_bytes().replace(b"a" * 100, b"a" * 99 + b"b"))

    world.say(read(0, 0, is_fencing=is_fencing))
    world.settle()
    assert isinstance(world.answers[-1], ReadAnswer)
    world.say(read(0, 0, is_fencing=is_fencing, is_checked=True))
    world.settle()

    assert world.last_error() is EntryUnreadableError


def test_every_request_shows_the_key(world: World) -> None:
    world.say(*add(batch(0, [b"a"])))

    for request in (
        read(0, 0, key=OTHER_KEY),
        read_lac(request_id=3, key=OTHER_KEY),
        Sync(request_id=3, ledger_id=LEDGER_ID, ledger_key=OTHER_KEY, lac=0),
        write_lac(0, key=OTHER_KEY),
    ):
        world.say(request)
        assert world.last_error() is UnauthorizedError


def test_an_explicit_lac_is_answered_when_it_is_durable_and_is_read_back(world: World) -> None:
    world.say(*add(batch(0, [b"a", b"b"])))
    world.say(write_lac(1))
    world.written()
    assert world.answers == []
    world.synced()
    assert len(world.answers) == 2

    world.say(read_lac(request_id=5))

    assert world.answers[-1] == LacAnswer(request_id=5, incarnation=3, lac=1)


def test_a_ledger_refused_at_its_first_add_leaves_nothing(world: World) -> None:
    world.say(*add(batch(0, [b"a"]), checksum=5))

    assert world.last_error() is MalformedMessageError
    assert world.actor.ledger_count == 0


def test_quiesce_waits_for_everything_before_it(world: World) -> None:
    is_quiet = threading.Event()
    world.say(*add(batch(0, [b"a"]), kind=LedgerType.VD_JOURNAL))

    world.tell(Quiesce(is_quiet))
    assert world.groups[-1].is_sync_needed
    world.written()
    assert not is_quiet.is_set()
    world.synced()

    assert is_quiet.is_set()


def test_an_admitted_add_that_cannot_be_stored_any_more_stops_the_bookie() -> None:
    """B3: acknowledged from the journal alone, it would be "no such entry" until a restart."""
    disk = SimulatedDisk()
    world = World(disk, "/b", ledger_cache_size=ONE_PAGE)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.checkpoint()
    world.say(*add(batch(0, [b"b"], ledger_id=8)))
    world.say(*add(batch(0, [b"c"] * 1024, ledger_id=9)))  # a whole page: all the room
    world.settle()
    world.checkpoint()
    world.say(read(0, 0, ledger_id=9))
    disk.faults.append(Fault("pread", errno.EIO, skip_count=1, path_part="07.idx"))
    world.answers.clear()

    world.say_together(
        add(batch(1, [b"its page is read now, for the first time"])),
        add(batch(1, [b"b"], ledger_id=8)),
        (read(0, 0, ledger_id=9),),  # makes room: the page goes, and cannot be read again
    )

    assert [type(failure) for failure in world.failures] == [StorageFailedError]
    assert world.answers == []


def test_a_ledger_that_is_damaged_is_not_made_new_by_a_fence() -> None:
    """B3: no answer that says yes or no."""
    disk = SimulatedDisk()
    world = World(disk, "/b")
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.checkpoint()
    disk.flip_bit(disk.paths(".idx")[0], 100)
    world = World(disk, "/b")

    for request in (read_lac(is_fencing=True), read(0, 0, is_fencing=True), read_lac()):
        world.say(request)
        assert world.last_error() is CorruptRecordError
    assert world.groups == []
