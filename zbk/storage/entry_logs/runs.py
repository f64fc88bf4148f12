"""The entries of an entry log, read in pieces and verified, for moving or counting them.

Words: a *run* is a part of a block: entries of one ledger, back to back, few enough for one look-up
in the index. A *piece* is the runs of the blocks that are read in one step.

A header, a body or an entry that is not as it was written ends the reading with an error that has
its place, because the caller copies these entries. Only a torn end (``entry_logs.uses``) and lost
regions are skipped.

Any one thread; opens its own file.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry import read_prefix
from zbk.storage.disk.fail_stop import as_damage
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE, check_log_header, log_seed
from zbk.storage.entry_logs.location import entry_locations, location_of
from zbk.storage.entry_logs.lost_regions import RegionsOfLog, is_lost
from zbk.storage.entry_logs.scan import Block, BlockWalk
from zbk.storage.entry_logs.uses import torn_tail
from zbk.system.files import File, FileSystem

PIECE_SIZE: Final = 1024 * 1024
"""Bytes of bodies in a piece; a larger block is a piece by itself."""

RUN_COUNT: Final = 1024
"""Entries in a run."""


class Run(msgspec.Struct, frozen=True):
    """Entries of one ledger, back to back in a log."""

    ledger_id: int
    entry_ids: Sequence[int]  # ascending
    sizes: "array[int]"  # bytes of each
    locations: "array[int]"  # of each entry, in this log
    body: memoryview

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.sizes)

    def spans(self, places: Sequence[int]) -> list[memoryview]:
        """Return the bytes of the entries at these ascending places."""
        if len(places) == self.count:
            return [self.body]
        ends = [0, *accumulate(self.sizes)]
        return [self.body[ends[at] : ends[at + 1]] for at in places]

    def size_of(self, places: Sequence[int]) -> int:
        """Return the bytes of the entries at these places."""
        if len(places) == self.count:
            return len(self.body)
        return sum(self.sizes[at] for at in places)


class Piece(msgspec.Struct, frozen=True):
    """The runs that were read in one step."""

    runs: Sequence[Run]
    size: int  # bytes read


class LogRuns:
    """The runs of one log.

    Raises:
        CorruptRecordError: from every method: the log is damaged, or cannot be read.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        log_id: int,
        owner: bytes,
        *,
        lost: RegionsOfLog = (),
    ) -> None:
        self._files = files
        self._lost = lost
        self._path = log_path(directory, log_id)
        self._log_id = log_id
        self._owner = owner
        self._seed = log_seed(owner, log_id)

    def pieces(self, size_max: int = PIECE_SIZE) -> Iterator[Piece]:
        """Read the log from its first block to its last."""
        yield from self._read(size_max, None)

    def tail(self, size_min: int) -> Iterator[Piece]:
        """Read the last blocks only: so many bytes of the log, or more if they hold no block.

        The first block is found by its magic number, which is good enough for an estimate.
        """
        yield from self._read(PIECE_SIZE, size_min)

    def _read(self, size_max: int, tail_size: int | None) -> Iterator[Piece]:
        with as_damage(self._path), closing(self._files.open(self._path, write=False)) as file:
            if not is_lost(self._lost, 0, LOG_HEADER_SIZE):
                header = file.pread(LOG_HEADER_SIZE, 0)
                try:
                    check_log_header(header, self._owner, self._log_id, self._path)
                except CookieMismatchError as error:
                    raise CorruptRecordError(self._path, 0, str(error)) from error
            walk = BlockWalk(file, self._seed)
            start = LOG_HEADER_SIZE if tail_size is None else walk.tail_start(tail_size)
            yield from self._pieces(file, walk, start, size_max)

    def _pieces(self, file: File, walk: BlockWalk, start: int, size_max: int) -> Iterator[Piece]:
        runs: list[Run] = []
        size = 0
        size_of_log, torn = file.size(), False
        for found in walk.blocks(is_body_read=False, start=start):
            if is_lost(self._lost, found.offset, found.size):
                continue
            if torn or not isinstance(found, Block) or not found.is_intact:
                torn = not torn and torn_tail(found, size_of_log) is not None
                if not torn:
                    raise CorruptRecordError(self._path, found.offset, "no whole block")
                continue
            if runs and size + found.header.body_size > size_max:
                yield Piece(runs, size)
                runs, size = [], 0
            runs += self._runs(file, found)
            size += found.header.body_size
        if runs:
            yield Piece(runs, size)

    def _runs(self, file: File, block: Block) -> Iterator[Run]:
        header = block.header
        body = file.pread(header.body_size, block.offset)
        if checksum(body) != header.body_checksum:
            raise CorruptRecordError(self._path, block.offset, "a block fails its checksum")
        found = entries_of(body, header.count)
        if found is None or found[0] != header.ledger_id or found[1][0] != header.first_entry_id:
            raise CorruptRecordError(
                self._path, block.offset, "a block does not hold what its header says"
            )
        ledger_id, entry_ids, sizes = found
        locations = entry_locations(location_of(self._log_id, block.offset), sizes)
        ends = [0, *accumulate(sizes)]
        view = memoryview(body)
        for low in range(0, len(sizes), RUN_COUNT):
            high = min(low + RUN_COUNT, len(sizes))
            yield Run(
                ledger_id,
                entry_ids[low:high],
                sizes[low:high],
                locations[low:high],
                view[ends[low] : ends[high]],
            )


def entries_of(body: bytes, count: int) -> tuple[int, Sequence[int], "array[int]"] | None:
    """Return ledger, ids and sizes of ``count`` entries in a body; ``None`` if it is not these."""
    if not count or not body:
        return None
    try:
        found = _of_one_size(body, count) or _one_by_one(body)
    except (CorruptRecordError, OverflowError):  # no prefix, or an impossible size
        return None
    ledger_ids, ids, sizes = found
    if len(ids) != count or sum(sizes) != len(body) or ledger_ids.count(ledger_ids[0]) != count:
        return None
    if ids[-1] - ids[0] + 1 == count and list(ids) == list(range(ids[0], ids[-1] + 1)):
        return ledger_ids[0], range(ids[0], ids[-1] + 1), sizes
    if any(one >= other for one, other in pairwise(ids)):
        return None
    return ledger_ids[0], array("q", ids), sizes


_Found = tuple[Sequence[int], Sequence[int], "array[int]"]


def _of_one_size(body: bytes, count: int) -> _Found | None:
    """Return ledgers, ids and sizes in one step if all entries are of one size; else ``None``."""
    size = read_prefix(body, 0)[2]
    if size * count != len(body):
        return None
    prefixes = _prefixes_of(size).iter_unpack(body)
    payload_sizes, flags, ledger_ids, ids = zip(*prefixes, strict=True)
    if payload_sizes.count(payload_sizes[0]) != count or flags.count(flags[0]) != count:
        return None
    return ledger_ids, ids, array("I", [size]) * count


def _one_by_one(body: bytes) -> _Found:
    ledger_ids, ids, sizes = [], [], array("I")
    offset = 0
    while offset < len(body):
        ledger_id, entry_id, size = read_prefix(body, offset)
        ledger_ids.append(ledger_id)
        ids.append(entry_id)
        sizes.append(size)
        offset += size
    return ledger_ids, ids, sizes


@lru_cache(maxsize=64)
def _prefixes_of(size: int) -> Struct:
    """Return the struct of the prefixes of entries of one size: payload size, flags, ids."""
    return Struct(f"<IIqq{size - 24}x")
