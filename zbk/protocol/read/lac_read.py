"""The read of a ledger's LAC from its bookies.

Every bookie of the last ensemble is asked for the highest LAC that it knows. The read ends when the
known bookies cover the ensemble (``ledger.coverage``): then each write quorum in which an ack
quorum may have confirmed more has a known bookie. The result is the highest LAC of all answers, and
at least ``floor``.

    known      answered with a LAC, or that it has no such ledger or entry
    unknown    all others: no answer, an error, a time-out, an answer that fails its check

A garbled answer gives no coverage (BookKeeper counts it before it verifies it).

Nothing is fenced here: the fencing LAC read of a recovery is ``zbk.protocol.recovery.fence``.

Source: "The BookKeeper protocol", section Closing a ledger as a reader; BookKeeper's
``ReadLastConfirmedOp``.
"""

from zbk.errors import (
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.quorum import Quorum


class LacRead:
    """One read of a ledger's LAC. Its caller asks every bookie of the last ensemble.

    ``floor`` is a LAC that is known already: an earlier one of this reader, or the entry before the
    last fragment.
    """

    def __init__(self, quorum: Quorum, floor: int = NO_ENTRY) -> None:
        self._size = quorum.ensemble_size
        self._coverage = Coverage(quorum)
        self._errors: dict[int, ZbkError] = {}  # by unknown slot
        self.lac = floor
        """The highest LAC so far."""
        self.error: ZbkError | None = None
        """Why the read has failed, if it has."""

    @property
    def is_found(self) -> bool:
        """True when ``lac`` is the result."""
        return self.error is None and self._coverage.is_complete

    @property
    def is_over(self) -> bool:
        """True when the LAC was found, or the read has failed."""
        return self.is_found or self.error is not None

    def answered(self, slot: int, lac: int | ZbkError) -> None:
        """Handle the answer of a bookie: a LAC, or an error. After the end, answers are ignored.

        The error: the bookie refused, was not reached, did not answer in time, or its answer failed
        its check.
        """
        if self.is_over:
            return
        if isinstance(lac, NoSuchLedgerError | NoSuchEntryError):
            lac = NO_ENTRY
        if isinstance(lac, int):
            self._coverage.know(slot)
            self.lac = max(self.lac, lac)
            self._errors.pop(slot, None)
        elif isinstance(lac, UnauthorizedError):  # every bookie gets the same key
            self.error = lac
        elif not self._coverage.is_known(slot):
            self._errors[slot] = lac
        has_all = self._coverage.known_count + len(self._errors) == self._size
        if has_all and not self.is_over:
            texts = [f"slot {slot}: {error}" for slot, error in sorted(self._errors.items())]
            reason = "to know the last add confirmed, of each write quorum; " + "; ".join(texts)
            coverage = self._coverage
            self.error = NotEnoughBookiesError(coverage.needed_count, coverage.known_count, reason)
