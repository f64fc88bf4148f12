"""The index in memory: the location of each entry, and the header of each ledger.

Pages and headers are read on demand, changed in memory, and written back by a flush: that of a
checkpoint, or one that begins at once when no clean page is left to evict. Both are bounded.

Of the page that a ledger grows in, memory needs only the part added since the last flush, and the
limit counts its bytes. So 60,000 growing ledgers fit where 30,000 whole pages fit; with 20,000
ledgers these pages stay whole.

On a full disk a flush fails: changes then stay in memory, over the limit, until the next flush
ends. The bookie is read-only by then, and ``has_room`` is false when there are so many changes that
recoveries must wait, too.

Owned by one thread; the steps of a flush that it began may run in another one.

Source: the seed, section Ledger cache; BookKeeper's ``LedgerCacheImpl``, ``IndexInMemPageMgr``.
"""

from array import array
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import Final

from zbk.errors import CorruptRecordError, NoSpaceError, NoSuchLedgerError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.fail_stop import FailStop, as_failed_read
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.log_sync import LogSync
from zbk.storage.index.census import Census
from zbk.storage.index.index_change import LedgerChange, PageChange
from zbk.storage.index.index_file import (
    IndexPath,
    IndexReader,
    LedgerIndex,
    directory_of,
    encode_header,
    index_directories,
    ledger_ids,
    unfinished_paths,
)
from zbk.storage.index.index_flush import IndexFlush, IndexFlusher
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.index.index_page import (
    PAGE_LOCATIONS_SIZE,
    PAGE_OVERHEAD_SIZE,
    Page,
)
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.index.page_cache import PageCache, page_key, split_key
from zbk.storage.index.write_back import WriteBackCache
from zbk.system.files import FileSystem

MEMORY_SIZE: Final = 256 * 1024 * 1024
"""Bytes of pages in memory; pages that change during their flush are there twice."""

GROWING_SHARE: Final = 0.5
"""The share of the room for pages that growing pages may take after a flush."""

DIRTY_SHARE: Final = 0.75
"""The share of the room for pages that may be dirty before a flush is due."""

AGELESS_SHARE: Final = 0.75
"""The share of each limit up to which the caches do not track use."""

LEDGER_COUNT_MAX: Final = 30_000
"""Headers in memory, at about one KiB each."""

_PAGE_SIZE_MAX: Final = PAGE_LOCATIONS_SIZE + PAGE_OVERHEAD_SIZE


class LedgerCache:
    """The index of one ledger directory. Methods that take a ledger may raise these.

    Raises:
        NoSuchLedgerError: the bookie does not have the ledger.
        CorruptRecordError: its index is damaged or cannot be read.
        StorageFailedError: room had to be made, and writing failed, or anything failed before.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        begin_log_sync: Callable[[], LogSync],
        open_files: OpenFiles,
        fail_stop: FailStop,
        memory_size_max: int = MEMORY_SIZE,
        ledger_count_max: int = LEDGER_COUNT_MAX,
        census: Census | None = None,
    ) -> None:
        """``census``: of the directory; without one, missing index files are not detected."""
        self._files = files
        self._census = census or Census(files, directory, owner=b"", fail_stop=fail_stop)
        self._root = f"{directory}/index"
        self._begin_log_sync = begin_log_sync
        self._fail_stop = fail_stop
        self._memory_size_max = memory_size_max
        self._ledger_count_max = ledger_count_max
        self._reader = IndexReader(self._root, open_files)
        self._flusher = IndexFlusher(
            files, directory, self._root, fail_stop=fail_stop, census=self._census
        )
        self.pages = PageCache(
            self._reader,
            self._flusher.place_lock,
            self._page_under_way,
            growing_size_max=int(GROWING_SHARE * memory_size_max),
            ageless_size=int(AGELESS_SHARE * memory_size_max),
        )
        self.headers: WriteBackCache[int, LedgerIndex] = WriteBackCache(
            ageless_size=int(AGELESS_SHARE * ledger_count_max)
        )
        self._flush: IndexFlush | None = None
        self._is_stuck = False  # the last flush found no space
        self._ledger_count = 0

    def open(self) -> int:
        """Apply an interrupted flush; return the number of files that it touched.

        New files without their final name are removed: nothing in them was promised. So are
        directories that are empty because their ledgers were deleted.

        Raises:
            StorageFailedError: that failed.
            OSError: the directories cannot be made or read.
        """
        self._files.make_dirs(self._root)
        touched_count = self._flusher.recover()
        for path in unfinished_paths(self._files, self._root):
            self._files.remove(path)
        self._remove_empty_directories()
        for directory in index_directories(self._files, self._root):
            # a name made just before the crash may be in the page cache only, and be lost with the
            # power, after its ledger counted as stored
            self._files.sync_dir(directory)
        self.count_ledgers()
        return touched_count

    def _remove_empty_directories(self) -> None:
        """Remove the directories whose ledgers were all deleted. Comes before any flush."""
        deepest_first = list(index_directories(self._files, self._root))[:0:-1]
        for directory in deepest_first:
            if not self._files.list_dir(directory):
                self._files.remove_dir(directory)

    def count_ledgers(self) -> list[int]:
        """Count the index files; return their ledgers, ascending. Comes first.

        Raises:
            OSError: the directories cannot be read.
        """
        found = ledger_ids(self._files, self._root)
        self._ledger_count = len(found)
        return found

    # ------------------------------------------------------------------ ledgers

    @property
    def ledger_count(self) -> int:
        """The number of ledgers."""
        return self._ledger_count

    def ledgers(self) -> list[int]:
        """Return the ids of all ledgers, ascending. Walks the directories."""
        with as_failed_read(self._root, "list"):
            on_disk = ledger_ids(self._files, self._root)
        return sorted({*on_disk, *self.headers})

    def info(self, ledger_id: int) -> LedgerInfo | None:
        """Return the state of a ledger; ``None`` if the bookie does not have it."""
        index = self._find(ledger_id)
        self.make_room()
        return None if index is None else index.info()

    def set_ledger_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Record a ledger; an existing one is unchanged."""
        if self._find(ledger_id) is None:
            self._fail_stop.check()
            index = LedgerIndex(ledger_id, ledger_key, ledger_type)
            self.headers.add(ledger_id, index, is_dirty=True)
            self._ledger_count += 1
        self.make_room()

    def ledgers_in_memory(self) -> list[int]:
        """Return the ids of ledgers whose header is in memory: of all that have no file yet."""
        return list(self.headers)

    def delete(self, ledger_id: int) -> None:
        """Delete a ledger, durably, damaged or not. Its entries stay in the entry logs."""
        self.delete_all((ledger_id,))

    def delete_all(self, ledger_ids: Collection[int]) -> int:
        """Delete ledgers, as ``delete``, in one walk over the pages; return how many existed."""
        self._fail_stop.check()
        gone = set(ledger_ids)
        for key in [key for key in self.pages if split_key(key)[0] in gone]:
            self.pages.drop(key)
        known = {ledger_id for ledger_id in gone if ledger_id in self.headers}
        for ledger_id in gone:
            self.pages.forget(ledger_id)
            self.headers.drop(ledger_id)
            self._reader.forget(ledger_id)
        known |= self._flusher.delete(gone)
        self._ledger_count -= len(known)
        return len(known)

    # ------------------------------------------------------------------ handles

    def handle(self, ledger_id: int) -> IndexHandle:
        """Return the index of a ledger, whether it exists or not."""
        return IndexHandle(self, ledger_id)

    def check(self) -> None:
        """Return only if nothing has failed.

        Raises:
            StorageFailedError: the first failure.
        """
        self._fail_stop.check()

    @property
    def drop_count(self) -> int:
        """Grows whenever pages or headers, or parts of pages, are evicted."""
        return self.pages.drop_count + self.headers.drop_count

    # ------------------------------------------------------------------ flush

    @property
    def is_flush_due(self) -> bool:
        """True when dirty pages take much of the room."""
        return self.pages.dirty_size >= DIRTY_SHARE * self._memory_size_max

    @property
    def has_room(self) -> bool:
        """False while a full disk keeps twice the limit in memory."""
        return not self._is_stuck or (
            self.pages.size < 2 * self._memory_size_max
            and self.headers.size < 2 * self._ledger_count_max
        )

    @property
    def is_flushing(self) -> bool:
        """True while a flush under way may be writing index files."""
        return self._flush is not None

    def mend(self, ledger_id: int, page_no: int | None) -> bool:
        """Mark a header or a page for the next flush if it is in memory; return whether it is.

        For damage on disk: memory has the content that it once read whole.
        """
        if ledger_id not in self.headers or self._fail_stop.has_failed:
            return False
        if page_no is not None:
            page = self.pages.get(page_key(ledger_id, page_no))
            if page is None or page.start:  # the damage is in the part before its start
                return False
            self.pages.make_dirty(page_key(ledger_id, page_no), page)
        self.headers.make_dirty(ledger_id, self.existing(ledger_id))
        return True

    def finish_stuck_flush(self) -> None:
        """End the flush that was begun to make room and found no space, if there is one.

        Raises:
            NoSpaceError: it still cannot end.
        """
        if self._flush is not None and self._is_stuck:
            self._finish(self._flush)

    def begin_flush(self) -> IndexFlush:
        """Return a flush of all changes up to now, for the caller to run.

        Raises:
            NoSpaceError: as from ``finish_stuck_flush``; not after it.
        """
        self.finish_stuck_flush()
        assert self._flush is None, "one flush at a time"
        self._fail_stop.check()
        pages_by_ledger: dict[int, list[tuple[int, Page]]] = {}
        for key, page in self.pages.begin_flush().items():
            ledger_id, page_no = split_key(key)
            pages_by_ledger.setdefault(ledger_id, []).append((page_no, page))
        changes = []
        for ledger_id, index in self.headers.begin_flush().items():
            pages = sorted(pages_by_ledger.pop(ledger_id, ()), key=itemgetter(0))
            index.extents.add(page_no for page_no, _ in pages)
            directory = directory_of(index.extents)
            header = encode_header(index)
            page_changes = [_change(index, page_no, page) for page_no, page in pages]
            changes.append(
                LedgerChange(ledger_id, not index.has_file, header, page_changes, directory)
            )
        assert not pages_by_ledger, "the ledger of a changed page has changed"
        self._flush = self._flusher.begin(changes, self._begin_log_sync())
        return self._flush

    def end_flush(self, flush: IndexFlush) -> None:
        """Record that a flush has ended; ignored if it was ended already to make room."""
        if self._flush is not flush:
            return
        self._flush = None
        self._is_stuck = False
        for index in self.headers.end_flush().values():
            index.has_file = True
        self.pages.end_flush()

    def flush(self) -> None:
        """Write all changes to the disk; finish a flush under way first."""
        if self._flush is not None:
            self._finish(self._flush)
        self._finish(self.begin_flush())

    # ------------------------------------------------------------------ private

    def _finish(self, flush: IndexFlush) -> None:
        flush.run()
        self.end_flush(flush)

    def make_room(self) -> None:
        """Evict clean pages and headers until the limits hold; with none left, flush first."""
        if self.pages.size > self._memory_size_max:
            # a lone page may be larger than the room
            self._make_room(self.pages, max(self._memory_size_max, _PAGE_SIZE_MAX))
        if self.headers.size > self._ledger_count_max:
            self._make_room(self.headers, self._ledger_count_max)

    def _make_room(
        self,
        cache: PageCache | WriteBackCache[int, LedgerIndex],
        size_max: int,
    ) -> None:
        while cache.size > size_max:
            if cache.drop_oldest_clean() is None:
                if self._is_stuck:
                    return
                try:
                    self._finish(self._flush or self.begin_flush())
                except NoSpaceError:
                    self._is_stuck = True

    def _find(self, ledger_id: int) -> LedgerIndex | None:
        index = self.headers.get(ledger_id)
        if index is None:
            index = self._reader.read_header(ledger_id)
            if index is not None:
                self.headers.miss_count += 1
                self.headers.add(ledger_id, index, is_dirty=False)
            elif self._census.has_ledger(ledger_id):
                path = IndexPath.of(self._root, ledger_id).path
                raise CorruptRecordError(path, 0, "the index file is gone")
        else:
            self.headers.hit_count += 1
        return index

    def existing(self, ledger_id: int) -> LedgerIndex:
        """Return a ledger's header, from memory or its file.

        Raises:
            NoSuchLedgerError: there is none.
            CorruptRecordError: it is damaged or cannot be read.
        """
        index = self._find(ledger_id)
        if index is None:
            raise NoSuchLedgerError(ledger_id)
        return index

    def _page_under_way(self, ledger_id: int, page_no: int) -> "array[int] | None":
        return None if self._flush is None else self._flush.page(ledger_id, page_no)


def _change(index: LedgerIndex, page_no: int, page: Page) -> PageChange:
    locations = page.take()
    slot = index.extents.slot_of(page_no)
    return PageChange(page_no, slot, page.start, locations, len(locations))
