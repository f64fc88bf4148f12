"""The soundness of the copy of an entry that the index points at.

Only clients know the keys of entries, so a bookie cannot check their digests. It can check the
block: a copy is *sound* if the block around it has a whole header and passes the checksum that its
writer made. Every other copy is *damaged*: unreadable, another entry, or in a block that is not
what was written, even if the entry itself is intact.

If a recovery or a repair sends an entry whose copy is damaged, the bookie stores it again, and the
index points at the new copy. Other bytes for an entry with a sound copy are refused: that is a
second write of an entry, not damage. Entries whose digests cannot be verified are copied from sound
copies only.

Any thread. Reads the block, and at most ``LOOK_BACK_SIZE`` bytes before a location.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError, DuplicateEntryError, EntryUnreadableError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.entry_logs.entry_reader import ReadLog, Resolved, fetch
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    LOG_HEADER_SIZE,
    BlockHeader,
    decode_block_header,
    log_seed,
)
from zbk.storage.entry_logs.location import location_of, split_location

LOOK_BACK_SIZE: Final = 8 * 1024 * 1024
"""Bytes before an entry in which its block's header is searched; blocks of more than one entry are
smaller. An entry whose header is not found is not sound, which costs at most one more copy."""

_WINDOW_SIZE: Final = 4 * 1024
_NO_LIMIT: Final = 1 << 62


class StoredCopies:
    """The copies in the logs of one ledger directory."""

    def __init__(self, read_log: ReadLog, owner: bytes) -> None:
        self._read_log = read_log
        self._owner = owner

    def sound_until(self, location: int) -> int:
        """Return the end of the sound block around a location, as a location; 0: there is none."""
        try:
            found = self._header_ahead_of(location)
            if found is None:
                return 0
            start, header = found
            end = start + header.body_size
            if not start <= location < end:
                return 0
            body = self._read_log(start, header.body_size)
        except OSError:
            return 0
        return end if checksum(body) == header.body_checksum else 0

    def damaged(self, batch: EntryBatch, at: Sequence[int], locations: "array[int]") -> list[int]:
        """Return the places, of those in ``at``, whose entries have a damaged copy.

        ``locations`` are those of the whole batch.

        Raises:
            DuplicateEntryError: a sound copy has other bytes.
        """
        here = batch if len(at) == batch.count else batch.select(at)
        known = array("Q", [locations[one] for one in at])
        if self._is_same(Resolved(batch.ledger_id, here.entry_ids, known, _NO_LIMIT), here.body):
            return [
                one for one, is_sound in zip(at, self.are_sound(known), strict=True) if not is_sound
            ]
        ends = [0, *accumulate(here.sizes)]
        found = []
        for place, one in enumerate(at):
            entry_id = here.entry_ids[place]
            own = Resolved(batch.ledger_id, [entry_id], known[place : place + 1], _NO_LIMIT)
            is_same = self._is_same(own, here.body[ends[place] : ends[place + 1]])
            if not self.sound_until(known[place]):
                found.append(one)
            elif not is_same:
                raise DuplicateEntryError(batch.ledger_id, entry_id)
        return found

    def _is_same(self, resolved: Resolved, body: bytes) -> bool:
        try:
            count, stored = fetch(self._read_log, resolved)
        except EntryUnreadableError:
            return False
        return count == len(resolved.entry_ids) and stored == body

    def sound_part(self, resolved: Resolved) -> Resolved:
        """Return the entries before the first damaged one.

        Raises:
            EntryUnreadableError: the first one is damaged.
        """
        count = sum(takewhile(bool, self.are_sound(resolved.locations)))
        ledger_id, entry_ids = resolved.ledger_id, resolved.entry_ids
        if not count:
            raise EntryUnreadableError(ledger_id, entry_ids[0], "its block in the log is damaged")
        if count == len(entry_ids):
            return resolved
        return msgspec.structs.replace(
            resolved, entry_ids=entry_ids[:count], locations=resolved.locations[:count]
        )

    def are_sound(self, locations: "array[int]") -> Iterator[bool]:
        """Yield for each location whether its block is sound; a block is read once in a row."""
        low = high = 0  # of the last block
        for location in locations:
            if not low <= location < high:
                low, high = location, self.sound_until(location)
            yield low <= location < high

    def _header_ahead_of(self, location: int) -> tuple[int, BlockHeader] | None:
        """Return the nearest whole header before a location, and the location of its body.

        Raises:
            OSError: the log cannot be read there.
        """
        log_id, offset = split_location(location)
        seed = log_seed(self._owner, log_id)
        floor = max(LOG_HEADER_SIZE, offset - LOOK_BACK_SIZE)
        high, size = (
            offset - BLOCK_HEADER_SIZE,
            1,
        )  # right before a first entry
        while high >= floor:
            low = max(floor, high - size + 1)
            # a header may begin at the end of the window and reach beyond it
            data = self._read_log(location_of(log_id, low), high - low + BLOCK_HEADER_SIZE)
            found = data.rfind(BLOCK_MAGIC)
            while found >= 0:
                try:
                    header = decode_block_header(data, found, seed, "")
                except CorruptRecordError:
                    found = data.rfind(BLOCK_MAGIC, 0, found + len(BLOCK_MAGIC) - 1)
                    continue
                return location_of(log_id, low + found + BLOCK_HEADER_SIZE), header
            high, size = low - 1, max(_WINDOW_SIZE, 2 * size)
        return None
