"""Which directories of a bookie are out of service, kept in all the others.

A directory that fails is noted here when the bookie goes on without it. From then on no start looks
into it, whatever it holds: it has missed what was promised since, fences among them. It comes back
only empty, under its old path, by ``zbk bookie renew-dir``.

Version 1 of ``out_of_service``, a text file of three lines in UTF-8, each with a newline after it:

    line  holds
    ----  -----------------------------------------------------------------------------------
       1  "zbk out of service 1"
       2  a JSON object: "generation", an integer, and "directories", a list of objects with
          "path", "kind" ("journal" or "ledger"), "reason", "time_ms" (wall clock), and
          "ledger_id_bound": parts of ledgers below it may be lost; null: nobody could be asked
          yet, and it is all of them that there are when the bookie starts next
       3  xxh3_64 of line 2 without its newline, in hexadecimal

Guarantees: replaced whole, by a synced one. The same in every directory in service; where a crash
came between two of them, the highest generation counts, which each start writes to all.

Recovery rule: a damaged one is refused, as there is no safe guess at what it said, unless another
directory has a whole one: a crash leaves no damaged one, so that is damage of this disk only, and
what counts is what the others say.

Source: BookKeeper takes a failed ledger directory out of service while the bookie lives
(``LedgerDirsManager``), and forgets it when the bookie restarts.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

NOTE_NAME: Final = "out_of_service"

_FIRST_LINE: Final = b"zbk out of service 1"
_REASON_SIZE_MAX: Final = 1_024

Kind = Literal["journal", "ledger"]


class OutOfService(msgspec.Struct, frozen=True, kw_only=True):
    """One directory that is not used any more."""

    path: str
    kind: Kind
    reason: str
    time_ms: int  # wall clock, for people
    ledger_id_bound: int | None  # parts of ledgers below it may be lost; None: not known yet


class ServiceNote(msgspec.Struct, frozen=True):
    """What was noted; without directories, nothing."""

    generation: int = 0
    directories: tuple[OutOfService, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """The directories that are out of service."""
        return frozenset(one.path for one in self.directories)

    def with_one(self, lost: OutOfService) -> "ServiceNote":
        """Return the note with one more directory, or with more that is known of it."""
        others = tuple(one for one in self.directories if one.path != lost.path)
        short = msgspec.structs.replace(lost, reason=lost.reason[:_REASON_SIZE_MAX])
        return ServiceNote(self.generation + 1, (*others, short))

    def without(self, path: str) -> "ServiceNote":
        """Return the note with a directory in service again."""
        others = tuple(one for one in self.directories if one.path != path)
        return ServiceNote(self.generation + 1, others)


def read_note(files: FileSystem, directories: Sequence[str]) -> ServiceNote:
    """Return what the directories say, of which some may be gone, broken, or out of service.

    Raises:
        CorruptRecordError: a note is damaged, and no directory has a whole one.
    """
    found = [ServiceNote()]
    damaged: list[CorruptRecordError] = []
    for directory in directories:
        try:
            note = _read(files, f"{directory}/{NOTE_NAME}")
        except OSError:
            continue  # the start that follows meets it, if it is to be used
        except CorruptRecordError as error:
            damaged.append(error)
        else:
            found.append(note)
    newest = max(found, key=lambda note: note.generation)
    if damaged and not newest.generation:
        raise damaged[0]
    return newest


def write_note(files: FileSystem, directory: str, note: ServiceNote) -> None:
    """Put a note into a directory that may have it. Durable when this returns.

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
        raise CorruptRecordError(where, 0, "is no note of directories out of service")
    if lines[2] != b"%016x" % checksum(lines[1]):
        raise CorruptRecordError(where, 0, "the checksum does not match")
    try:
        return msgspec.json.decode(lines[1], type=ServiceNote)
    except msgspec.ValidationError as error:
        raise CorruptRecordError(where, 0, str(error)) from error
