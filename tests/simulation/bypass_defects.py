"""The wrong methods about bypass ledgers that ``tests.simulation.defects`` puts in."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing

from zbk.actors.serve.add_requests import stripe_of
from zbk.actors.serve.log_sync import LogSyncActor
from zbk.actors.serve.log_syncs import LogsSynced, LogSyncs, SyncLogs, UnsyncedEntries
from zbk.actors.serve.turn import Turn
from zbk.storage.directory.lost_files import LostFiles
from zbk.storage.entry_logs.entry_log import EntryLogs, log_ids, log_path
from zbk.storage.entry_logs.log_sync import FileSync, LogSync
from zbk.storage.entry_logs.open_log import OpenLog
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.storage.unjournaled import UnjournaledScan
from zbk.transport.inbound import Outbound
from zbk.wire.messages import SyncAnswer


def syncs_nothing(self: LogSyncActor, message: SyncLogs) -> None:
    """Y1: a sync is answered, and its entries are in the page cache."""
    self._storage.tell(LogsSynced(message.directory_no))


def doubts_none(_self: LedgerDirectory) -> Iterator[int]:
    """Y8: where a log is lost, only ledgers that the journal shows to lack entries are in doubt."""
    return iter(())


def syncs_without_writing(self: LedgerDirectory, lost: LostFiles) -> dict[int, int]:
    """Y9: bytes of logs that a failed fsync left in the page cache count as kept."""
    known = dict(lost.known_sizes)
    for log_id in log_ids(self._files, f"{self.path}/logs"):
        with closing(self._files.open(log_path(f"{self.path}/logs", log_id), write=False)) as file:
            if file.size() > known.get(log_id, -1):
                file.sync()
                known[log_id] = file.size()
    return known


def finds_nothing(_self: UnjournaledScan) -> int:
    """Y2: a start takes what the index and the journal have."""
    return 0


_sync = FileSync._sync


def skips_rolled_logs(self: FileSync) -> None:
    """Y3: logs that were sealed since the last sync stay in the page cache."""
    if self._is_last:
        self._file.close()
    else:
        _sync(self)


def answers_before_the_journal(self: Turn, synced: Sequence[UnsyncedEntries]) -> None:
    """Y4: the entries are on the disk; the key of their ledger may not be."""
    for entries in synced:
        ledger = entries.slot.ledger
        for run in entries.runs:
            ledger.synced(run)
        for wait in entries.waits:
            if isinstance(wait, Outbound):
                self.answer(wait.inbound, wait.answer)
            else:
                answer = SyncAnswer(
                    request_id=wait.request.request_id,
                    incarnation=self.incarnation,
                    last_add_synced=ledger.last_add_synced_of(stripe_of(wait.request)),
                )
                self.answer(wait, answer)


_begin_sync = EntryLogs.begin_sync


def leaves_own_logs_out(self: EntryLogs, log_ids: Collection[int] | None = None) -> LogSync:
    """Y6: a sync covers the shared log, and answers for ledgers with a log of their own."""
    if log_ids is None:
        return _begin_sync(self)
    return _begin_sync(self, {one for one in log_ids if not self.is_own(one)})


_create = OpenLog.create


def makes_no_durable_name(self: OpenLog, owner: bytes, note: Callable[[], None]) -> None:
    """Y7: the bytes of a new log are synced, and its name is not."""
    _create(self, owner, note)
    self._is_name_new = False


_ended = LogSyncs.ended


def counts_what_came_later(self: LogSyncs, directory_no: int) -> Sequence[UnsyncedEntries]:
    """Y5: what was added during an fsync counts as synced by it."""
    synced = _ended(self, directory_no)
    directory = self._directories[directory_no]
    directory.wanted = set(directory.waiting)
    directory.running = directory.take()
    return [*synced, *_ended(self, directory_no)]
