"""The driver of a log's owner: it carries out the effects of ``zbk.protocol.log.owner``.

Take-over, roll and close run in the caller's thread, one at a time; every step blocks. A writer's
thread reports a failed append at any time, and never blocks.
"""

import random
import threading
from contextlib import suppress
from typing import Final, Protocol, Unpack, assert_never

from zbk.client.log.gate import AppendGate
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import LogClosedError, ZbkError
from zbk.metadata.records.compare_and_swap import wait_s
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import LogOwner, Phase
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

PAUSE_MIN_S: Final = 0.01
PAUSE_MAX_S: Final = 1.0
ABANDON_S: Final = 1.0
"""The time that the writer of an abandoned ledger has to close it."""


class LedgerClient(Protocol):
    """The part of ``Client`` that logs use."""

    def check_usable(self) -> None:
        """Raise if the client is closed."""
        ...

    def create_ledger(self, **options: Unpack[LedgerOptions]) -> LedgerWriter:
        """Create a ledger."""
        ...

    def recover_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Fence, recover and close a ledger."""
        ...

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Open a ledger to read it."""
        ...

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return a ledger's metadata."""
        ...

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger."""
        ...


class LogDriver:
    """One owner of one log, with its ledgers."""

    def __init__(
        self,
        name: str,
        client: LedgerClient,
        store: LogStore,
        options: LedgerOptions,
        gate: AppendGate,
    ) -> None:
        self._name = name
        self._client = client
        self._store = store
        self._options = options
        self._gate = gate
        self._owner = LogOwner(name)
        self._owner_lock = threading.Lock()
        self._procedure_lock = threading.Lock()  # take-over, roll and close, one at a time
        self._writers: dict[int, LedgerWriter] = {}
        self._rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret

    @property
    def is_over(self) -> bool:
        """True once the log was closed or lost."""
        return self._owner.phase is Phase.OVER

    @property
    def log(self) -> LogMetadata | None:
        """The list as last read or written."""
        return self._owner.log

    def confirmed(self, ledger_id: int) -> int:
        """Return the LAC of a ledger that is written here; else -1."""
        writer = self._writers.get(ledger_id)
        return NO_ENTRY if writer is None else writer.last_add_confirmed

    def take_over(self) -> None:
        """Become the owner of the log.

        Raises:
            ZbkError: the log could not be taken over.
        """
        self._run(self._owner.take_over())

    def roll(self) -> None:
        """Continue in a new ledger.

        Raises:
            ZbkError: the roll failed, or the log is lost.
        """
        self._run(self._owner.roll())

    @property
    def has_unclosed(self) -> bool:
        """True while the ledger before the current one may be open."""
        return self._owner.unclosed_id is not None

    def close_older(self) -> None:
        """Close the ledger before the current one, if it is open.

        Raises:
            ZbkError: it may be open still, or the log is lost.
        """
        self._run(self._owner.close_older())

    def close(self) -> None:
        """Close the ledgers that this owner writes.

        Raises:
            ZbkError: the current ledger could not be closed, or the log is lost.
        """
        self._run(self._owner.close())

    def lose(self, ledger_id: int, error: ZbkError) -> None:
        """Record that an append to a ledger failed. Never blocks for long."""
        with self._owner_lock:
            self._owner.lose(ledger_id, error)
        self._close_gate_if_over()

    def abandon(self) -> None:
        """Close the remaining writers, and ignore errors."""
        with self._procedure_lock:
            for writer in list(self._writers.values()):
                self._abandon(writer)

    # ------------------------------------------------------------------ private

    def _run(self, steps: Steps[Effect, None]) -> None:
        with self._procedure_lock:
            procedure = Procedure(steps)
            try:
                with self._owner_lock:
                    effect = procedure.begin()
                while effect is not None:
                    answer = self._answer(effect)
                    with self._owner_lock:
                        effect = procedure.answer(answer)
            finally:
                self._close_gate_if_over()
            if self._owner.end_error is not None:  # an append has failed
                raise self._owner.end_error

    def _close_gate_if_over(self) -> None:
        if self.is_over:
            self._gate.close(self._owner.end_error or LogClosedError(self._name))

    def _answer(self, effect: Effect) -> object:
        try:
            return self._carry_out(effect)
        except ZbkError as error:
            return error

    def _carry_out(self, effect: Effect) -> object:
        match effect:
            case ReadList():
                return self._store.read(self._name)
            case WriteList(log, version):
                return self._store.write(log, version)
            case Pause(attempt):
                limit_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2**attempt)
                wait_s(self._rng.uniform(limit_s / 2, limit_s))
            case RecoverLedger(ledger_id):
                self._recover(ledger_id)
            case CreateLedger():
                writer = self._client.create_ledger(**self._options)
                self._writers[writer.ledger_id] = writer
                return writer.ledger_id
            case DeleteLedger(ledger_id):
                self._delete_orphan(ledger_id)
            case SwitchLedger(_, new_id):
                self._gate.switch(self._writers[new_id])
            case CloseLedger(ledger_id):
                self._writers[ledger_id].close()
                del self._writers[ledger_id]
            case _:
                assert_never(effect)
        return None

    def _recover(self, ledger_id: int) -> None:
        self._client.recover_ledger(ledger_id, self._options.get("password", b"")).close()
        writer = self._writers.get(ledger_id)
        if writer is not None:
            self._abandon(writer)

    def _delete_orphan(self, ledger_id: int) -> None:
        writer = self._writers.get(ledger_id)
        if writer is not None:
            self._abandon(writer)
        with suppress(ZbkError):  # an empty ledger in no list does no harm
            self._client.delete_ledger(ledger_id)

    def _abandon(self, writer: LedgerWriter) -> None:
        with suppress(ZbkError):
            writer.close(timeout=ABANDON_S)
        self._writers.pop(writer.ledger_id, None)
