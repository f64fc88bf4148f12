"""A bookie of the simulation: the real actors, driven by hand, over a simulated disk.

Real: identity check and incarnation, ``BookieStorage`` (journal, entry logs, index, checkpoints,
replay), ``StorageActor``, ``JournalActor``, ``SyncQueue``, ``ReadActor``. Not real: threads and
sockets. The actors are made without their threads (``bookie_actors``); what they tell each other
arrives as events of the kernel, and what takes time on a disk takes simulated time: above all an
fsync, which covers what was written when it began while more is written.

A failed write or fsync ends the process, as in life; somebody starts it again later.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from tests.simulation.bookie_access import BookieAccess
from tests.simulation.bookie_actors import BookieActors
from tests.simulation.bookie_checkpoints import BookieCheckpoints
from tests.simulation.bookie_directories import draw_directories
from tests.simulation.bookie_front import BookieFront
from tests.simulation.bookie_parts import Parts
from tests.simulation.bookie_starts import BookieStarts
from tests.simulation.collector import BookieCollector, UpkeepPlan
from tests.simulation.kernel import MS, Kernel, Node
from tests.simulation.links import ClientPool
from tests.simulation.live_session import LiveSession
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.network import Network
from tests.simulation.oracle import BookieOracle
from tests.simulation.recheck import BookieRecheck
from tests.simulation.scrubber import BookieScrubber
from tests.support.history import FAILED_FSYNC, POWER_LOSS
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.ledger_secrets import secret_of
from zbk.actors.identity.losses import Losses
from zbk.actors.serve.ledger_lookups import LedgerLookup, LookedUp, LookUp
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.actors.serve.storage import StorageMessage
from zbk.actors.serve.sync_queue import Synced
from zbk.errors import (
    BookieUnavailableError,
    LostHistoryError,
    StorageFailedError,
    WrongBookieError,
    ZbkError,
)
from zbk.metadata.paths import registration_path
from zbk.metadata.records.instance import instance_id
from zbk.storage.bookie_storage import BookieStorage
from zbk.transport.inbound import Inbound, Outbound


class SimulatedBookie:
    """One bookie and its disk; it crashes, and comes back."""

    def __init__(
        self,
        kernel: Kernel,
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
        self.faults = network.faults
        self.node = Node(kernel, address)
        self.bookie_id = bookie_id
        self.address = address
        self.disk = SimulatedDisk()
        self.is_lost = False  # for ever
        self._has_empty_disk = False
        self._is_registered = is_registered  # while it runs
        self._plan = upkeep
        self._upkeep: list[BookieCollector | BookieScrubber] = []  # of this life
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
        self.directories, self._limits = draw_directories(kernel.tape)
        self._starts = BookieStarts(
            self, self._session, metadata, is_cookie_checked=parts.is_cookie_checked
        )
        self.node.is_alive = False
        self._storage: BookieStorage | None = None
        self.directories.init(self.disk, self._session, bookie_id)
        network.hosts[address] = self
        network.addresses[bookie_id] = address

    @property
    def incarnation(self) -> int:
        """The number of its last start."""
        return self._starts.incarnation

    @property
    def losses(self) -> Losses | None:
        """What its last start has found that may be lost."""
        return self._starts.losses

    # ------------------------------------------------------------------ start

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
            if self._starts.has_lost_files and isinstance(error, LostHistoryError):
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
            self.directories.check(disk, self._session)
        else:
            self.directories.make(disk)
        storage = parts.storage(
            disk,
            journal_dir=self.directories.journals,
            ledger_dir=self.directories.ledgers,
            bookie_id=self.bookie_id,
            limits=self._limits,
        )
        losses = self._starts.find_losses(storage)
        secrets = partial(secret_of, self._session.ledgers())
        found = storage.open(secrets, was_killed=losses.was_killed)
        self._starts.claim()
        if found.cut_record_count:
            self.kernel.sometimes["bookie: torn tail of the journal cut"] += 1
        self._storage = storage
        self._front = BookieFront(self, self._network, self._access)
        self._checkpoints = BookieCheckpoints(self, storage)
        access = None if self._access is None else self._access.begin()
        self._actors = BookieActors(self, parts, storage, self._look_up, access)
        self.node.is_alive = True
        self._note_directories(storage)
        self.node.trace(f"starts, incarnation {self.incarnation}, {found}")
        self.oracle.audit(storage)
        self._starts.note_whole_again(storage)
        self._actors.note_synced_at_times()
        self._checkpoints.begin_soon()
        self._actors.sync_at_times()
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
        return self._starts.is_in_limbo(has_lost_fences=True)

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
        return self.node.is_alive and self._starts.is_in_limbo(has_lost_fences=False)

    def lose_disk(self) -> None:
        """Put an empty disk in."""
        self.disk = SimulatedDisk()
        self._has_empty_disk = True

    def wipe(self) -> None:
        """Do what ``zbk bookie format`` does to a bookie that is down, and is to come back."""
        assert not self.node.is_alive, "it runs"
        self.directories.wipe(self.disk)
        self._starts.is_wiped = True
        self._forget_promises()

    def lose_files(self) -> None:
        """Delete all files but the cookies, while the bookie is down; of one journal, at times."""
        assert not self.node.is_alive, "it runs"
        self.directories.lose_files(self.disk, self.kernel)
        self._starts.has_lost_files = True
        self._forget_promises()

    def start_on_purpose(self) -> None:
        """Start from now on as one that was wiped on purpose."""
        self._starts.is_wiped = True

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
            self._starts.power_lost()
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
        self._front.greeted(peer)
        return self.incarnation

    def take(self, inbound: Inbound) -> None:
        """Receive a request from the network."""
        self._front.take(inbound)

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers."""
        self._front.send(answers)

    # ------------------------------------------------------------------ actors

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        self._actors.handle(message)

    def hear_of_keys(self) -> None:
        """Learn of a change of principals, some time later."""
        if self._access is not None:
            self._access.hear_of_keys()

    @property
    def waiting(self) -> list[Inbound]:
        """The requests that wait for a look-up."""
        return self._actors.waiting

    def _look_up(self, question: LookUp) -> None:
        def find() -> LookedUp:
            return LookedUp(self._lookup.find(question.ledger_ids))

        self._metadata.submit(self.node, find, self._looked_up)

    def _looked_up(self, answer: LookedUp) -> None:
        self._guarded(self.tell_storage_actor, (answer,))

    def tell_synced(self, message: Synced | LogsSynced) -> None:
        """Notify the storage actor of a sync, some time later."""
        self.later(10 + self.kernel.tape.draw(3) * 50, self.tell_storage_actor, message)

    def sync_us(self) -> int:
        """Draw how long an fsync takes."""
        tape = self.kernel.tape
        if self.faults.is_sync_stalling and tape.chance(5):
            return tape.draw(8) * 300 * MS
        return 50 + tape.draw(8) * self.faults.sync_us_max // 8

    def ask_checkpoint(self, done: Callable[[], None]) -> None:
        """Call ``done`` when a checkpoint has ended that begins from now on."""
        self._checkpoints.ask(done)
