"""Damage at rest: bits that flip, sectors and files that are lost on a simulated disk.

The journal's last records are left alone as long as nothing behind them says that they were synced:
there damage cannot be told from a torn write that was never promised, by nobody. So are entry logs
with entries of ledgers whose digest is NONE: a bookie does not verify what it reads from a log, and
such a ledger's readers cannot.
"""

from collections.abc import Collection, Iterator, Sequence

from tests.simulation.bookie import SimulatedBookie
from tests.simulation.tape import Tape
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_inode import SECTOR_SIZE
from zbk.storage.entry_logs.format import BLOCK_MAGIC
from zbk.storage.index.census import CENSUS_NAME
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, segment_ids
from zbk.storage.journal.segment_reader import SegmentReader

_JOURNAL = "/journal"

Span = tuple[str, int, int]
"""A path, and where the bytes begin and end."""


def rot(bookie: SimulatedBookie, tape: Tape, undigested: Collection[int]) -> list[str]:
    """Damage a bookie's disk in one to three places; return the paths.

    Logs with entries of ``undigested`` ledgers are left alone.
    """
    disk = bookie.disk
    has_rotten_journal = False
    paths = []
    for _ in range(1 + tape.draw(3)):
        part = tape.pick(("/logs", _JOURNAL, "/index"))
        if part == _JOURNAL:
            spans = [] if has_rotten_journal else _proven_records(bookie)
            has_rotten_journal = True
        else:
            spans = [(p, 0, len(_used(disk, p))) for p in disk.paths(part) if _used(disk, p)]
            if part == "/logs" and undigested:
                spans = [s for s in spans if not any(i in undigested for i in _ledgers(disk, s[0]))]
        if spans:
            paths.append(_damage(disk, tape.pick(spans), tape))
    return paths


def lose_files(bookie: SimulatedBookie, tape: Tape) -> list[str]:
    """Take files away from a bookie that is down; return their paths.

    Index files, one or all, cut to nothing at times; the census with them; an entry log by itself,
    which is damage to those whose index points there, or all logs with all of the index. Of several
    ledger directories at times one is spared.
    """
    disk = bookie.disk
    directory = _one_or_all(bookie, tape)
    index_files, logs = _paths(disk, directory, ".idx"), _paths(disk, directory, "/logs/")
    kind = tape.draw(6)
    if kind == 0 and logs:
        bookie.oracle.is_damaged = True
        newest = max(logs)  # no checkpoint may have covered it
        return _removed(disk, [tape.pick([*logs, *[newest] * len(logs)])])
    bookie.index_vanishes()
    if kind == 1 and index_files:
        path = tape.pick(index_files)
        disk.set_content(path, b"")
        return [path]
    if kind == 2 and index_files:
        return _removed(disk, [tape.pick(index_files)])
    with_census = _paths(disk, directory, f"/{CENSUS_NAME}") if kind == 3 else []
    return _removed(disk, [*index_files, *with_census, *(logs if kind == 4 else [])])


def _one_or_all(bookie: SimulatedBookie, tape: Tape) -> str:
    """Return how the paths begin from which files are to be taken."""
    directories = bookie.directories.ledgers
    if len(directories) == 1 or not tape.draw(4):
        return "/"
    bookie.kernel.sometimes["bookie: files of one of its directories vanish"] += 1
    return f"{tape.pick(directories)}/"


def _paths(disk: SimulatedDisk, directory: str, part: str) -> list[str]:
    return [path for path in disk.paths(part) if path.startswith(directory)]


def _removed(disk: SimulatedDisk, paths: Sequence[str]) -> list[str]:
    for path in paths:
        disk.remove_at_rest(path)
    return list(paths)


def _proven_records(bookie: SimulatedBookie) -> list[Span]:
    """Return the places of records that a later record says were synced."""
    owner = bookie.bookie_id.encode()
    return [
        span
        for directory in bookie.directories.journals
        for span in _proven_in(bookie.disk, directory, owner)
    ]


def _proven_in(disk: SimulatedDisk, directory: str, owner: bytes) -> list[Span]:
    found = []
    evidence = 0
    for segment_id in segment_ids(disk, directory):
        with SegmentReader(disk, directory, segment_id, owner) as reader:
            offset = SEGMENT_HEADER_SIZE
            while (decoded := reader.record_at(offset)) is not None:
                found.append((decoded.sequence, (reader.path, offset, decoded.end_offset)))
                evidence = max(evidence, decoded.synced_sequence)
                offset = decoded.end_offset
    return [span for sequence, span in found if sequence <= evidence]


def _ledgers(disk: SimulatedDisk, path: str) -> Iterator[int]:
    """Yield the ledger of each block of a log."""
    content = disk.content(path)
    at = content.find(BLOCK_MAGIC)
    while at >= 0:
        yield int.from_bytes(content[at + 8 : at + 16], "little")
        at = content.find(BLOCK_MAGIC, at + 1)


def _damage(disk: SimulatedDisk, span: Span, tape: Tape) -> str:
    path, start, end = span
    content = bytearray(disk.content(path))
    at = start + tape.draw(end - start)
    if tape.draw(2):
        content[at] ^= 1 << tape.draw(8)
    else:
        low = max(start, at - at % SECTOR_SIZE)
        high = min(end, low + SECTOR_SIZE)
        content[low:high] = bytes(high - low)
    disk.set_content(path, bytes(content))
    return path


def _used(disk: SimulatedDisk, path: str) -> bytes:
    return disk.content(path).rstrip(b"\0")
