"""The list of a log and its ledgers as they are, and clients that carry out what their owners want.

A client does one effect at a time; a write of the list may be carried out late, or its reply may be
lost, and a read may show the past.
"""

from collections import deque
from contextlib import suppress

import msgspec

from zbk.errors import (
    BadVersionError,
    LedgerFencedError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import LogOwner
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

NAME = "orders"
LOST_REPLY = MetadataUnavailableError("memory://", "the reply was lost")


class Entry(msgspec.Struct):
    """One append: when it was begun, and when it was acknowledged."""

    owner: int
    invoked_at: int
    acked_at: int | None = None


class Ledger:
    """What the bookies hold."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_fenced = False
        self.is_closed = False


class World:
    """The list and the ledgers, as they are."""

    def __init__(self) -> None:
        self.history = [LogMetadata(name=NAME, log_id="1", created_ms=0)]  # by version
        self.ledgers: dict[int, Ledger] = {}
        self.deleted: set[int] = set()
        self.late_writes: list[WriteList] = []
        self.appends: list[Entry] = []  # all that were ever begun, in that order
        self.next_ledger_id = 0
        self.clock = 0

    @property
    def log(self) -> LogMetadata:
        return self.history[-1]

    @property
    def version(self) -> int:
        return len(self.history) - 1

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def write(self, effect: WriteList) -> bool:
        if effect.version != self.version:
            return False
        assert not set(effect.log.ledger_ids) & self.deleted, "a list names no deleted ledger"
        self.history.append(effect.log)
        return True

    def delete(self, ledger_id: int) -> None:
        assert ledger_id not in self.log.ledger_ids, "what is in the list is not deleted"
        self.ledgers.pop(ledger_id, None)
        self.deleted.add(ledger_id)


class Body:
    """A client that wants the log: an owner, and the effect that it has to carry out."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.owner = LogOwner(NAME)
        self.procedure: Procedure[Effect, None] | None = None
        self.target: int | None = None  # the ledger that appends go to
        self.pending: deque[Entry] = deque()  # appended, not yet with the bookies
        self.unacked: deque[Entry] = deque()  # with the bookies, not yet answered
        self.recovering: int | None = None

    @property
    def effect(self) -> Effect | None:
        """What waits to be carried out."""
        return None if self.procedure is None else self.procedure.effect

    def run(self, steps: Steps[Effect, None]) -> None:
        procedure = self.procedure = Procedure(steps)
        with suppress(ZbkError):
            procedure.begin()

    def answer(self, value: object) -> None:
        assert self.procedure is not None
        with suppress(ZbkError):
            self.procedure.answer(value)

    # ---------------------------------------------------------------- appends

    def append(self) -> None:
        assert self.target is not None
        self.pending.append(Entry(self.number, self.world.tick()))
        self.world.appends.append(self.pending[-1])

    def store(self) -> None:
        """The bookies get the oldest append, or refuse it."""
        assert self.target is not None
        ledger = self.world.ledgers.get(self.target)
        if ledger is None or ledger.is_fenced:
            self.pending.clear()
            self.owner.lose(self.target, LedgerFencedError(self.target))
            return
        entry = self.pending.popleft()
        ledger.entries.append(entry)
        self.unacked.append(entry)

    def acknowledge(self) -> None:
        self.unacked.popleft().acked_at = self.world.tick()

    # ---------------------------------------------------------------- effects

    def step(self, fate: str) -> None:
        """Carry out the effect, or as much of it as is possible now."""
        match self.effect:
            case ReadList():
                shown = self.world.version if fate == "good" else max(0, self.world.version - 1)
                self.answer((self.world.history[shown], shown))
            case WriteList() as effect:
                self._write(effect, fate)
            case RecoverLedger(ledger_id):
                self._recover(ledger_id)
            case CreateLedger():
                ledger_id = self.world.next_ledger_id
                self.world.next_ledger_id += 1
                self.world.ledgers[ledger_id] = Ledger()
                self.answer(ledger_id)
            case DeleteLedger(ledger_id):
                self.world.delete(ledger_id)
                self.answer(None)
            case SwitchLedger(_, new_id):
                self._switch(new_id)
            case CloseLedger(ledger_id):
                self._close(ledger_id, fate)
            case Pause():
                self.answer(None)

    def _write(self, effect: WriteList, fate: str) -> None:
        world = self.world
        match fate:
            case "good":
                is_written = world.write(effect)
                self.answer(world.version if is_written else BadVersionError(NAME))
                return
            case "lost reply":
                world.write(effect)
            case "late":
                world.late_writes.append(effect)
        self.answer(LOST_REPLY)

    def _recover(self, ledger_id: int) -> None:
        ledger = self.world.ledgers.get(ledger_id)
        if ledger is None:
            self.recovering = None
            self.answer(NoSuchLedgerError(ledger_id))
        elif self.recovering != ledger_id:
            ledger.is_fenced = True
            self.recovering = ledger_id  # closes it the next time
        else:
            self.recovering = None
            ledger.is_closed = True
            self.answer(None)

    def _switch(self, new_id: int) -> None:
        if self.pending:
            self.store()
            return
        while self.unacked:
            self.acknowledge()
        assert new_id in self.world.log.ledger_ids or self.is_overtaken(new_id)
        self.target = new_id
        self.answer(None)

    def is_overtaken(self, ledger_id: int) -> bool:
        """Return whether a ledger was in the list once."""
        return any(ledger_id in log.ledger_ids for log in self.world.history)

    def _close(self, ledger_id: int, fate: str) -> None:
        ledger = self.world.ledgers.get(ledger_id)
        if fate == "never" and ledger_id != self.target:
            self.answer(LOST_REPLY)
            return
        if ledger is None or (ledger.is_fenced and not ledger.is_closed):
            self.answer(LedgerFencedError(ledger_id))
            return
        if ledger_id == self.target and self.pending:
            self.store()
            return
        while self.unacked:
            self.acknowledge()
        ledger.is_fenced = ledger.is_closed = True
        self.answer(None)
