"""The entries of bypass ledgers that no fsync of their entry log covers, and the next fsync.

One sync of a ledger directory's logs is under way at a time. It covers the logs of the ledgers that
requests wait for, all that was appended before it began: own logs of these ledgers only, or the
shared log, and with it every ledger that is in there. When it has ended, the storage actor journals
a record of these entries; after the fsync of that record the cursors move and the requests are
answered (the steps are in ``zbk.durability.vd_bypass_journal``).

A sync begins when a request waits for it. A checkpoint, which syncs the logs anyway, is followed by
one of everything, so that no more entries wait here than came since the last checkpoint.

Owned by the storage actor; ``unsynced`` may be called in any thread.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.durability.synced_run import SyncedRun
from zbk.errors import OutOfDescriptorsError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.storage.entry_logs.log_sync import LogSync
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.transport.inbound import Inbound, Outbound

Wait: TypeAlias = Outbound | Inbound
"""An answer to send when a ledger is durable; or a sync, whose answer has the cursor of then."""


class Placed(msgspec.Struct, frozen=True):
    """A batch in an entry log."""

    log_id: int
    size: int  # in bytes
    runs: Iterable[SyncedRun]  # of its entries, with those that are here already


class SyncLogs(msgspec.Struct, frozen=True):
    """To the log sync actor: run the sync of one ledger directory's logs."""

    directory_no: int
    sync: LogSync


class LogsSynced(msgspec.Struct, frozen=True):
    """To the storage actor: the sync has run, or found no descriptor."""

    directory_no: int
    error: OutOfDescriptorsError | None = None


class UnsyncedEntries:
    """Entries of one ledger in an entry log, and who waits for their fsync."""

    __slots__ = ("lac", "log_ids", "runs", "since_us", "size", "slot", "waits")

    def __init__(self, slot: LedgerSlot, since_us: int, log_id: int) -> None:
        self.slot = slot
        self.since_us = since_us  # when the first of them came
        self.log_ids = {log_id}  # that they are in
        self.runs: list[SyncedRun] = []
        self.size = 0
        self.lac = NO_ENTRY  # that the last of them carries
        self.waits: list[Wait] = []

    def add(self, size: int, runs: Iterable[SyncedRun], lac: int) -> None:
        """Add entries: ``size`` bytes, and with those that are here already these runs."""
        self.size += size
        self.lac = max(self.lac, lac)
        for run in runs:
            self.note_held(run)

    def note_held(self, run: SyncedRun) -> None:
        """Add entries that are here, and that the cursor does not count yet."""
        joined = self.runs[-1].joined(run) if self.runs else None
        if joined is None:
            self.runs.append(run)
        else:
            self.runs[-1] = joined

    def join(self, later: "UnsyncedEntries") -> None:
        """Add what came later."""
        self.log_ids |= later.log_ids
        self.runs += later.runs
        self.size += later.size
        self.lac = max(self.lac, later.lac)
        self.waits += later.waits


class _Directory:
    """The logs of one ledger directory, and the entries in them that no sync covers."""

    __slots__ = ("home", "running", "sharing", "waiting", "wanted")

    def __init__(self, home: LedgerDirectory) -> None:
        self.home = home
        self.waiting: dict[int, UnsyncedEntries] = {}  # by ledger: for the next sync
        self.running: dict[int, UnsyncedEntries] = {}  # that the one under way covers
        self.wanted: set[int] = set()  # ledgers of ``waiting`` that the next sync must cover
        self.sharing: set[int] = set()  # ledgers of ``waiting`` without entries in an own log

    def put(self, entries: UnsyncedEntries) -> None:
        """Add entries to those that wait."""
        ledger_id = entries.slot.ledger_id
        earlier = self.waiting.setdefault(ledger_id, entries)
        if earlier is not entries:
            earlier.join(entries)
        if any(self.home.logs.is_own(log_id) for log_id in earlier.log_ids):
            self.sharing.discard(ledger_id)
        else:
            self.sharing.add(ledger_id)

    def take(self) -> dict[int, UnsyncedEntries]:
        """Remove and return the entries that the next sync covers."""
        if len(self.wanted) == len(self.waiting):
            taken, self.waiting, self.sharing = self.waiting, {}, set()
        else:
            taken = {one: self.waiting.pop(one) for one in self.wanted}
            self.sharing -= self.wanted
            is_own = self.home.logs.is_own
            if not all(is_own(log_id) for one in taken.values() for log_id in one.log_ids):
                taken |= {one: self.waiting.pop(one) for one in self.sharing}
                self.sharing = set()
        self.wanted = set()
        return taken

    def drop(self, ledger_id: int) -> None:
        """Drop the entries of a ledger that wait, unless a request waits for them."""
        entries = self.waiting.get(ledger_id)
        if entries is not None and not entries.waits:
            del self.waiting[ledger_id]
            self.wanted.discard(ledger_id)
            self.sharing.discard(ledger_id)


class LogSyncs:
    """The un-synced entries of all ledger directories."""

    def __init__(
        self, homes: Sequence[LedgerDirectory], sync_logs: Callable[[SyncLogs], None]
    ) -> None:
        self._directories = [_Directory(home) for home in homes]
        self._sync_logs = sync_logs

    def stored(self, slot: LedgerSlot, placed: Placed, lac: int, now_us: int) -> None:
        """Record a batch that was appended, and not journaled."""
        directory = self._directories[slot.stored.home.number]
        directory.home.unjournaled_size += placed.size
        entries = directory.waiting.get(slot.ledger_id)
        slot.is_adding, slot.is_log_unsynced = False, True
        if entries is None or placed.log_id not in entries.log_ids:
            directory.put(UnsyncedEntries(slot, now_us, placed.log_id))
            entries = directory.waiting[slot.ledger_id]
        entries.add(placed.size, placed.runs, lac)

    def wait(self, slot: LedgerSlot, wait: Wait) -> None:
        """Keep a request until all that the ledger has is on stable storage."""
        directory, entries = self._last_of(slot)
        entries.waits.append(wait)
        if slot.ledger_id in directory.waiting:
            directory.wanted.add(slot.ledger_id)

    def note_held(self, slot: LedgerSlot, run: SyncedRun) -> None:
        """Record entries that a ledger has, and that its cursor does not count yet."""
        _directory, entries = self._last_of(slot)
        entries.note_held(run)

    def want_all(self) -> None:
        """Begin a sync soon of everything that is not synced."""
        for directory in self._directories:
            directory.wanted = set(directory.waiting)

    def begin(self) -> None:
        """Begin the syncs that are wanted, where none is under way. At the end of a turn."""
        for directory in self._directories:
            if directory.wanted and not directory.running:
                directory.running = directory.take()
                log_ids = set[int]().union(*[one.log_ids for one in directory.running.values()])
                sync = directory.home.logs.begin_sync(log_ids)
                self._sync_logs(SyncLogs(directory.home.number, sync))

    def ended(self, directory_no: int) -> Sequence[UnsyncedEntries]:
        """Return the entries that an fsync has covered."""
        directory = self._directories[directory_no]
        synced, directory.running = directory.running, {}
        for ledger_id, entries in synced.items():
            entries.slot.is_log_unsynced = ledger_id in directory.waiting
        return list(synced.values())

    def failed(self, directory_no: int) -> Sequence[Wait]:
        """Return the requests to refuse, as an fsync found no descriptor; the entries stay."""
        directory = self._directories[directory_no]
        again, directory.running = directory.running, {}
        return [wait for entries in again.values() for wait in self.keep(entries)]

    def keep(self, entries: UnsyncedEntries) -> Sequence[Wait]:
        """Leave entries to a later sync; return the requests to refuse."""
        slot, refused = entries.slot, entries.waits
        slot.is_log_unsynced, entries.waits = True, []
        directory = self._directories[slot.stored.home.number]
        later = directory.waiting.pop(slot.ledger_id, None)
        for one in (entries, later):
            if one is not None:
                directory.put(one)
        return refused

    def finish(self) -> Sequence[UnsyncedEntries]:
        """Sync everything in the calling thread; return all entries. When the bookie stops.

        Raises:
            StorageFailedError: an fsync failed.
        """
        synced: list[UnsyncedEntries] = []
        for directory in self._directories:
            if directory.running or directory.waiting:
                directory.home.logs.sync()  # also what is under way
                synced += self.ended(directory.home.number)
                directory.wanted = set(directory.waiting)
                directory.running = directory.take()
                synced += self.ended(directory.home.number)
        return synced

    def forget(self, ledger_id: int) -> None:
        """Forget a ledger that was deleted; its waiting requests get the same answers as others."""
        for directory in self._directories:
            directory.drop(ledger_id)

    def unsynced(self, now_us: int) -> list[UnsyncedLedger]:
        """Return the ledgers with acknowledged entries that no fsync covers. Any thread."""
        return [
            UnsyncedLedger(
                ledger_id=entries.slot.ledger_id,
                unsynced_size=entries.size,
                entry_count=sum([run.count for run in list(entries.runs)]),
                age_ms=max(0, now_us - entries.since_us) // 1_000,
            )
            for directory in self._directories
            for entries in [*directory.running.values(), *directory.waiting.values()]
        ]

    def _last_of(self, slot: LedgerSlot) -> tuple[_Directory, UnsyncedEntries]:
        """Return what is synced last of a ledger's entries."""
        assert slot.is_log_unsynced, "else it would wait forever"
        directory = self._directories[slot.stored.home.number]
        entries = directory.waiting.get(slot.ledger_id)
        return directory, directory.running[slot.ledger_id] if entries is None else entries
