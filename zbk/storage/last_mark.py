"""The last log mark: everything the journal holds before it is in synced entry logs and indexes.

Format version 1. The file has two slots, at 0 and 512, written in turn; the whole one with the
higher generation counts. All integers little-endian.

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
        48     8  entry_log_id  u64   the highest id of an entry log that was ever used
        56     8  checksum      u64   xxh3_64 of bytes 0 .. 56

Guarantees: a crash while one slot is written leaves the other; the mark never goes back, whatever
the order in which checkpoints end. No whole slot in a file that is there: refused.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Source: BookKeeper's ``LastLogMark``; #4740 for "never goes back". Owned by whoever checkpoints.
"""

import struct
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.digest import checksum
from zbk.storage.fail_stop import FailStop
from zbk.storage.journal_segment import JournalPosition
from zbk.system.files import FileSystem

_MAGIC: Final = b"zbkK\x01\x00"
_FIELDS = struct.Struct("<6sHQQQQQQ")
_CHECKSUM = struct.Struct("<Q")
_SLOT_SIZE: Final = _FIELDS.size + _CHECKSUM.size
_SLOT_DISTANCE: Final = 512

assert _SLOT_SIZE == 64


class LogMark(msgspec.Struct, frozen=True, order=True):
    """Where replay begins."""

    position: JournalPosition
    entry_log_id: int  # the highest ever used


class LastMark:
    """The file with the mark."""

    def __init__(self, files: FileSystem, directory: str, fail_stop: FailStop) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/last_mark"
        self._fail_stop = fail_stop
        self._generation = 0
        self._mark: LogMark | None = None

    @property
    def mark(self) -> LogMark | None:
        """The mark that is on stable storage; ``None`` before the first."""
        return self._mark

    def load(self) -> LogMark | None:
        """Read the file; ``None`` if there is none yet.

        Raises:
            CorruptRecordError: it is there and says nothing whole.
            OSError: it can not be read.
        """
        if not self._files.exists(self._path):
            return None
        file = self._files.open(self._path, write=False)
        try:
            data = file.pread(_SLOT_DISTANCE + _SLOT_SIZE, 0)
        finally:
            file.close()
        slots = [decode_slot(data[at : at + _SLOT_SIZE]) for at in (0, _SLOT_DISTANCE)]
        whole = [slot for slot in slots if slot is not None]
        if not whole:
            raise CorruptRecordError(self._path, 0, "the last log mark is damaged")
        self._generation, self._mark = max(whole, key=lambda slot: slot[0])
        return self._mark

    def write(self, mark: LogMark) -> None:
        """Make a mark durable; an older one than the last changes nothing.

        Raises:
            StorageFailedError: writing failed, or anything failed before.
        """
        self._fail_stop.check()
        if self._mark is not None and mark <= self._mark:
            return
        try:
            self._write(encode_slot(mark, self._generation + 1))
        except OSError as error:
            raise self._fail_stop.failed(self._path, "write", error) from error
        self._generation += 1
        self._mark = mark

    def _write(self, slot: bytes) -> None:
        if self._mark is None:
            self._write_first(slot)
            return
        file = self._files.open(self._path)
        try:
            file.pwrite([slot], (self._generation + 1) % 2 * _SLOT_DISTANCE)
            file.sync()
        finally:
            file.close()

    def _write_first(self, slot: bytes) -> None:
        new_path = f"{self._path}.new"
        if self._files.exists(new_path):  # left by a crash
            self._files.remove(new_path)
        file = self._files.open(new_path, create=True)
        try:
            file.pwrite([bytes(_SLOT_DISTANCE), slot], 0)  # generation 1: the second slot
            file.sync()
        finally:
            file.close()
        self._files.rename(new_path, self._path)
        self._files.sync_dir(self._directory)


def encode_slot(mark: LogMark, generation: int) -> bytes:
    """Return a slot's bytes."""
    at = mark.position
    fields = _FIELDS.pack(
        _MAGIC, 0, generation, at.segment_id, at.offset, at.sequence, at.link, mark.entry_log_id
    )
    return fields + _CHECKSUM.pack(checksum(fields))


def decode_slot(data: bytes) -> tuple[int, LogMark] | None:
    """Return the generation and the mark in a slot, or ``None`` if it is not whole."""
    if len(data) < _SLOT_SIZE:
        return None
    (stored,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    magic, _, generation, segment_id, offset, sequence, link, log_id = _FIELDS.unpack_from(data, 0)
    if magic != _MAGIC or checksum(data[: _FIELDS.size]) != stored:
        return None
    return generation, LogMark(JournalPosition(segment_id, offset, sequence, link), log_id)
