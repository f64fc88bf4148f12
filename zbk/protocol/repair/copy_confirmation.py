"""The confirmation of a copy: the target must hold every entry, and return two of them unchanged.

After the last add the target is asked what it holds; it must hold every entry that was copied.
Then the *samples*, the first and the last entry copied, are read back from it and compared.

Source: part of ``zbk.protocol.repair.fragment_copy``; reliability rule I27.
"""

from zbk.errors import DigestMismatchError, NoSuchEntryError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.copy_ids import LossNotes
from zbk.protocol.repair.copy_order import CopyOrder, missing_spans
from zbk.protocol.repair.holdings import AskHoldings, Holdings


class CopyConfirmation:
    """The confirmation of one copy. ``lost`` are the entries that the copy left out."""

    def __init__(self, order: CopyOrder, lost: LossNotes) -> None:
        self._order = order
        self._lost = lost
        self._held: list[Span] = []
        self._samples: dict[int, bytes] = {}  # by entry id
        self.is_begun = False

    @property
    def sample_ids(self) -> list[int]:
        """The ids of the samples that were not read back yet."""
        return sorted(self._samples)

    def note_copied(self, batch: EntryBatch) -> None:
        """Keep the first and the last entry copied so far."""
        known = self.sample_ids
        if not known or batch.first_entry_id < known[0]:
            self._samples[batch.first_entry_id] = batch.body[: batch.sizes[0]]
        if not known or batch.last_entry_id > known[-1]:
            self._samples[batch.last_entry_id] = batch.body[-batch.sizes[-1] :]
        for entry_id in self.sample_ids[1:-1]:
            del self._samples[entry_id]

    def begin(self) -> AskHoldings:
        """Begin; return the first question."""
        self.is_begun = True
        return self._question(self._order.spans[0][0])

    def on_holdings(self, held: Holdings) -> AskHoldings | None:
        """Record what the target holds; return the next question, ``None`` after the last page."""
        self._held += held.ranges
        last_id = held.last_entry_id
        if last_id is None or last_id >= self._order.spans[-1][1]:
            return None
        return self._question(last_id + 1)

    def absence(self) -> ZbkError | None:
        """Return an error for the first copied entry that the target does not hold."""
        slot, quorum = self._order.slot, self._order.metadata.quorum
        for span in self._order.spans:
            for first, last in missing_spans(quorum, slot, span, self._held):
                for entry_id in range(first, last + 1):
                    if quorum.holds(slot, entry_id) and not self._lost.has(entry_id):
                        return NoSuchEntryError(self._order.metadata.ledger_id, entry_id)
        return None

    def on_sample(self, entry_id: int, body: bytes | ZbkError) -> ZbkError | None:
        """Compare a sample that was read back; return an error unless it is unchanged."""
        sample = self._samples.pop(entry_id)
        if isinstance(body, ZbkError):
            return body
        is_same = body == sample
        return None if is_same else DigestMismatchError(self._order.metadata.ledger_id, entry_id)

    def _question(self, first_entry_id: int) -> AskHoldings:
        return AskHoldings(self._order.target, (first_entry_id, self._order.spans[-1][1]))
