"""A scrubber on real files, beside threads that add, flush, delete, and compact: no false alarm."""

import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY
from tests.support.scrubbing import Scrubber
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.entry_logs.location import split_location
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.storage.scrub.scrub_effects import OwnerQuestion
from zbk.system.files import OsFiles

PASS_COUNT_MAX = 1_000
LEDGER_COUNT = 12
ENTRY_COUNT = 30


class _Race:
    """``owner`` is the turn of the thread that owns storage; the index has room for few pages."""

    def __init__(self, root: Path) -> None:
        self.storage = BookieStorage(
            OsFiles(),
            journal_dir=f"{root}/journal",
            ledger_dir=f"{root}/ledgers",
            bookie_id="bookie-1",
            limits=StorageLimits(log_size_max=1 << 15, ledger_cache_size=1 << 15, open_files_max=8),
        )
        self.storage.open()
        self.root = root
        self.owner = threading.Lock()
        self.flushing = threading.Lock()
        self.is_over = threading.Event()
        self.flushed = threading.Semaphore(0)
        self.failures: list[BaseException] = []
        self.next_id = dict.fromkeys(range(LEDGER_COUNT), 0)
        self.doomed = LEDGER_COUNT
        self.moved_count = self.deleted_count = self.flush_count = 0
        for ledger_id in self.next_id:
            self.add(ledger_id)

    def add(self, ledger_id: int) -> None:
        first = self.next_id[ledger_id]
        self.next_id[ledger_id] = first + ENTRY_COUNT
        batch = batch_of(ledger_id, range(first, first + ENTRY_COUNT), 40)
        self.storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        add_batches(self.storage.homes, [batch])
        key = LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)
        self.storage.journal.append([key, EntriesRecord(batch)])

    def add_more(self) -> None:
        """Add as often as there are flushes: on a slow machine the ledgers would only grow."""
        if not self.flushed.acquire(timeout=0.1):
            return
        with self.owner:
            for ledger_id in range(LEDGER_COUNT):
                self.add(ledger_id)

    def flush(self) -> None:
        with self.flushing:
            with self.owner:
                checkpoint = self.storage.begin_checkpoint()
            checkpoint.run()
            with self.owner:
                self.storage.end_checkpoint(checkpoint)
            self.flush_count += 1
        self.flushed.release()

    def delete(self) -> None:
        (garbage,) = self.storage.garbages
        with self.owner:
            self.doomed += 1
            self.next_id[self.doomed] = 0
            self.add(self.doomed)
        self.flush()
        with self.owner:
            garbage.deleted.mark([self.doomed])
        garbage.deleted.write()
        with self.owner:
            self.deleted_count += garbage.drop([self.doomed])

    def move(self) -> None:
        """Do what compaction does: copy, have the index point there, checkpoint, remove."""
        (one,) = self.storage.directories
        left = one.garbage.left_logs()[:1]
        for log_id in left:
            for ledger_id in range(LEDGER_COUNT):
                with self.owner:
                    ids = range(self.next_id[ledger_id])
                    at = one.cache.handle(ledger_id).locations_of(range(ids[-1] + 1))
                    inside = [e for e in ids if split_location(at[e])[0] == log_id]
                    if inside:
                        one.add([batch_of(ledger_id, inside, 40)], [one.cache.handle(ledger_id)])
                        self.moved_count += len(inside)
            self.flush()
            (self.root / "ledgers" / "logs" / f"{log_id:08x}.log").unlink()

    @property
    def is_much_done(self) -> bool:
        return self.moved_count > 3_000 and self.deleted_count > 10 and self.flush_count > 40

    def start(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                while not self.is_over.is_set():
                    work()
            except BaseException as error:
                self.failures.append(error)
                raise

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def ask(self, question: OwnerQuestion) -> object:
        with self.owner:
            return question.answer()


def test_nothing_that_others_do_looks_like_damage(tmp_path: Path) -> None:
    race = _Race(tmp_path)
    race.flush()
    threads = [race.start(one) for one in (race.add_more, race.flush, race.delete, race.move)]
    (view,) = race.storage.scrubs

    found = []
    for _ in range(PASS_COUNT_MAX):
        found += Scrubber(view, ask=race.ask).run().files
        if race.is_much_done or race.failures:
            break

    race.is_over.set()
    for thread in threads:
        thread.join(60)
    assert (found, race.failures) == ([], [])
    assert race.is_much_done
    race.storage.close()
