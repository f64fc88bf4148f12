"""The storage actor on real files: what it admits, when it answers, what it refuses."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pykka
import pytest

from zbk.actors.journal import AppendGroup, Synced
from zbk.actors.read import Fetch
from zbk.actors.storage import Quiesce, Requests, StorageActor
from zbk.errors import (
    DuplicateEntryError,
    EntryTooLargeError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnsupportedLedgerError,
    ZbkError,
    from_wire,
)
from zbk.protocol.digest import digest_function
from zbk.protocol.entry import encode_entries, entry_size
from zbk.protocol.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.words import NO_ENTRY, DigestType, LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.system.files import OsFiles
from zbk.transport.router import Inbound, Outbound
from zbk.wire.codec import encode_ids
from zbk.wire.messages import (
    Add,
    AddAnswer,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Message,
    Pong,
    Read,
    ReadLac,
    Refused,
    Request,
    Sync,
    SyncAnswer,
    WriteLac,
)

LEDGER_ID = 7
KEY = bytes(range(16))
OTHER_KEY = bytes(16)
DEADLINE_S = 20.0


class World:
    """A storage actor whose journal is driven by hand, and the answers that it gave."""

    def __init__(self, folder: Path) -> None:
        self.storage = BookieStorage(
            OsFiles(),
            journal_dir=str(folder / "journal"),
            ledger_dir=str(folder / "ledgers"),
            bookie_id="b-test",
            segment_size=1 << 20,
        )
        self.storage.open()
        self.groups: list[AppendGroup] = []
        self.answers: list[Message] = []
        self.fetches: list[Fetch] = []
        self._number = 0
        self._written: list[AppendGroup] = []
        self.actor = StorageActor.start(
            self.storage,
            journal=lambda: _Tell(self.groups),
            reader=_Tell(self.fetches),
            send=self._send,
            about=lambda request_id: Pong(request_id=request_id),
            incarnation=3,
            entry_size_max=1_000,
            read_size_max=1 << 20,
            stop_bookie=lambda _error: None,
        )

    def _send(self, outbounds: Sequence[Outbound]) -> None:
        self.answers += [outbound.answer for outbound in outbounds]

    def say(self, request: Request, *frames: bytes) -> None:
        """Hand one request in and wait until the actor has looked at it."""
        inbound = Inbound(b"peer", request, frames, 100)
        self.actor.tell(Requests([inbound]))
        self.settle()

    def settle(self) -> None:
        self.actor.ask(Requests([]), timeout=DEADLINE_S)

    def written(self) -> None:
        """Do what the journal actor does once the records are in the page cache."""
        groups = self.groups[self._number :]
        self._number = len(self.groups)
        records = [record for group in groups for record in group.records]
        if records:
            self.storage.journal.append(records)
        for group in groups:
            self._send(group.after_write)
        self._written += groups

    def synced(self) -> None:
        """Do what the sync queue does once they are on stable storage."""
        groups, self._written = self._written, []
        for group in groups:
            self._send(group.after_sync)
        if any(group.is_sync_news for group in groups):
            self.actor.tell(Synced(groups[-1].ticket))
        self.settle()

    def last_error(self) -> type[ZbkError]:
        answer = self.answers[-1]
        assert isinstance(answer, Refused)
        return type(from_wire(answer.code, tuple(answer.fields)))


class _Tell:
    def __init__(self, box: list) -> None:  # type: ignore[type-arg]  # of groups, or of fetches
        self._box = box

    def tell(self, message: object) -> None:
        if isinstance(message, list):
            self._box += message
        else:
            self._box.append(message)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    pykka.ActorRegistry.stop_all(timeout=5)
    made.storage.close()


def batch(
    first: int,
    payloads: Sequence[bytes],
    ids: Sequence[int] | None = None,
    *,
    lac: int = NO_ENTRY,
) -> EntryBatch:
    entry_ids = range(first, first + len(payloads)) if ids is None else ids
    body = encode_entries(
        LEDGER_ID,
        entry_ids,
        lac,
        0,
        payloads,
        DigestType.XXH3,
        digest_function(DigestType.XXH3, b"", LEDGER_ID),
    )
    sizes = [entry_size(len(payload), DigestType.XXH3) for payload in payloads]
    return EntryBatch.of(LEDGER_ID, entry_ids, sizes, body)


def add(
    of: EntryBatch,
    *,
    kind: LedgerType = LedgerType.PD_JOURNAL,
    key: bytes = KEY,
    lac: int = NO_ENTRY,
    checksum: int | None = None,
) -> tuple[Add, bytes, bytes]:
    request = Add(
        request_id=1,
        incarnation=3,
        ledger_id=of.ledger_id,
        ledger_key=key,
        ledger_type=kind,
        first_entry_id=of.first_entry_id,
        count=of.count,
        lac=lac,
        checksum=of.checksum if checksum is None else checksum,
    )
    return request, sizes_to_wire(of.sizes), of.body


def read(first: int, last: int, *, key: bytes = KEY) -> Read:
    return Read(
        request_id=2,
        ledger_id=LEDGER_ID,
        ledger_key=key,
        first_entry_id=first,
        last_entry_id=last,
        size_max=1 << 20,
    )


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
    parts = [batch(0, [b"a"]), batch(1, [b"b"]), batch(2, [b"c"])]
    inbounds = [
        Inbound(b"peer", request, (sizes, body), 100) for request, sizes, body in map(add, parts)
    ]

    world.actor.tell(Requests(inbounds))
    world.settle()

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
    count, body = world.storage.fetch(world.fetches[-1].resolved)
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

    assert world.storage.ledger_info(LEDGER_ID) is None


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


def test_every_request_shows_the_key(world: World) -> None:
    world.say(*add(batch(0, [b"a"])))

    for request in (
        read(0, 0, key=OTHER_KEY),
        ReadLac(request_id=3, ledger_id=LEDGER_ID, ledger_key=OTHER_KEY),
        Sync(request_id=3, ledger_id=LEDGER_ID, ledger_key=OTHER_KEY, lac=0),
        WriteLac(
            request_id=3,
            ledger_id=LEDGER_ID,
            ledger_key=OTHER_KEY,
            ledger_type=LedgerType.PD_JOURNAL,
            lac=0,
        ),
    ):
        world.say(request)
        assert world.last_error() is UnauthorizedError


def test_an_explicit_lac_is_answered_when_it_is_durable_and_is_read_back(world: World) -> None:
    world.say(*add(batch(0, [b"a", b"b"])))
    world.say(
        WriteLac(
            request_id=4,
            ledger_id=LEDGER_ID,
            ledger_key=KEY,
            ledger_type=LedgerType.PD_JOURNAL,
            lac=1,
        )
    )
    world.written()
    assert world.answers == []
    world.synced()
    assert len(world.answers) == 2

    world.say(ReadLac(request_id=5, ledger_id=LEDGER_ID, ledger_key=KEY))

    assert world.answers[-1] == LacAnswer(request_id=5, incarnation=3, lac=1)


def test_a_ledger_refused_at_its_first_add_leaves_nothing(world: World) -> None:
    world.say(*add(batch(0, [b"a"]), checksum=5))

    assert world.last_error() is MalformedMessageError
    assert world.actor.proxy().ledger_count.get() == 0


def test_quiesce_waits_for_everything_before_it(world: World) -> None:
    done = threading.Event()
    world.say(*add(batch(0, [b"a"]), kind=LedgerType.VD_JOURNAL))

    world.actor.tell(Quiesce(done.set))
    world.settle()
    assert world.groups[-1].is_sync_needed
    world.written()
    assert not done.is_set()
    world.synced()

    assert done.is_set()


def test_a_lac_that_was_told_is_told_again_after_a_restart(tmp_path: Path) -> None:
    before = World(tmp_path)
    before.say(*add(batch(0, [b"a"])))
    before.say(*add(batch(1, [b"b"], lac=0), lac=0))
    before.written()
    before.say(ReadLac(request_id=5, ledger_id=LEDGER_ID, ledger_key=KEY))
    assert before.answers[-1] == LacAnswer(request_id=5, incarnation=3, lac=0)
    pykka.ActorRegistry.stop_all(timeout=5)
    before.storage.close()

    after = World(tmp_path)
    after.say(ReadLac(request_id=6, ledger_id=LEDGER_ID, ledger_key=KEY))

    assert after.answers[-1] == LacAnswer(request_id=6, incarnation=3, lac=0)
    pykka.ActorRegistry.stop_all(timeout=5)
    after.storage.close()
