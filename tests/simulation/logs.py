"""Owners of a log in the simulation: the real ``LogOwner``, and an application that appends.

The body does what ``zbk.client.log.driver`` does: the list through the real ``LogStore``, its
ledgers through writers and recoveries of the simulation. Several owners duel for one log.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.reader import LOG
from tests.simulation.recoverer import RecoveryBody
from tests.simulation.world import World
from tests.simulation.writer_body import WriterBody
from tests.support.history import hash_of
from zbk.errors import (
    BadVersionError,
    LedgerClosedError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.log.owner import Phase
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

BUSY_RETRY_US: Final = 50 * MS
SYNC_SHARE: Final = 200
"""Per mille, after an append to a VD log."""


class SimulatedLogOwner:
    """A client that wants the log, appends to it and rolls it, until somebody else has it."""

    def __init__(
        self,
        world: World,
        name: str,
        quorum: Quorum,
        append_count: int,
        ledger_type: LedgerType = LedgerType.PD_JOURNAL,
    ) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        self.is_over = False
        self._quorum = quorum
        self._ledger_type = ledger_type
        self._owner = world.parts.log_owner(LOG)
        self._procedure: Procedure[Effect, None] | None = None
        self._session = world.session(name)
        self._logs = LogStore(self._session, pause=lambda _s: None)
        self._pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._writers: dict[int, WriterBody] = {}
        self._current: WriterBody | None = None
        self._left_count = append_count
        self._is_switching = False
        self._value_count = 0
        self._creation_count = 0
        world.metadata.submit(self.node, lambda: self._logs.create(LOG, 0), self._begin)

    def crash(self) -> None:
        """End the process, with all its writers."""
        self.node.trace("the owner dies")
        self._give_up()
        self.node.die()
        self._pool.close()

    def _begin(self, outcome: ZbkError | None) -> None:
        if isinstance(outcome, ZbkError):
            self._stop()
            return
        self._run(self._owner.take_over())
        self.node.after(self.world.tape.draw(8) * 10 * MS, self._work)

    @property
    def is_volatile(self) -> bool:
        """True when its acknowledged entries are durable only after a sync."""
        return self._ledger_type.is_volatile

    # ------------------------------------------------------------------ the application

    def _work(self) -> None:
        """Append, at times roll; at the end close."""
        if self.is_over:
            return
        tape = self.world.tape
        is_owning = self._owner.phase is Phase.OWNING
        if (not self._left_count or self.world.is_ending) and is_owning:
            self._run(self._owner.close())
            return
        writer = self._current
        if writer is not None and not self._is_switching and self._left_count:
            self._append(writer)
            if self.is_volatile and tape.chance(SYNC_SHARE) and writer is self._current:
                writer.sync()  # it was not given up because that append failed at once
            if is_owning and tape.chance(100):
                self.world.sometimes["log: rolled"] += 1
                self._run(self._owner.roll())
        self.node.after(tape.draw(8) * 8 * MS + MS, self._work)

    def _append(self, writer: WriterBody) -> None:
        self._left_count -= 1
        value = f"{self.node.name} value {self._value_count}".encode()
        self._value_count += 1
        begun = self.world.history.invoke(
            self.world.kernel.now_ms,
            self.node.name,
            "log_append",
            value_hash=hash_of(value),
            log=LOG,
        )
        writer.append([begun], [value])

    # ------------------------------------------------------------------ effects

    def _run(self, steps: Steps[Effect, None]) -> None:
        if not self.is_over:
            self._procedure = Procedure(steps)
            self._resume(self._procedure.begin)

    def _answer(self, value: object) -> None:
        if not self.is_over:
            assert self._procedure is not None, "a procedure waits"
            self._resume(partial(self._procedure.answer, value))

    def _resume(self, resume: Callable[[], Effect | None]) -> None:
        try:
            effect = resume()
        except ZbkError as error:
            if self._owner.phase is Phase.OWNING:
                self.node.trace(f"could not roll: {error!r}")
            else:
                self._end(error)
            return
        if effect is not None:
            self._carry_out(effect)
        elif self._owner.phase is Phase.OVER:
            self._end(None)

    def _lose(self, ledger_id: int, error: ZbkError) -> None:
        if not self.is_over and self._owner.lose(ledger_id, error):
            self._end(self._owner.end_error)

    def _end(self, error: ZbkError | None) -> None:
        self.node.trace(f"stops: {error!r}")
        if error is not None:
            self.world.sometimes["log: an owner loses the log"] += 1
        self._stop()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Pause(attempt):
                delay_us = (1 + self.world.tape.draw(8)) * attempt * 5 * MS
                self.node.after(delay_us, self._answer, None)
            case ReadList():
                self.world.metadata.submit(self.node, lambda: self._logs.read(LOG), self._answer)
            case WriteList():
                self._write_list(effect)
            case RecoverLedger(ledger_id):
                RecoveryBody(
                    self.world, self.node, self._pool, self._session, ledger_id, self._answer
                )
            case CreateLedger():
                self._create()
            case DeleteLedger(ledger_id):
                self._delete(ledger_id)
                self._answer(None)
            case SwitchLedger():
                self._switch(effect)
            case CloseLedger(ledger_id):
                self._close(ledger_id)
            case _:
                assert_never(effect)

    def _write_list(self, effect: WriteList) -> None:
        def done(outcome: int | ZbkError) -> None:
            if isinstance(outcome, BadVersionError):
                self.world.sometimes["log: the list changed meanwhile"] += 1
            self._answer(outcome)

        self.world.metadata.submit(
            self.node, lambda: self._logs.write(effect.log, effect.version), done
        )

    def _create(self) -> None:
        world = self.world
        alive = world.candidates()
        if len(alive) < self._quorum.ensemble_size:
            error = NotEnoughBookiesError(self._quorum.ensemble_size, len(alive), "")
            self.node.after(BUSY_RETRY_US, self._answer, error)
            return
        self._creation_count += 1
        make = world.new_ledger(
            self._quorum,
            self._ledger_type,
            alive,
            f"{self.node.name} {self._creation_count}",
        )
        begun = world.history.invoke(world.kernel.now_ms, self.node.name, "create")

        def done(outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                world.history.end(begun, world.kernel.now_ms, "info", error=outcome)
                self._answer(outcome)
                return
            metadata, _version = outcome
            ledger_id = metadata.ledger_id
            world.history.end(begun, world.kernel.now_ms, "ok", ledger_id=ledger_id)
            if not self.is_over:
                self._writers[ledger_id] = self._new_writer(metadata)
            self._answer(ledger_id)

        ledgers = self._session.ledgers()
        world.metadata.submit(self.node, lambda: ledgers.create(make), done)

    def _new_writer(self, metadata: LedgerMetadata) -> WriterBody:
        ledger_id = metadata.ledger_id
        return WriterBody(
            self.world,
            self.node,
            metadata,
            on_failed=lambda error: self._lose(ledger_id, error),
            accepts_loss=False,
        )

    def _delete(self, ledger_id: int) -> None:
        self.world.sometimes["log: an orphan is deleted"] += 1
        writer = self._writers.pop(ledger_id, None)
        if writer is not None:
            writer.give_up()
        ledgers = self._session.ledgers()
        self.world.metadata.submit(
            self.node, lambda: ledgers.delete(ledger_id), lambda _outcome: None
        )

    def _switch(self, effect: SwitchLedger) -> None:
        """Go on in the new ledger once all appends to the old one are answered, and durable."""
        self._is_switching = True

        def flushed(error: ZbkError | None) -> None:
            if error is not None:  # the writer reports this failure of appends by itself
                self._is_switching = False
            elif self.is_volatile and old is not None:
                old.sync(switched)
            else:
                switched(None)

        def switched(error: ZbkError | None) -> None:
            self._is_switching = False
            if error is None:
                self._current = self._writers[effect.new_id]
            self._answer(error)

        old = None if effect.old_id is None else self._writers.get(effect.old_id)
        if old is None:
            self.node.after(0, switched, None)
            return
        if self.is_volatile:
            self.world.sometimes["log: a VD ledger is synced before the next"] += 1
        old.flush(flushed)

    def _close(self, ledger_id: int) -> None:
        writer = self._writers.get(ledger_id)
        if writer is None:
            self.node.after(0, self._answer, LedgerClosedError(ledger_id))
        else:
            writer.close(self._answer)

    # ------------------------------------------------------------------ ends

    def _stop(self) -> None:
        self._give_up()
        self._pool.close()

    def _give_up(self) -> None:
        self.is_over = True
        for writer in self._writers.values():
            writer.give_up()
        self._current = None
