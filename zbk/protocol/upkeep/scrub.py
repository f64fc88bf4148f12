"""The findings of a scrub pass, and the queue of ledgers that it reports.

Words: a *pass* reads all files of a bookie's ledger directories once, and checks that they are as
written. A *damaged file* is not; it is logged once in a pass, unless the index points only past the
damaged place (``entry_logs.lost_regions``). A *damaged entry* is in the index, but its copy cannot
be read or verified: its ledger is *reported*, so that it is repaired from the other copies.

A range of damaged entries with ``last_entry_id`` -1 means that the entries are not known: the index
of the ledger itself is unreadable.

Limits: ``FILE_COUNT_MAX`` files and ``RANGE_COUNT_MAX`` ranges are kept; beyond them only the
numbers grow. ``PENDING_COUNT_MAX`` ledgers wait to be reported; further ones are dropped, counted,
and found again by the next pass.

Pure. Owned by the thread that scrubs.

Source: BookKeeper's ``LocalScrubber`` and ``ScrubberStats``, which only counts; the report is ours.
"""

from typing import Final

import msgspec

from zbk.protocol.entry.words import NO_ENTRY

FILE_COUNT_MAX: Final = 1_000
RANGE_COUNT_MAX: Final = 10_000
PENDING_COUNT_MAX: Final = 100_000

REPORT_DELAY_MS: Final = 1_000
REPORT_DELAY_MAX_MS: Final = 60_000
"""The pause after a failed report; it doubles up to the maximum."""


class DamagedFile(msgspec.Struct, frozen=True):
    """A damaged file, and its first damaged place."""

    path: str
    offset: int
    reason: str
    ledger_id: int | None = None  # of the bytes there, if it is known


class DamagedEntries(msgspec.Struct, frozen=True):
    """Consecutive entries of one ledger; ``last_entry_id`` -1: not known."""

    ledger_id: int
    first_entry_id: int
    last_entry_id: int
    is_index_lost: bool = False  # no copies can be stored in their place

    @property
    def count(self) -> int:
        """The number of entries; 0 if it is not known."""
        return 0 if self.last_entry_id == NO_ENTRY else self.last_entry_id - self.first_entry_id + 1


class Findings:
    """The findings of one pass."""

    def __init__(
        self, *, file_count_max: int = FILE_COUNT_MAX, range_count_max: int = RANGE_COUNT_MAX
    ) -> None:
        self._file_count_max = file_count_max
        self._range_count_max = range_count_max
        self._files: dict[str, DamagedFile] = {}
        self._ranges: list[DamagedEntries] = []
        self._last_path = ""
        self._last_ledger_id: int | None = None
        self.file_count = 0
        self.entry_count = 0
        self.ledger_count = 0

    @property
    def files(self) -> list[DamagedFile]:
        """The first of them, in the order they were found."""
        return list(self._files.values())

    @property
    def ranges(self) -> list[DamagedEntries]:
        """The first of them, in the order they were found."""
        return list(self._ranges)

    @property
    def is_damage_found(self) -> bool:
        """True when damage was found."""
        return bool(self.file_count or self.ledger_count)

    def add_file(self, damaged: DamagedFile) -> bool:
        """Record a damaged file; return whether to log it: each once, up to the limit."""
        if damaged.path in self._files or damaged.path == self._last_path:
            return False
        self._last_path = damaged.path
        self.file_count += 1
        if len(self._files) >= self._file_count_max:
            return False
        self._files[damaged.path] = damaged
        return True

    def add_entries(self, damaged: DamagedEntries) -> None:
        """Record damaged entries; those of one ledger are consecutive, ascending."""
        if damaged.ledger_id != self._last_ledger_id:
            self._last_ledger_id = damaged.ledger_id
            self.ledger_count += 1
        self.entry_count += damaged.count
        last = self._ranges[-1] if self._ranges else None
        if last is not None and _is_next(last, damaged):
            self._ranges[-1] = DamagedEntries(
                last.ledger_id, last.first_entry_id, damaged.last_entry_id
            )
        elif len(self._ranges) < self._range_count_max:
            self._ranges.append(damaged)


class ReportQueue:
    """The ledgers to report, each once, and the pause between attempts.

    Invariants, checked in ``_check``:
      * no ledger waits twice, and no more than the limit wait.
    """

    def __init__(self, count_max: int = PENDING_COUNT_MAX) -> None:
        self._count_max = count_max
        self._pending: dict[int, bool] = {}  # in order; the value: the index is lost
        self._delay_ms = 0
        self._not_before_ms = 0
        self.reported_count = 0
        self.forgotten_count = 0

    @property
    def pending_count(self) -> int:
        """The number of ledgers that wait."""
        return len(self._pending)

    def add(self, ledger_id: int, *, is_index_lost: bool = False) -> None:
        """Add a ledger, unless it waits already."""
        if ledger_id in self._pending:
            self._pending[ledger_id] |= is_index_lost
            return
        if len(self._pending) >= self._count_max:
            self.forgotten_count += 1
            return
        self._pending[ledger_id] = is_index_lost
        self._check()

    def due(self, now_ms: int, *, besides: int | None = None) -> tuple[int, bool] | None:
        """Return the ledger to report now, if any, and whether its index is lost.

        ``besides`` is a ledger in which the pass may find more damage: it is repaired once, not
        piece by piece.
        """
        if now_ms < self._not_before_ms:
            return None
        return next((one for one in self._pending.items() if one[0] != besides), None)

    def taken(self, ledger_id: int) -> None:
        """Record that the metadata store has the report, or needs none."""
        del self._pending[ledger_id]
        self.reported_count += 1
        self._delay_ms = 0
        self._not_before_ms = 0

    def not_taken(self, now_ms: int) -> bool:
        """Record that a report failed; return whether it is the first failure in a row."""
        is_first = not self._delay_ms
        self._delay_ms = min(max(REPORT_DELAY_MS, 2 * self._delay_ms), REPORT_DELAY_MAX_MS)
        self._not_before_ms = now_ms + self._delay_ms
        return is_first

    def _check(self) -> None:
        assert len(self._pending) <= self._count_max, "the queue is bounded"


def _is_next(last: DamagedEntries, damaged: DamagedEntries) -> bool:
    return (
        last.ledger_id == damaged.ledger_id
        and NO_ENTRY not in {last.last_entry_id, damaged.last_entry_id}
        and last.last_entry_id + 1 == damaged.first_entry_id
    )
