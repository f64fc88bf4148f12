"""The last log mark: all journal records before it are in synced entry logs and indexes.

The file has two slots, at 0 and 512, written in turn; the whole one with the higher generation
counts. All integers little-endian. Format version 1, of a bookie with one journal:

    offset  size  field         type  meaning
    ------  ----  ------------  ----  --------------------------------------------------------
         0     4  magic         u32   "zbkK"
         4     2  version       u16   1
         6     2  reserved      u16   0
         8     8  generation    u64   1, 2, 3 ...; odd ones in the slot at 512
        16     8  segment_id    u64   of the journal
        24     8  offset        u64   bytes from the start of the segment
        32     8  sequence      u64   of the last journal record before the mark
        40     8  link          u64   checksum of that record
        48     8  entry_log_id  u64   the highest id of an entry log that adds went to
        56     8  checksum      u64   xxh3_64 of bytes 0 .. 56

Format version 2, of a bookie with several journals:

    offset  size  field         type  meaning
    ------  ----  ------------  ----  --------------------------------------------------------
         0     4  magic         u32   "zbkK"
         4     2  version       u16   2
         6     2  count         u16   n; number of journals of the bookie, 2 .. 8
         8     8  generation    u64   as above
        16     8  entry_log_id  u64   as above
        24  32 n  positions           of each journal, in the order of the cookie: segment_id,
                                      offset, sequence, link, as above; all 0: from its start
     24+32n    8  checksum      u64   xxh3_64 of all bytes before it

Format version 3, written as soon as the directory has a census (``index.census``), which must exist
from then on:

    offset  size  field           type  meaning
    ------  ----  --------------  ----  ------------------------------------------------------
         0     4  magic           u32   "zbkK"
         4     2  version         u16   3
         6     2  count           u16   n; number of journals of the bookie, 1 .. 8
         8     8  generation      u64   as above
        16     8  entry_log_id    u64   as above
        24     8  entry_log_size  u64   least bytes of that log on stable storage
        32  32 n  positions             as above
     32+32n    8  checksum        u64   xxh3_64 of all bytes before it

Guarantees: a crash while one slot is written leaves the other one. The mark never moves back in any
journal, whatever the order in which checkpoints end, except in a journal that was lost
(``forget``). A file without a whole slot is refused.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Source: BookKeeper's ``LastLogMark``; #4740 for "never goes back". Owned by the checkpoint.
"""

import struct
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.small_file import replace_file
from zbk.storage.journal.segment import NO_POSITION, JournalPosition
from zbk.system.files import FileSystem

MARK_NAME: Final = "last_mark"
JOURNAL_COUNT_MAX: Final = 8

_MAGIC: Final = b"zbkK\x01\x00"
_FIELDS = struct.Struct("<6sHQQQQQQ")
_CHECKSUM = struct.Struct("<Q")
_MAGIC_2: Final = b"zbkK\x02\x00"
_MAGIC_3: Final = b"zbkK\x03\x00"
_FIELDS_3 = struct.Struct("<6sHQQQ")
_FIELDS_2 = struct.Struct("<6sHQQ")
_POSITION = struct.Struct("<QQQQ")
_SLOT_DISTANCE: Final = 512

assert _FIELDS.size + _CHECKSUM.size == 64
_SLOT_SIZE: Final = _FIELDS_3.size + JOURNAL_COUNT_MAX * _POSITION.size + _CHECKSUM.size

assert _SLOT_SIZE <= _SLOT_DISTANCE


class LogMark(msgspec.Struct, frozen=True):
    """The position where replay begins."""

    positions: tuple[JournalPosition, ...]  # in each journal, in the order of the cookie
    entry_log_id: int  # the highest that adds went to
    has_census: bool = False  # a census must exist beside it
    entry_log_size: int = 0  # least bytes of that log on stable storage

    def max_with(self, other: "LogMark") -> "LogMark":
        """Return the later position in each journal."""
        positions = tuple(map(max, self.positions, other.positions))
        log_id, log_size = max(
            (self.entry_log_id, self.entry_log_size), (other.entry_log_id, other.entry_log_size)
        )
        return LogMark(positions, log_id, self.has_census or other.has_census, log_size)

    def without(self, journal_no: int) -> "LogMark":
        """Return the mark with one journal at its start."""
        positions = list(self.positions)
        positions[journal_no] = NO_POSITION
        return msgspec.structs.replace(self, positions=tuple(positions))


def first_position(marks: Sequence[LogMark | None], journal_no: int) -> JournalPosition | None:
    """Return the position where replay of a journal begins, the lowest of all marks.

    ``None``: at its start.
    """
    if not all(marks):
        return None
    first = min(mark.positions[journal_no] for mark in marks if mark is not None)
    return None if first == NO_POSITION else first


class LastMark:
    """The file with the mark."""

    def __init__(self, files: FileSystem, directory: str, fail_stop: FailStop) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{MARK_NAME}"
        self._fail_stop = fail_stop
        self._generation = 0
        self._mark: LogMark | None = None
        self._written: LogMark | None = None  # the same, except for journals to forget

    @property
    def mark(self) -> LogMark | None:
        """The mark that is on stable storage; ``None`` before the first."""
        return self._mark

    def load(self) -> LogMark | None:
        """Read the file; ``None`` if there is none yet.

        Raises:
            CorruptRecordError: it has no whole slot.
            OSError: it cannot be read.
        """
        if not self._files.exists(self._path):
            return None
        # after a crash the name may be in the page cache only: later writes must not outlive it
        self._files.sync_dir(self._directory)
        return self.look()

    def look(self) -> LogMark | None:
        """Read the file, as ``load``, without a sync: for callers that write nothing."""
        if not self._files.exists(self._path):
            return None
        with closing(self._files.open(self._path, write=False)) as file:
            data = file.pread(_SLOT_DISTANCE + _SLOT_SIZE, 0)
        slots = [decode_slot(data[at : at + _SLOT_SIZE]) for at in (0, _SLOT_DISTANCE)]
        whole = [slot for slot in slots if slot is not None]
        if not whole:
            raise CorruptRecordError(self._path, 0, "the last log mark is damaged")
        self._generation, self._mark = max(whole, key=lambda slot: slot[0])
        self._written = self._mark
        return self._mark

    def write(self, mark: LogMark) -> None:
        """Write a mark, durably; one before the last mark changes nothing.

        Raises:
            StorageFailedError: writing failed, or anything failed before.
        """
        self._fail_stop.check()
        if self._mark is not None:
            mark = mark.max_with(self._mark)
            if mark == self._written:
                return
        with self._fail_stop.guard(self._path, "write"):
            self._write(encode_slot(mark, self._generation + 1))
        self._generation += 1
        self._mark = self._written = mark

    def forget(self, journal_no: int) -> None:
        """Move the mark to the start of a journal that was lost and is empty.

        Durable with the next ``write``.
        """
        if self._mark is not None:
            self._mark = self._mark.without(journal_no)

    def extend(self, journal_count: int) -> LogMark:
        """Add journals, at their starts; return the mark. Durable with the next ``write``."""
        assert self._mark is not None, "load comes first"
        more = [NO_POSITION] * (journal_count - len(self._mark.positions))
        self._mark = msgspec.structs.replace(self._mark, positions=(*self._mark.positions, *more))
        return self._mark

    def _write(self, slot: bytes) -> None:
        if self._mark is None:
            self._write_first(slot)
            return
        with closing(self._files.open(self._path)) as file:
            file.pwrite([slot], (self._generation + 1) % 2 * _SLOT_DISTANCE)
            file.sync()

    def _write_first(self, slot: bytes) -> None:
        content = bytes(_SLOT_DISTANCE) + slot  # generation 1: the second slot
        replace_file(self._files, self._directory, MARK_NAME, content)


def encode_slot(mark: LogMark, generation: int) -> bytes:
    """Return a slot's bytes."""
    packed = [_POSITION.pack(*msgspec.structs.astuple(one)) for one in mark.positions]
    if mark.has_census:
        counts = len(packed), generation, mark.entry_log_id, mark.entry_log_size
        fields = _FIELDS_3.pack(_MAGIC_3, *counts) + b"".join(packed)
    elif len(packed) == 1:
        fields = _FIELDS.pack(
            _MAGIC,
            0,
            generation,
            *msgspec.structs.astuple(mark.positions[0]),
            mark.entry_log_id,
        )
    else:
        head = _FIELDS_2.pack(_MAGIC_2, len(packed), generation, mark.entry_log_id)
        fields = head + b"".join(packed)
    return fields + _CHECKSUM.pack(checksum(fields))


def decode_slot(data: bytes) -> tuple[int, LogMark] | None:
    """Return the generation and the mark in a slot, or ``None`` if it is not whole."""
    if len(data) < _FIELDS.size + _CHECKSUM.size:
        return None
    magic, count, generation, log_id = _FIELDS_2.unpack_from(data, 0)
    if magic == _MAGIC:
        return _decode_first(data)
    has_census = magic == _MAGIC_3
    start, count_min = (_FIELDS_3.size, 1) if has_census else (_FIELDS_2.size, 2)
    size = start + count * _POSITION.size
    if not has_census and magic != _MAGIC_2:
        return None
    if not count_min <= count <= JOURNAL_COUNT_MAX or not _is_whole(data, size):
        return None
    places = _POSITION.iter_unpack(data[start:size])
    positions = tuple(JournalPosition(*place) for place in places)
    log_size = _FIELDS_3.unpack_from(data, 0)[-1] if has_census else 0
    return generation, LogMark(positions, log_id, has_census, log_size)


def _decode_first(data: bytes) -> tuple[int, LogMark] | None:
    if not _is_whole(data, _FIELDS.size):
        return None
    _, _, generation, *place, log_id = _FIELDS.unpack_from(data, 0)
    return generation, LogMark((JournalPosition(*place),), log_id)


def _is_whole(data: bytes, size: int) -> bool:
    """Return whether the checksum after ``size`` bytes is theirs."""
    if len(data) < size + _CHECKSUM.size:
        return False
    (stored,) = _CHECKSUM.unpack_from(data, size)
    return checksum(data[:size]) == int(stored)
