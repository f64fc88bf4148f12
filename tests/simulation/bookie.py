"""A bookie of the simulation: the real actors, driven by hand, over a simulated disk.

Real: identity check and incarnation, ``BookieStorage`` (journal, entry logs, index, checkpoints,
replay), ``StorageActor``, ``JournalActor``, ``SyncQueue``, ``ReadActor``. Not real: threads and
sockets. The actors are made without their threads; what they tell each other arrives as events of
the kernel, and what takes time on a disk takes simulated time: above all an fsync, which covers
what was written when it began while more is written.

A failed write or fsync ends the process, as in life; somebody starts it again later.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, cast

from tests.simulation.bookie_access import BookieAccess, but_guests
from tests.simulation.bookie_journal import BookieJournal
from tests.simulation.bookie_parts import Parts, PollTicker, Tell, never_stops
from tests.simulation.collector import BookieCollector, UpkeepPlan
from tests.simulation.faults import Faults
from tests.simulation.kernel import MS, SECOND, Kernel, Node
from tests.simulation.links import ClientPool
from tests.simulation.live_session import LiveSession
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.network import Network
from tests.simulation.oracle import BookieOracle
from tests.simulation.recheck import BookieRecheck
from tests.simulation.scrubber import BookieScrubber
from tests.support.history import FAILED_FSYNC, POWER_LOSS
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.identity import check_identity, place_of
from zbk.actors.identity.ledger_secrets import secret_of
from zbk.actors.identity.losses import Losses
from zbk.actors.messages import Answered, AskStorage, EndCheckpoint
from zbk.actors.serve.ledger_lookups import LedgerLookup, LookedUp, LookUp
from zbk.actors.serve.log_syncs import LogsSynced, SyncLogs
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import Fetch, MovedEntries
from zbk.actors.serve.storage import StorageMessage, WatchesDue
from zbk.actors.serve.storage_door import Requests
from zbk.actors.serve.sync_queue import Synced
from zbk.actors.space_gate import SpaceGate
from zbk.config import BookieConfig
from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    HelloRequiredError,
    LostHistoryError,
    NoSpaceError,
    StorageFailedError,
    WrongBookieError,
    ZbkError,
)
from zbk.metadata.paths import registration_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.values import Cookie, encode
from zbk.storage.bookie_storage import (
    BeginCheckpoint,
    BookieStorage,
    StorageLimits,
)
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.directory.identity import (
    COOKIE_NAME,
    PLACE_NAME,
    next_incarnation,
    write_cookie,
    write_place,
)
from zbk.storage.directory.wipe import wipe
from zbk.storage.entry_logs.own_logs import OwnLogLimits
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Pong

JOURNAL_DIRS, LEDGER_DIRS = ("/journal", "/journal2"), ("/ledgers", "/ledgers2")
DIRECTORY_COUNTS = (*((1, 1),) * 6, (2, 1), (1, 2), (2, 2), (2, 2))
"""Journal and ledger directories of a bookie."""

LOG_SIZES = (1 << 20, 4096, 1024)
OWN_LOG_SIZES = (1 << 20, 300, 1)
ENTRY_SIZE_MAX = 1 << 20


class _Registry(BookieRegistry):
    """Cookies as ever; an earlier life is not waited for, as it is over here before the next."""

    def wait_unregistered(self, bookie_id: str) -> None:
        del bookie_id


class SimulatedBookie:
    """One bookie and its disk; it crashes, and comes back."""

    def __init__(
        self,
        kernel: Kernel,
        faults: Faults,
        network: Network,
        metadata: MetadataServer,
        *,
        bookie_id: str,
        address: str,
        parts: Parts,
        is_registered: bool = False,
        upkeep: UpkeepPlan | None = None,
    ) -> None:
        self.kernel = kernel
        self.faults = faults
        self.node = Node(kernel, address)
        self.bookie_id = bookie_id
        self.address = address
        self.disk = SimulatedDisk()
        self.incarnation = 0
        self.is_lost = False  # for ever
        self.losses: Losses | None = None
        self._history: BookieHistory | None = None  # of this start
        self._boot_count = 1  # the page cache is lost between two of them
        self._has_empty_disk = False
        self._has_lost_files = False  # all but the cookies, and not started since
        self._is_registered = is_registered  # while it runs
        self._plan = upkeep
        self._upkeep: list[BookieCollector | BookieScrubber] = []  # of this life
        self._is_wiped = False  # on purpose, and not started since
        self._limbo_grace_ms = kernel.tape.pick((5_000, 1_000))
        self._pool = ClientPool(network, self.node, 1_000)
        self.sync_interval_us = kernel.tape.pick((200, 1_000, 0)) * MS
        self.oracle = BookieOracle(kernel, bookie_id, metadata.ever, metadata.current)
        metadata.watchers.append(self.oracle.metadata_changed)
        self._network = network
        self._metadata = metadata
        self._session = Session(metadata, bookie_id)
        lookups = Session(metadata, f"{bookie_id}.lookups", is_faulty=True)
        lookups.may_lack_nodes = True
        self._lookup = LedgerLookup(lookups.ledgers())
        rights = network.rights
        self._access = None if rights is None else BookieAccess(self, rights, lookups)
        if self._access is not None:
            metadata.watchers.append(self._access.metadata_changed)
        self.history = metadata.history
        self._parts = parts
        self._segment_size = SEGMENT_HEADER_SIZE + kernel.tape.pick((8192, 2048, 1024))
        # one decision for two: with one directory of each kind a seed means what it meant before
        drawn = kernel.tape.draw(len(LOG_SIZES) * len(DIRECTORY_COUNTS))
        self._log_size_max = LOG_SIZES[drawn // len(DIRECTORY_COUNTS)]
        journal_count, ledger_count = DIRECTORY_COUNTS[drawn % len(DIRECTORY_COUNTS)]
        self._own_logs = OwnLogLimits("bypass", 2, OWN_LOG_SIZES[kernel.tape.aside(3, "own logs")])
        self.journal_dirs = JOURNAL_DIRS[:journal_count]
        self.ledger_dirs = LEDGER_DIRS[:ledger_count]
        self._config = BookieConfig(
            metadata="memory://simulated",
            journal_dir=self.journal_dirs,
            ledger_dir=self.ledger_dirs,
        )
        self.node.is_alive = False
        self._storage: BookieStorage | None = None
        self._init_identity()
        network.hosts[address] = self
        network.addresses[bookie_id] = address

    # ------------------------------------------------------------------ identity and start

    def _init_identity(self) -> None:
        """Do what ``zbk bookie init`` does, with a name that is the same in every run."""
        cookie = Cookie(
            bookie_id=self.bookie_id,
            instance_id=instance_id(self._session),
            journal_dirs=self.journal_dirs,
            ledger_dirs=self.ledger_dirs,
            created_ms=0,
        )
        for path in self._directories:
            self.disk.make_dirs(path)
            write_place(self.disk, path, place_of(self._config, path))
            write_cookie(self.disk, path, encode(cookie))
        BookieRegistry(self._session).create_cookie(cookie)

    @property
    def _directories(self) -> Sequence[str]:
        return (*self.journal_dirs, *self.ledger_dirs)

    def start(self) -> bool:
        """Start the process; return whether it serves."""
        assert not self.node.is_alive, "it runs"
        if self.is_lost:
            return False
        self.node.life += 1
        self._pool.close()  # what a life that did not come to serve has left
        try:
            return self._start()
        except SimulatedCrash:
            self.kernel.sometimes["bookie: crash while it starts"] += 1
            self.crash("a crash while it starts")
        except StorageFailedError as error:
            self.node.trace(f"cannot start: {error}")
            self.disk.process_crash()
        except ZbkError as error:
            self.node.trace(f"refuses to start: {error}")
            self.disk.process_crash()
            if self._has_lost_files and isinstance(error, LostHistoryError):
                self.kernel.sometimes["bookie: refuses to start without its files"] += 1
                return False
            if self._has_empty_disk:
                self.kernel.sometimes["bookie: refuses to start on an empty disk"] += 1
            elif not self.oracle.is_damaged:
                self.oracle.violated("start", f"an undamaged bookie refuses to start: {error}")
            else:
                self.kernel.sometimes["bookie: refuses to start on a damaged disk"] += 1
            self.is_lost = True
        return False

    def _start(self) -> bool:
        parts, disk = self._parts, self.disk
        if parts.is_cookie_checked:
            check_identity(disk, self._session, self._config)
        else:
            for path in self._directories:
                disk.make_dirs(path)
        storage = parts.storage(
            disk,
            journal_dir=self.journal_dirs,
            ledger_dir=self.ledger_dirs,
            bookie_id=self.bookie_id,
            limits=StorageLimits(
                segment_size=self._segment_size,
                log_size_max=self._log_size_max,
                own_logs=self._own_logs,
                ledger_cache_size=1 << 20,
                open_files_max=8,
            ),
        )
        losses = self._find_losses(storage)
        secrets = partial(secret_of, self._session.ledgers())
        found = storage.open(secrets, was_killed=losses.was_killed)
        self._claim()
        if found.cut_record_count:
            self.kernel.sometimes["bookie: torn tail of the journal cut"] += 1
        self._storage = storage
        self._make_actors(storage)
        self.node.is_alive = True
        self._note_directories(storage)
        self.node.trace(f"starts, incarnation {self.incarnation}, {found}")
        self.oracle.audit(storage)
        self._note_whole_again(storage)
        self._tick_soon()
        self._begin_recheck()
        self._begin_upkeep(storage)
        if self._is_registered:
            session = LiveSession(self._metadata, self.node, self.bookie_id, is_faulty=False)
            session.keep(registration_path(self.bookie_id, is_readonly=False))
        return True

    def _note_directories(self, storage: BookieStorage) -> None:
        """Count a start that finds ledgers in several directories."""
        if len(storage.directories) > 1 and not self.oracle.is_damaged:
            homes = {storage.homes.ledger(ledger_id).home.number for ledger_id in storage.ledgers()}
            count = int(len(homes) > 1)
            self.kernel.sometimes["bookie: starts with ledgers in two directories"] += count

    def _begin_upkeep(self, storage: BookieStorage) -> None:
        plan, cluster_id = self._plan, instance_id(self._session)
        if plan is None:
            return
        self._upkeep.append(BookieCollector(self, storage, self._metadata, plan, cluster_id))
        if plan.scrub_interval_ms:
            self._upkeep.append(BookieScrubber(self, storage, plan.scrub_interval_ms))

    def _find_losses(self, storage: BookieStorage) -> Losses:
        """Note, before anything is served, what may be lost."""
        boot_id = f"boot {self._boot_count}"
        losses = self.losses = Losses(self.disk, storage.limbo, storage.ledger_dirs, boot_id)
        next_ledger_id = partial(self._session.ledgers().next_ledger_id, is_fresh=True)
        self._count_start(losses, next_ledger_id)
        losses.find(next_ledger_id, is_wiped_on_purpose=self._is_wiped)
        losses.find_lost_files(storage.owner, next_ledger_id)
        losses.begin_serving()
        self._is_wiped = self._has_lost_files = False
        if losses.reasons:
            self.kernel.sometimes["limbo: a bookie is in it"] += 1
            self.node.trace(f"in limbo: {[one.value for one in losses.reasons]}")
        return losses

    def _count_start(self, losses: Losses, next_ledger_id: Callable[[], int]) -> None:
        """Count this start, if the directories show what the cluster knows."""
        if not self._parts.is_cookie_checked:
            self.incarnation = next_incarnation(self.disk, *self.ledger_dirs)
            return
        history = self._history = BookieHistory(
            self.disk,
            _Registry(self._session),
            self.bookie_id,
            journals=dict(enumerate(self.journal_dirs)),
            ledger_dirs=self.ledger_dirs,
            losses=losses,
            next_ledger_id=next_ledger_id,
        )
        history.check(is_wiped_on_purpose=self._is_wiped)
        self.incarnation = history.count_up()

    def _claim(self) -> None:
        """Record this start in the metadata store, before anything is served."""
        if self._parts.is_cookie_checked:
            assert self._history is not None, "this start was counted"
            self._history.claim()

    def _note_whole_again(self, storage: BookieStorage) -> None:
        """Note which ledgers the start says are whole though their index was lost."""
        limbo = storage.limbo
        for ledger_id in sorted(self.oracle.lost):
            metadata = self._metadata.current.get(ledger_id)
            kind = None if metadata is None else metadata.ledger_type
            is_lost = ledger_id in limbo.lost_indexes
            if is_lost and not limbo.limbo.is_miss_unknown(ledger_id, kind):
                self.kernel.sometimes["limbo: a lost index is whole again"] += 1
                self.oracle.cleared([(ledger_id, ledger_id)], self._metadata.current)

    def _begin_recheck(self) -> None:
        assert self.losses is not None, "they were looked for"
        BookieRecheck(
            self,
            self.losses,
            self._pool,
            self._metadata,
            core=self._parts.limbo_recheck,
            grace_ms=self._limbo_grace_ms,
            registered=self._network.listening,
        )

    @property
    def lacks_copies(self) -> bool:
        """True when it was wiped, and has not got everything back yet."""
        losses = self.losses
        return losses is not None and bool(losses.left(has_lost_fences=True).ledger_count)

    def garbage(self) -> list[int]:
        """Return the deleted ledgers that it still has, if it runs."""
        if not self.node.is_alive or self._storage is None:
            return []
        return [one for one in self._storage.ledgers() if one not in self._metadata.current]

    @property
    def is_in_doubt(self) -> bool:
        """True while it runs and has not asked all others for what it may have lost.

        After a loss of everything it goes on asking until ledgers are closed.
        """
        losses = self.losses
        return (
            self.node.is_alive
            and losses is not None
            and bool(losses.left(has_lost_fences=False).ledger_count)
        )

    def _make_actors(self, storage: BookieStorage) -> None:
        parts = self._parts
        self._inbox: list[Inbound] = []
        self._peers: set[bytes] = set()
        self._in_flight: Counter[bytes] = Counter()  # bytes, by peer
        self._checkpoint: Checkpoint | None = None
        self._checkpoint_asked: list[Callable[[], None]] = []
        self._polls: Callable[[], None] | None = None
        space = SpaceGate(self.node.name)
        self._journals = [
            BookieJournal(self, parts, journal, number, space)
            for number, journal in enumerate(storage.journals)
        ]
        moved = MovedEntries(
            lambda one: storage.home_of(one).is_gone(one),
            partial(self.later, 50, self.tell_storage_actor),
        )
        self._read_actor = parts.read_actor(
            lambda one: storage.home_of(one).fetch(one),
            self.send,
            self.incarnation,
            never_stops,
            moved,
        )
        self._log_sync_actor = parts.log_sync_actor(Tell(self._logs_synced), never_stops)
        self._storage_actor = parts.storage_actor(
            storage,
            ServeParts(
                journals=lambda: self._journals,
                progresses=[one.progress for one in self._journals],
                reader=Tell(self._fetch),
                look_up=self._look_up,
                sync_logs=self._sync_logs,
                send=self.send,
                space=space,
                ticker=PollTicker(self),
                status=lambda request: Pong(request_id=request.request_id),
                now_ms=self.node.now_ms,
                access=None if self._access is None else self._access.begin(),
            ),
            ServeLimits(ENTRY_SIZE_MAX, read_size_max=1 << 20),
            incarnation=self.incarnation,
            stop_bookie=never_stops,
        )

    def lose_disk(self) -> None:
        """Put an empty disk in."""
        self.disk = SimulatedDisk()
        self._has_empty_disk = True

    def wipe(self) -> None:
        """Do what ``zbk bookie format`` does to a bookie that is down, and is to come back."""
        assert not self.node.is_alive, "it runs"
        wipe(self.disk, self._directories, self.ledger_dirs, with_cookie=False)
        self._is_wiped = True
        self._forget_promises()

    def lose_files(self) -> None:
        """Delete all files but the cookies, while the bookie is down; of one journal, at times."""
        assert not self.node.is_alive, "it runs"
        journals, tape = self.journal_dirs, self.kernel.tape
        is_journal = len(journals) > 1 and tape.draw(4) > 0
        if is_journal:
            self.kernel.sometimes["bookie: one of its journals vanishes"] += 1
        for directory in (tape.pick(journals),) if is_journal else self._directories:
            for path in self.disk.paths(f"{directory}/"):
                if path not in (f"{directory}/{COOKIE_NAME}", f"{directory}/{PLACE_NAME}"):
                    self.disk.remove_at_rest(path)
        self._has_lost_files = True
        self._forget_promises()

    def start_on_purpose(self) -> None:
        """Start from now on as one that was wiped on purpose."""
        self._is_wiped = True

    def _forget_promises(self) -> None:
        self.oracle.wiped()
        self._owe_what_is_due()

    def index_vanishes(self) -> None:
        """Note that index files go while the bookie is down: it may deny nothing that it had."""
        assert not self.node.is_alive, "it runs"
        self.oracle.index_vanishes()
        self._owe_what_is_due()

    def _owe_what_is_due(self) -> None:
        for metadata in self._metadata.current.values():
            self.oracle.metadata_changed(metadata)

    # ------------------------------------------------------------------ the end of a life

    def crash(self, reason: str, *, is_power_lost: bool = False) -> None:
        """End the process; with a loss of power the page cache goes, too."""
        self.node.trace(f"{reason}: the process ends{', the power is lost' * is_power_lost}")
        was_alive = self.node.is_alive
        self.node.die()
        while self._upkeep:
            self._upkeep.pop().end()
        self._pool.close()
        if is_power_lost:
            self._boot_count += 1
            self.disk.crash(Random(self.kernel.tape.draw(1 << 16)))
            self.oracle.power_lost()
            self.history.nemesis(self.kernel.now_ms, self.node.name, POWER_LOSS)
        else:
            self.disk.process_crash()
        if was_alive:
            self._network.drop_links_to(self, is_silent=is_power_lost)

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life; what goes wrong in it ends the process."""
        self.node.after(delay_us, self._guarded, action, arguments)

    def _guarded(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            action(*arguments)
        except SimulatedCrash:
            self.kernel.sometimes["bookie: crash in the middle of an operation"] += 1
            is_power_lost = bool(self.kernel.tape.draw(2))
            self.crash("a crash in an operation", is_power_lost=is_power_lost)
        except StorageFailedError as error:
            self.kernel.sometimes["bookie: stopped by a failed disk"] += 1
            self.history.nemesis(self.kernel.now_ms, self.node.name, FAILED_FSYNC)
            with suppress(SimulatedCrash):  # it ends in any case
                assert self.losses is not None, "it served"
                self.losses.doubt()
            self.crash(f"the disk failed: {error}")
        except ZbkError as error:
            self.crash(f"an actor failed: {error!r}")
            if not self.oracle.is_damaged:
                self.oracle.violated("actor", f"an actor fails on a good disk: {error!r}")

    # ------------------------------------------------------------------ network

    def greet(self, bookie_id: str, peer: bytes) -> int:
        """Answer a HELLO."""
        if not self.node.is_alive:
            raise BookieUnavailableError(bookie_id, "the connection was refused")
        if bookie_id != self.bookie_id and self._network.is_checking_identity:
            raise WrongBookieError(f"this is bookie {self.bookie_id}, not {bookie_id}")
        self._peers.add(peer)
        return self.incarnation

    def take(self, inbound: Inbound) -> None:
        """Take a request: it is handled with all that come until then."""
        error = self._refusal(inbound)
        if error is not None:
            refused = refusal(inbound.request.request_id, self.incarnation, error)
            self._network.answer(self.node, inbound, refused, ())
            return
        self._in_flight[inbound.peer] += inbound.size
        self._inbox.append(inbound)
        if len(self._inbox) == 1:
            self.later(20 + self.kernel.tape.draw(4) * 20, self._turn)

    def _refusal(self, inbound: Inbound) -> ZbkError | None:
        """Return why the front would not let a request through, if so."""
        network, sometimes = self._network, self.kernel.sometimes
        if inbound.peer not in self._peers and network.is_checking_hello:
            sometimes["bookie: a request of an earlier life refused"] += 1
            return HelloRequiredError("say HELLO first")
        if inbound.request.incarnation != self.incarnation and network.is_checking_incarnation:
            sometimes["bookie: a request of an earlier life refused"] += 1
            return WrongBookieError(f"this is incarnation {self.incarnation}")
        in_flight_size = self._in_flight[inbound.peer]
        if in_flight_size and in_flight_size + inbound.size > network.credit_size:
            sometimes["bookie: a request over the credit refused"] += 1
            return BusyError(f"over the credit of {network.credit_size} bytes")
        return None

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers."""
        for outbound in answers:
            self._in_flight[outbound.inbound.peer] -= outbound.inbound.size
            self.oracle.answered(outbound)
            if self._access is not None:
                self._access.answered(outbound)
            self._network.answer(self.node, outbound.inbound, outbound.answer, outbound.frames)

    # ------------------------------------------------------------------ actors

    def _turn(self) -> None:
        batch, self._inbox = self._inbox, []
        self.oracle.received(but_guests(batch))
        if self._access is not None:
            self._access.received(batch)
        self.tell_storage_actor(Requests(batch))

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        self._storage_actor.handle(message)

    def hear_of_keys(self) -> None:
        """Learn of a change of principals, some time later."""
        if self._access is not None:
            self._access.hear_of_keys()

    @property
    def waiting(self) -> list[Inbound]:
        """The requests that wait for a look-up."""
        waiting = self._storage_actor._gate._room._waiting.values()
        return [one.request for some in waiting for one in some if one.request is not None]

    def _look_up(self, question: LookUp) -> None:
        def find() -> LookedUp:
            return LookedUp(self._lookup.find(question.ledger_ids))

        self._metadata.submit(self.node, find, self._looked_up)

    def _looked_up(self, answer: LookedUp) -> None:
        self._guarded(self.tell_storage_actor, (answer,))

    def _sync_logs(self, message: SyncLogs) -> None:
        """Begin an fsync of entry logs; it covers what is written now."""
        self.later(
            self.sync_us(), self._end_log_sync, message, self.disk.change_count, self._held()
        )

    def _held(self) -> dict[int, Sequence[tuple[int, int]]]:
        """Return the entries that the index has, of ledgers that bypass the journal."""
        held: dict[int, Sequence[tuple[int, int]]] = {}
        assert self._storage is not None, "it runs"
        for one in self._storage_actor.unsynced(0):
            with suppress(ZbkError):  # of a damaged disk
                held[one.ledger_id], _ = self._storage.homes.ledger(one.ledger_id).held_ranges(
                    0, range_count_max=1 << 20, entry_count_max=1 << 20
                )
        return held

    def _end_log_sync(
        self, message: SyncLogs, mark: int, held: dict[int, Sequence[tuple[int, int]]]
    ) -> None:
        self.kernel.sometimes["bookie: entry logs are synced for a ledger"] += 1
        self.disk.sync_until = mark
        self._log_sync_actor.handle(message)
        self.disk.sync_until = None
        self.oracle.logs_synced(held)

    def _logs_synced(self, message: LogsSynced) -> None:
        self.later(10 + self.kernel.tape.draw(3) * 50, self.tell_storage_actor, message)

    def tell_synced(self, message: Synced) -> None:
        """Notify the storage actor of a sync, some time later."""
        self.later(10 + self.kernel.tape.draw(3) * 50, self.tell_storage_actor, message)

    def _fetch(self, fetches: list[Fetch]) -> None:
        self.later(30 + self.kernel.tape.draw(4) * 100, self._read_actor.handle, fetches)

    def sync_us(self) -> int:
        """Draw how long an fsync takes."""
        tape = self.kernel.tape
        if self.faults.is_sync_stalling and tape.chance(5):
            return tape.draw(8) * 300 * MS
        return 50 + tape.draw(8) * self.faults.sync_us_max // 8

    # ------------------------------------------------------------------ what recurs

    def _tick_soon(self) -> None:
        self.later(SECOND // 2, self._note_synced)
        self.later((5 + self.kernel.tape.draw(20)) * 20 * MS, self._begin_checkpoint)
        if self.sync_interval_us:
            self.later(self.sync_interval_us, self._sync_due)

    def _note_synced(self) -> None:
        for one in self._journals:
            one.note_synced()
        self.later(SECOND // 2, self._note_synced)

    def _sync_due(self) -> None:
        for one in self._journals:
            one.sync()
        self.later(self.sync_interval_us, self._sync_due)

    def _begin_checkpoint(self) -> None:
        storage = self._storage
        assert storage is not None, "it runs"
        for journal in storage.journals:
            journal.prepare_next()
        waiting, self._checkpoint_asked = self._checkpoint_asked, []
        self.tell_storage_actor(AskStorage(BeginCheckpoint(storage), Tell(self._checkpoint_begun)))
        checkpoint = self._checkpoint
        assert checkpoint is not None, "it was begun"
        steps: list[Callable[[], None]] = [
            *checkpoint.steps,
            lambda: self.tell_storage_actor(EndCheckpoint(checkpoint)),
            *waiting,
        ]
        self._take_steps(steps)

    def _checkpoint_begun(self, answer: Answered) -> None:
        if isinstance(answer.value, NoSpaceError):
            raise answer.value
        self._checkpoint = cast("Checkpoint", answer.value)

    def ask_checkpoint(self, done: Callable[[], None]) -> None:
        """Call ``done`` when a checkpoint has ended that begins from now on."""
        self._checkpoint_asked.append(done)

    def _take_steps(self, steps: list[Callable[[], None]]) -> None:
        if not steps:
            self.later((5 + self.kernel.tape.draw(20)) * 20 * MS, self._begin_checkpoint)
            return
        steps.pop(0)()
        self.later(100 + self.kernel.tape.draw(4) * MS, self._take_steps, steps)

    # ------------------------------------------------------------------ long polls

    def poll_every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Do something again and again until it is taken back."""
        self._polls = action
        self.later(interval_ms * MS, self._poll, interval_ms, action)

    def _poll(self, interval_ms: int, action: Callable[[], None]) -> None:
        if self._polls is action:
            self.tell_storage_actor(WatchesDue())
            self.later(interval_ms * MS, self._poll, interval_ms, action)

    def poll_no_more(self) -> None:
        """Take it back."""
        self._polls = None
