"""A storage actor whose journal, ticker and clock are driven by hand, and what it answers."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.fake_actors import FakeLookups, FakeTicker
from zbk.actors.messages import EndCheckpoint
from zbk.actors.serve.log_syncs import LogsSynced, SyncLogs
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import Fetch, MovedEntries, ReadActor
from zbk.actors.serve.storage import StorageActor, StorageMessage
from zbk.actors.serve.storage_door import Requests, StorageDoor
from zbk.actors.serve.sync_queue import AppendGroup, Synced, SyncProgress
from zbk.actors.space_gate import SpaceGate
from zbk.errors import ZbkError, from_wire
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries, entry_size
from zbk.protocol.entry.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.security.access_table import AccessTable
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.entry_logs.own_logs import DEFAULT_OWN_LOGS, OwnLogLimits
from zbk.system.files import FileSystem
from zbk.transport.inbound import Inbound, Outbound
from zbk.transport.peers import Peer
from zbk.wire.messages import Add, Message, Pong, Read, ReadLac, Refused, Request, WriteLac

LEDGER_ID = 7
KEY = bytes(range(16))
OTHER_KEY = bytes(16)


class World:
    """A storage actor without its thread, and the answers that it gave."""

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        *,
        segment_size: int = 1 << 20,
        open_files_max: int = 512,
        ledger_count_max: int = 1_000,
        ledger_cache_size: int = 1 << 20,
        reserve_size: int = 0,
        log_size_max: int = 1 << 20,
        own_logs: OwnLogLimits = DEFAULT_OWN_LOGS,
        watch_count_max: int = 100,
        progress: SyncProgress | None = None,
        access: AccessTable | None = None,
        was_killed: bool = False,
    ) -> None:
        self.key = ""  # of the client that says what is said next
        self.space = SpaceGate("b-test")
        self.peer = b"peer"  # that says what is said next
        self.storage = BookieStorage(
            files,
            journal_dir=f"{folder}/journal",
            ledger_dir=f"{folder}/ledgers",
            bookie_id="b-test",
            on_no_space=self.space.met_no_space,
            limits=StorageLimits(
                segment_size=segment_size,
                open_files_max=open_files_max,
                ledger_count_max=ledger_count_max,
                ledger_cache_size=ledger_cache_size,
                log_size_max=log_size_max,
                own_logs=own_logs,
                reserve_size=reserve_size,
            ),
        )
        for directory in ("journal", "ledgers") if reserve_size else ():
            files.make_dirs(f"{folder}/{directory}")
        assert self.storage.make_reserves()
        self.storage.open(was_killed=was_killed)
        self.groups: list[AppendGroup] = []
        self.answers: list[Message] = []
        self.fetches: list[Fetch] = []
        self.failures: list[BaseException] = []
        self.lookups = FakeLookups()
        self.log_syncs: list[SyncLogs] = []  # that the actor asked for
        self._kinds: dict[int, LedgerType] = {}  # that requests said
        self._number = 0
        self._written: list[AppendGroup] = []
        self.progress = progress or SyncProgress()
        self.ticker = FakeTicker()
        self.now_ms = 1_000
        self.on_clock: Callable[[], None] = lambda: None  # when the actor looks at the clock
        self.door = StorageDoor()
        self.actor = StorageActor(
            self.storage,
            ServeParts(
                journals=lambda: [_Tell(self.groups)],
                progresses=[self.progress],
                reader=_Tell(self.fetches),
                look_up=self.lookups.ask,
                sync_logs=lambda one: self.log_syncs.append(one),  # noqa: PLW0108 - the list is replaced
                send=self._send,
                space=self.space,
                ticker=self.ticker,
                status=lambda request: Pong(request_id=request.request_id),
                now_ms=self._clock,
                access=access,
            ),
            ServeLimits(
                entry_size_max=1_000,
                read_size_max=1 << 20,
                ledger_count_max=ledger_count_max,
                watch_count_max=watch_count_max,
            ),
            incarnation=3,
            stop_bookie=self.failures.append,
            door=self.door,
        )

    def _send(self, outbounds: Sequence[Outbound]) -> None:
        self.answers += [outbound.answer for outbound in outbounds]

    def _clock(self) -> int:
        self.on_clock()
        return self.now_ms

    def say(self, request: Request, *frames: bytes) -> None:
        """Hand one request in."""
        self.say_together((request, *frames))

    def say_together(self, *requests: tuple[Any, ...]) -> None:
        """Hand requests in that arrived in one turn, each with its frames."""
        for one in requests:
            if isinstance(one[0], Add | Read | ReadLac | WriteLac):
                self._kinds.setdefault(one[0].ledger_id, one[0].ledger_type)
        peer = Peer(0, 0)
        peer.key = self.key
        self.tell(
            Requests([Inbound(self.peer, one[0], one[1:], 100, life=peer) for one in requests])
        )
        if self.lookups.is_answering:
            self.looked_up()

    def looked_up(self) -> None:
        """Do what the lookup actor does, as long as it is asked."""
        while answer := self.lookups.answer(self._kinds):
            self.tell(answer)

    def tell(self, message: StorageMessage) -> None:
        """Hand the actor a message, as its thread would."""
        self.actor.on_receive(message)

    def written(self) -> None:
        """Do what the journal actor does once the records are in the page cache."""
        groups = self.groups[self._number :]
        self._number = len(self.groups)
        records = [record for group in groups for record in group.records]
        if records:
            self.storage.journal.append(records)
        for group in groups:
            self._send(group.after_write)
            self.progress.written_size += group.size
        self._written += groups

    def synced(self) -> None:
        """Make everything durable that is written: in entry logs, as a checkpoint, and journal."""
        if self.actor.unsynced(0):
            begun = self.storage.begin_checkpoint()
            begun.run()
            self.tell(EndCheckpoint(begun))
            self.sync_logs()
            self.written()
        self.synced_journal()

    def synced_journal(self) -> None:
        """Do what the sync queue does: sync what is written, and tell everybody."""
        groups, self._written = self._written, []
        self.storage.journal.sync()
        if not groups:
            return
        progress = self.progress
        progress.synced_ticket = groups[-1].ticket
        for group in groups:
            self._send(group.after_sync)
            progress.synced_size += group.size * group.is_sync_needed
        is_news = any(group.is_sync_news for group in groups)
        if is_news or progress.is_watched or progress.is_awaited:
            self.tell(Synced(groups[-1].ticket))

    def sync_logs(self) -> None:
        """Do what the log sync actor does."""
        asked, self.log_syncs = self.log_syncs, []
        for one in asked:
            one.sync.run()
            self.tell(LogsSynced(one.directory_no))

    def settle_journal(self) -> None:
        """Write and sync the journal alone."""
        self.written()
        self.synced_journal()

    def settle(self) -> None:
        """Write and sync everything, and answer the reads."""
        self.written()
        self.synced()
        self.fetched()

    def fetched(self) -> None:
        """Do what the read actor does."""
        fetches = self.fetches[:]
        self.fetches.clear()
        home_of = self.storage.home_of
        moved = MovedEntries(lambda one: home_of(one).is_gone(one), self.tell)
        reader = ReadActor(
            lambda one: home_of(one).fetch(one), self._send, 3, self.failures.append, moved
        )
        reader.on_receive(fetches)

    def checkpoint(self) -> None:
        """Do what the checkpoint actor does, from the first to the last step."""
        checkpoint = self.storage.begin_checkpoint()
        checkpoint.run()
        self.storage.end_checkpoint(checkpoint)

    def last_error(self) -> type[ZbkError]:
        """Return what the last answer refused with."""
        answer = self.answers[-1]
        assert isinstance(answer, Refused), answer
        return type(from_wire(answer.code, tuple(answer.fields)))


def held(
    storage: BookieStorage, ledger_id: int, payload: Callable[[int], bytes]
) -> list[tuple[int, int]]:
    """Return the ids that a ledger has, as ranges; each entry has the payload of its id."""
    if storage.homes.info(ledger_id) is None:
        return []
    ledger = storage.homes.ledger(ledger_id)
    ranges, _ = ledger.held_ranges(0, range_count_max=99, entry_count_max=999)
    for first, last in ranges:
        for entry_id in range(first, last + 1):
            resolved = ledger.resolve(range(entry_id, entry_id + 1), 1 << 20)
            assert resolved is not None
            assert payload(entry_id) in storage.home_of(resolved).fetch(resolved)[1]
    return ranges


class _Tell:
    def __init__(self, box: list) -> None:  # type: ignore[type-arg]  # of groups, or of fetches
        self._box = box

    def tell(self, message: object) -> None:
        if isinstance(message, list):
            self._box += message
        else:
            self._box.append(message)

    take = tell


def batch(
    first: int,
    payloads: Sequence[bytes],
    ids: Sequence[int] | None = None,
    *,
    lac: int = NO_ENTRY,
    ledger_id: int = LEDGER_ID,
) -> EntryBatch:
    """Return entries whose headers say this LAC."""
    entry_ids = range(first, first + len(payloads)) if ids is None else ids
    body = encode_entries(
        ledger_id,
        entry_ids,
        lac,
        0,
        payloads,
        DigestType.XXH3,
        digest_function(DigestType.XXH3, b"", ledger_id),
    )[0]
    sizes = [entry_size(len(payload), DigestType.XXH3) for payload in payloads]
    return EntryBatch.of(ledger_id, entry_ids, sizes, body)


def add(
    of: EntryBatch,
    *,
    kind: LedgerType = LedgerType.PD_JOURNAL,
    key: bytes = KEY,
    lac: int = NO_ENTRY,
    checksum: int | None = None,
    is_recovery: bool = False,
    request_id: int = 1,
) -> tuple[Add, bytes, bytes]:
    """Return the request for a batch, and its frames."""
    request = Add(
        request_id=request_id,
        incarnation=3,
        ledger_id=of.ledger_id,
        ledger_key=key,
        ledger_type=kind,
        first_entry_id=of.first_entry_id,
        count=of.count,
        lac=lac,
        checksum=of.checksum if checksum is None else checksum,
        is_recovery=is_recovery,
    )
    return request, sizes_to_wire(of.sizes), of.body


def read(
    first: int,
    last: int,
    *,
    key: bytes = KEY,
    kind: LedgerType = LedgerType.PD_JOURNAL,
    ledger_id: int = LEDGER_ID,
    is_fencing: bool = False,
    is_checked: bool = False,
) -> Read:
    """Return a read with request id 2."""
    return Read(
        request_id=2,
        ledger_id=ledger_id,
        ledger_key=key,
        ledger_type=kind,
        first_entry_id=first,
        last_entry_id=last,
        size_max=1 << 20,
        is_fencing=is_fencing,
        is_checked=is_checked,
    )


def read_lac(
    *,
    request_id: int = 5,
    key: bytes = KEY,
    kind: LedgerType = LedgerType.PD_JOURNAL,
    ledger_id: int = LEDGER_ID,
    known_lac: int = NO_ENTRY,
    wait_ms: int = 0,
    is_fencing: bool = False,
) -> ReadLac:
    """Return a request for the LAC."""
    return ReadLac(
        request_id=request_id,
        ledger_id=ledger_id,
        ledger_key=key,
        ledger_type=kind,
        known_lac=known_lac,
        wait_ms=wait_ms,
        is_fencing=is_fencing,
    )


def write_lac(
    lac: int,
    *,
    key: bytes = KEY,
    kind: LedgerType = LedgerType.PD_JOURNAL,
    ledger_id: int = LEDGER_ID,
    request_id: int = 4,
) -> WriteLac:
    """Return an explicit LAC."""
    return WriteLac(
        request_id=request_id, ledger_id=ledger_id, ledger_key=key, ledger_type=kind, lac=lac
    )
