"""Every version of the metadata of ledgers and logs, as the metadata store wrote it down itself.

A watch may miss versions: several quick changes come as one. SQLite gets a trigger that copies each
version into a table of ours; ZooKeeper has its transaction log, of which this is all we read:

    file     16 bytes of header ("ZKLG", version, database id), then records; zeros: not used yet
    record   checksum u64, size u32, the transaction, the byte "B"; numbers are big-endian
    transaction  client id u64, cxid u32, zxid u64, wall clock in ms u64, type u32, and by type:
        1, 15    create: path, value, ...
        5        set: path, value, new version u32
        14       multi: a count u32, and of each its type u32 and size u32 and body
    path, value  a size i32 (-1: none) and as many bytes
"""

import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec

from zbk.metadata.paths import LEDGERS, LOGS

CREATE, SET, MULTI, CREATE_2 = 1, 5, 14, 15
LOOK_COUNT = 50

_TRIGGERS = """
CREATE TABLE chaos_history (at_ms REAL, path TEXT, version INTEGER, value BLOB);
CREATE TRIGGER chaos_made AFTER INSERT ON node WHEN NEW.session_id IS NULL BEGIN
    INSERT INTO chaos_history VALUES
        ((julianday('now') - 2440587.5) * 86400000, NEW.path, NEW.version, NEW.value);
END;
CREATE TRIGGER chaos_changed AFTER UPDATE OF value ON node BEGIN
    INSERT INTO chaos_history VALUES
        ((julianday('now') - 2440587.5) * 86400000, NEW.path, NEW.version, NEW.value);
END;
"""


class NodeVersion(msgspec.Struct, frozen=True):
    """One version of one node."""

    at_ns: int  # monotonic
    path: str  # below the store's root
    version: int
    value: bytes

    @property
    def is_ledger(self) -> bool:
        """True for the metadata of a ledger."""
        return self.path.startswith(LEDGERS + "/") and "/L" in self.path

    @property
    def is_log(self) -> bool:
        """True for the list of a log."""
        return self.path.startswith(LOGS + "/") and self.path.count("/") > LOGS.count("/") + 1


class SqliteHistory:
    """What a trigger copied in the file at ``uri``. Make it before anything is written."""

    def __init__(self, uri: str) -> None:
        self._path = unquote(uri.removeprefix("sqlite://"))
        connection = sqlite3.connect(self._path)
        connection.executescript(_TRIGGERS)
        connection.close()

    def versions(self) -> Iterator[NodeVersion]:
        """Yield all versions so far, in order."""
        clocks_ns = offset_ns()
        connection = sqlite3.connect(self._path)
        try:
            rows = connection.execute("SELECT * FROM chaos_history ORDER BY rowid").fetchall()
        finally:
            connection.close()
        for at_ms, path, version, value in rows:
            yield NodeVersion(int(at_ms * 1e6) - clocks_ns, path, version, value)


class ZooKeeperHistory:
    """What stands in the transaction logs in ``folder``, below ``root``."""

    def __init__(self, folder: Path, root: str) -> None:
        self._folder = folder
        self._root = root

    def versions(self) -> Iterator[NodeVersion]:
        """Yield all versions so far, in order of their transactions."""
        clocks_ns = offset_ns()
        logs = sorted(self._folder.glob("version-2/log.*"), key=lambda p: int(p.suffix[1:], 16))
        for log in logs:
            for at_ms, path, version, value in _changes(log.read_bytes()):
                if path.startswith(self._root + "/"):
                    below = path.removeprefix(self._root)
                    yield NodeVersion(at_ms * 1_000_000 - clocks_ns, below, version, value)


def offset_ns(
    wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
) -> int:
    """Return what to take from the wall clock to get the monotonic one.

    The shortest of many looks counts: on a busy machine a process may be stopped between the two
    clocks, and all that the store wrote down would seem to be as much later than it was.
    """
    looks = []
    for _ in range(LOOK_COUNT):
        before_ns, at_ns, after_ns = monotonic_ns(), wall_ns(), monotonic_ns()
        looks.append((after_ns - before_ns, at_ns - before_ns))
    return min(looks)[1]


def _changes(log: bytes) -> Iterator[tuple[int, str, int, bytes]]:
    offset = 16
    while offset + 12 < len(log):
        checksum, size = struct.unpack_from(">QI", log, offset)
        if not checksum or not size:
            return
        body = log[offset + 12 : offset + 12 + size]
        if len(body) < size:
            return  # being written
        at_ms, kind = struct.unpack_from(">QI", body, 20)
        for change in _parts(kind, body[32:]):
            yield (at_ms, *change)
        offset += 12 + size + 1


def _parts(kind: int, body: bytes) -> Iterator[tuple[str, int, bytes]]:
    if kind == MULTI:
        (count,) = struct.unpack_from(">I", body)
        offset = 4
        for _ in range(count):
            part_kind, size = struct.unpack_from(">II", body, offset)
            yield from _parts(part_kind, body[offset + 8 : offset + 8 + size])
            offset += 8 + size
    elif kind in (CREATE, CREATE_2, SET):
        path, offset = _buffer(body, 0)
        value, offset = _buffer(body, offset)
        version = struct.unpack_from(">I", body, offset)[0] if kind == SET else 0
        yield path.decode(), version, value


def _buffer(body: bytes, offset: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">i", body, offset)
    start = offset + 4
    return body[start : start + max(size, 0)], start + max(size, 0)
