"""Compaction of the entry logs of one ledger directory: its steps, in the only order that is safe.

    note      gc     the plan is put on stable storage: the log to make, and its sources
    copy      both   the *owner* finds the entries that the index points at, *gc* writes them to the
                     new log
    finish    gc     the new log is sealed, synced and named
    relocate  owner  the index is changed to point at the new log where it pointed at a source
    verify    both   no entry of the sources is in the index any more
    (a checkpoint that begins after that has ended: the index is on stable storage)
    remove    gc     the census forgets the sources, and they are deleted
    forget    gc     the note is removed

A crash may follow any step. Up to ``finish`` the next start removes the new log. After it, the new
log is a log like the others, the sources still exist, and the index points at the one or the other;
the next round of garbage collection continues at ``relocate`` with the entries in the new log. Only
the log itself records what was copied.

A source is removed only after each of its entries was looked up, so that even a bug here does not
remove what the index points at. Entries that were deleted or added again meanwhile are in other
logs.

Entries of a ledger that is neither deleted nor in the index are copied, too: a disk may have lost
its index file, which can be rebuilt from the logs.

Threads: as the table says; *gc* is any one thread.

Source: BookKeeper's ``TransactionalEntryLogCompactor``; BOOKKEEPER-530, BOOKKEEPER-1040.
"""

from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from zbk.errors import CorruptRecordError, NoSuchLedgerError, OutOfDescriptorsError
from zbk.protocol.upkeep.compaction import LogShare
from zbk.storage.directory_parts import DirectoryParts
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import BlockHeader
from zbk.storage.entry_logs.location import OFFSET_BITS, OFFSET_MAX, location_of
from zbk.storage.entry_logs.lost_regions import RegionsOfLog
from zbk.storage.entry_logs.runs import LogRuns, Piece, Run
from zbk.storage.entry_logs.uses import LogUses
from zbk.storage.gc.compaction_log import CompactionLog, compacting_paths
from zbk.storage.gc.compaction_note import CompactionNote, CompactionPlan
from zbk.storage.gc.live_counts import LiveCounts
from zbk.system.event_log import EventLog
from zbk.system.files import is_no_space

LOG = EventLog(__name__)

TAIL_SIZE: Final = 256 * 1024
"""Bytes at the end of a sealed log that are checked before its map is trusted."""


class Compaction:
    """The compaction of one ledger directory. Made by ``Garbage``."""

    def __init__(self, parts: DirectoryParts, uses: LogUses) -> None:
        self._files = parts.files
        self._census = parts.census
        self._owner = parts.owner
        self._log_dir = parts.log_dir
        self._deleted = parts.deleted
        self._cache = parts.cache
        self._logs = parts.logs
        self._uses = uses
        self._lost = parts.lost
        self._fail_stop = parts.fail_stop
        self._note = CompactionNote(parts.files, parts.path, parts.owner)
        self._spoiled: dict[int, RegionsOfLog] = {}  # logs with damage, and their lost regions
        self.counts = LiveCounts()
        self.directory = parts.path
        self.open_plan: CompactionPlan | None = None  # of which the new log and the sources exist

    # ------------------------------------------------------------------ start

    def clean_up(self) -> None:
        """Remove a log that a crash left half made; a compaction with a whole log continues later.

        Raises:
            StorageFailedError: it cannot be removed.
            OSError: it cannot be read.
        """
        for path in compacting_paths(self._files, self._log_dir):
            self._files.remove(path)
            self._files.sync_dir(self._log_dir)
        try:
            plan = self._note.read()
        except CorruptRecordError as error:
            # every log is whole and the index is right: only time is lost
            LOG.warning(
                "compaction.plan_unreadable",
                "%(error)s; later rounds find the copied entries again",
                error=error,
            )
            plan = None
        if plan is not None and self.is_made(plan):
            # its name may be in the page cache only: the index must not point at it before
            self._files.sync_dir(self._log_dir)
            self._lost.made(plan.target_id)
            self.open_plan = plan
        else:
            self._note.remove()

    # ------------------------------------------------------------------ owner

    def take_log_id(self) -> int:
        """Return the id of the log that is made next."""
        return self._logs.take_id()

    def live_places(self, run: Run) -> Sequence[int]:
        """Return the places of the entries of a run that the index points at, or may point at.

        Raises:
            CorruptRecordError: the index is damaged there: neither yes nor no.
        """
        if run.ledger_id in self._deleted.noted:
            return ()
        try:
            found = self._cache.handle(run.ledger_id).locations_of(run.entry_ids)
        except NoSuchLedgerError:
            return range(run.count)
        if found == run.locations:
            return range(run.count)
        pairs = enumerate(zip(found, run.locations, strict=True))
        return [at for at, (now, here) in pairs if now == here]

    def has_pointer(self, run: Run) -> bool:
        """Return whether the index points at an entry of a run.

        Raises:
            CorruptRecordError: the index is damaged there: neither yes nor no.
        """
        if run.ledger_id in self._deleted.noted:
            return False
        try:
            found = self._cache.handle(run.ledger_id).locations_of(run.entry_ids)
        except NoSuchLedgerError:
            return False
        return any(now == here for now, here in zip(found, run.locations, strict=True))

    def torn_block(self, log_id: int) -> BlockHeader | None:
        """Return the header of the block that a crash has cut off at the end of a log."""
        torn = self._uses.use_of(log_id).torn
        return None if torn is None else torn.header

    def look_behind(
        self, log_id: int, header: BlockHeader, from_id: int, count: int
    ) -> tuple[bool, int | None]:
        """Return whether the index points into a torn block, and the id from which to look next.

        Raises:
            CorruptRecordError: the index is damaged there, or the log has changed since
                ``torn_block``: neither yes nor no.
        """
        torn = self._uses.use_of(log_id).torn
        if torn is None:
            raise self.damage(log_id, "its torn end has changed meanwhile")
        if header.ledger_id in self._deleted.noted:
            return False, None
        try:
            index = self._cache.handle(header.ledger_id)
            first = index.next_entry_id(from_id)
            if first is None:
                return False, None
            found = index.locations_of(range(first, first + count))
        except NoSuchLedgerError:
            return False, None
        low, high = location_of(log_id, torn.offset), location_of(log_id, OFFSET_MAX)
        return any(low <= one <= high for one in found), first + count

    def relocate(self, run: Run, source_ids: Collection[int]) -> int:
        """Point the index at copies of entries that it has in the sources; return their number.

        A deleted ledger that is not noted yet, for lack of room, still has its index.

        Raises:
            CorruptRecordError: the index is damaged there; it is as it was.
        """
        if run.ledger_id in self._deleted.noted:
            return 0
        try:
            found = self._cache.handle(run.ledger_id).locations_of(run.entry_ids)
        except NoSuchLedgerError:
            return 0
        places = [at for at, now in enumerate(found) if now >> OFFSET_BITS in source_ids]
        if len(places) == run.count:
            self._cache.handle(run.ledger_id).set_locations(run.entry_ids, run.locations)
        elif places:
            ids = array("q", [run.entry_ids[at] for at in places])
            moved = array("Q", [run.locations[at] for at in places])
            self._cache.handle(run.ledger_id).set_locations(ids, moved)
        return len(places)

    @property
    def is_index_crowded(self) -> bool:
        """True when so much of the index has changed that a checkpoint should come first."""
        return self._cache.is_flush_due

    # ------------------------------------------------------------------ gc: before

    @property
    def log_size_max(self) -> int:
        """Bytes at which a log is complete."""
        return self._logs.log_size_max

    def is_compactable(self, log_id: int) -> bool:
        """Return whether a log is whole as far as is known; its end may be torn."""
        use = self._uses.use_of(log_id)
        is_spoiled = self._spoiled.get(log_id) == self._lost.of(log_id)
        return not is_spoiled and (use.is_whole or use.torn is not None)

    def has_map(self, log_id: int) -> bool:
        """Return whether a log was sealed and has no lost regions."""
        use = self._uses.use_of(log_id)
        return use.has_map and not use.lost

    def share_of(self, log_id: int) -> LogShare:
        """Return how much of a log is live, and whether it can be compacted."""
        use = self._uses.use_of(log_id)
        share = self.counts.share_of(use, self._deleted.noted)
        return LogShare(log_id, share.entry_size, share.live_size, self.is_compactable(log_id))

    def damage(self, log_id: int, reason: str) -> CorruptRecordError:
        """Return the error of damage to a log as a whole."""
        return CorruptRecordError(log_path(self._log_dir, log_id), 0, reason)

    def spoil(self, log_id: int) -> None:
        """Exclude a log until the next start, or until more of its regions are known to be lost."""
        self._spoiled[log_id] = self._lost.of(log_id)

    def pieces(self, log_id: int) -> Iterator[Piece]:
        """Read a complete log.

        Raises:
            CorruptRecordError: it is damaged.
        """
        lost = self._lost.of(log_id)
        return LogRuns(self._files, self._log_dir, log_id, self._owner, lost=lost).pieces()

    def tail(self, log_id: int) -> Iterator[Piece]:
        """Read the end of a log, as ``pieces``."""
        return LogRuns(self._files, self._log_dir, log_id, self._owner).tail(TAIL_SIZE)

    # ------------------------------------------------------------------ gc: making

    def note(self, plan: CompactionPlan) -> bool:
        """Put a plan on stable storage; return false if the disk is full.

        Raises:
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        assert self.open_plan is None, "one compaction at a time"
        self._fail_stop.check()
        try:
            self._note.write(plan)
        except OutOfDescriptorsError:
            return False
        except OSError as error:
            if is_no_space(error):
                return False
            raise self._fail_stop.failed(self._note.path, "write", error) from error
        return True

    def begin_log(self, plan: CompactionPlan) -> CompactionLog:
        """Return the log to write."""
        self._lost.made(plan.target_id)
        return CompactionLog(
            self._files,
            self._log_dir,
            plan.target_id,
            owner=self._owner,
            fail_stop=self._fail_stop,
        )

    def finish(self, plan: CompactionPlan, log: CompactionLog) -> None:
        """Give the new log its name: after a crash, compaction continues at ``relocate``.

        Raises:
            NoSpaceError, StorageFailedError: as ``CompactionLog``.
        """
        if log.size:
            log.finish()
            self._census.log_made(plan.target_id, log.size)
        self.open_plan = plan

    def abandon(self, log: CompactionLog | None = None) -> None:
        """Remove the new log, and forget the plan.

        Raises:
            StorageFailedError: it cannot be removed, or anything failed before.
        """
        if log is not None:
            log.abandon()
        self._forget()

    # ------------------------------------------------------------------ gc: afterwards

    def is_made(self, plan: CompactionPlan) -> bool:
        """Return whether the new log exists; it does not if there was nothing to copy."""
        return self._files.exists(log_path(self._log_dir, plan.target_id))

    def made_size(self, plan: CompactionPlan) -> int:
        """Return the bytes of the new log; 0 if there was nothing to copy."""
        return self._uses.use_of(plan.target_id).size if self.is_made(plan) else 0

    def left_sources(self, plan: CompactionPlan) -> list[int]:
        """Return the sources that still exist."""
        paths = [(one, log_path(self._log_dir, one)) for one in plan.source_ids]
        return [one for one, path in paths if self._files.exists(path)]

    def forget_sources(self, plan: CompactionPlan) -> bool:
        """Store a census without the sources; return false, and they stay, if there is no room.

        Raises:
            StorageFailedError: it cannot be written, or anything failed before.
        """
        return self._census.forget_logs(self.left_sources(plan))

    def remove_sources(self, plan: CompactionPlan) -> int:
        """Delete the sources that still exist; return the bytes freed.

        After ``forget_sources``, and after the checkpoint by which all pointers are on disk.

        Raises:
            StorageFailedError: one cannot be deleted, or anything failed before.
        """
        left_ids = self.left_sources(plan)
        freed_size = sum(self._uses.use_of(log_id).size for log_id in left_ids)
        self._logs.remove(left_ids)
        for log_id in left_ids:
            self._uses.forget(log_id)
            self.counts.forget(log_id)
        if self.is_made(plan):
            self._logs.left = self._logs.left.with_made(plan.target_id)
        self._forget()
        return freed_size

    def give_up(self, plan: CompactionPlan) -> None:
        """End a compaction with all logs as they are: the index points at either of them.

        Raises:
            StorageFailedError: the note cannot be removed, or anything failed before.
        """
        for log_id in plan.source_ids:
            self.counts.forget(log_id)
        self._forget()

    def _forget(self) -> None:
        self._fail_stop.check()
        self.open_plan = None
        with self._fail_stop.guard(self._note.path, "remove"):
            self._note.remove()
