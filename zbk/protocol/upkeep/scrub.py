"""What a scrubber has found, and what it still has to report.

Words: a *pass* reads all files of a bookie's ledger directories once, and looks whether they are
what was written. *Damage* is a file that is not: a *damaged file*, told of once a pass; but not
where all of the index points past what was there (``entry_logs.lost_regions``). A *damaged
entry* is one that the index has and whose copy cannot be read, or cannot be vouched for: its
ledger is *reported*, so that the copies that are left are used to make it whole.

A range of damaged entries with ``last_entry_id`` -1 says that nobody knows which: the index of the
ledger itself is unreadable.

Limits: ``FILE_COUNT_MAX`` and ``RANGE_COUNT_MAX`` are what is kept to be shown; beyond them only
the numbers grow. ``PENDING_COUNT_MAX`` ledgers wait to be reported; one more is forgotten, counted,
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
"""How long a report waits after the metadata store did not take one: doubled up to this."""


class DamagedFile(msgspec.Struct, frozen=True):
    """A file that is not what was written, and the first place where it is not."""

    path: str
    offset: int
    reason: str
    ledger_id: int | None = None  # whose bytes these are, if that can be told


class DamagedEntries(msgspec.Struct, frozen=True):
    """Entries of one ledger in a row; ``last_entry_id`` -1: unknown which."""

    ledger_id: int
    first_entry_id: int
    last_entry_id: int
    is_index_lost: bool = False  # nothing can be stored in their place

    @property
    def count(self) -> int:
        """How many entries; of an unknown number none is counted."""
        return 0 if self.last_entry_id == NO_ENTRY else self.last_entry_id - self.first_entry_id + 1


class Findings:
    """What one pass has found."""

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
        """True when anything was found."""
        return bool(self.file_count or self.ledger_count)

    def add_file(self, damaged: DamagedFile) -> bool:
        """Note a damaged file; return whether to report it: each is once, up to the limit."""
        if damaged.path in self._files or damaged.path == self._last_path:
            return False
        self._last_path = damaged.path
        self.file_count += 1
        if len(self._files) >= self._file_count_max:
            return False
        self._files[damaged.path] = damaged
        return True

    def add_entries(self, damaged: DamagedEntries) -> None:
        """Note damaged entries; those of one ledger come one after another, ascending."""
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
    """The ledgers that are to be reported, each once, and when to try.

    Invariants, checked in ``_check``:
      * no ledger waits twice, and no more than the limit wait.
    """

    def __init__(self, count_max: int = PENDING_COUNT_MAX) -> None:
        self._count_max = count_max
        self._pending: dict[int, bool] = {}  # in the order they came; whether the index is lost
        self._delay_ms = 0
        self._not_before_ms = 0
        self.reported_count = 0
        self.forgotten_count = 0

    @property
    def pending_count(self) -> int:
        """How many ledgers wait."""
        return len(self._pending)

    def add(self, ledger_id: int, *, is_index_lost: bool = False) -> None:
        """Report a ledger; one that waits already waits on."""
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

        ``besides`` is one of which more may be found yet: it is repaired once, not piece by piece.
        """
        if now_ms < self._not_before_ms:
            return None
        return next((one for one in self._pending.items() if one[0] != besides), None)

    def taken(self, ledger_id: int) -> None:
        """Note that the metadata store has the report, or needs none."""
        del self._pending[ledger_id]
        self.reported_count += 1
        self._delay_ms = 0
        self._not_before_ms = 0

    def not_taken(self, now_ms: int) -> bool:
        """Note that the metadata store did not answer; return whether that is news."""
        is_news = not self._delay_ms
        self._delay_ms = min(max(REPORT_DELAY_MS, 2 * self._delay_ms), REPORT_DELAY_MAX_MS)
        self._not_before_ms = now_ms + self._delay_ms
        return is_news

    def _check(self) -> None:
        assert len(self._pending) <= self._count_max, "the queue is bounded"


def _is_next(last: DamagedEntries, damaged: DamagedEntries) -> bool:
    return (
        last.ledger_id == damaged.ledger_id
        and NO_ENTRY not in {last.last_entry_id, damaged.last_entry_id}
        and last.last_entry_id + 1 == damaged.first_entry_id
    )
