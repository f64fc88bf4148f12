"""A log that compaction makes: written under another name, and then a log like the others.

    <id>.log.compacting   while it is written: it is not read, and a start removes it
    <id>.log              sealed and on stable storage

The entries of one step and one ledger become one block, if their ids ascend: entries that came
interleaved are read in a row from then on, and fewer headers are needed.

Adds go to other logs meanwhile, so cold entries are not mixed with new ones. Any one thread.

Format: ``zbk.storage.entry_logs.format``. Source: BookKeeper's ``TransactionalEntryLogCompactor``.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from zbk.errors import NoSpaceError, StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import (
    LOG_HEADER_SIZE,
    encode_block_header,
    encode_log_header,
    encode_map,
    log_seed,
)
from zbk.storage.entry_logs.location import OFFSET_MAX
from zbk.storage.entry_logs.runs import Run
from zbk.system.files import Buffer, File, FileSystem, is_no_space

COMPACTING_SUFFIX: Final = ".compacting"

SYNC_SIZE: Final = 16 * 1024 * 1024
"""Bytes after which the log is synced: an fsync of a whole log would delay other fsyncs."""


def compacting_path(directory: str, log_id: int) -> str:
    """Return the path of a log that is being made."""
    return log_path(directory, log_id) + COMPACTING_SUFFIX


def compacting_paths(files: FileSystem, directory: str) -> list[str]:
    """Return the paths of the logs in a directory that are not finished."""
    names = files.list_dir(directory)
    return [f"{directory}/{name}" for name in names if name.endswith(COMPACTING_SUFFIX)]


class CompactionLog:
    """One log that is being made. ``abandon`` or ``finish`` comes last.

    Raises:
        NoSpaceError: from every method but ``abandon``: there is no room. The bookie stays
            writable, because all entries are still in the sources.
        StorageFailedError: from every method: writing failed otherwise, or anything failed before.
    """

    def __init__(
        self, files: FileSystem, directory: str, log_id: int, *, owner: bytes, fail_stop: FailStop
    ) -> None:
        self._files = files
        self._directory = directory
        self._owner = owner
        self._fail_stop = fail_stop
        self._path = compacting_path(directory, log_id)
        self._seed = log_seed(owner, log_id)
        self._file: File | None = None
        self._offset = LOG_HEADER_SIZE
        self._synced_offset = 0
        self._size_by_ledger: dict[int, int] = {}
        self.log_id = log_id

    @property
    def size(self) -> int:
        """Bytes written; 0 before the first entry."""
        return self._offset if self._file is not None else 0

    def append(self, batches: Sequence[EntryBatch]) -> int:
        """Write blocks at the end; return their bytes."""
        if not batches:
            return 0
        buffers: list[Buffer] = []
        for batch in batches:
            buffers += (encode_block_header(batch, self._seed), batch.body)
        size = sum(map(len, buffers))
        assert self._offset + size <= OFFSET_MAX, "a location has to hold offsets"
        try:
            file = self._opened()
            file.pwrite(buffers, self._offset)
            self._offset += size
            if self._offset - self._synced_offset >= SYNC_SIZE:
                file.sync()
                self._synced_offset = self._offset
        except OSError as error:
            raise self._failure("write", error) from error
        for batch in batches:
            size_before = self._size_by_ledger.get(batch.ledger_id, 0)
            self._size_by_ledger[batch.ledger_id] = size_before + len(batch.body)
        return size

    def finish(self) -> None:
        """Seal, sync and name the log: when this returns, the index may point at it."""
        assert self._file is not None, "a log without entries is not made"
        self._fail_stop.check()
        try:
            seal = encode_map(self._size_by_ledger, self._offset, self._seed)
            self._file.pwrite([seal], self._offset)
            self._offset += len(seal)
            self._file.sync()
            self._file.close()
            self._files.rename(self._path, log_path(self._directory, self.log_id))
            self._files.sync_dir(self._directory)
        except OSError as error:
            raise self._failure("write", error) from error

    def abandon(self) -> None:
        """Remove what was written."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        with self._fail_stop.guard(self._path, "remove"):
            if self._files.exists(self._path):
                self._files.remove(self._path)
                self._files.sync_dir(self._directory)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> File:
        self._fail_stop.check()
        if self._file is None:
            self._file = self._files.open(self._path, create=True)
            self._file.pwrite([encode_log_header(self._owner, self.log_id)], 0)
        return self._file

    def _failure(self, operation: str, error: OSError) -> StorageFailedError:
        if is_no_space(error):
            return NoSpaceError(self._path, operation, str(error))
        return self._fail_stop.failed(self._path, operation, error)


def merge(selected: Iterable[tuple[Run, Sequence[int]]]) -> list[EntryBatch]:
    """Return the entries at these places of runs as few batches, ids ascending in each."""
    groups: list[_Group] = []
    open_groups: dict[int, _Group] = {}
    for run, places in selected:
        if not places:
            continue
        group = open_groups.get(run.ledger_id)
        if group is None or run.entry_ids[places[0]] <= group.ids[-1]:
            group = open_groups[run.ledger_id] = _Group(run.ledger_id)
            groups.append(group)
        group.add(run, places)
    return [group.batch() for group in groups]


class _Group:
    """A batch that grows."""

    def __init__(self, ledger_id: int) -> None:
        self._ledger_id = ledger_id
        self.ids: array[int] = array("q")
        self._sizes: array[int] = array("I")
        self._spans: list[memoryview] = []

    def add(self, run: Run, places: Sequence[int]) -> None:
        """Append entries."""
        self.ids.extend([run.entry_ids[at] for at in places])
        self._sizes.extend([run.sizes[at] for at in places])
        self._spans += run.spans(places)

    def batch(self) -> EntryBatch:
        """Return the entries as one batch."""
        return EntryBatch.of(self._ledger_id, self.ids, self._sizes, b"".join(self._spans))
