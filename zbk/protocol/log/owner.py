"""Owning a log: taking it over from whoever had it, and rolling it from ledger to ledger.

Take over:

    1. read the list
    2. recover its last two ledgers: two, for the former owner may still write to the one while it
       adds the other to the list. Recovery fences, so nothing more is acknowledged there
    3. make a new ledger
    4. write the list with the new ledger at its end, by compare-and-swap on the version of step 1
    5. only now: serve appends

Roll: close the ledger before the current one, if that has not been done; 3, 4; let every append to
the current ledger be answered (*switch*), so that nothing in the new one is acknowledged before
what was appended earlier; go on in the new one; close the old one. So every ledger but the last two
of the list is closed at any time, and step 2 is enough.

Words: the *current* ledger takes the appends; the *candidate* is a new ledger that is not known to
be in the list.

A write of the list that did not surely happen, or surely did not, is followed by a look at the list
as it is then:

    candidate is the last                it was written
    candidate is there, others behind    it was written, and somebody has taken the log over since
    the version that we wrote on         not written, or not yet: written again on that same version
    an older version                     the store shows us the past: looked at again
    newer, the same last ledgers         it was only truncated: written again on the newer list
    newer, other last ledgers            somebody has taken the log over; the candidate is an orphan
                                         and is deleted
    another log of this name             as the line before

When somebody else has it, a taker begins anew at step 1, at most ``ATTEMPT_COUNT_MAX`` times with
pauses between, and an owner stops: ``LogFencedError``. A roll that fails otherwise leaves the owner
with its current ledger; a candidate of which nobody knows whether it is in the list stays the
candidate of the next roll. A close that fails otherwise may be asked for again.

Source: "The BookKeeper protocol", section Ledgers to logs; Vanlightly's ``LedgerChaining.tla``.
"""

from enum import StrEnum
from typing import Final, assert_never

from zbk.errors import (
    LedgerClosedError,
    LedgerFencedError,
    LogFencedError,
    MetadataConflictError,
    NoSuchLedgerError,
    NoSuchLogError,
    ZbkError,
)
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner_events import (
    CloseAsked,
    CloseFailed,
    CloseLedger,
    CreateLedger,
    DeleteLedger,
    Effect,
    Event,
    LedgerClosed,
    LedgerCreated,
    LedgerEvent,
    LedgerLost,
    LedgerRecovered,
    LedgerSwitched,
    LedgerUnclosed,
    LedgerUncreated,
    LedgerUnrecovered,
    LedgerUnswitched,
    ListConflicted,
    ListEvent,
    ListRead,
    ListUnread,
    ListUnwritten,
    ListWritten,
    Pause,
    ReadList,
    RecoverLedger,
    RollAsked,
    RollFailed,
    Stop,
    SwitchLedger,
    TakeOverAsked,
    WriteList,
)

ATTEMPT_COUNT_MAX: Final = 12
"""Looks at the list in one take-over or roll that do not settle it."""

FENCED_COUNT: Final = 2
"""Ledgers at the end of the list that a new owner recovers."""


class Phase(StrEnum):
    """What the owner waits for."""

    IDLE = "idle"
    READING = "reading"
    RECOVERING = "recovering"
    CREATING = "creating"
    WRITING = "writing"
    LOOKING = "looking"  # at the list, after a write that did not surely happen
    SWITCHING = "switching"
    OWNING = "owning"  # for nothing: appends are served
    CLOSING_OLD = "closing old"  # first step of a roll
    CLOSING = "closing"
    UNCLOSED = "unclosed"  # for another close: the last one failed
    OVER = "over"


class LogOwner:
    """One client that wants to own, or owns, a log.

    One thing at a time: the body answers every effect but ``Pause``, ``DeleteLedger``,
    ``RollFailed``, ``CloseFailed`` and ``Stop`` with one event before the next ``RollAsked`` or
    ``CloseAsked``. ``LedgerLost`` may come at any time.

    Invariants, checked in ``_check``:
      * the current ledger is in the list that was read or written last, and nothing is behind it
        but, while a roll is under way, the candidate;
      * the candidate is never the current ledger;
      * a ledger older than the current one that may not be closed is known as such, and is the one
        right before it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._phase = Phase.IDLE
        self._log: LogMetadata | None = None  # as last read or written
        self._version = -1  # of that list: what the next write is based on
        self._to_recover: list[int] = []
        self._missing: tuple[int, int] | None = None  # version, and a listed ledger that is gone
        self._candidate: int | None = None
        self._current: int | None = None
        self._unclosed: int | None = None  # the ledger before the current one, if it may be open
        self._wanted: LogMetadata | None = None  # as last written, or tried
        self._is_conflict = False  # the last write surely did not happen
        self._attempt_count = 0

    @property
    def phase(self) -> Phase:
        """What it waits for."""
        return self._phase

    @property
    def current_ledger_id(self) -> int | None:
        """The ledger that takes appends; ``None`` before the take-over."""
        return self._current

    @property
    def log(self) -> LogMetadata | None:
        """The list as it was last read or written."""
        return self._log

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done, in this order."""
        del now_ms  # every machine has the same door; nothing here depends on time
        effects = self._on_event(event)
        self._check()
        return effects

    def _on_event(self, event: Event) -> list[Effect]:
        if self._phase is Phase.OVER:
            return [DeleteLedger(event.ledger_id)] if isinstance(event, LedgerCreated) else []
        match event:
            case TakeOverAsked():
                assert self._phase is Phase.IDLE, "once, and first"
                effects = self._begin_anew()
            case RollAsked():
                effects = self._on_roll_asked()
            case CloseAsked():
                effects = self._on_close_asked()
            case LedgerLost():
                effects = self._on_lost(event)
            case ListRead() | ListUnread() | ListWritten() | ListConflicted() | ListUnwritten():
                effects = self._on_list(event)
            case _:
                effects = self._on_ledger(event)
        return effects

    def _on_list(self, event: ListEvent) -> list[Effect]:
        match event:
            case ListRead():
                return self._on_read(event.log, event.version)
            case ListUnread():
                return self._on_unread(event.error)
            case ListWritten():
                assert self._phase is Phase.WRITING, "it was asked for"
                assert self._wanted is not None, "it was written"
                self._log = self._wanted
                return self._switch(event.version)
            case ListConflicted():
                return self._look(is_conflict=True)
            case ListUnwritten():
                return self._look(event.error)
            case _:
                assert_never(event)

    def _on_ledger(self, event: LedgerEvent) -> list[Effect]:
        match event:
            case LedgerRecovered():
                effects = self._on_recovered(event.ledger_id)
            case LedgerUnrecovered():
                effects = self._on_unrecovered(event.ledger_id, event.error)
            case LedgerCreated():
                self._candidate = event.ledger_id
                effects = self._write()
            case LedgerUncreated() | LedgerUnswitched():
                effects = self._fail(event.error)
            case LedgerSwitched():
                effects = self._on_switched()
            case LedgerClosed():
                effects = self._on_closed(event.ledger_id)
            case LedgerUnclosed():
                effects = self._on_unclosed(event.ledger_id, event.error)
            case _:
                assert_never(event)
        return effects

    # ------------------------------------------------------------------ taking over

    @property
    def _is_taking(self) -> bool:
        return self._current is None

    def _begin_anew(self) -> list[Effect]:
        self._phase = Phase.READING
        if self._attempt_count == 0:
            return [ReadList()]
        return [Pause(self._attempt_count), ReadList()]

    def _on_read(self, log: LogMetadata, version: int) -> list[Effect]:
        if self._phase is Phase.LOOKING:
            return self._judge(log, version)
        assert self._phase is Phase.READING, "it was asked for"
        return self._recover(log, version)

    def _recover(self, log: LogMetadata, version: int) -> list[Effect]:
        self._log, self._version = log, version
        self._to_recover = list(log.ledger_ids[-FENCED_COUNT:])
        self._phase = Phase.RECOVERING
        return self._recover_next()

    def _recover_next(self) -> list[Effect]:
        if self._to_recover:
            return [RecoverLedger(self._to_recover[0])]
        return self._create()

    def _on_recovered(self, ledger_id: int) -> list[Effect]:
        if self._phase is Phase.CLOSING_OLD:
            self._unclosed = None
            return self._create()
        assert self._to_recover[0] == ledger_id, "one at a time"
        del self._to_recover[0]
        return self._recover_next()

    def _on_unrecovered(self, ledger_id: int, error: ZbkError) -> list[Effect]:
        if self._phase is Phase.CLOSING_OLD or not isinstance(error, NoSuchLedgerError):
            return self._fail(error)
        # truncated since the list was read; or deleted by hand, and then it stays in the list
        if self._missing == (self._version, ledger_id):
            return self._fail(error)
        self._missing = (self._version, ledger_id)
        return self._try_again(error)

    # ------------------------------------------------------------------ a new ledger in the list

    def _create(self) -> list[Effect]:
        if self._candidate is not None:  # of an earlier roll that did not end
            return self._look()
        self._phase = Phase.CREATING
        return [CreateLedger()]

    def _write(self) -> list[Effect]:
        assert self._log is not None, "it was read"
        assert self._candidate is not None, "it was made"
        try:
            self._wanted = self._log.with_ledger(self._candidate)
        except ZbkError as error:  # too many ledgers, or ids that do not ascend
            return [*self._drop_candidate(), *self._fail(error)]
        self._phase = Phase.WRITING
        return [WriteList(self._wanted, self._version)]

    def _look(self, error: ZbkError | None = None, *, is_conflict: bool = False) -> list[Effect]:
        """Read the list to see what became of a write."""
        self._is_conflict = is_conflict
        self._phase = Phase.LOOKING
        self._attempt_count += 1
        if error is None:
            return [ReadList()]
        if self._attempt_count > ATTEMPT_COUNT_MAX:
            return self._fail(error)
        return [Pause(self._attempt_count), ReadList()]

    def _judge(self, fresh: LogMetadata, version: int) -> list[Effect]:
        """Decide what became of the candidate; the table in the module's docstring."""
        known = self._log
        assert known is not None, "a list was written, so one was read"
        assert self._candidate is not None, "that is what was written"
        if fresh.log_id != known.log_id:
            return [*self._drop_candidate(), *self._yield_to_another()]
        if self._candidate in fresh.ledger_ids:
            if fresh.last_ledger_id == self._candidate:
                self._log = fresh
                return self._switch(version)
            self._candidate = None  # no orphan: it is in the list
            return self._yield_to_another()
        if version < self._version or (version == self._version and self._is_conflict):
            return self._look(self._stale(), is_conflict=self._is_conflict)
        if fresh.last_ledger_id != known.last_ledger_id:
            return [*self._drop_candidate(), *self._yield_to_another()]
        return self._write_again(fresh, version)

    def _write_again(self, fresh: LogMetadata, version: int) -> list[Effect]:
        """Nobody has appended since: what we fenced, or own, is still the end of the log."""
        is_unwritten = version > self._version  # for good: no write on an old version can succeed
        self._log, self._version = fresh, version
        if self._attempt_count > ATTEMPT_COUNT_MAX:
            dropped = self._drop_candidate() if is_unwritten else []
            return [*dropped, *self._fail(self._contended())]
        return self._write()

    def _switch(self, version: int) -> list[Effect]:
        assert self._candidate is not None, "it is in the list now"
        self._version = version
        self._phase = Phase.SWITCHING
        return [SwitchLedger(self._current, self._candidate)]

    def _on_switched(self) -> list[Effect]:
        assert self._phase is Phase.SWITCHING, "it was asked for"
        old, self._current, self._candidate = self._current, self._candidate, None
        self._unclosed = old
        self._phase = Phase.OWNING
        return [] if old is None else [CloseLedger(old)]

    # ------------------------------------------------------------------ rolling and closing

    def _on_roll_asked(self) -> list[Effect]:
        if self._phase is Phase.UNCLOSED:  # asked for before the close, and late
            return []
        assert self._phase is Phase.OWNING, "one thing at a time"
        self._attempt_count = 0
        self._phase = Phase.CLOSING_OLD
        if self._unclosed is not None:
            return [CloseLedger(self._unclosed)]
        return self._create()

    def _on_close_asked(self) -> list[Effect]:
        assert self._phase in (Phase.OWNING, Phase.UNCLOSED), "one thing at a time"
        assert self._current is not None, "an owner has a ledger"
        self._phase = Phase.CLOSING
        return [CloseLedger(self._current if self._unclosed is None else self._unclosed)]

    def _on_closed(self, ledger_id: int) -> list[Effect]:
        if ledger_id == self._unclosed:
            self._unclosed = None
            return self._go_on_closing()
        assert ledger_id == self._current, "only those two are closed"
        self._phase = Phase.OVER
        return [Stop(None)]

    def _on_unclosed(self, ledger_id: int, error: ZbkError) -> list[Effect]:
        if ledger_id == self._current:
            if not _is_lost(error):
                self._phase = Phase.UNCLOSED
                return [CloseFailed(error)]
            self._phase = Phase.OVER
            return [Stop(self._reason(error))]
        if self._phase is Phase.CLOSING_OLD:
            # somebody who wants the log recovers it, or nobody knows: recovery settles both
            return [RecoverLedger(ledger_id)]
        return self._go_on_closing()  # the next roll or the next owner sees to it

    def _go_on_closing(self) -> list[Effect]:
        match self._phase:
            case Phase.CLOSING_OLD:
                return self._create()
            case Phase.CLOSING:
                assert self._current is not None, "an owner has a ledger"
                return [CloseLedger(self._current)]
            case _:
                return []

    # ------------------------------------------------------------------ when it goes wrong

    def _on_lost(self, event: LedgerLost) -> list[Effect]:
        is_new = self._phase is Phase.SWITCHING and event.ledger_id == self._candidate
        if self._phase is Phase.OVER or not (is_new or event.ledger_id == self._current):
            return []
        self._phase = Phase.OVER
        return [Stop(self._reason(event.error))]

    def _yield_to_another(self) -> list[Effect]:
        """Begin anew, or stop: somebody else has taken the log over."""
        if self._is_taking:
            return self._try_again(None)
        self._phase = Phase.OVER
        return [Stop(LogFencedError(self._name))]

    def _try_again(self, error: ZbkError | None) -> list[Effect]:
        self._attempt_count += 1
        if self._attempt_count > ATTEMPT_COUNT_MAX:
            return self._fail(error or self._contended())
        return self._begin_anew()

    def _on_unread(self, error: ZbkError) -> list[Effect]:
        if isinstance(error, NoSuchLogError):
            self._phase = Phase.OVER
            return [*self._drop_candidate(), Stop(error)]
        if self._phase is Phase.LOOKING:
            return self._look(error, is_conflict=self._is_conflict)
        return self._fail(error)

    def _fail(self, error: ZbkError) -> list[Effect]:
        """End the take-over, or the roll; an owner keeps its current ledger."""
        if self._is_taking:
            self._phase = Phase.OVER
            return [Stop(error)]
        self._phase = Phase.OWNING
        return [RollFailed(error)]

    def _drop_candidate(self) -> list[Effect]:
        """Delete what surely is in no list, and never will be."""
        orphan, self._candidate = self._candidate, None
        return [] if orphan is None else [DeleteLedger(orphan)]

    def _reason(self, error: ZbkError) -> ZbkError:
        return LogFencedError(self._name) if _is_lost(error) else error

    def _contended(self) -> ZbkError:
        return MetadataConflictError(
            f"log {self._name}", f"others changed it, {ATTEMPT_COUNT_MAX} times in a row"
        )

    def _stale(self) -> ZbkError:
        return MetadataConflictError(f"log {self._name}", "the store shows an older list")

    def _check(self) -> None:
        if self._phase is Phase.OVER or self._current is None:
            return
        assert self._log is not None, "an owner has read the list"
        assert self._candidate != self._current, "the candidate is another ledger"
        behind = [i for i in self._log.ledger_ids if i > self._current]
        assert self._current in self._log.ledger_ids, "the current ledger is in the list"
        assert behind in ([], [self._candidate]), "nothing but the candidate is behind it"
        before = [i for i in self._log.ledger_ids if i < self._current]
        assert self._unclosed is None or before[-1:] in ([], [self._unclosed])


def _is_lost(error: ZbkError) -> bool:
    """Return whether a ledger is not ours any more."""
    return isinstance(error, LedgerFencedError | LedgerClosedError)
