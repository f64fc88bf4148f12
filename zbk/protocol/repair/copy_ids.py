"""The ids of the entries of a copy, and the losses among them.

Source: part of ``zbk.protocol.repair.fragment_copy``.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from zbk.protocol.repair.copy_order import CopyOrder, LostEntries

PIECE_COUNT: Final = 16_384
"""Ids of a striped fragment that are listed at once."""

LOST_COUNT_MAX: Final = 64
"""Runs of lost entries that are kept apart; later ones join the last run."""


def ids_in_pieces(order: CopyOrder) -> Iterator[Sequence[int]]:
    """Yield the ids to copy, ascending, in pieces of one span each."""
    quorum = order.metadata.quorum
    for first, last in order.spans:
        step = PIECE_COUNT if quorum.is_striped else last - first + 1
        for start in range(first, last + 1, step):
            ids = quorum.entry_ids(order.slot, start, min(last, start + step - 1))
            if ids:
                yield ids


class LossNotes:
    """The lost entries of one copy, ascending, as runs of entries that are due."""

    def __init__(self, order: CopyOrder) -> None:
        self._quorum = order.metadata.quorum
        self._slot = order.slot
        self._found: list[LostEntries] = []

    @property
    def found(self) -> tuple[LostEntries, ...]:
        """All of them."""
        return tuple(self._found)

    def note(self, entry_id: int, reason: str) -> None:
        """Record the next lost entry."""
        last = self._found[-1] if self._found else None
        is_run = last is not None and last.reason == reason and self._is_next(last, entry_id)
        if last is not None and (is_run or len(self._found) == LOST_COUNT_MAX):
            first, count = last.first_entry_id, last.count + 1
            self._found[-1] = LostEntries(first, entry_id, count, last.reason)
        else:
            self._found.append(LostEntries(entry_id, entry_id, 1, reason))

    def has(self, entry_id: int) -> bool:
        """Return whether an entry lies in a recorded run."""
        return any(one.first_entry_id <= entry_id <= one.last_entry_id for one in self._found)

    def _is_next(self, last: LostEntries, entry_id: int) -> bool:
        between = range(last.last_entry_id + 1, entry_id)
        return len(between) < self._quorum.ensemble_size and not any(
            self._quorum.holds(self._slot, one) for one in between
        )
