"""The note of new entry logs: those that no last mark covers yet.

It shows a start that such a log is lost. The census names the logs of checkpoints only, and the
index of ledgers that bypass the journal (``zbk.storage.unjournaled``) is on disk up to the last
checkpoint only: without the note, nothing would know of a log that came and went in between.

Format version 1 of ``new_logs``. All integers little-endian.

    offset      size  field      type  meaning
    ----------  ----  ---------  ----  ---------------------------------------------------------
             0     4  magic      u32   "zbkW"
             4     2  version    u16   1
             6     2  reserved   u16   0
             8     8  owner      u64   xxh3_64 of the bookie's identity
            16     8  checksum   u64   xxh3_64 of bytes 0 .. 16
    24 + 24 at     8  log_id     u64   a log, in the order in which they were made
    32 + 24 at     8  ledger_id  i64   the ledger whose own log it is; -1: the shared log
    40 + 24 at     8  checksum   u64   xxh3_64 of the two, seeded with ``owner``

Order: the log is created with its header; it is noted; entries are added. So a log that is noted
existed, and one that is not had no entry that was acknowledged.

A note that is appended is not synced. It is for a bookie that was killed, whose page cache is
there; after a loss of power, entries that no fsync covered are in doubt anyway
(``zbk.storage.directory.serving``), and the journal shows those that were synced.

A log that compaction makes is not noted: until a checkpoint, its entries are where they were, too.

A log that is noted and missing, or that has no header, is lost, unless a last mark covers it (then
the census has it), or it is the own log of a ledger that is noted as deleted: such a log is removed
without a mark.

Recovery rule: bytes at the end that are no whole record were left by an append that failed, and
count for nothing. If the note is damaged or missing, logs may be missing, too: whatever bypasses
the journal in this directory is in doubt. A bookie of an earlier version has no note.

A start replaces the file by a synced one, with the logs that are still new; so does an append after
``RECORD_COUNT_MAX`` records. A start after a stop in good order, or after a loss of power, does so
before it counts as one that may be killed (``note_anew``): the note of the process before would
tell of logs that the loss of power has taken. A start after a kill leaves the note as it is until
it has used it.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: the owner's.
"""

import struct
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Final

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.small_file import SIZE_MAX, read_file, replace_file
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE, check_log_header
from zbk.storage.entry_logs.own_logs import SHARED_LOG
from zbk.system.event_log import EventLog
from zbk.system.files import File, FileSystem

LOG = EventLog("zbk.bookie")

NEW_LOGS_NAME: Final = "new_logs"
RECORD_COUNT_MAX: Final = 4_096

_MAGIC: Final = b"zbkW\x01\x00\x00\x00"
_HEAD: Final = struct.Struct("<8sQ")
_RECORD: Final = struct.Struct("<Qq")
_CHECKSUM: Final = struct.Struct("<Q")
_HEADER_SIZE: Final = _HEAD.size + _CHECKSUM.size
_RECORD_SIZE: Final = _RECORD.size + _CHECKSUM.size


class NewLogs:
    """The note of one ledger directory. ``load`` comes first, then ``begin``."""

    def __init__(self, files: FileSystem, directory: str, *, owner: bytes) -> None:
        self._files = files
        self._directory = directory
        self._owner_hash = checksum(owner)
        self.path = f"{directory}/{NEW_LOGS_NAME}"
        self.found: Mapping[int, int] = {}
        """The ledger of each log that a start has found noted, or ``SHARED_LOG``."""
        self.fault = ""  # why the note that a start has found says too little; empty: it is whole
        self._ledger_of: dict[int, int] = {}  # by log
        self._is_begun = False
        self._record_count_max = 0  # with more, the file is replaced; 0: it is not ours yet
        self._file: File | None = None
        self._end = 0

    def load(self) -> None:
        """Read the note, which may be missing or damaged.

        Raises:
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        content = read_file(self._files, self.path)
        try:
            self.found = self._found_in(content)
        except CorruptRecordError as error:
            self.fault = error.reason

    def lost(
        self, existing_ids: Collection[int], marked_id: int, deleted: LedgerRanges
    ) -> Mapping[int, int]:
        """Return those of ``found`` that are lost.

        ``marked_id``: the last mark covers the logs up to this one. ``deleted``: ledgers that are
        noted as deleted.
        """
        return {
            log_id: ledger_id
            for log_id, ledger_id in self.found.items()
            if log_id > marked_id and log_id not in existing_ids and ledger_id not in deleted
        }

    def owners_of_lost(
        self, existing_ids: Collection[int], marked_id: int, deleted: LedgerRanges
    ) -> set[int]:
        """Log what is lost; return the ledgers whose own logs are.

        ``SHARED_LOG`` is among them if a shared log is lost, or if that is not known. Arguments as
        ``lost``.
        """
        lost = self.lost(existing_ids, marked_id, deleted)
        if lost:
            LOG.error(
                "storage.new_logs_lost",
                "%(directory)s has lost %(log_count)d entry logs that came after the last "
                "checkpoint, %(log)s among them",
                directory=self._directory,
                log_count=len(lost),
                log=log_path("logs", min(lost)),
            )
        if self.fault:
            LOG.error(
                "storage.new_logs_unknown",
                "%(note)s %(fault)s: entry logs that came after the last checkpoint may be lost",
                note=self.path,
                fault=self.fault,
            )
        return {SHARED_LOG} if self.fault else set(lost.values())

    def begin(self, ledger_of: Mapping[int, int]) -> None:
        """Replace the note by one of these logs and of those made before this call, durably.

        Raises:
            OSError: it could not be written: the next log to be made tries it again.
        """
        self._is_begun = True
        self._ledger_of = {**ledger_of, **self._ledger_of}
        self._replace(self._ledger_of)

    def made(self, log_id: int, ledger_id: int, marked_id: int) -> None:
        """Note a log that was created, before anything is added to it.

        ``marked_id``: a last mark covers the logs up to this one.

        Raises:
            OSError: it could not be written, and the log is not noted.
            OutOfDescriptorsError: as that.
        """
        if self._is_begun:
            if len(self._ledger_of) >= self._record_count_max:
                self._replace({one: of for one, of in self._ledger_of.items() if one > marked_id})
            if self._file is None:
                self._file = self._files.open(self.path)
            self._file.pwrite([self._record(log_id, ledger_id)], self._end)
            self._end += _RECORD_SIZE
        self._ledger_of[log_id] = ledger_id

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _replace(self, ledger_of: Mapping[int, int]) -> None:
        head = _HEAD.pack(_MAGIC, self._owner_hash)
        records = [self._record(*one) for one in ledger_of.items()]
        content = b"".join((head, _CHECKSUM.pack(checksum(head)), *records))
        replace_file(self._files, self._directory, NEW_LOGS_NAME, content)
        self.close()  # the file that it was
        self._end = len(content)
        self._ledger_of = dict(ledger_of)
        self._record_count_max = 2 * len(ledger_of) + RECORD_COUNT_MAX

    def _found_in(self, content: bytes | None) -> Mapping[int, int]:
        if content is None:
            raise CorruptRecordError(self.path, 0, "is missing")
        if len(content) >= SIZE_MAX:
            raise CorruptRecordError(self.path, SIZE_MAX, "is longer than what is read of it")
        if len(content) < _HEADER_SIZE or not content.startswith(_MAGIC):
            raise CorruptRecordError(self.path, 0, "the header is damaged")
        (stored,) = _CHECKSUM.unpack_from(content, _HEAD.size)
        if checksum(content[: _HEAD.size]) != stored:
            raise CorruptRecordError(self.path, 0, "the header is damaged")
        if _HEAD.unpack_from(content)[1] != self._owner_hash:
            raise CookieMismatchError(f"{self.path} is another bookie's")
        found: dict[int, int] = {}
        for at in range(_HEADER_SIZE, len(content) - _RECORD_SIZE + 1, _RECORD_SIZE):
            log_id, ledger_id = _RECORD.unpack_from(content, at)
            if content[at : at + _RECORD_SIZE] != self._record(log_id, ledger_id):
                raise CorruptRecordError(self.path, at, "the checksum does not match")
            found[log_id] = ledger_id
        return found

    def _record(self, log_id: int, ledger_id: int) -> bytes:
        fields = _RECORD.pack(log_id, ledger_id)
        return fields + _CHECKSUM.pack(checksum(fields, self._owner_hash))


def note_anew(
    files: FileSystem, directory: str, owner: bytes, covered_ids: Collection[int]
) -> None:
    """Replace the note of a ledger directory, durably, by one of the logs that are there.

    ``covered_ids``: logs that a checkpoint covers. Comes before the directory is opened, unless the
    process before was killed. A log without a header is left out: a loss of power has torn it.

    Raises:
        CookieMismatchError: it is another bookie's.
        OSError: it could not be written.
    """
    note, logs = NewLogs(files, directory, owner=owner), f"{directory}/logs"
    note.load()
    there = log_ids(files, logs) if files.exists(logs) else []
    new = [one for one in there if one not in covered_ids and _has_header(files, logs, one, owner)]
    note.begin({one: note.found.get(one, SHARED_LOG) for one in new})


def _has_header(files: FileSystem, directory: str, log_id: int, owner: bytes) -> bool:
    path = log_path(directory, log_id)
    try:
        with closing(files.open(path, write=False)) as file:
            check_log_header(file.pread(LOG_HEADER_SIZE, 0), owner, log_id, path)
    except (CorruptRecordError, CookieMismatchError, OSError):
        return False  # its reader meets that
    return True
