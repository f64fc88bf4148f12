"""Syncs of entry logs: of one log up to some moment, and of several.

A sync is made by the owner of the logs and run by any thread, any number of times. One that begins
while an earlier one of the same log may not have run includes it: its bytes are part of the
promise.
"""

from collections.abc import Sequence

from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.run_once import RunOnce
from zbk.system.files import File, FileSystem


class FileSync:
    """The sync of everything that one log had at some moment.

    ``directory``: synced after the file, as the log's name is new; ``None``: it is not new.
    ``is_last``: nothing follows in this log, so the file is closed. ``before``: an earlier sync of
    the log.
    """

    def __init__(
        self,
        files: FileSystem,
        file: File,
        fail_stop: FailStop,
        *,
        directory: str | None,
        is_last: bool,
        before: "FileSync | None",
    ) -> None:
        self._files = files
        self._file = file
        self._fail_stop = fail_stop
        self._directory = directory
        self._is_last = is_last
        self._before = before
        self._is_file_synced = False
        self._once = RunOnce(self._sync)

    def run(self) -> None:
        """Return when all of it is on stable storage.

        Raises:
            OutOfDescriptorsError: it may be run again.
            StorageFailedError: an fsync failed, or anything failed before.
        """
        self._fail_stop.check()
        before = self._before
        if before is not None:
            before.run()
            self._before = None
        self._once.run()

    @property
    def is_done(self) -> bool:
        """True when all of it is on stable storage."""
        return self._once.is_done and self._before is None

    def _sync(self) -> None:
        if not self._is_file_synced:  # once, even if the directory has to be tried again
            with self._fail_stop.guard(self._file.path, "fsync"):
                self._file.sync()
            self._is_file_synced = True
            if self._is_last:
                self._file.close()
        if self._directory is not None:
            with self._fail_stop.guard(self._directory, "fsync"):
                self._files.sync_dir(self._directory)


class LogSync:
    """The sync of everything that several logs had at some moment."""

    def __init__(self, parts: Sequence[FileSync], fail_stop: FailStop) -> None:
        self._parts = parts
        self._fail_stop = fail_stop

    def run(self) -> None:
        """Return when all of it is on stable storage.

        Raises:
            OutOfDescriptorsError: it may be run again.
            StorageFailedError: an fsync failed, or anything failed before.
        """
        self._fail_stop.check()
        for part in self._parts:
            part.run()

    @property
    def is_done(self) -> bool:
        """True when all of it is on stable storage."""
        return all(part.is_done for part in self._parts)
