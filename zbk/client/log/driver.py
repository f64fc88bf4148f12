"""Carries out what the owner of a log decides (``zbk.protocol.log.owner``).

Take-over, roll and close run in the thread that asks for them, one at a time; every step blocks.
That an append failed comes from a writer's thread, at any time, and never blocks.
"""

import random
import threading
from collections import deque
from contextlib import suppress
from typing import Final, Protocol, Unpack, assert_never

from zbk.client.log.gate import AppendGate
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import (
    BadVersionError,
    CannotAdvanceError,
    LogClosedError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.metadata.records.compare_and_swap import wait_s
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log import owner_events as owner
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import LogOwner

PAUSE_MIN_S: Final = 0.01
PAUSE_MAX_S: Final = 1.0
ABANDON_S: Final = 1.0
"""How long the writer of a ledger that nobody needs may take to end in order."""


class LedgerClient(Protocol):
    """What logs need of a client."""

    def check_usable(self) -> None:
        """Raise if the client is closed."""
        ...

    def create_ledger(self, **options: Unpack[LedgerOptions]) -> LedgerWriter:
        """Make a ledger."""
        ...

    def recover_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Fence, recover and close a ledger."""
        ...

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Open a ledger to read it."""
        ...

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return what the metadata store knows of a ledger."""
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
        self._core = LogOwner(name)
        self._core_lock = threading.Lock()
        self._turn = threading.Lock()  # take-over, roll and close, one at a time
        self._writers: dict[int, LedgerWriter] = {}
        self._rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret
        self._end: owner.Stop | None = None

    @property
    def end(self) -> owner.Stop | None:
        """How it ended; ``None`` while it has not."""
        return self._end

    @property
    def log(self) -> LogMetadata | None:
        """The list, as last read or written."""
        return self._core.log

    def confirmed(self, ledger_id: int) -> int:
        """Return how far a ledger is confirmed, if it is written here; else -1."""
        writer = self._writers.get(ledger_id)
        return NO_ENTRY if writer is None else writer.last_add_confirmed

    def run(self, event: owner.TakeOverAsked | owner.RollAsked | owner.CloseAsked) -> None:
        """Do what is asked for.

        Raises:
            ZbkError: the log could not be taken over, rolled, or closed.
        """
        with self._turn:
            if self._end is not None:
                if self._end.error is not None:
                    raise self._end.error
                return
            failure = self._run(event)
        if failure is not None:
            raise failure

    def lose(self, ledger_id: int, error: ZbkError) -> None:
        """Handle the news that an append to a ledger failed. Never blocks for long."""
        for effect in self._handle(owner.LedgerLost(ledger_id, error)):
            assert isinstance(effect, owner.Stop), "a lost ledger can only end it"
            self._stop(effect)

    def abandon(self) -> None:
        """End the writers that are left, as well as possible."""
        with self._turn:
            for writer in list(self._writers.values()):
                self._abandon(writer)

    # ------------------------------------------------------------------ private

    def _handle(self, event: owner.Event) -> list[owner.Effect]:
        with self._core_lock:
            return self._core.handle(event, 0)

    def _run(self, event: owner.Event) -> ZbkError | None:
        failure: ZbkError | None = None
        todo = deque(self._handle(event))
        while todo:
            effect = todo.popleft()
            match effect:
                case owner.RollFailed() | owner.CloseFailed():
                    failure = effect.error
                case owner.Stop():
                    self._stop(effect)
                    failure = effect.error
                case owner.Pause():
                    limit_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2**effect.attempt)
                    wait_s(self._rng.uniform(limit_s / 2, limit_s))
                case owner.DeleteLedger():
                    self._delete_orphan(effect.ledger_id)
                case _:
                    todo += self._handle(self._answer(effect))
        if failure is None and self._end is not None:  # an append failed meanwhile
            failure = self._end.error
        return failure

    def _answer(
        self,
        effect: (
            owner.ReadList
            | owner.WriteList
            | owner.RecoverLedger
            | owner.CreateLedger
            | owner.SwitchLedger
            | owner.CloseLedger
        ),
    ) -> owner.Event:
        match effect:
            case owner.ReadList():
                return self._read()
            case owner.WriteList():
                return self._write(effect)
            case owner.RecoverLedger():
                return self._recover(effect.ledger_id)
            case owner.CreateLedger():
                return self._create()
            case owner.SwitchLedger():
                return self._switch(effect)
            case owner.CloseLedger():
                return self._close(effect.ledger_id)
            case _:
                assert_never(effect)

    def _read(self) -> owner.ListRead | owner.ListUnread:
        try:
            return owner.ListRead(*self._store.read(self._name))
        except ZbkError as error:
            return owner.ListUnread(error)

    def _write(
        self, effect: owner.WriteList
    ) -> owner.ListWritten | owner.ListConflicted | owner.ListUnwritten:
        try:
            return owner.ListWritten(self._store.write(effect.log, effect.version))
        except BadVersionError:
            return owner.ListConflicted()
        except ZbkError as error:  # NoSuchLogError too: the look at the list will say so
            return owner.ListUnwritten(error)

    def _recover(self, ledger_id: int) -> owner.LedgerRecovered | owner.LedgerUnrecovered:
        writer = self._writers.get(ledger_id)
        try:
            self._client.recover_ledger(ledger_id, self._options.get("password", b"")).close()
        except ZbkError as error:
            return owner.LedgerUnrecovered(ledger_id, error)
        if writer is not None:
            self._abandon(writer)
        return owner.LedgerRecovered(ledger_id)

    def _create(self) -> owner.LedgerCreated | owner.LedgerUncreated:
        try:
            writer = self._client.create_ledger(**self._options)
        except ZbkError as error:
            return owner.LedgerUncreated(error)
        self._writers[writer.ledger_id] = writer
        return owner.LedgerCreated(writer.ledger_id)

    def _switch(
        self, effect: owner.SwitchLedger
    ) -> owner.LedgerSwitched | owner.LedgerUnswitched | owner.LedgerLost:
        try:
            self._gate.switch(self._writers[effect.new_id])
        except (CannotAdvanceError, RequestTimeoutError) as error:
            return owner.LedgerUnswitched(error)
        except ZbkError as error:
            assert effect.old_id is not None, "there is nothing to wait for at first"
            return owner.LedgerLost(effect.old_id, error)
        return owner.LedgerSwitched()

    def _close(self, ledger_id: int) -> owner.LedgerClosed | owner.LedgerUnclosed:
        try:
            self._writers[ledger_id].close()
        except ZbkError as error:
            return owner.LedgerUnclosed(ledger_id, error)
        del self._writers[ledger_id]
        return owner.LedgerClosed(ledger_id)

    def _stop(self, effect: owner.Stop) -> None:
        self._end = effect
        self._gate.close(effect.error or LogClosedError(self._name))

    def _delete_orphan(self, ledger_id: int) -> None:
        writer = self._writers.get(ledger_id)
        if writer is not None:
            self._abandon(writer)
        with suppress(ZbkError):  # an empty ledger that nobody knows of harms nobody
            self._client.delete_ledger(ledger_id)

    def _abandon(self, writer: LedgerWriter) -> None:
        with suppress(ZbkError):
            writer.close(timeout=ABANDON_S)
        self._writers.pop(writer.ledger_id, None)
