"""The note of a bookie's directories that are out of service, kept in all other directories.

A directory that fails is noted here when the bookie continues without it. From then on no start
uses its content, which lacks later promises, fences among them. It comes back only empty, under its
old path, by ``zbk bookie renew-dir``.

Version 1 of ``out_of_service``, a text file of three lines in UTF-8, each with a newline after it:

    line  holds
    ----  -----------------------------------------------------------------------------------
       1  "zbk out of service 1"
       2  a JSON object: "generation", an integer, and "directories", a list of objects with
          "path", "kind" ("journal" or "ledger"), "reason", "time_ms" (wall clock), and
          "ledger_id_bound": parts of ledgers below it may be lost; null: not known yet, the next
          start asks the metadata store for it
       3  xxh3_64 of line 2 without its newline, in hexadecimal

Guarantees: replaced whole, by a synced one. The same in every directory in service. After a crash
between two of them, the highest generation counts, which each start writes to all.

Recovery rule: a damaged note is refused, because its content cannot be guessed safely, unless
another directory has a whole one. A crash leaves no damaged note, so the damage is of this disk
only, and the other notes count.

Source: BookKeeper takes a failed ledger directory out of service while the bookie lives
(``LedgerDirsManager``), and forgets it when the bookie restarts.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from zbk.conversion import decode_json
from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

NOTE_NAME: Final = "out_of_service"

_FIRST_LINE: Final = b"zbk out of service 1"
_REASON_SIZE_MAX: Final = 1_024

Kind = Literal["journal", "ledger"]


class OutOfService(msgspec.Struct, frozen=True, kw_only=True):
    """One directory out of service."""

    path: str
    kind: Kind
    reason: str
    time_ms: int  # wall clock, for operators
    ledger_id_bound: int | None  # parts of ledgers below it may be lost; None: not known yet


class ServiceNote(msgspec.Struct, frozen=True):
    """A note; without directories, all are in service."""

    generation: int = 0
    directories: tuple[OutOfService, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """The directories that are out of service."""
        return frozenset(one.path for one in self.directories)

    def with_one(self, lost: OutOfService) -> "ServiceNote":
        """Return the note with one more directory, or with new facts about it."""
        others = tuple(one for one in self.directories if one.path != lost.path)
        short = msgspec.structs.replace(lost, reason=lost.reason[:_REASON_SIZE_MAX])
        return ServiceNote(self.generation + 1, (*others, short))

    def without(self, path: str) -> "ServiceNote":
        """Return the note with a directory in service again."""
        others = tuple(one for one in self.directories if one.path != path)
        return ServiceNote(self.generation + 1, others)


def read_note(files: FileSystem, directories: Sequence[str]) -> ServiceNote:
    """Return the newest note of directories, some of which may be missing or out of service.

    Raises:
        CorruptRecordError: a note is damaged, and no directory has a whole one.
    """
    found = [ServiceNote()]
    damaged: list[CorruptRecordError] = []
    for directory in directories:
        try:
            note = _read(files, f"{directory}/{NOTE_NAME}")
        except OSError:
            continue  # if the directory is in service, its first use fails
        except CorruptRecordError as error:
            damaged.append(error)
        else:
            found.append(note)
    newest = max(found, key=lambda note: note.generation)
    if damaged and not newest.generation:
        raise damaged[0]
    return newest


def write_note(files: FileSystem, directory: str, note: ServiceNote) -> None:
    """Write a note into a directory that may have it already, durably.

    Raises:
        OSError: it could not be written.
    """
    content = _encode(note)
    if read_file(files, f"{directory}/{NOTE_NAME}") == content:
        files.sync_dir(directory)  # its name may be in the page cache only, from before a crash
        return
    replace_file(files, directory, NOTE_NAME, content)


def _read(files: FileSystem, path: str) -> ServiceNote:
    content = read_file(files, path)
    return ServiceNote() if content is None else _decode(content, path)


def _encode(note: ServiceNote) -> bytes:
    body = msgspec.json.encode(note)
    return b"%s\n%s\n%016x\n" % (_FIRST_LINE, body, checksum(body))


def _decode(content: bytes, where: str) -> ServiceNote:
    lines = content.split(b"\n")
    if len(lines) != 4 or lines[3] or lines[0] != _FIRST_LINE:
        raise CorruptRecordError(where, 0, "is not a note of directories out of service")
    if lines[2] != b"%016x" % checksum(lines[1]):
        raise CorruptRecordError(where, 0, "the checksum does not match")
    try:
        return decode_json(lines[1], ServiceNote)
    except msgspec.ValidationError as error:
        raise CorruptRecordError(where, 0, str(error)) from error
