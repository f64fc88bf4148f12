"""Flushers against deleters on real files, as many of each as BookKeeper's own test has."""

import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.system.files import File, FileSystem, OsFile, OsFiles

LEDGER_COUNT = 1_000
THREAD_COUNT = 10
KEPT = 7  # of each hundred, one ledger stays


class _QuickFile(OsFile):
    """A file that nobody waits for: this is about order, not about power."""

    def sync(self) -> None:
        """Do nothing."""


class _QuickFiles(OsFiles):
    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(path, create=create, write=write)
        assert isinstance(file, OsFile)
        quick = _QuickFile(file._fd, path)
        file._fd = -1
        return quick

    def sync_dir(self, path: str) -> None:
        """Do nothing."""


def open_storage(files: FileSystem, root: Path) -> BookieStorage:
    storage = BookieStorage(
        files,
        journal_dir=f"{root}/journal",
        ledger_dir=f"{root}/ledgers",
        bookie_id="bookie-1",
        limits=StorageLimits(log_size_max=1 << 15, open_files_max=8),
    )
    storage.open()
    return storage


class _Race:
    """Ten who flush, ten who delete; ``owner`` is the turn of the thread that owns storage."""

    def __init__(self, storage: BookieStorage) -> None:
        self.storage = storage
        self.owner = threading.Lock()
        self.flushing = threading.Lock()  # one checkpoint at a time
        self.noting = threading.Lock()  # and one note
        self.to_delete = iter([one for one in range(LEDGER_COUNT) if one % 100 != KEPT])
        self.is_over = threading.Event()
        self.failures: list[BaseException] = []

    def flush(self) -> None:
        while not self.is_over.is_set():
            with self.flushing:
                with self.owner:
                    checkpoint = self.storage.begin_checkpoint()
                checkpoint.run()
                with self.owner:
                    self.storage.end_checkpoint(checkpoint)

    def delete(self) -> None:
        garbage = self.storage.garbages[0]
        while True:
            with self.owner:
                ids = [one for _, one in zip(range(9), self.to_delete, strict=False)]
                if not ids:
                    return
                for ledger_id in ids:  # the last entries come just before
                    store(self.storage, ledger_id, range(5, 10))
                garbage.deleted.mark(ids)
            with self.noting:
                garbage.deleted.write()
            with self.owner:
                garbage.drop(ids)
            with self.noting:
                for log_id in garbage.left_logs():
                    garbage.remove_dead([log_id])

    def run(self) -> None:
        flushers = [self._thread(self.flush) for _ in range(THREAD_COUNT)]
        deleters = [self._thread(self.delete) for _ in range(THREAD_COUNT)]
        for thread in deleters:
            thread.join(60)
        self.is_over.set()
        for thread in flushers:
            thread.join(60)
        assert self.failures == []

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)
                raise

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread


def store(storage: BookieStorage, ledger_id: int, entry_ids: range) -> None:
    batch = batch_of(ledger_id, entry_ids)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    storage.journal.append(
        [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)]
    )


def test_ten_flushers_bring_back_nothing_that_ten_deleters_collect(tmp_path: Path) -> None:
    """B36: and neither does a restart; the logs go with the ledgers."""
    files = _QuickFiles()
    storage = open_storage(files, tmp_path)
    for ledger_id in range(LEDGER_COUNT):
        store(storage, ledger_id, range(5))
    kept = list(range(KEPT, LEDGER_COUNT, 100))

    _Race(storage).run()

    for _ in range(2):
        assert storage.ledgers() == kept
        assert storage.ledger_count == len(kept)
        under_way = storage.begin_checkpoint()
        under_way.run()
        storage.end_checkpoint(under_way)
        assert len(list(tmp_path.glob("ledgers/index/**/*.idx"))) == len(kept)
        for log_id in storage.garbages[0].left_logs():  # what the last mark of the race missed
            storage.garbages[0].remove_dead([log_id])
        storage.close()
        storage = open_storage(files, tmp_path)
    log_count = len(list(tmp_path.glob("ledgers/logs/*.log")))
    assert log_count <= len(kept) + 2, "each kept ledger has one log, and one is written"
    storage.close()
