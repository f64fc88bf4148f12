"""The schedule of checkpoints: by time, by journal bytes and by memory, but not too often.

A *checkpoint* makes the index durable and moves the journal's mark forward. None is due while
nothing was written since the last due one. Otherwise one is due

    after an interval     but at least ``PAUSE_FACTOR`` times the duration of the last one, up to
                          ``PAUSE_MAX_MS``: adds need the machine, too
    after journal bytes   so that a start has little to replay; after a checkpoint of many ledgers,
                          ``JOURNAL_FACTOR`` times as many
    for memory            at once, when the index in memory is nearly full

Requested checkpoints are not part of the schedule.

Pure. Owned by the checkpoint actor.

Source: BookKeeper's ``SyncThread``, which knows the interval only.
"""

from typing import Final

PAUSE_FACTOR: Final = 15
PAUSE_MAX_MS: Final = 60_000
"""The pause after a checkpoint, as a multiple of its duration, and its limit. A checkpoint of
20,000 ledgers takes long: it syncs a file for each."""

MANY_LEDGER_COUNT: Final = 1_000
JOURNAL_FACTOR: Final = 6
"""The cost of a checkpoint of many ledgers depends on their number, not on the bytes written, so
more bytes may pass before the next. A start after a crash takes some ten seconds for each GiB of
20,000 ledgers: with this factor it stays below 20."""


class CheckpointSchedule:
    """The schedule of one bookie. Times are milliseconds of one clock."""

    def __init__(self, *, interval_ms: int, journal_size: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._journal_size = journal_size
        self._due_ms = now_ms  # when the last one was due
        self._write_size = 0  # bytes of the journal by then; -1: any bytes count
        self._run_ms = now_ms  # when its steps began
        self._took_ms = 0
        self._ledger_count = 0  # ledgers that it wrote

    def change(self, *, interval_ms: int, journal_size: int) -> None:
        """Set another interval, and other bytes that make a checkpoint due."""
        self._interval_ms = interval_ms
        self._journal_size = journal_size

    def covers(self, write_size: int) -> bool:
        """Return whether nothing was written since the last due one."""
        return write_size == self._write_size

    def take_due(self, now_ms: int, write_size: int, *, is_memory_short: bool) -> bool:
        """Return whether a checkpoint is due; if so, record it as the last one.

        ``write_size``: the bytes so far that a start would read: in the journals, and in entry logs
        only.
        """
        if self.covers(write_size):
            return False
        pause_ms = min(PAUSE_FACTOR * self._took_ms, PAUSE_MAX_MS)
        is_late = now_ms - self._due_ms >= max(self._interval_ms, pause_ms)
        has_many = self._ledger_count >= MANY_LEDGER_COUNT
        size_max = self._journal_size * (JOURNAL_FACTOR if has_many else 1)
        is_much = write_size - self._write_size >= size_max
        if not (is_late or is_much or is_memory_short):
            return False
        self._due_ms = now_ms
        self._write_size = write_size
        return True

    def run(self, now_ms: int, ledger_count: int) -> None:
        """Record that the steps of a checkpoint of ``ledger_count`` ledgers begin."""
        self._run_ms = now_ms
        self._ledger_count = ledger_count

    def ended(self, now_ms: int) -> None:
        """Record that the checkpoint has ended."""
        self._took_ms = now_ms - self._run_ms

    def postponed(self) -> None:
        """Record that a checkpoint found no space to begin: it is due again, without new bytes."""
        self._write_size = -1
