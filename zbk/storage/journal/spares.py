"""Spares: old segments of a journal that wait to be used again, under another name.

Their blocks have been written: an fsync of a new file waits for the file system to note which ones
have, and while a checkpoint changes 20,000 other files that takes 75 ms. They are there for speed
only. ``SPARE_COUNT`` are kept, and as many as went at once, where the disk has room; a bookie that
becomes read-only for want of space gives them up.

A spare is worth nothing: what is in it counts no more, and one that is half made is as good as any.
So a crash may leave any number of them.

Errors are ``OSError``. Belongs to its journal, which lets one thread in at a time.
"""

from typing import Final

from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, segment_path, spare_ids, spare_path
from zbk.system.files import File, FileSystem, is_no_space

SMALL_SEGMENT_SIZE: Final = 1024 * 1024
"""Bytes of a segment on a disk that has no room for a whole one."""

SPARE_COUNT: Final = 4
"""Old segments that are kept to be used again, if there are so many."""

SPARE_FREE_FACTOR: Final = 8
"""Spares are kept only while so many times what they take is free."""


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
        """Return how many to keep when so many segments go at once."""
        free_size = self._files.free_size(self._directory)
        room_count = free_size // (SPARE_FREE_FACTOR * self._segment_size)
        return min(max(SPARE_COUNT, gone_count), room_count)

    def open(self, segment_id: int) -> tuple[str, File]:
        """Return the path of a spare and the file: one of those that are here, or a new one."""
        if self._ids:
            path = spare_path(self._directory, self._ids[-1])
            file = self._files.open(path)
            self._ids.pop()
            return path, file
        path = spare_path(self._directory, segment_id)
        return path, self._files.open(path, create=True)

    def allocate(self, file: File, size: int | None) -> int:
        """Reserve the blocks of a segment; return their size.

        Without room for a whole one: a small one, with room for ``size`` bytes of records, unless
        that is ``None``.
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
        """Make a spare of a segment whose records count no more; with so many, remove it."""
        path = segment_path(self._directory, segment_id)
        if len(self._ids) < count_max:
            self._files.rename(path, spare_path(self._directory, segment_id))
            self._ids.append(segment_id)
        else:
            self._files.remove(path)

    def keep(self, count: int) -> None:
        """Remove all but so many."""
        while len(self._ids) > count:
            self._files.remove(spare_path(self._directory, self._ids[-1]))
            self._ids.pop()
