"""What a read remembers of the entries that it still lacks (``zbk.protocol.read.range_read``)."""

from collections.abc import Sequence

from zbk.errors import DamageError, NoSuchEntryError, NoSuchLedgerError, ZbkError


class Segment:
    """Ids that share one history: the replicas tried in vain, and what came of it."""

    __slots__ = ("entry_ids", "error", "tried")

    def __init__(
        self, entry_ids: Sequence[int], tried: int = 0, error: ZbkError | None = None
    ) -> None:
        self.entry_ids = entry_ids
        self.tried = tried  # bits of slots
        self.error = error

    def after(self, entry_ids: Sequence[int], slot: int, error: ZbkError) -> "Segment":
        """Return the history of some of its ids after a failure of theirs at ``slot``.

        Of several errors the one is kept that is the least final, and the first of its kind: a
        replica that could not be asked may still be read, where the others are damaged or absent.
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
        self.asked = asked  # bits of slots that were asked for these ids and may still be slow
        self.read_ids: list[int] = []
        self.speculate_at_ms: int | None = None


def _finality(error: ZbkError) -> int:
    if is_absence(error):
        return 2
    return 1 if isinstance(error, DamageError) else 0


def is_absence(error: ZbkError) -> bool:
    """Return whether a bookie said "no", rather than "I cannot"."""
    return isinstance(error, NoSuchEntryError | NoSuchLedgerError)
