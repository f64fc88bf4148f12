"""Reading the LAC of a ledger from its bookies.

Every bookie of the last ensemble is asked for the highest LAC that it knows. The answer stands
when the bookies heard cover the ensemble (``ledger.coverage``): no write quorum is left in
which an ack quorum could have confirmed more without us hearing of it. Then it is the highest LAC
heard, and at least ``floor``.

    known      answered with a LAC, or said that it has no such ledger or entry
    unknown    everything else: not heard, refused, timed out, an answer that fails its check

A garbled answer gives no coverage (BookKeeper counts it before it verifies it).

Nothing is fenced here: the fencing LAC read of a recovery is ``zbk.protocol.recovery.fence``.

Source: "The BookKeeper protocol", section Closing a ledger as a reader; BookKeeper's
``ReadLastConfirmedOp``.
"""

from typing import TypeAlias, assert_never

import msgspec

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


class LacReadStarted(msgspec.Struct, frozen=True):
    """Begin."""


class LacAnswered(msgspec.Struct, frozen=True):
    """A bookie told the highest LAC that it knows; the answer passed its checks."""

    slot: int
    lac: int


class LacRefused(msgspec.Struct, frozen=True):
    """A bookie refused, was not reached, did not answer in time, or sent garbage."""

    slot: int
    error: ZbkError


Event: TypeAlias = LacReadStarted | LacAnswered | LacRefused


class SendReadLac(msgspec.Struct, frozen=True):
    """Ask the bookie of a slot for its LAC. Answer it with one event of the same slot."""

    slot: int


class LacFound(msgspec.Struct, frozen=True):
    """The LAC. Nothing follows."""

    lac: int


class LacReadFailed(msgspec.Struct, frozen=True):
    """Too few bookies could be heard. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = SendReadLac | LacFound | LacReadFailed


class LacRead:
    """One read of a ledger's LAC.

    ``floor`` is what is known to be confirmed anyway: an earlier LAC of this reader, and the entry
    before the first one of the last fragment.
    """

    def __init__(self, quorum: Quorum, floor: int = NO_ENTRY) -> None:
        self._quorum = quorum
        self._lac = floor
        self._coverage = Coverage(quorum)
        self._errors: dict[int, ZbkError] = {}
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True when the LAC was found or cannot be."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. What comes after the end is late news."""
        del now_ms  # every machine has the same door; time-outs come as refusals
        if self._is_over:
            return []
        match event:
            case LacReadStarted():
                return [SendReadLac(slot) for slot in range(self._quorum.ensemble_size)]
            case LacAnswered():
                self._know(event.slot, event.lac)
            case LacRefused():
                self._refuse(event.slot, event.error)
            case _:
                assert_never(event)
        return self._conclude()

    def _know(self, slot: int, lac: int) -> None:
        self._coverage.know(slot)
        self._lac = max(self._lac, lac)
        self._errors.pop(slot, None)

    def _refuse(self, slot: int, error: ZbkError) -> None:
        if isinstance(error, NoSuchLedgerError | NoSuchEntryError):
            self._know(slot, NO_ENTRY)
        elif not self._coverage.is_known(slot):
            self._errors[slot] = error

    def _conclude(self) -> list[Effect]:
        for error in self._errors.values():
            if isinstance(error, UnauthorizedError):  # the same key goes to every bookie
                self._is_over = True
                return [LacReadFailed(error)]
        if self._coverage.is_complete:
            self._is_over = True
            return [LacFound(self._lac)]
        if self._coverage.known_count + len(self._errors) < self._quorum.ensemble_size:
            return []
        self._is_over = True
        return [LacReadFailed(self._failure())]

    def _failure(self) -> NotEnoughBookiesError:
        texts = [f"slot {slot}: {error}" for slot, error in sorted(self._errors.items())]
        reason = "to know the last add confirmed, of each write quorum; " + "; ".join(texts)
        coverage = self._coverage
        return NotEnoughBookiesError(coverage.needed_count, coverage.known_count, reason)
