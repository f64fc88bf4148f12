"""Whether the copy of an entry that the index points at can be vouched for.

Only clients know the keys of entries, so their digests are not looked at here. What a bookie can
check is the block: a copy is *sound* if the block around it has a whole header and passes the
checksum that its writer made. Everything else is *damaged*: unreadable, another entry, or in a
block that is not what was written, even if the entry itself may be.

A damaged copy is no reason to refuse the same entry when a recovery or a repair brings it again: it
is stored anew, and the index points at the new copy. Other bytes beside a sound copy are refused:
that is no damage, but a second write of an entry. Copies of entries whose digests
cannot be verified are made of sound copies only.

Any thread. Reads the block, and ``LOOK_BACK_SIZE`` bytes ahead of a location at most.
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
"""How far ahead of an entry its block's header is searched; blocks of more than one entry are
smaller. What is not found is not vouched for: the worst of it is one copy more."""

_WINDOW_SIZE: Final = 4 * 1024
_NO_LIMIT: Final = 1 << 62


class StoredCopies:
    """The copies in the logs of one ledger directory."""

    def __init__(self, read_log: ReadLog, owner: bytes) -> None:
        self._read_log = read_log
        self._owner = owner

    def sound_until(self, location: int) -> int:
        """Return where the sound block around a location ends, as a location; 0: there is none."""
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
        """Return which of the places ``at`` in a batch have a damaged copy at their location.

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
        """Return the first of the entries that were looked up, up to one that is damaged.

        Raises:
            EntryUnreadableError: the very first one is damaged.
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
        """Return for each location whether its block is sound; each block in a row is read once."""
        low = high = 0  # of the block looked at last
        for location in locations:
            if not low <= location < high:
                low, high = location, self.sound_until(location)
            yield low <= location < high

    def _header_ahead_of(self, location: int) -> tuple[int, BlockHeader] | None:
        """Return the nearest whole header ahead of a location, and where its body begins.

        Raises:
            OSError: the log cannot be read there.
        """
        log_id, offset = split_location(location)
        seed = log_seed(self._owner, log_id)
        floor = max(LOG_HEADER_SIZE, offset - LOOK_BACK_SIZE)
        high, size = offset - BLOCK_HEADER_SIZE, 1  # the first entry's header is right ahead
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
