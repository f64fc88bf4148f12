"""Spares: old segments of a journal that wait to be used again, under another name.

They save time only. Their blocks are written already. The fsync of a new file waits until the file
system has recorded its new blocks, which takes 75 ms while a checkpoint changes 20,000 other files.
The journal keeps ``SPARE_COUNT`` spares, or as many as a checkpoint removed at once, where the disk
has room. A bookie that becomes read-only for lack of space removes them.

The content of a spare is meaningless, so a crash may leave any number of them, whole or half made.

Errors are ``OSError``. Belongs to its journal, which serializes the calls.
"""

from typing import Final

from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, segment_path, spare_ids, spare_path
from zbk.system.files import File, FileSystem, is_no_space

SMALL_SEGMENT_SIZE: Final = 1024 * 1024
"""Bytes of a segment on a disk that has no room for a whole one."""

SPARE_COUNT: Final = 4
"""Spares that are kept, if there are so many."""

SPARE_FREE_FACTOR: Final = 8
"""Spares are kept only while so many times their size is free."""


class JournalSpares:
    """The spares in one journal directory."""

    def __init__(
        self, files: FileSystem, directory: str, segment_size: int, fail_stop: FailStop
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_size = segment_size
        self._fail_stop = fail_stop
        self._ids = spare_ids(files, directory)

    def count_to_keep(self, gone_count: int) -> int:
        """Return the number of spares to keep when so many segments are removed at once."""
        free_size = self._files.free_size(self._directory)
        room_count = free_size // (SPARE_FREE_FACTOR * self._segment_size)
        return min(max(SPARE_COUNT, gone_count), room_count)

    def open(self, segment_id: int) -> tuple[str, File]:
        """Return path and file of a spare, or of a new file if there is none."""
        if self._ids:
            path = spare_path(self._directory, self._ids[-1])
            file = self._files.open(path)
            self._ids.pop()
            return path, file
        path = spare_path(self._directory, segment_id)
        return path, self._files.open(path, create=True)

    def allocate(self, file: File, size: int | None) -> int:
        """Reserve the blocks of a segment; return its size.

        Without space for a whole segment: of a small one with room for ``size`` bytes of records,
        unless ``size`` is ``None``.
        """
        held_size = file.size()  # of a spare
        try:
            file.allocate(self._segment_size)
        except OSError as error:
            if size is None or not is_no_space(error):
                raise
            self._fail_stop.met_no_space(file.path)
            file.truncate(held_size)  # the failed call may have allocated a part
            small_size = min(SMALL_SEGMENT_SIZE, self._segment_size)
            least_size = max(SEGMENT_HEADER_SIZE + size, small_size)
            file.allocate(least_size)
            return max(held_size, least_size)
        return self._segment_size

    def take_in(self, segment_id: int, count_max: int) -> None:
        """Make a spare of an old segment; if there are so many already, remove it."""
        path = segment_path(self._directory, segment_id)
        if len(self._ids) < count_max:
            self._files.rename(path, spare_path(self._directory, segment_id))
            self._ids.append(segment_id)
        else:
            self._files.remove(path)

    def keep(self, count: int) -> None:
        """Remove all spares but so many."""
        while len(self._ids) > count:
            self._files.remove(spare_path(self._directory, self._ids[-1]))
            self._ids.pop()
