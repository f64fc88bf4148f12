"""One ledger as a bookie stores it: its ledger directory, its index, and its entries.

Owned by the thread that owns storage.
"""

from array import array
from collections.abc import Sequence
from enum import Enum
from typing import Final

from zbk.errors import CorruptRecordError, DuplicateEntryError, EntryUnreadableError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.storage.entry_logs.location import ABSENT
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.index.page_slots import find_absent, page_runs
from zbk.storage.ledger_directory import LedgerDirectory

_NO_LIMIT: Final = 1 << 62


class Presence(Enum):
    """The part of a batch that a bookie has."""

    NONE = "none"
    PART = "part"  # some entries, with the same bytes
    SAME = "same"  # all of them, with the same bytes
    OTHER = "other"  # at least one with other bytes


class StoredLedger:
    """One ledger, in the directory where its index is, or will be with its key.

    Raises:
        NoSuchLedgerError: from every method: the bookie does not have the ledger.
        CorruptRecordError: from every method: the index is damaged: neither yes nor no.
    """

    __slots__ = ("home", "index")

    def __init__(self, home: LedgerDirectory, index: IndexHandle) -> None:
        self.home = home
        self.index = index

    def presence(self, batch: EntryBatch) -> Presence:
        """Return what the bookie has of a batch. Cheap when all ids are new.

        Raises:
            EntryUnreadableError: an entry is here and cannot be compared.
        """
        locations, present = self._places(batch)
        if not present:
            return Presence.NONE
        here = batch if len(present) == batch.count else batch.select(present)
        known = array("Q", [locations[at] for at in present])
        resolved = self._resolved(here.entry_ids, known, _NO_LIMIT)
        count, body = self.home.fetch(resolved)
        if count < here.count:
            raise EntryUnreadableError(batch.ledger_id, here.entry_ids[count], "while comparing")
        if body != here.body:
            return Presence.OTHER
        return Presence.SAME if here is batch else Presence.PART

    def missing_part(self, batch: EntryBatch) -> EntryBatch:
        """Return the entries of a batch that are not stored; there is at least one."""
        locations = self.index.locations_of(batch.entry_ids)
        return batch.select([at for at, one in enumerate(locations) if one == ABSENT])

    def part_to_mend(self, batch: EntryBatch) -> EntryBatch | None:
        """Return the part of a recovery's batch to store: absent entries and damaged ones.

        ``None``: all of it is here, in sound copies (``StoredCopies``).

        Raises:
            DuplicateEntryError: an id is stored with other bytes, and these are not damaged.
        """
        locations, present = self._places(batch)
        if not present:
            return batch
        wanted = {at for at, location in enumerate(locations) if location == ABSENT}
        wanted.update(self.home.copies.damaged(batch, present, locations))
        if not wanted:
            self.home.damaged.remove(batch.ledger_id, batch.entry_ids)
            return None
        return batch if len(wanted) == batch.count else batch.select(sorted(wanted))

    def part_to_store(self, batch: EntryBatch) -> EntryBatch | None:
        """Return the part of a writer's batch to store; ``None``: all of it is here.

        Raises:
            DuplicateEntryError: an id is stored with other bytes.
            EntryUnreadableError: an entry is here and cannot be compared.
        """
        match self.presence(batch):
            case Presence.NONE:
                return batch
            case Presence.PART:
                return self.missing_part(batch)
            case Presence.SAME:
                return None
            case Presence.OTHER:
                raise DuplicateEntryError(batch.ledger_id, batch.first_entry_id)

    def resolve(
        self, entry_ids: Sequence[int], size_max: int, *, is_checked: bool = False
    ) -> Resolved | None:
        """Look up the first of these ascending entries, up to one that is absent.

        ``None`` if the very first is absent: only that is a "no such entry". ``is_checked``: to
        ``LedgerDirectory.fetch``, entries in damaged blocks are unreadable.

        Raises:
            EntryUnreadableError: the index is damaged there: neither yes nor no.
        """
        found: array[int] = array("Q")
        for _, low, high in page_runs(entry_ids):
            try:
                some = self.index.locations_of(entry_ids[low:high])
            except CorruptRecordError as error:
                if found:
                    break  # the whole part is answered; the client asks for the rest again
                ledger_id = self.index.ledger_id
                raise EntryUnreadableError(ledger_id, entry_ids[low], str(error)) from error
            absent = find_absent(some)
            found += some[:absent]
            if absent is not None or _is_enough(found, size_max):
                break
        if not found:
            return None
        return self._resolved(entry_ids[: len(found)], found, size_max, is_checked=is_checked)

    def held_ranges(
        self, first_entry_id: int, *, range_count_max: int, entry_count_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return the runs in the index, as ``IndexHandle.present_ranges``, without known damage."""
        ranges, next_id = self.index.present_ranges(
            first_entry_id, range_count_max=range_count_max, entry_count_max=entry_count_max
        )
        if self.index.ledger_id in self.home.damaged:
            ranges = self.home.damaged.held(self.index.ledger_id, ranges)
        if len(ranges) > range_count_max:
            return ranges[:range_count_max], ranges[range_count_max][0]
        return ranges, next_id

    def _places(self, batch: EntryBatch) -> tuple["array[int]", list[int]]:
        """Return the locations of a batch, and which of them are not absent."""
        if batch.first_entry_id > self.index.last_entry_id:
            return array("Q"), []
        locations = self.index.locations_of(batch.entry_ids)
        return locations, [at for at, location in enumerate(locations) if location != ABSENT]

    def _resolved(
        self,
        entry_ids: Sequence[int],
        locations: "array[int]",
        size_max: int,
        *,
        is_checked: bool = False,
    ) -> Resolved:
        number = self.home.number
        return Resolved(self.index.ledger_id, entry_ids, locations, size_max, number, is_checked)


def _is_enough(locations: "array[int]", size_max: int) -> bool:
    """Return whether these fill an answer or are not in a row; the client asks for the rest."""
    return bool(locations) and not 0 <= locations[-1] - locations[0] < size_max
