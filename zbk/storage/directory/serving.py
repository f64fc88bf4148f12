"""The note that a bookie serves. If a start finds it, the bookie did not stop in good order.

Entries acknowledged before an fsync are in the page cache, which outlives the process, but not the
machine. So a note of the same *boot* means nothing, and a note of another boot means that entries
may be lost.

Version 1 of ``serving``, a text file of two lines in UTF-8, each with a newline after it:

    line  holds
    ----  -----------------------------------------------------------------
       1  "zbk serving 1"
       2  the boot id, as given when the bookie started; empty: not known

Guarantees: replaced whole, by a synced one, before the bookie serves; removed, durably, only after
the last sync of a bookie that stops without a failure. After a failed write or fsync the boot id is
emptied if the disk allows it, because Linux drops pages that it could not write.

Recovery rule: a damaged note, or one of an unknown version, means that entries may be lost.

Source: BookKeeper's ``UncleanShutdownDetectionImpl`` (a "dirty" file, without the boot).
"""

from typing import Final

from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

SERVING_NAME: Final = "serving"

_FIRST_LINE: Final = "zbk serving 1"


def begin(files: FileSystem, directory: str, boot_id: str) -> None:
    """Record, durably, that a bookie serves in this boot."""
    replace_file(files, directory, SERVING_NAME, _content(boot_id))


def end(files: FileSystem, directory: str) -> None:
    """Record, durably, that the bookie has stopped with everything on stable storage."""
    files.remove(f"{directory}/{SERVING_NAME}")
    files.sync_dir(directory)


def is_loss_possible(files: FileSystem, directory: str, boot_id: str) -> bool:
    """Return whether a bookie that starts in this boot may have lost unsynced entries."""
    content = read_file(files, f"{directory}/{SERVING_NAME}")
    return content is not None and (not boot_id or content != _content(boot_id))


def was_killed(files: FileSystem, directory: str, boot_id: str) -> bool:
    """Return whether a bookie of this boot did not stop in good order: all it wrote is here."""
    is_noted = files.exists(f"{directory}/{SERVING_NAME}")
    return is_noted and not is_loss_possible(files, directory, boot_id)


def _content(boot_id: str) -> bytes:
    return f"{_FIRST_LINE}\n{boot_id}\n".encode()
