"""Reads one index file, and checks that each entry is at its location.

It checks header and pages by their checksums; at each location the first bytes of the entry there,
which have ledger and entry id; and whether the location lies in a region of its log that failed
before. It does not read bodies again, because the pass has read the logs.

A first look never counts as damage: a flush writes in place, entries move to other logs, and
ledgers are deleted. The owner of the index looks again at a page, when no flush is under way, and
gives the present location of an entry. That is enough because of the order: a log is removed only
after the index points elsewhere. So if an entry was unreadable and the index still has the same
location afterwards, the entry should have been there.

Memory: a page, and ``WINDOW_SIZE`` bytes of a log.
"""

from array import array
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeAlias

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.entry import HEADER_SIZE, read_prefix
from zbk.protocol.entry.spans import spans_of
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.location import ABSENT, UNKNOWN, split_location
from zbk.storage.index.index_file import IndexPath, LedgerIndex
from zbk.storage.index.index_page import (
    INDEX_HEADER_SIZE,
    PAGE_BITS,
    PAGE_ENTRY_COUNT,
    PAGE_SIZE,
    Page,
    page_offset,
)
from zbk.storage.scrub.scrub_effects import (
    DiskStateOf,
    LocationsOf,
    Paid,
    Pause,
    ScrubEffect,
    ScrubSteps,
)
from zbk.storage.scrub.scrub_log import SECTOR_SIZE
from zbk.storage.scrub.scrub_view import DiskState, ScrubView

WINDOW_SIZE: Final = 64 * 1024
NEAR_SIZE: Final = 4 * 1024
"""Bytes from one entry to the next up to which one read is better than two."""

LOOK_COUNT_MAX: Final = 5
"""Looks at a page that changes while it is read, or at an entry that moves."""

BUSY_COUNT_MAX: Final = 120
BUSY_WAIT_MS: Final = 500
"""Waits for a flush; the next pass checks what could not be confirmed after these."""

Regions: TypeAlias = dict[int, list[tuple[int, int]]]
"""By log: begin and end of regions that are not sound."""

_Looking: TypeAlias = Generator[ScrubEffect, Any, DiskState]


class IndexScrub:
    """The index files of one directory."""

    def __init__(self, view: ScrubView, regions: Regions) -> None:
        self._view = view
        self._regions = regions
        self._read_size = 0
        self._offset = 0  # of the page under check
        self.unconfirmed_count = 0  # places that stayed busy at every look
        self._is_all_seen = True
        self.pointed_ids: set[int] = set()  # logs with regions that entries lie in

    @property
    def is_complete(self) -> bool:
        """True when the locations of all entries were seen, except in deleted ledgers."""
        return self._is_all_seen and not self.unconfirmed_count

    def note_unseen(self) -> None:
        """Record that files of the index were not read."""
        self._is_all_seen = False

    def steps(self, ledger_id: int) -> ScrubSteps:
        """Read the file of one ledger."""
        view = self._view
        header = yield from self._header(ledger_id)
        if header is None:
            return
        for first, last, _ in header.extents:
            for page_no in range(first, last + 1):
                page = yield from self._page(header, page_no)
                if page is not None:
                    self._offset = page_offset(header.extents.slot_of(page_no))
                    yield from self._entries(ledger_id, page_no, page.locations)
                size, self._read_size = self._read_size, 0
                view.close_files()
                yield Paid(size)
                if view.is_deleted(ledger_id):
                    return

    # ------------------------------------------------------------------ headers and pages

    def _header(self, ledger_id: int) -> Generator[ScrubEffect, Any, LedgerIndex | None]:
        for _ in range(LOOK_COUNT_MAX):
            yield Paid(INDEX_HEADER_SIZE)
            try:
                return self._view.reader.read_header(ledger_id)
            except CorruptRecordError as error:
                failure = error
            state = yield from self._look(ledger_id, None)
            if state in {DiskState.DAMAGED, DiskState.MENDED}:
                yield _damaged_file(failure, state, ledger_id)
            if state is DiskState.DAMAGED:
                yield DamagedEntries(ledger_id, 0, NO_ENTRY, is_index_lost=True)
            if state is not DiskState.WHOLE:
                self._is_all_seen &= state is DiskState.GONE
                return None
        self.unconfirmed_count += 1
        return None

    def _page(self, header: LedgerIndex, page_no: int) -> Generator[ScrubEffect, Any, Page | None]:
        ledger_id = header.ledger_id
        for _ in range(LOOK_COUNT_MAX):
            self._read_size += PAGE_SIZE
            try:
                return self._view.reader.read_page(header, page_no)
            except CorruptRecordError as error:
                failure = error
            state = yield from self._look(ledger_id, page_no)
            if state in {DiskState.DAMAGED, DiskState.MENDED}:
                yield _damaged_file(failure, state, ledger_id)
            if state is DiskState.DAMAGED:
                low = page_no << PAGE_BITS
                high = low + PAGE_ENTRY_COUNT - 1
                yield DamagedEntries(ledger_id, low, high, is_index_lost=True)
            if state is not DiskState.WHOLE:
                self._is_all_seen &= state is DiskState.GONE
                return None
        self.unconfirmed_count += 1
        return None

    def _look(self, ledger_id: int, page_no: int | None) -> _Looking:
        """Ask the owner for the state of a page or header; wait while a flush is under way."""
        view = self._view
        for _ in range(BUSY_COUNT_MAX):
            state: DiskState = yield DiskStateOf(view, ledger_id, page_no)
            view.close_files()  # the next look reads again
            if state is not DiskState.BUSY:
                return state
            yield Pause(BUSY_WAIT_MS)
        self.unconfirmed_count += 1
        return DiskState.BUSY

    # ------------------------------------------------------------------ entries

    def _entries(self, ledger_id: int, page_no: int, locations: "array[int]") -> ScrubSteps:
        low = page_no << PAGE_BITS
        ids = [low + slot for slot, one in enumerate(locations) if one != ABSENT]
        places = array("Q", [one for one in locations if one != ABSENT])
        for _ in range(LOOK_COUNT_MAX):
            bad = dict(self._bad(ledger_id, ids, places))
            if not bad:
                return
            ids = list(bad)
            now = yield LocationsOf(self._view, ledger_id, ids)
            is_deleted = self._view.is_deleted(ledger_id)
            if now is None or is_deleted:
                self._is_all_seen &= is_deleted
                return
            stayed = [one for one, place in zip(ids, now, strict=True) if bad[one] == place]
            yield from self._damage(ledger_id, stayed, array("Q", [bad[one] for one in stayed]))
            moved = [
                (one, place)
                for one, place in zip(ids, now, strict=True)
                if place not in {bad[one], ABSENT}
            ]
            ids = [one for one, _ in moved]
            places = array("Q", [place for _, place in moved])
        self.unconfirmed_count += 1

    def _damage(
        self, ledger_id: int, ids: Sequence[int], places: "array[int]"
    ) -> Generator[ScrubEffect, Any, None]:
        """Yield the damage that a second look confirms."""
        bad = self._bad(ledger_id, ids, places)
        for entry_id, place in bad[:1]:
            yield self._damaged_place(ledger_id, entry_id, place)
        for first, last in spans_of([entry_id for entry_id, _ in bad]):
            yield DamagedEntries(ledger_id, first, last)

    def _damaged_place(self, ledger_id: int, entry_id: int, place: int) -> DamagedFile:
        if place == UNKNOWN:
            path = IndexPath.of(self._view.index_dir, ledger_id).path
            reason = f"the location of entry {entry_id} was lost with a damaged page"
            return DamagedFile(path, self._offset, reason, ledger_id)
        log_id, offset = split_location(place)
        path = log_path(self._view.log_dir, log_id)
        reason = f"entry {entry_id} is not there, or is in a damaged block"
        return DamagedFile(path, offset, reason, ledger_id)

    def _bad(
        self, ledger_id: int, ids: Sequence[int], places: "array[int]"
    ) -> list[tuple[int, int]]:
        """Return the entries, with their places, that are not there or not sound."""
        bad = set(self._misplaced(ledger_id, ids, places))
        doubtful = [at for at, place in enumerate(places) if self._is_in_region(place)]
        self._is_all_seen &= UNKNOWN not in places
        if doubtful:
            self.pointed_ids.update(split_location(places[at])[0] for at in doubtful)
            sound = self._view.copies.are_sound(array("Q", [places[at] for at in doubtful]))
            bad.update(at for at, is_sound in zip(doubtful, sound, strict=True) if not is_sound)
        return [(ids[at], places[at]) for at in sorted(bad)]

    def _misplaced(self, ledger_id: int, ids: Sequence[int], places: "array[int]") -> list[int]:
        """Return the places that have another entry, or none."""
        bad = []
        window, start = b"", 0
        for at, (entry_id, place) in enumerate(zip(ids, places, strict=True)):
            offset = place - start
            if not 0 <= offset <= len(window) - HEADER_SIZE:
                following = places[at + 1] - place if at + 1 < len(places) else 0
                window, start, offset = self._window(place, following), place, 0
            try:
                found_ledger, found_entry, _ = read_prefix(window, offset)
            except CorruptRecordError:
                bad.append(at)
                continue
            if (found_ledger, found_entry) != (ledger_id, entry_id):
                bad.append(at)
        return bad

    def _window(self, place: int, following: int) -> bytes:
        size = WINDOW_SIZE if 0 < following <= NEAR_SIZE else HEADER_SIZE
        try:
            found = self._view.read_log(place, size)
        except FileNotFoundError:
            return b""
        except OSError:
            found = b""
        self._read_size += max(size, SECTOR_SIZE)  # the disk reads whole sectors
        return found

    def _is_in_region(self, place: int) -> bool:
        log_id, offset = split_location(place)
        return any(start <= offset < end for start, end in self._regions.get(log_id, ()))


def _damaged_file(error: CorruptRecordError, state: DiskState, ledger_id: int) -> DamagedFile:
    if state is DiskState.MENDED:
        cure = "memory has it, and the next checkpoint writes it again"
    else:
        cure = "stop the bookie and run `zbk bookie rebuild-index` to make it from the logs"
    return DamagedFile(error.where, error.offset, f"{error.reason}; {cure}", ledger_id)
