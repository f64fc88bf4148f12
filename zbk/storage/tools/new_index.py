"""A new index: built in a folder of its own, then moved into place file by file.

Threads: one, before the bookie serves or while it is stopped.
"""

from zbk.storage.directory.wipe import remove_tree
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.log_sync import LogSync
from zbk.storage.index.index_file import IndexPath, index_directories, ledger_ids
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.system.files import FileSystem


class NewIndex:
    """The new index of one ledger directory. Errors are ``OSError``.

    The caller has synced the entry logs that the index points into.
    """

    def __init__(self, files: FileSystem, ledger_dir: str, folder: str) -> None:
        self._files = files
        self._ledger_dir = ledger_dir
        self._root = f"{ledger_dir}/index"
        self._folder = f"{ledger_dir}/{folder}"
        self.root = f"{self._folder}/index"

    def begin(self, open_files: OpenFiles, fail_stop: FailStop) -> LedgerCache:
        """Return a cache of the new, empty index."""
        self._files.make_dirs(self._folder)
        cache = cache_without_logs(self._files, self._folder, open_files, fail_stop)
        cache.open()
        return cache

    def name_files(self) -> int:
        """Give each new file its name in the index, durably; return their number.

        An earlier attempt may have done a part of it.
        """
        found = ledger_ids(self._files, self.root) if self._files.exists(self.root) else []
        for ledger_id in found:
            place = IndexPath.of(self._root, ledger_id)
            self._files.make_dirs(place.directory)
            self._files.rename(IndexPath.of(self.root, ledger_id).path, place.path)
        # the new names first: after a crash in between, a file may have two names, but never none
        for root in (self._root, self.root):
            for directory in (
                index_directories(self._files, root) if self._files.exists(root) else ()
            ):
                self._files.sync_dir(directory)
        return len(found)

    def remove(self) -> None:
        """Remove the folder durably, if it is there."""
        if self._files.exists(self._folder):
            remove_tree(self._files, self._folder)
            self._files.sync_dir(self._ledger_dir)


def cache_without_logs(
    files: FileSystem, directory: str, open_files: OpenFiles, fail_stop: FailStop
) -> LedgerCache:
    """Return a cache of an index whose entry logs have nothing to sync."""
    return LedgerCache(
        files,
        directory,
        begin_log_sync=lambda: LogSync([], fail_stop),
        open_files=open_files,
        fail_stop=fail_stop,
    )
