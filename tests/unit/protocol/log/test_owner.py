"""LogOwner: golden stories. The duel of several owners is in ``test_log_owner_machine``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from zbk.errors import (
    BadVersionError,
    CannotAdvanceError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerRecoveryError,
    LogFencedError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchLogError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import ATTEMPT_COUNT_MAX, LogOwner, Phase
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
from zbk.protocol.procedure import Procedure, Steps

ERRORS: dict[str, ZbkError] = {
    "unavailable": MetadataUnavailableError("zk://", "the reply was lost"),
    "bookies": NotEnoughBookiesError(3, 1, "to make a ledger"),
    "unrecoverable": LedgerRecoveryError(1, "no quorum"),
    "fenced": LedgerFencedError(1),
    "closed": LedgerClosedError(1, 7),
    "nolog": NoSuchLogError("orders"),
    "unsynced": CannotAdvanceError(1, -1, 4, "too few bookies"),
    "noledger": NoSuchLedgerError(1),
}


def make_log(*ledger_ids: int, log_id: str = "1") -> LogMetadata:
    return LogMetadata(name="orders", log_id=log_id, created_ms=0, ledger_ids=ledger_ids)


class OwnerScript:
    """The commands a golden script may use. Lists are written as ids, ``1,2,3`` or ``-``."""

    def __init__(self) -> None:
        self.do_new()

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        self.lines: list[str] = []
        getattr(self, f"do_{name}")(*args)
        state = f"    [{self.owner.phase}, current {self.owner.current_ledger_id}]"
        return "\n    ".join([f"{' '.join(words)}:{state}", *self.lines])

    def do_new(self) -> None:
        self.owner = LogOwner("orders")
        self.procedure: Procedure[Effect, None] | None = None
        self.is_over = False

    def do_own(self, ids: str) -> None:
        """Be the owner of a log with these ledgers, all but the last closed."""
        *old, last = map(int, ids.split(","))
        self.do_new()
        self.do_take()
        self._answer((make_log(*old), 4))
        for ledger_id in old[-2:]:
            self.do_recovered(str(ledger_id))
        self._answer(last)
        self._answer(5)
        self._answer(None)
        self.lines = []

    def do_take(self) -> None:
        self._run(self.owner.take_over())

    def do_roll(self) -> None:
        self._run(self.owner.roll())

    def do_older(self) -> None:
        self._run(self.owner.close_older())

    def do_close(self) -> None:
        self._run(self.owner.close())

    def do_list(self, ids: str, version: str, log_id: str = "1") -> None:
        ledger_ids = [] if ids == "-" else map(int, ids.split(","))
        self._answer((make_log(*ledger_ids, log_id=log_id), int(version[1:])))

    def do_written(self, version: str) -> None:
        self._answer(int(version[1:]))

    def do_conflict(self) -> None:
        self._answer(BadVersionError("/logs/orders"))

    def do_created(self, ledger_id: str) -> None:
        self._answer(int(ledger_id))

    def do_recovered(self, ledger_id: str) -> None:
        assert self._waiting == RecoverLedger(int(ledger_id))
        self._answer(None)

    def do_unrecovered(self, ledger_id: str, error: str) -> None:
        assert self._waiting == RecoverLedger(int(ledger_id))
        self._fail(error)

    def do_closed(self, ledger_id: str) -> None:
        assert self._waiting == CloseLedger(int(ledger_id))
        self._answer(None)

    def do_unclosed(self, ledger_id: str, error: str) -> None:
        assert self._waiting == CloseLedger(int(ledger_id))
        self._fail(error)

    def do_switched(self) -> None:
        assert isinstance(self._waiting, SwitchLedger)
        self._answer(None)

    def do_lost(self, ledger_id: str, error: str) -> None:
        self.owner.lose(int(ledger_id), ERRORS[error])
        self._note_end()

    def _fail(self, error: str) -> None:
        self._answer(ERRORS[error])

    do_unread = do_unwritten = do_uncreated = do_unswitched = _fail

    @property
    def _waiting(self) -> Effect | None:
        assert self.procedure is not None
        return self.procedure.effect

    def _run(self, steps: Steps[Effect, None]) -> None:
        self.procedure = Procedure(steps)
        self._resume(self.procedure.begin)

    def _answer(self, value: object) -> None:
        assert self.procedure is not None
        self._resume(partial(self.procedure.answer, value))

    def _resume(self, resume: Callable[[], Effect | None]) -> None:
        """Go on to the next question, and note all that is to be done."""
        phase = self.owner.phase
        try:
            effect = resume()
        except ZbkError as error:
            if self.owner.phase is not Phase.OVER:
                what = "close" if phase is Phase.CLOSING else "roll"
                self.lines.append(f"the {what} failed: {type(error).__name__}")
        else:
            if effect is not None:
                self.lines.append(_line(effect))
            if isinstance(effect, Pause | DeleteLedger):
                self._answer(None)
        self._note_end()

    def _note_end(self) -> None:
        if self.owner.phase is Phase.OVER and not self.is_over:
            self.is_over = True
            error = self.owner.end_error
            self.lines.append(f"stop: {'closed' if error is None else type(error).__name__}")


def _line(effect: Effect) -> str:  # noqa: PLR0911 - a line an effect
    match effect:
        case ReadList():
            return "read the list"
        case WriteList(log, version):
            return f"write {','.join(map(str, log.ledger_ids))} on v{version}"
        case Pause(attempt):
            return f"pause {attempt}"
        case RecoverLedger(ledger_id):
            return f"recover {ledger_id}"
        case CreateLedger():
            return "create a ledger"
        case DeleteLedger(ledger_id):
            return f"delete {ledger_id}"
        case SwitchLedger(old_id, new_id):
            return f"switch from {old_id} to {new_id}"
        case CloseLedger(ledger_id):
            return f"close {ledger_id}"
        case _:
            assert_never(effect)


@pytest.mark.parametrize("script", scripts("log_owner"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, OwnerScript(), rewrite=rewrite_golden)


def test_nothing_is_served_before_the_list_is_written() -> None:
    owner = LogOwner("orders")
    taking = Procedure(owner.take_over())
    assert taking.begin() == ReadList()
    for answer in [(make_log(1, 2, 3), 7), None, None, 4]:
        assert not isinstance(taking.answer(answer), SwitchLedger)
        assert owner.current_ledger_id is None

    assert taking.answer(8) == SwitchLedger(None, 4)


def test_b26_the_last_two_ledgers_are_recovered_whatever_they_look_like() -> None:
    """B26: by recovery, never by a plain open; ledgers before them are closed already."""
    taking = Procedure(LogOwner("orders").take_over())
    taking.begin()

    assert taking.answer((make_log(1, 2, 3), 7)) == RecoverLedger(2)
    assert taking.answer(None) == RecoverLedger(3)
    assert taking.answer(None) == CreateLedger()


def test_a_take_over_that_others_frustrate_ends_after_so_many_attempts() -> None:
    owner = LogOwner("orders")
    taking = Procedure(owner.take_over())
    taking.begin()
    taking.answer((make_log(), 0))
    ledger_id, version, attempt_count = 0, 0, 0
    while True:
        ledger_id += 2
        version += 1
        attempt_count += 1
        others = (make_log(ledger_id + 1), version)
        taking.answer(ledger_id)
        assert taking.answer(BadVersionError("/logs/orders")) == ReadList()
        assert taking.answer(others) == DeleteLedger(ledger_id), "no orphan is left"
        try:
            effect = taking.answer(None)
        except MetadataConflictError:
            break
        assert isinstance(effect, Pause)
        assert taking.answer(None) == ReadList()
        assert taking.answer(others) == RecoverLedger(ledger_id + 1)
        taking.answer(None)

    assert owner.phase is Phase.OVER
    assert 1 < attempt_count <= ATTEMPT_COUNT_MAX


def test_an_owner_that_lost_its_ledger_deletes_what_is_made_for_it_still() -> None:
    owner = LogOwner("orders")
    taking = Procedure(owner.take_over())
    taking.begin()
    for answer in [(make_log(), 0), 1, 1, None]:
        taking.answer(answer)
    rolling = Procedure(owner.roll())
    assert rolling.begin() == CreateLedger()
    assert owner.lose(1, LedgerFencedError(1))

    assert rolling.answer(4) == DeleteLedger(4)
    with pytest.raises(LogFencedError):
        rolling.answer(None)
