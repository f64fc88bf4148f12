"""The file of a ``sqlite:`` store: its path, and opening it, with a text for every failure.

Any thread; ``open_database`` waits for other processes that open the same file.
"""

import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from zbk.errors import InvalidOptionError, MetadataUnavailableError
from zbk.metadata.stores import sqlite_tree
from zbk.system.clock import monotonic_s

SQLITE_PREFIX = "sqlite://"
PRIVATE_MODE: Final = 0o600
_RETRY_S = 0.02


def database_path(uri: str, *, must_exist: bool = False) -> str:
    """Return the absolute path in ``sqlite:///abs/path/to/file.db``.

    Raises:
        InvalidOptionError: there is no path, or no file although it ``must_exist``.
    """
    path = unquote(uri.removeprefix(SQLITE_PREFIX))
    if not uri.startswith(SQLITE_PREFIX) or not path.startswith("/") or path.endswith("/"):
        raise InvalidOptionError("metadata", uri, "give sqlite:///absolute/path/to/file.db")
    if not Path(path).parent.is_dir():
        raise InvalidOptionError("metadata", uri, f"there is no folder {Path(path).parent}")
    if Path(path).is_dir():
        raise InvalidOptionError("metadata", uri, "is a folder, not a file")
    if must_exist and not Path(path).exists():
        reason = f"there is no file {path}: `zbk up` or `zbk bookie init` makes one"
        raise InvalidOptionError("metadata", uri, reason)
    return path


def open_database(path: str, uri: str, timeout_s: float) -> sqlite3.Connection:
    """Open the file; wait up to ``timeout_s`` while other processes create it.

    Raises:
        InvalidOptionError: it is not a database of zbk, is damaged, or is not writable.
        MetadataUnavailableError: it was locked for the whole time, or the disk fails.
        UnsupportedVersionError: a newer zbk created it.
    """
    deadline_s = monotonic_s() + timeout_s
    while True:
        try:
            _make_private(path)
            return sqlite_tree.connect(path, timeout_s)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part
            if code in _MEANING:
                raise InvalidOptionError("metadata", uri, f"{_MEANING[code]} ({error})") from error
            is_busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_busy or monotonic_s() >= deadline_s:
                raise MetadataUnavailableError(uri, str(error)) from error
        # switching to WAL does not wait for other processes
        threading.Event().wait(_RETRY_S)


def _make_private(path: str) -> None:
    """Create the file, if it does not exist, for its owner only: it has keys and digests."""
    with suppress(OSError):  # SQLite reports the error when it opens the file
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_MODE))


_MEANING = {
    sqlite3.SQLITE_NOTADB: "is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_PERM: "cannot be written",
    sqlite3.SQLITE_AUTH: "cannot be opened",
}
