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
    """The highest LAC that a bookie knows, or an error.

    The bookie refused, was not reached, did not answer in time, or its answer failed its check.
    """

    slot: int
    lac: int | ZbkError


Event: TypeAlias = LacReadStarted | LacAnswered


class SendReadLac(msgspec.Struct, frozen=True):
    """Ask the bookie of a slot for its LAC. Answer: LacAnswered with the same slot."""

    slot: int


class LacFound(msgspec.Struct, frozen=True):
    """The LAC is found. Nothing follows."""

    lac: int


class LacReadFailed(msgspec.Struct, frozen=True):
    """Too few bookies are known. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = SendReadLac | LacFound | LacReadFailed


class LacRead:
    """One read of a ledger's LAC.

    ``floor`` is a LAC that is known already: an earlier one of this reader, or the entry before the
    last fragment.
    """

    def __init__(self, quorum: Quorum, floor: int = NO_ENTRY) -> None:
        self._quorum = quorum
        self._lac = floor
        self._coverage = Coverage(quorum)
        self._errors: dict[int, ZbkError] = {}
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True when the LAC was found, or the read has failed."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. After the end, events are ignored."""
        del now_ms  # time-outs arrive as errors
        if self._is_over:
            return []
        match event:
            case LacReadStarted():
                return [SendReadLac(slot) for slot in range(self._quorum.ensemble_size)]
            case LacAnswered(slot, lac):
                self._on_answer(slot, lac)
            case _:
                assert_never(event)
        return self._conclude()

    def _on_answer(self, slot: int, lac: int | ZbkError) -> None:
        if isinstance(lac, NoSuchLedgerError | NoSuchEntryError):
            lac = NO_ENTRY
        if isinstance(lac, int):
            self._coverage.know(slot)
            self._lac = max(self._lac, lac)
            self._errors.pop(slot, None)
        elif not self._coverage.is_known(slot):
            self._errors[slot] = lac

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
