"""Applies journal records to entry logs and index after a start.

Before the crash a record was applied, or not, or in part: applying it is idempotent.

Batches to store are stored in groups, one write to the entry log for many records. A batch that may
overlap a waiting one is compared only after the waiting one is stored.

Threads: the owner's, once, before the bookie serves.

Source: BookKeeper's ``BookieImpl.readJournal``.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import filterfalse
from typing import Final, assert_never

from zbk.durability.level import level_of
from zbk.errors import EntryUnreadableError, InvalidOptionError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.own_logs import SHARED_LOG
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedEntriesRecord,
    SyncedRecord,
)
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.storage.ledger_homes import LedgerHomes
from zbk.storage.stored_ledger import Presence, StoredLedger
from zbk.storage.tools.rebuild_sources import AskOthers
from zbk.storage.unjournaled import Promised
from zbk.system.event_log import EventLog

LOG = EventLog(__name__)

GROUP_COUNT_MAX: Final = 512  # batches stored together
GROUP_SIZE_MAX: Final = 4 * 1024 * 1024  # bytes of them, and one more batch


def add_batches(homes: LedgerHomes, batches: Sequence[EntryBatch]) -> None:
    """Append batches, each in its ledger's home. None of the entries is there.

    Raises:
        NoSuchLedgerError, CorruptRecordError, NoSpaceError, StorageFailedError: as
            ``LedgerDirectory.add``, of the first home that fails.
    """
    by_home: dict[LedgerDirectory, list[tuple[EntryBatch, StoredLedger]]] = {}
    for batch in batches:
        ledger = homes.ledger(batch.ledger_id)
        ledger.index.prepare(batch.entry_ids)
        by_home.setdefault(ledger.home, []).append((batch, ledger))
    for home, some in by_home.items():
        home.add([batch for batch, _ in some], [ledger.index for _, ledger in some])


class Replayer:
    """Applies records and counts. ``finish`` comes last.

    ``ask_others`` gives the key of a ledger whose index was lost.
    """

    def __init__(
        self,
        homes: LedgerHomes,
        is_deleted: Callable[[int], bool],
        limbo: LimboFile,
        ask_others: AskOthers,
    ) -> None:
        self._homes = homes
        self._is_deleted = is_deleted
        self._limbo = limbo
        self._ask_others = ask_others
        self.entry_count = 0  # stored again
        self.orphan_count = 0  # records of ledgers that the bookie does not have
        self.promised = Promised()  # entries that only the entry logs have
        self._keyed: set[int] = set()  # ledgers whose key records were applied
        self._gained: list[tuple[LedgerDirectory, Collection[int]]] | None = None
        self._known: dict[int, StoredLedger] = {}  # none of them goes meanwhile
        self._waiting: list[EntryBatch] = []
        self._waiting_size = 0
        self._waiting_until: dict[int, int] = {}  # by ledger: the highest id that waits

    def apply(self, record: JournalRecord) -> None:  # noqa: C901 - a case for each kind of record
        """Apply one record."""
        match record:
            case SyncedRecord():
                pass
            case LedgerKeyRecord(ledger_id, ledger_key, ledger_type):
                if self._is_deleted(ledger_id):
                    self.orphan_count += 1
                else:
                    self._keyed.add(ledger_id)
                    self._set_key(ledger_id, ledger_key, ledger_type)
            case EntriesRecord(batch):
                ledger = self._find(batch.ledger_id)
                if ledger is not None:
                    self._apply_entries(ledger, batch)
            case FenceRecord(ledger_id):
                ledger = self._find(ledger_id)
                if ledger is not None:
                    self.apply_fence(ledger)
            case ExplicitLacRecord(ledger_id, lac):
                ledger = self._find(ledger_id)
                if ledger is not None:
                    ledger.index.set_explicit_lac(lac)
            case SyncedEntriesRecord():
                self.promised.records.append(record)
            case _:
                assert_never(record)

    def apply_fence(self, ledger: StoredLedger) -> None:
        """Fence a ledger."""
        ledger.index.set_fenced()

    def finish(self) -> None:
        """Store the batches that still wait."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_size = 0
            self._waiting_until.clear()
            add_batches(self._homes, waiting)

    def note_losses(self, directories: Iterable[LedgerDirectory], *, was_killed: bool) -> None:
        """Put ledgers in limbo that may lack entries which only entry logs had.

        Comes after the scan of the logs. If a log is lost, no index may know what it had of ledgers
        that bypass the journal. A ledger that lacks what the journal shows has lost a log, or bytes
        of one: entries that were synced; or, ``was_killed``, all of them, if the journal has the
        key, which follows the first entry, or comes with a fence or LAC. ``was_killed``: logs were
        noted as they were made.

        Raises:
            StorageFailedError: it could not be written; ``NoSpaceError`` among them.
        """
        broken = list(self.promised.lost(self._index_of))
        if broken:
            LOG.error(
                "storage.synced_entries_lost",
                "%(ledger_count)d ledgers, %(ledger_id)d among them, lack entries that were synced "
                "in entry logs: these ledgers are in limbo until they are compared with peers",
                ledger_count=len(broken),
                ledger_id=broken[0],
            )
        evidence = [*broken, *filter(self._has_lost_all, self._keyed if was_killed else ())]
        homes = {self._homes.ledger(one).home.path for one in evidence}
        doubtful: set[int] = set()
        for one in directories:
            owners = one.owners_of_lost_logs() if was_killed else set()
            is_any = one.scrub.lost_logs or one.path in homes or SHARED_LOG in owners
            if is_any or owners:
                some = filterfalse(self._is_deleted, one.unjournaled_ledgers())
                doubtful.update(some if is_any else owners.intersection(some))
        if more := sorted(doubtful.difference(broken)):
            LOG.error(
                "storage.unindexed_entries_lost",
                "%(ledger_count)d ledgers, %(ledger_id)d among them, bypass the journal, and entry "
                "logs that are lost may have had entries of them which no index has: these ledgers "
                "are in limbo until they are compared with peers",
                ledger_count=len(more),
                ledger_id=more[0],
            )
        if broken or more:
            self._limbo.note_lost_indexes(LedgerRanges().with_ids([*broken, *more]))

    def _has_lost_all(self, ledger_id: int) -> bool:
        """Return whether a ledger that bypasses the journal had entries, and nothing is left.

        A fence or a LAC may be the first of a ledger as well. One in limbo is in doubt anyway.
        """
        info = None if self._is_deleted(ledger_id) else self._homes.info(ledger_id)
        return (
            info is not None
            and not level_of(info.ledger_type).is_journaled
            and info.is_bare
            and not self._limbo.limbo.is_miss_unknown(ledger_id, info.ledger_type)
        )

    def _index_of(self, ledger_id: int) -> IndexHandle | None:
        is_here = not self._is_deleted(ledger_id) and self._homes.info(ledger_id) is not None
        return self._homes.ledger(ledger_id).index if is_here else None

    def _find(self, ledger_id: int) -> StoredLedger | None:
        """Return a ledger; ``None``, and count an orphan, if the bookie does not have it."""
        known = self._known.get(ledger_id)
        if known is None:
            is_here = self._homes.info(ledger_id) is not None or self._take_in_lost(ledger_id)
            if not is_here:  # deleted: its key record lies before the mark, its index is gone
                self.orphan_count += 1
                return None
            known = self._known[ledger_id] = self._homes.ledger(ledger_id)
        return known

    def _take_in_lost(self, ledger_id: int) -> bool:
        """Record a ledger whose index was lost; return false if it was not, or was deleted.

        Raises:
            ZbkError: the metadata store does not give its key.
        """
        if ledger_id not in self._limbo.lost_indexes or self._is_deleted(ledger_id):
            return False
        try:
            secret = self._ask_others(ledger_id)
        except InvalidOptionError:
            return False  # an old ledger: only its password gives the key
        if secret is not None:
            self._set_key(ledger_id, secret.ledger_key, secret.ledger_type)
        return secret is not None

    def _set_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        holder = None if level_of(ledger_type).is_journaled else self._holder_of(ledger_id)
        home = self._homes.place(ledger_id, holder).home
        home.cache.set_ledger_key(ledger_id, ledger_key, ledger_type)

    def _holder_of(self, ledger_id: int) -> LedgerDirectory | None:
        """Return the directory whose entry logs have entries of a ledger that no index has.

        The choice of a new home may differ from that of the process before, which had other
        directories to choose from, and the journal does not bring these entries to another one.
        """
        if len(self._homes.directories) == 1 or self._homes.find(ledger_id) is not None:
            return None
        if self._gained is None:
            self._gained = [(one, one.gained_ledgers()) for one in self._homes.directories]
        return next((one for one, ids in self._gained if ledger_id in ids), None)

    def _apply_entries(self, ledger: StoredLedger, batch: EntryBatch) -> None:
        if batch.first_entry_id <= self._waiting_until.get(batch.ledger_id, -1):
            self.finish()  # the comparison needs the waiting entries in storage
        try:
            presence = ledger.presence(batch)
        except EntryUnreadableError:
            presence = Presence.OTHER
        match presence:
            case Presence.SAME:
                return
            case Presence.PART:
                batch = ledger.missing_part(batch)
            case Presence.NONE | Presence.OTHER:
                # other bytes, or unreadable ones: the entry log is damaged there. The bytes in the
                # journal pass their checksums, and are those that were promised
                pass
            case _:
                assert_never(presence)
        self._waiting.append(batch)
        self._waiting_size += batch.size
        self._waiting_until[batch.ledger_id] = batch.last_entry_id
        self.entry_count += batch.count
        if len(self._waiting) >= GROUP_COUNT_MAX or self._waiting_size >= GROUP_SIZE_MAX:
            self.finish()
