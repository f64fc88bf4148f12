"""LogOwner: golden stories. The duel of several owners is in ``test_log_owner_machine``."""

from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from zbk.errors import (
    LedgerClosedError,
    LedgerFencedError,
    LedgerRecoveryError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchLogError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.protocol.log import owner_events as lo
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import ATTEMPT_COUNT_MAX, LogOwner, Phase

ERRORS: dict[str, ZbkError] = {
    "unavailable": MetadataUnavailableError("zk://", "the reply was lost"),
    "bookies": NotEnoughBookiesError(3, 1, "to make a ledger"),
    "unrecoverable": LedgerRecoveryError(1, "no quorum"),
    "fenced": LedgerFencedError(1),
    "closed": LedgerClosedError(1, 7),
    "nolog": NoSuchLogError("orders"),
    "noledger": NoSuchLedgerError(1),
}


def make_log(*ledger_ids: int, log_id: str = "1") -> LogMetadata:
    return LogMetadata(name="orders", log_id=log_id, created_ms=0, ledger_ids=ledger_ids)


class OwnerScript:
    """The commands a golden script may use. Lists are written as ids, ``1,2,3`` or ``-``."""

    def __init__(self) -> None:
        self.core = LogOwner("orders")

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects: list[lo.Effect] = getattr(self, f"do_{name}")(*args)
        state = f"    [{self.core.phase}, current {self.core.current_ledger_id}]"
        return "\n    ".join([f"{' '.join(words)}:{state}", *map(_line, effects)])

    def do_new(self) -> list[lo.Effect]:
        self.core = LogOwner("orders")
        return []

    def do_own(self, ids: str) -> list[lo.Effect]:
        """Be the owner of a log with these ledgers, all but the last closed."""
        *old, last = map(int, ids.split(","))
        self.core = LogOwner("orders")
        self._tell(lo.TakeOverAsked())
        effects = self._tell(lo.ListRead(make_log(*old), 4))
        while effects and isinstance(effects[-1], lo.RecoverLedger):
            effects = self._tell(lo.LedgerRecovered(effects[-1].ledger_id))
        self._tell(lo.LedgerCreated(last))
        self._tell(lo.ListWritten(5))
        return self._tell(lo.LedgerSwitched())

    def do_take(self) -> list[lo.Effect]:
        return self._tell(lo.TakeOverAsked())

    def do_roll(self) -> list[lo.Effect]:
        return self._tell(lo.RollAsked())

    def do_close(self) -> list[lo.Effect]:
        return self._tell(lo.CloseAsked())

    def do_list(self, ids: str, version: str, log_id: str = "1") -> list[lo.Effect]:
        ledger_ids = [] if ids == "-" else map(int, ids.split(","))
        return self._tell(lo.ListRead(make_log(*ledger_ids, log_id=log_id), int(version[1:])))

    def do_unread(self, error: str) -> list[lo.Effect]:
        return self._tell(lo.ListUnread(ERRORS[error]))

    def do_written(self, version: str) -> list[lo.Effect]:
        return self._tell(lo.ListWritten(int(version[1:])))

    def do_conflict(self) -> list[lo.Effect]:
        return self._tell(lo.ListConflicted())

    def do_unwritten(self, error: str) -> list[lo.Effect]:
        return self._tell(lo.ListUnwritten(ERRORS[error]))

    def do_recovered(self, ledger_id: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerRecovered(int(ledger_id)))

    def do_unrecovered(self, ledger_id: str, error: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerUnrecovered(int(ledger_id), ERRORS[error]))

    def do_created(self, ledger_id: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerCreated(int(ledger_id)))

    def do_uncreated(self, error: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerUncreated(ERRORS[error]))

    def do_switched(self) -> list[lo.Effect]:
        return self._tell(lo.LedgerSwitched())

    def do_unswitched(self, error: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerUnswitched(ERRORS[error]))

    def do_lost(self, ledger_id: str, error: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerLost(int(ledger_id), ERRORS[error]))

    def do_closed(self, ledger_id: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerClosed(int(ledger_id)))

    def do_unclosed(self, ledger_id: str, error: str) -> list[lo.Effect]:
        return self._tell(lo.LedgerUnclosed(int(ledger_id), ERRORS[error]))

    def _tell(self, event: lo.Event) -> list[lo.Effect]:
        return self.core.handle(event, 0)


def _line(effect: lo.Effect) -> str:  # noqa: C901, PLR0911 - a line an effect
    match effect:
        case lo.ReadList():
            return "read the list"
        case lo.WriteList():
            return f"write {','.join(map(str, effect.log.ledger_ids))} on v{effect.version}"
        case lo.Pause():
            return f"pause {effect.attempt}"
        case lo.RecoverLedger():
            return f"recover {effect.ledger_id}"
        case lo.CreateLedger():
            return "create a ledger"
        case lo.DeleteLedger():
            return f"delete {effect.ledger_id}"
        case lo.SwitchLedger():
            return f"switch from {effect.old_id} to {effect.new_id}"
        case lo.CloseLedger():
            return f"close {effect.ledger_id}"
        case lo.RollFailed():
            return f"the roll failed: {type(effect.error).__name__}"
        case lo.CloseFailed():
            return f"the close failed: {type(effect.error).__name__}"
        case lo.Stop():
            return f"stop: {'closed' if effect.error is None else type(effect.error).__name__}"
        case _:
            assert_never(effect)


@pytest.mark.parametrize("script", scripts("log_owner"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, OwnerScript(), rewrite=rewrite_golden)


def test_nothing_is_served_before_the_list_is_written() -> None:
    core = LogOwner("orders")
    events: list[lo.Event] = [
        lo.TakeOverAsked(),
        lo.ListRead(make_log(1, 2, 3), 7),
        lo.LedgerRecovered(2),
        lo.LedgerRecovered(3),
        lo.LedgerCreated(4),
    ]
    for event in events:
        effects = core.handle(event, 0)
        assert not any(isinstance(effect, lo.SwitchLedger) for effect in effects)
        assert core.current_ledger_id is None

    assert core.handle(lo.ListWritten(8), 0) == [lo.SwitchLedger(None, 4)]


def test_b26_the_last_two_ledgers_are_recovered_whatever_they_look_like() -> None:
    """B26: by recovery, never by a plain open; ledgers before them are closed already."""
    core = LogOwner("orders")
    core.handle(lo.TakeOverAsked(), 0)

    assert core.handle(lo.ListRead(make_log(1, 2, 3), 7), 0) == [lo.RecoverLedger(2)]
    assert core.handle(lo.LedgerRecovered(2), 0) == [lo.RecoverLedger(3)]
    assert core.handle(lo.LedgerRecovered(3), 0) == [lo.CreateLedger()]


def test_a_take_over_that_others_frustrate_ends_after_so_many_attempts() -> None:
    core = LogOwner("orders")
    core.handle(lo.TakeOverAsked(), 0)
    ledger_id, version = 0, 0
    effects = core.handle(lo.ListRead(make_log(), 0), 0)
    attempt_count = 0
    while core.phase is not Phase.OVER:
        ledger_id += 2
        version += 1
        attempt_count += 1
        core.handle(lo.LedgerCreated(ledger_id), 0)
        core.handle(lo.ListConflicted(), 0)
        effects = core.handle(lo.ListRead(make_log(ledger_id + 1), version), 0)
        assert lo.DeleteLedger(ledger_id) in effects, "no orphan is left"
        if core.phase is Phase.READING:
            core.handle(lo.ListRead(make_log(ledger_id + 1), version), 0)
            core.handle(lo.LedgerRecovered(ledger_id + 1), 0)

    assert isinstance(effects[-1], lo.Stop)
    assert 1 < attempt_count <= ATTEMPT_COUNT_MAX
