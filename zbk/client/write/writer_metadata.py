"""What a writer does in the metadata store: another ensemble, what bookies lack, the ledger's end.

The store blocks, so the metadata actor waits for it; what comes of it is told to the writer's actor
as a message. ``current`` may be read in any thread; everything else is the writer's actor's.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias

import msgspec

from zbk.client.cluster.metadata_actor import MetadataActors, MetadataTask
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.write.writer_requests import CatchUpAnswered
from zbk.errors import NotEnoughBookiesError, ZbkError
from zbk.metadata.records.ledger_closing import LedgerCloser, MissingReport
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.changes import change_ensemble, close_by_writer
from zbk.protocol.ledger.features import needs_of
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write.catch_up import CatchUp, SendCatchUp
from zbk.protocol.write.events import (
    ChangeEnsemble,
    CloseLedger,
    EnsembleChanged,
    EnsembleChangeFailed,
    EnsembleChangeTurn,
    ReportMissing,
)
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.client")


class EnsembleTurn(msgspec.Struct, frozen=True):
    """A change of the ensemble waits for the store, or the store begins with it."""

    event: EnsembleChangeTurn
    metadata: None = None


class EnsembleSettled(msgspec.Struct, frozen=True):
    """The outcome of a change of the ensemble, and the current metadata if they were read."""

    event: EnsembleChanged | EnsembleChangeFailed
    metadata: LedgerMetadata | None = None


class ClosedInMetadata(msgspec.Struct, frozen=True):
    """The outcome of closing the ledger."""

    future: "Future[int]"
    last_entry_id: int
    outcome: ZbkError | None  # what close() raises
    metadata: LedgerMetadata | None = None


class MissingNoted(msgspec.Struct, frozen=True):
    """Missing entries were reported to autorecovery."""

    report: ReportMissing
    metadata: None = None


MetadataNews: TypeAlias = EnsembleTurn | EnsembleSettled | ClosedInMetadata | MissingNoted


_Changing: TypeAlias = tuple[ChangeEnsemble, Callable[[EnsembleTurn | EnsembleSettled], None]]


class WriterMetadata:
    """The metadata of one ledger, as its writer knows and changes them."""

    __slots__ = (
        "_actors", "_catch_up", "_changing", "_closer", "_current", "_decided_id", "_ledgers",
        "_placer", "_replaced",
    )  # fmt: skip

    def __init__(
        self,
        metadata: LedgerMetadata,
        ledgers: LedgerStore,
        tasks: UnderreplicationStore,
        placer: BookiePlacer,
        metadata_actors: MetadataActors,
    ) -> None:
        self._current = metadata
        self._ledgers = ledgers
        self._closer = LedgerCloser(ledgers, tasks)
        self._placer = placer
        self._actors = metadata_actors
        self._decided_id = -1
        self._replaced: Mapping[int, tuple[str, str]] = {}
        self._catch_up: CatchUp | None = None  # of the change that is pending
        self._changing: _Changing | None = None

    @property
    def current(self) -> LedgerMetadata:
        """The metadata as last read or written by this writer."""
        return self._current

    def take_in(self, news: MetadataNews) -> None:
        """Record the current metadata."""
        self._current = news.metadata or self._current

    def change_ensemble(
        self,
        change: ChangeEnsemble,
        ensemble: Sequence[str],
        send: Callable[[SendCatchUp, int], None],
        tell: Callable[[EnsembleTurn | EnsembleSettled], None],
    ) -> None:
        """Find replacements, let them catch up, and put them into the metadata.

        ``send`` sends what a new bookie needs, for the change with this id; the outcomes come to
        ``catch_up_answered``. ``tell`` the outcome of the change, once.
        """
        if change.change_id == self._decided_id:  # again: they have caught up
            self._write(change, tell)
            return
        self._decide(change, ensemble)
        self._catch_up = CatchUp(change, self._replaced)
        self._changing = change, tell
        if self._catch_up.sends:
            tell(EnsembleTurn(EnsembleChangeTurn(change.change_id, has_come=False)))
        for one in self._catch_up.sends:
            send(one, change.change_id)
        self._write_if_caught_up()

    def catch_up_answered(self, answer: CatchUpAnswered) -> None:
        """Record an answer of a bookie that catches up; one to an earlier change is late."""
        catch_up = self._catch_up
        if catch_up is None or answer.change_id != self._decided_id:
            return
        if isinstance(answer.outcome, int):
            catch_up.synced(answer.slot, answer.outcome)
        else:
            catch_up.added(answer.slot, answer.outcome)
        self._write_if_caught_up()

    @property
    def due_ms(self) -> int | None:
        """When ``tick`` is due: while new bookies receive what they need to join."""
        return None if self._catch_up is None else self._catch_up.due_ms

    def tick(self, now_ms: int) -> None:
        """Handle the passing of time: a new bookie may be silent for too long."""
        if self._catch_up is not None:
            self._catch_up.tick(now_ms)
            self._write_if_caught_up()

    def _write_if_caught_up(self) -> None:
        catch_up, changing = self._catch_up, self._changing
        if catch_up is None or changing is None or not catch_up.is_over:
            return
        self._catch_up = self._changing = None
        self._replaced = catch_up.caught_up
        self._placer.note_failed(catch_up.failures)
        for bookie_id, error in catch_up.failures.items():
            LOG.info(
                "writer.catch_up_failed",
                "ledger %(ledger_id)d: bookie %(bookie_id)s does not join the ensemble: %(error)s",
                ledger_id=self._current.ledger_id,
                bookie_id=bookie_id,
                error=error,
            )
        self._write(*changing)

    def _write(
        self, change: ChangeEnsemble, tell: Callable[[EnsembleTurn | EnsembleSettled], None]
    ) -> None:
        change_id, first_entry_id, replaced = (
            change.change_id,
            change.first_entry_id,
            self._replaced,
        )
        if not replaced:
            reason = "no bookie is left to replace one"
            if old := self._placer.lacking(needs_of(self._current)):
                reason += f"; {old} must be upgraded to hold ledgers of this kind"
            error = NotEnoughBookiesError(len(change.failed), 0, reason)
            tell(EnsembleSettled(EnsembleChangeFailed(change_id, error)))
            return

        def write() -> LedgerMetadata:
            tell(EnsembleTurn(EnsembleChangeTurn(change_id, has_come=True)))
            metadata, _version = self._ledgers.update(
                self._current.ledger_id,
                lambda current: change_ensemble(
                    current, first_entry_id, replaced, change.length_before
                ),
            )
            return metadata

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                tell(EnsembleSettled(EnsembleChangeFailed(change_id, outcome)))
                return
            last = outcome.last_fragment
            event = EnsembleChanged(change_id, last.first_entry_id, last.bookies)
            tell(EnsembleSettled(event, outcome))

        tell(EnsembleTurn(EnsembleChangeTurn(change_id, has_come=False)))
        self._actors.tell(self._current.ledger_id, MetadataTask(write, done))

    def _decide(self, change: ChangeEnsemble, ensemble: Sequence[str]) -> None:
        self._placer.note_failed(change.failed.values())
        found = self._placer.replacements(
            ensemble,
            change.failed.keys(),
            may_avoided=change.is_urgent,
            needs=needs_of(self._current),
        )
        self._decided_id = change.change_id
        self._replaced = {slot: (change.failed[slot], new) for slot, new in found.items()}

    def report_missing(self, report: ReportMissing, tell: Callable[[MissingNoted], None]) -> None:
        """Report missing entries to autorecovery; ``tell`` when they are recorded, if they are."""
        ledger_id = self._current.ledger_id

        def done(outcome: ZbkError | None) -> None:
            if outcome is None:
                tell(MissingNoted(report))
            else:
                LOG.info(
                    "writer.report_postponed",
                    "ledger %(ledger_id)d: missing entries are reported later: %(error)s",
                    ledger_id=ledger_id,
                    error=outcome,
                )

        note = MissingReport.not_written(report.missing)
        task = MetadataTask(lambda: self._closer.report(ledger_id, note), done)
        self._actors.tell(ledger_id, task)

    def close(self, end: CloseLedger, tell: Callable[[ClosedInMetadata], None]) -> None:
        """Close the ledger at its end, and report missing entries; ``tell`` the outcome, once."""
        future: Future[int] = end.ticket
        last_entry_id, length = end.last_entry_id, end.length

        def write() -> LedgerMetadata:
            return self._closer.close(
                self._current.ledger_id,
                lambda current: close_by_writer(current, last_entry_id, length),
                lambda _closed: MissingReport.not_written(end.missing),
            )

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                tell(ClosedInMetadata(future, last_entry_id, outcome))
            else:
                tell(ClosedInMetadata(future, last_entry_id, None, outcome))

        self._actors.tell(self._current.ledger_id, MetadataTask(write, done))
