"""The first step of a recovery: fence the bookies, and learn how far the ledger was confirmed.

Every bookie of the last ensemble gets a LAC read that fences. The step is done when the bookies
that answered cover the ensemble (``ledger.coverage``): each of them durably refuses further adds of
the writer, so no write quorum is left in which an add could get its ack quorum without one of them.
A bookie that fails is asked again after a rest.

``NoSuchLedgerError`` is a failure here, not knowledge: a bookie that receives a fencing request
knows the ledger from then on, unless it does not find it in the metadata, and then it has fenced
nothing. (BookKeeper counts the error as knowledge, even of a bookie that lost its disk: #2612.)
``UnauthorizedError`` ends the recovery: every bookie gets the same key.

What a fenced bookie refuses is ``zbk.durability.fence``.

Source: BookKeeper's ``ReadLastConfirmedOp`` with fencing, ``LedgerRecoveryOp.initiate``.
"""

from zbk.errors import ZbkError
from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import RecoveryLimits
from zbk.protocol.recovery.retries import SlotRetries


class FenceRound:
    """The fenced slots, and the highest LAC of their answers; at least ``floor``."""

    def __init__(self, quorum: Quorum, floor: int, limits: RecoveryLimits) -> None:
        self._size = quorum.ensemble_size
        self._coverage = Coverage(quorum)
        self._retries = SlotRetries(quorum.ensemble_size, limits)
        self._asked: set[int] = set()
        self.lac = floor

    @property
    def is_done(self) -> bool:
        """True when the fenced bookies cover the ensemble."""
        return self._coverage.is_complete

    @property
    def is_hopeless(self) -> bool:
        """True when they cannot cover it any more: too many bookies are given up."""
        return not self._coverage.is_reachable(self._retries.given_up)

    def is_fenced(self, slot: int) -> bool:
        """Return whether the slot is fenced."""
        return self._coverage.is_known(slot)

    def due(self, now_ms: int) -> list[int]:
        """Return the slots to ask now, and count them as asked."""
        slots = [
            slot
            for slot in range(self._size)
            if slot not in self._asked
            and not self.is_fenced(slot)
            and self._retries.is_ready(slot, now_ms)
        ]
        self._asked.update(slots)
        return slots

    def answered(self, slot: int, lac: int) -> None:
        """Record an answer."""
        self._asked.discard(slot)
        self._retries.heard(slot)
        self._coverage.know(slot)
        self.lac = max(self.lac, lac)

    def failed(self, slot: int, error: ZbkError, now_ms: int) -> None:
        """Record a failure."""
        self._asked.discard(slot)
        self._retries.failed(slot, error, now_ms)

    def why_not_done(self) -> str:
        """Return why the step is not done, as part of an error text."""
        coverage = self._coverage
        unknown = [slot for slot in range(self._size) if not self.is_fenced(slot)]
        return (
            f"{coverage.known_count} of {self._size} bookies are fenced, and of each write quorum "
            f"{coverage.needed_count} are needed; {self._retries.text(unknown)}"
        )
