"""The owner of a log: it takes the log over from its former owner, and rolls it.

Take over:

    1. read the list
    2. recover its last two ledgers: two, because the former owner may still write to one while it
       adds the other to the list. Recovery fences, so nothing more is acknowledged in them
    3. create a ledger
    4. write the list with the new ledger at its end, by compare-and-swap on the version of step 1
    5. only now serve appends

Roll: close the ledger before the current one, if it is still open; 3, 4; wait until every append to
the current ledger is answered (*switch*), so that no append to the new one is acknowledged before
an earlier one; continue in the new one; close the old one. So every ledger except the last two of
the list is closed at any time, and step 2 is enough.

Words: the *current* ledger takes the appends; the *candidate* is a new ledger that is not known to
be in the list.

A write of the list may succeed although its reply is lost. If the outcome is unknown, the owner
reads the list again, and ``zbk.protocol.log.candidate`` decides the fate of the candidate. It is
written again if that is safe; an orphan is deleted.

If another owner has the log, a take-over begins again at step 1, at most ``ATTEMPT_COUNT_MAX``
times with pauses between, and an owner stops with ``LogFencedError``. A roll that fails for another
reason leaves the owner with its current ledger; a candidate that may be in the list stays the
candidate of the next roll. A close that fails for another reason may be tried again.

``take_over``, ``roll`` and ``close`` are procedures (``zbk.protocol.procedure``), one at a time.

Source: "The BookKeeper protocol", section Ledgers to logs; Vanlightly's ``LedgerChaining.tla``.
"""

from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

from zbk.errors import (
    BadVersionError,
    CannotAdvanceError,
    LedgerClosedError,
    LedgerFencedError,
    LogFencedError,
    MetadataConflictError,
    NoSuchLedgerError,
    NoSuchLogError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.log.candidate import Place, VersionedLog, place_of
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner_effects import (
    CloseLedger,
    CreateLedger,
    DeleteLedger,
    Effect,
    Pause,
    ReadList,
    RecoverLedger,
    SwitchLedger,
    WriteList,
)
from zbk.protocol.procedure import Steps

ATTEMPT_COUNT_MAX: Final = 12  # reads of the list in one take-over or roll that do not settle it
FENCED_COUNT: Final = 2  # ledgers at the end of the list that a new owner recovers


class Phase(StrEnum):
    """The phases of an owner."""

    IDLE = "idle"
    TAKING_OVER = "taking over"
    OWNING = "owning"  # no procedure is under way; appends are served
    ROLLING = "rolling"
    CLOSING = "closing"
    UNCLOSED = "unclosed"  # no appends; the last close failed and may be tried again
    OVER = "over"


class _Stopped(Exception):  # noqa: N818 - not an error: ``end_error`` has it
    """The owner is over; the procedure under way ends."""


class LogOwner:
    """A client that owns a log, or tries to.

    Invariants, checked in ``_check`` whenever a procedure waits:
      * the current ledger is in the list that was last read or written, and only the candidate of
        a roll under way may follow it; if others have closed and truncated it, the list is
        the candidate alone;
      * the candidate is never the current ledger;
      * an older ledger that may be open is recorded, and directly precedes the current one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._version = -1  # of ``log``: the next write is based on it
        self._missing: tuple[int, int] | None = None  # version, and a listed ledger that is gone
        self._candidate: int | None = None
        self._next: int | None = None  # the ledger that a switch under way leads to
        self._attempt_count = 0
        self.phase = Phase.IDLE
        self.log: LogMetadata | None = None  # the list that was last read or written
        self.current_ledger_id: int | None = None  # takes appends; None: before the take-over
        self.unclosed_id: int | None = None  # the ledger before the current one, if it may be open
        self.end_error: ZbkError | None = None  # why it is over; None: it is not, or was closed

    def lose(self, ledger_id: int, error: ZbkError) -> bool:
        """Record that an append to a ledger failed; return whether this stops the owner.

        Allowed at any time. A procedure that waits then ends with ``end_error``.
        """
        if self.phase is Phase.OVER or ledger_id not in {self.current_ledger_id, self._next}:
            return False
        self._lost(error)
        return True

    # ------------------------------------------------------------------ procedures

    def take_over(self) -> Steps[Effect, None]:
        """Become the owner. The first procedure, run once.

        Raises:
            ZbkError: the log could not be taken over; the owner is over.
        """
        assert self.phase is Phase.IDLE, "the first procedure, run once"
        self.phase = Phase.TAKING_OVER
        try:
            while not (yield from self._try_to_take_over()):
                pass
        except ZbkError as error:
            self._stop(error)
            raise
        except _Stopped:
            raise self._reason_of_end() from None
        self.phase = Phase.OWNING
        self._check()

    def roll(self) -> Steps[Effect, None]:
        """Go on in a new ledger. Late calls, after ``close`` or the end, change nothing.

        Raises:
            ZbkError: the roll failed. Unless the owner is over, it continues in the current ledger.
        """
        yield from self._while_owning(self._roll())

    def close_older(self) -> Steps[Effect, None]:
        """Close the ledger that a roll has left open: readers stop at its end. As ``roll``."""
        yield from self._while_owning(self._settle_older())

    def _while_owning(self, steps: Steps[Effect, None]) -> Steps[Effect, None]:
        if self.phase in {Phase.OVER, Phase.UNCLOSED}:
            return
        assert self.phase is Phase.OWNING, "one procedure at a time"
        self.phase = Phase.ROLLING
        self._attempt_count = 0
        try:
            yield from steps
        except _Stopped:
            raise self._reason_of_end() from None
        finally:
            if self.phase is not Phase.OVER:
                self.phase = Phase.OWNING
        self._check()

    def close(self) -> Steps[Effect, None]:
        """Close the open ledgers of this owner, and end it.

        Raises:
            ZbkError: a ledger could not be closed. Unless the owner is over, it may be repeated.
        """
        if self.phase is Phase.OVER:
            return
        assert self.phase in {Phase.OWNING, Phase.UNCLOSED}, "one procedure at a time"
        assert self.current_ledger_id is not None, "an owner has a ledger"
        self.phase = Phase.CLOSING
        try:
            yield from self._settle_older()
            yield from self._ask(CloseLedger(self.current_ledger_id))
            self.phase = Phase.OVER
        except (LedgerFencedError, LedgerClosedError) as error:
            self._lost(error)
            raise self._reason_of_end() from error
        except _Stopped:
            raise self._reason_of_end() from None
        finally:
            if self.phase is not Phase.OVER:
                self.phase = Phase.UNCLOSED

    # ------------------------------------------------------------------ steps of a take-over

    def _try_to_take_over(self) -> Steps[Effect, bool]:
        """Attempt a take-over; return false if the log has changed meanwhile."""
        if self._attempt_count:
            yield from self._ask(Pause(self._attempt_count))
        self.log, self._version = yield from self._ask(ReadList())
        assert self.log is not None, "it was read"
        for ledger_id in self.log.ledger_ids[-FENCED_COUNT:]:
            try:
                yield from self._ask(RecoverLedger(ledger_id))
            except NoSuchLedgerError as error:
                # truncated since the list was read; or deleted by hand, then it stays listed
                if self._missing == (self._version, ledger_id):
                    raise
                self._missing = (self._version, ledger_id)
                self._count_attempt(error)
                return False
        is_owned = yield from self._add_ledger()
        if not is_owned:
            self._count_attempt(self._contended())
        return is_owned

    def _count_attempt(self, error: ZbkError) -> None:
        self._attempt_count += 1
        if self._attempt_count > ATTEMPT_COUNT_MAX:
            raise error

    # ------------------------------------------------------------------ steps of a roll

    def _roll(self) -> Steps[Effect, None]:
        yield from self._settle_older()
        if not (yield from self._add_ledger()):
            self._stop(LogFencedError(self._name))
            raise _Stopped
        yield from self._close_older()

    def _settle_older(self) -> Steps[Effect, None]:
        """Close the ledger before the current one, by recovery if need be."""
        yield from self._close_older()
        if self.unclosed_id is not None:
            # another client recovers it, or the outcome is unknown: recovery settles both
            with suppress(NoSuchLedgerError):  # truncated
                yield from self._ask(RecoverLedger(self.unclosed_id))
            self.unclosed_id = None

    def _close_older(self) -> Steps[Effect, None]:
        """Close the ledger before the current one; after an error it is closed later."""
        if self.unclosed_id is None:
            return
        try:
            yield from self._ask(CloseLedger(self.unclosed_id))
        except ZbkError:
            return
        self.unclosed_id = None

    # ------------------------------------------------------------------ a new ledger in the list

    def _add_ledger(self) -> Steps[Effect, bool]:
        """Add a ledger to the list and switch to it; return false if another owner has the log."""
        if self._candidate is None:
            self._candidate = yield from self._ask(CreateLedger())
            is_listed = yield from self._list_candidate(is_tried=False)
        else:  # of an earlier roll
            is_listed = yield from self._list_candidate(is_tried=True)
        if is_listed:
            yield from self._switch()
        return is_listed

    def _list_candidate(self, *, is_tried: bool) -> Steps[Effect, bool]:
        """Put the candidate at the end of the list; return false if another owner has the log."""
        while True:
            failure: ZbkError | None = None
            if not is_tried:
                failure = yield from self._write()
                if failure is None:
                    return True
            is_tried = False
            match (yield from self._look(failure)):
                case Place.LAST:
                    return True
                case Place.ORPHAN:
                    yield from self._drop_candidate()
                    return False
                case Place.OVERTAKEN:
                    self._candidate = None
                    return False

    def _write(self) -> Steps[Effect, ZbkError | None]:
        """Write the list with the candidate at its end; return the error, if any."""
        assert self.log is not None, "it was read"
        assert self._candidate is not None, "it was created"
        try:
            wanted = self.log.with_ledger(self._candidate)
        except ZbkError:  # too many ledgers, or ids that do not ascend
            yield from self._drop_candidate()
            raise
        try:
            self._version = yield from self._ask(WriteList(wanted, self._version))
        except ZbkError as error:
            return error
        self.log = wanted
        return None

    def _look(self, failure: ZbkError | None) -> Steps[Effect, Place]:
        """Read the list after a write that may have failed, until it settles the outcome."""
        assert self.log is not None, "it was read"
        assert self._candidate is not None, "it was created"
        base = self.log, self._version
        is_conflict = isinstance(failure, BadVersionError)
        doubt = None if is_conflict else failure
        while True:
            self._attempt_count += 1
            if doubt is not None:
                if self._attempt_count > ATTEMPT_COUNT_MAX:
                    raise doubt
                yield from self._ask(Pause(self._attempt_count))
            try:
                found: VersionedLog = yield from self._ask(ReadList())
            except NoSuchLogError as error:
                yield from self._drop_candidate()
                self._stop(error)
                raise _Stopped from None
            except ZbkError as error:
                doubt = error
                continue
            place = place_of(self._candidate, found, base, is_conflict=is_conflict)
            if place is not Place.UNKNOWN:
                break
            doubt = MetadataConflictError(f"log {self._name}", "the store shows an older list")
        if place in {Place.LAST, Place.UNLISTED}:
            self.log, self._version = found
        if place is Place.UNLISTED and self._attempt_count > ATTEMPT_COUNT_MAX:
            if self._version > base[1]:  # no write on the older version can succeed
                yield from self._drop_candidate()
            raise self._contended()
        return place

    def _switch(self) -> Steps[Effect, None]:
        assert self._candidate is not None, "it is in the list now"
        self._next = self._candidate
        try:
            yield from self._ask(SwitchLedger(self.current_ledger_id, self._next))
        except (CannotAdvanceError, RequestTimeoutError):
            raise
        except ZbkError as error:
            self._lost(error)
            raise _Stopped from None
        finally:
            self._next = None
        self.unclosed_id = self.current_ledger_id
        self.current_ledger_id, self._candidate = self._candidate, None

    def _drop_candidate(self) -> Steps[Effect, None]:
        """Delete an orphan."""
        orphan, self._candidate = self._candidate, None
        assert orphan is not None, "it was created"
        yield DeleteLedger(orphan)

    # ------------------------------------------------------------------ effects and ends

    def _ask(self, effect: Effect) -> Steps[Effect, Any]:
        """Return the answer, or raise its error.

        Raises:
            _Stopped: an append has failed meanwhile.
        """
        self._check()
        try:
            answer = yield effect
        except ZbkError:
            if self.phase is not Phase.OVER:
                raise
            raise _Stopped from None
        if self.phase is Phase.OVER:
            if isinstance(effect, CreateLedger):
                yield DeleteLedger(answer)
            raise _Stopped
        return answer

    def _stop(self, error: ZbkError) -> None:
        self.phase = Phase.OVER
        self.end_error = error

    def _lost(self, error: ZbkError) -> None:
        """Stop because of an error of the current ledger."""
        is_fenced = isinstance(error, LedgerFencedError | LedgerClosedError)
        self._stop(LogFencedError(self._name) if is_fenced else error)

    def _reason_of_end(self) -> ZbkError:
        assert self.end_error is not None, "a procedure stops for a reason"
        return self.end_error

    def _contended(self) -> ZbkError:
        return MetadataConflictError(
            f"log {self._name}", f"other clients changed it, {ATTEMPT_COUNT_MAX} times in a row"
        )

    def _check(self) -> None:
        if self.phase is Phase.OVER or self.current_ledger_id is None:
            return
        assert self.log is not None, "an owner has read the list"
        assert self._candidate != self.current_ledger_id, "the candidate is another ledger"
        current = self.current_ledger_id
        later = [i for i in self.log.ledger_ids if i > current]
        is_cut_off = list(self.log.ledger_ids) == [self._candidate]  # a truncation leaves the last
        assert is_cut_off or current in self.log.ledger_ids, "the current ledger is in the list"
        assert later in ([], [self._candidate]), "only the candidate follows it"
        before = [i for i in self.log.ledger_ids if i < current]
        assert self.unclosed_id is None or before[-1:] in ([], [self.unclosed_id])
