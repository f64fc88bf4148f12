"""The note that a bookie serves: left over, it says that the bookie did not stop in good order.

What a bookie acknowledged before an fsync lies in the page cache. That outlives the process, but
not the machine. So a note that is left over from the same *boot* means nothing, and one from
another boot means that something may be lost.

Version 1 of ``serving``, a text file of two lines in UTF-8, each with a newline after it:

    line  holds
    ----  -----------------------------------------------------------------
       1  "zbk serving 1"
       2  the boot id, as given when the bookie started; empty: not known

Guarantees: replaced whole, by a synced one, before anything is served; removed, durably, only
after the last sync of a bookie that stops without a failure. After a failed write or fsync the
boot id is emptied as far as the disk lets us: Linux drops what it could not write.

Recovery rule: what is damaged, or of a version that is not known, says that something may be lost.

Source: BookKeeper's ``UncleanShutdownDetectionImpl`` (a "dirty" file, without the boot).
"""

from typing import Final

from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

SERVING_NAME: Final = "serving"

_FIRST_LINE: Final = "zbk serving 1"


def begin(files: FileSystem, directory: str, boot_id: str) -> None:
    """Note that a bookie serves in this boot. Durable when this returns."""
    replace_file(files, directory, SERVING_NAME, _content(boot_id))


def end(files: FileSystem, directory: str) -> None:
    """Note that it serves no more, and that all of it is on stable storage. Durable likewise."""
    files.remove(f"{directory}/{SERVING_NAME}")
    files.sync_dir(directory)


def is_loss_possible(files: FileSystem, directory: str, boot_id: str) -> bool:
    """Return whether a bookie that starts now, in this boot, may have lost what was not synced."""
    content = read_file(files, f"{directory}/{SERVING_NAME}")
    return content is not None and (not boot_id or content != _content(boot_id))


def _content(boot_id: str) -> bytes:
    return f"{_FIRST_LINE}\n{boot_id}\n".encode()
