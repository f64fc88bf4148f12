"""The thread contract of storage, on real files: one owner, others that sync, read, checkpoint."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, NO_LIMIT, read_all
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.system.files import OsFiles

BATCH_COUNT = 90


def open_storage(root: Path) -> BookieStorage:
    storage = BookieStorage(
        OsFiles(),
        journal_dir=f"{root}/journal",
        ledger_dir=f"{root}/ledgers",
        bookie_id="bookie-1",
        limits=StorageLimits(
            segment_size=1 << 17, log_size_max=1 << 17, ledger_cache_size=3 * 9000, open_files_max=3
        ),
    )
    storage.open()
    return storage


class Others:
    """What the other threads do, over and over, until the owner is done."""

    def __init__(self, storage: BookieStorage) -> None:
        self.storage = storage
        for one in storage.directories:
            one.logs._ahead_size = 1000  # or it would have nothing to do
        self.resolved: list[Resolved] = []
        self.handed: list[Checkpoint] = []
        self.done: list[Checkpoint] = []
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        journal = self.storage.journal
        work = (journal.sync, journal.prepare_next, self.storage.sync_logs_ahead)
        threads = [
            threading.Thread(target=self._repeat, args=(one,))
            for one in (*work, self._read, self._checkpoint)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(20)

    def _repeat(self, work: Callable[[], object]) -> None:
        try:
            while not self._is_over.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - the test tells
            self.failures.append(error)

    def _read(self) -> None:
        for resolved in self.resolved[-5:]:
            count, body = self.storage.home_of(resolved).fetch(resolved)
            assert count == 20
            assert len(body) == 20 * 98

    def _checkpoint(self) -> None:
        if self.handed:
            checkpoint = self.handed.pop()
            checkpoint.run()
            self.done.append(checkpoint)


def test_others_sync_read_and_checkpoint_while_the_owner_adds(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    others = Others(storage)
    under_way: Checkpoint | None = None
    with others.at_work():
        for n in range(BATCH_COUNT):
            batch = batch_of(n % 3, range(n * 20, n * 20 + 20), 50)
            if n < 3:
                storage.homes.place(n).home.cache.set_ledger_key(n, KEY, LedgerType.PD_JOURNAL)
                storage.journal.append([LedgerKeyRecord(n, KEY, LedgerType.PD_JOURNAL)])
            add_batches(storage.homes, [batch])
            storage.journal.append([EntriesRecord(batch)])
            resolved = storage.homes.ledger(batch.ledger_id).resolve(batch.entry_ids, NO_LIMIT)
            assert resolved is not None
            others.resolved.append(resolved)
            if under_way is None:
                under_way = storage.begin_checkpoint()
                others.handed.append(under_way)
            elif others.done:
                storage.end_checkpoint(others.done.pop())
                under_way = None
    assert others.failures == []
    storage.close()

    storage = open_storage(tmp_path)
    for n in range(BATCH_COUNT):
        batch = batch_of(n % 3, range(n * 20, n * 20 + 20), 50)
        assert read_all(storage, n % 3, batch.entry_ids) == batch.body
    storage.close()
