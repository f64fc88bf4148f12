"""The history of entries that a read still lacks, and races for them (``read.range_read``)."""

from collections.abc import Sequence

from zbk.errors import DamageError, NoSuchEntryError, NoSuchLedgerError, ZbkError


class Segment:
    """Ids that share one history: the replicas tried in vain, and the error to report."""

    __slots__ = ("entry_ids", "error", "tried")

    def __init__(
        self, entry_ids: Sequence[int], tried: int = 0, error: ZbkError | None = None
    ) -> None:
        self.entry_ids = entry_ids
        self.tried = tried  # bits of slots
        self.error = error

    def after(self, entry_ids: Sequence[int], slot: int, error: ZbkError) -> "Segment":
        """Return the history of some of its ids after a failure of theirs at ``slot``.

        Of several errors the least final one is kept, the first of its kind: a replica that did not
        answer may still be readable, while the others are damaged or absent.
        """
        is_kept = self.error is not None and _finality(self.error) <= _finality(error)
        return Segment(entry_ids, self.tried | 1 << slot, self.error if is_kept else error)

    def rest(self, entry_ids: Sequence[int]) -> "Segment":
        """Return the unchanged history of some of its ids."""
        return Segment(entry_ids, self.tried, self.error)


class Race:
    """Requests for the same ids to different slots. The first valid answer wins."""

    __slots__ = ("asked", "read_ids", "segment", "speculate_at_ms")

    def __init__(self, segment: Segment, asked: int = 0) -> None:
        self.segment = segment
        self.asked = asked  # bits of slots that were asked for these ids and may still answer
        self.read_ids: list[int] = []
        self.speculate_at_ms: int | None = None


def _finality(error: ZbkError) -> int:
    if is_absence(error):
        return 2
    return 1 if isinstance(error, DamageError) else 0


def proves_loss(error: ZbkError) -> bool:
    """Return whether the error proves that a bookie has no good replica."""
    return is_absence(error) or isinstance(error, DamageError)


def is_absence(error: ZbkError) -> bool:
    """Return whether a bookie denied the entry, rather than failed to read it."""
    return isinstance(error, NoSuchEntryError | NoSuchLedgerError)
