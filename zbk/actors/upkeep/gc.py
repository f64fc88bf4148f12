"""The garbage collection actor: drops deleted ledgers and the entry logs that held them.

mailbox     GcDue, from the ticker; GcAsked, from a client's command; Answered, from the storage
            actor and the ticker; CheckpointEnded, from the checkpoint actor; GoOn, from itself;
            OptionsChanged
answers     none; ``counts`` has the results
owns        the round under way, one at a time
on failure  the bookie stops; a metadata store that does not answer only ends the round

``zbk.protocol.upkeep.gc`` decides which ledgers are dropped; ``zbk.storage.gc.garbage`` drops them.
Each question to the metadata store, each piece of the list and some logs are a step: between two
steps the actor can be stopped. The storage actor gets short questions only: it never waits for a
disk that stores a note of deleted ledgers, or that removes logs.

Order of a round: ids of local ledgers; the proof; drops, in pieces: mark, note, drop; then logs
without live entries; then compaction of the remaining logs (``upkeep.compaction_rounds``). A
compaction that a crash interrupted is finished at the start, before the first round.

Source: BookKeeper's ``GarbageCollectorThread``.
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import Answered, CheckpointEnded, OptionsChanged
from zbk.actors.upkeep.compaction_rounds import CompactionOptions, CompactionRounds, limits_of
from zbk.actors.upkeep.gc_questions import GcQuestions
from zbk.actors.upkeep.waits import WaitPorts, Waits
from zbk.errors import OutOfDescriptorsError, ZbkError
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.procedure import Procedure
from zbk.protocol.upkeep.compaction import CompactionKind
from zbk.protocol.upkeep.gc import (
    Counter,
    DropLedgers,
    Dropped,
    Effect,
    Findings,
    ListLedgers,
    ListMore,
    ListPiece,
    ReadCounter,
    ReadMetadata,
    RoundResult,
    Wait,
    garbage_round,
)
from zbk.storage.gc.garbage import DropIndexes, Garbage, LedgersInMemory, LogSummary
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

GAP_COUNT_MAX: Final = 10_000
"""Ids between deleted ones that one round asks for, when there are too many ranges."""

REMOVE_COUNT_MAX: Final = 64
"""Logs that one step removes, after one write of the census."""


# ------------------------------------------------------------------ messages


class GcDue(msgspec.Struct, frozen=True):
    """Begin a round, unless one is under way."""


class GcAsked(msgspec.Struct, frozen=True):
    """Begin the round with this number after the one before has ended."""

    round_no: int
    compaction: CompactionKind | None = None  # that follows, due or not


class GoOn(msgspec.Struct, frozen=True):
    """Run the next step."""


GcMessage: TypeAlias = GcDue | GcAsked | Answered | CheckpointEnded | GoOn | OptionsChanged


class GcOptions(msgspec.Struct, frozen=True):
    """The settings of one bookie's garbage collection."""

    cluster_id: str
    confirm_delay_ms: int  # between the two looks of a proof
    compaction: CompactionOptions


class GcCounts(msgspec.Struct):
    """Results of the rounds; written by the actor's thread. Sizes in bytes."""

    begun_round: int = 0  # the number of the last round that began; the first is 1
    ended_round: int = 0
    ledger_count: int = 0  # dropped from the index
    log_count: int = 0  # removed
    freed_size: int = 0  # of the logs removed
    round_log_count: int = 0  # of the last round
    round_freed_size: int = 0  # of the last round
    result: RoundResult = msgspec.field(default_factory=RoundResult)  # of the last round
    logs: LogSummary = LogSummary()  # after the last round


class GcActor(BookieActor):
    """Carries out rounds of garbage collection."""

    def __init__(
        self,
        garbages: Sequence[Garbage],
        store: MetadataStore,
        options: GcOptions,
        ports: WaitPorts,
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._garbages = garbages  # one for each ledger directory
        self._questions = GcQuestions(store, options.cluster_id)
        self._confirm_delay_ms = options.confirm_delay_ms
        self._waits = Waits(self.actor_ref, ports)
        self.compaction = CompactionRounds(garbages, self._waits, options.compaction)
        self._steps: Iterator[bool] | None = None  # of the round under way; true: continue at once
        self._asked_round = 0
        self._asked_compaction: CompactionKind | None = None  # in the round that comes next
        self._wanted_compaction: CompactionKind | None = None  # in the round under way
        self.counts = GcCounts()

    def on_start(self) -> None:
        """Resume a compaction that a crash interrupted."""
        if self.compaction.is_open:
            self._steps = self.compaction.finish()
            self.actor_ref.tell(GoOn())

    def handle(self, message: GcMessage) -> None:
        """Begin a round, or run its next step."""
        match message:
            case GcDue():
                self._asked_round = max(self._asked_round, self.counts.begun_round + 1)
            case GcAsked(round_no, compaction):
                self._asked_round = max(self._asked_round, round_no)
                if compaction is not None and self._asked_compaction is not CompactionKind.MAJOR:
                    self._asked_compaction = compaction
            case Answered() | CheckpointEnded():
                if self._waits.take(message):
                    self._take_step()
            case GoOn():
                self._take_step()
            case OptionsChanged(config):
                self._confirm_delay_ms = config.gc_confirm_delay_ms  # of the next round
                self.compaction.change(limits_of(config), config.compaction_rate_size)
            case _:
                assert_never(message)
        if self._steps is None and self._is_other_wanted():
            self._begin()

    def on_stop(self) -> None:
        """Stop watching the session."""
        self._questions.close()

    # ------------------------------------------------------------------ the round

    def _begin(self) -> None:
        # counted first: a round that is asked for from now on sees what was deleted before it
        self.counts.begun_round += 1
        self._wanted_compaction, self._asked_compaction = self._asked_compaction, None
        self._steps = self._round()
        self._take_step()

    def _take_step(self) -> None:
        if self._steps is None:
            return
        try:
            may_go_on = next(self._steps, None)
        except OutOfDescriptorsError as error:
            may_go_on = None
            self.counts.result = RoundResult(gave_up=str(error))
            LOG.info(
                "gc.round_ended_early",
                "garbage collection ends early and continues in the next round: %(error)s",
                error=error,
            )
        if may_go_on is None:
            self._steps = None
            self.counts.ended_round = self.counts.begun_round
        elif may_go_on:
            self.actor_ref.tell(GoOn())

    def _round(self) -> Iterator[bool]:
        """Yield after each step: true, or false if the next one waits for an answer."""
        local = yield from self._local_ids()
        proof = Procedure(garbage_round(sorted(local), self._confirm_delay_ms))
        effect = proof.begin()
        while effect is not None:
            answer = yield from self._answer(effect)
            yield True
            effect = proof.answer(answer)
        log_count, freed_size = yield from self._remove_logs()
        self._note(proof.result, log_count, freed_size)
        log_count = self.compaction.counts.log_count
        yield from self.compaction.round(self._wanted_compaction, self._is_other_wanted)
        if self.compaction.counts.log_count != log_count:
            yield from self._summarize()

    def _local_ids(self) -> Generator[bool, None, set[int]]:
        local = set((yield from self._waits.in_storage(LedgersInMemory(self._garbages))))
        for garbage in self._garbages:
            local.update(garbage.ledgers_on_disk(), garbage.deleted.gap_ids(GAP_COUNT_MAX))
            for log_id in garbage.left_logs():
                local.update(garbage.live_ids(log_id))
                yield True
        return local

    def _is_other_wanted(self) -> bool:
        return self._asked_round > self.counts.begun_round

    def _answer(
        self, effect: Effect
    ) -> Generator[bool, None, Counter | ListPiece | Findings | int | Dropped | ZbkError]:
        """Carry out an effect of the round and return the answer to it."""
        match effect:
            case Wait(delay_ms):
                begun_ms = self._waits.now_ms()
                yield from self._waits.until(begun_ms + delay_ms)
                return self._waits.now_ms() - begun_ms
            case DropLedgers(ledger_ids):
                return (yield from self._drop(ledger_ids))
            case _:
                return self._ask(effect)

    def _ask(
        self, question: ReadCounter | ListLedgers | ListMore | ReadMetadata
    ) -> Counter | ListPiece | Findings | ZbkError:
        try:
            match question:
                case ReadCounter():
                    return self._questions.counter()
                case ListLedgers():
                    return self._questions.list()
                case ListMore():
                    return self._questions.list_more()
                case ReadMetadata(ledger_ids):
                    return self._questions.ledgers(ledger_ids)
                case _:
                    assert_never(question)
        except ZbkError as error:
            return error

    # ------------------------------------------------------------------ storage

    def _drop(self, ledger_ids: Sequence[int]) -> Generator[bool, None, Dropped]:
        """Drop the ledgers, all or none."""
        is_marked = yield from self._waits.forget_ledgers(ledger_ids)
        if not is_marked:
            return Dropped(0, "there are too many ranges of deleted ledgers to remember")
        if not all(garbage.deleted.write() for garbage in self._garbages):
            return Dropped(0, "there is no space to note which ledgers are deleted")
        drop = DropIndexes(self._garbages, ledger_ids)
        self.counts.ledger_count += yield from self._waits.in_storage(drop)
        return Dropped(len(ledger_ids))

    def _remove_logs(self) -> Generator[bool, None, tuple[int, int]]:
        """Remove the logs without live entries; return their number and bytes."""
        counts = self.counts
        log_count = freed_size = 0
        for garbage in self._garbages:
            left_ids = garbage.left_logs()
            for start in range(0, len(left_ids), REMOVE_COUNT_MAX):
                freed = garbage.remove_dead(left_ids[start : start + REMOVE_COUNT_MAX])
                log_count += len(freed)
                freed_size += sum(freed.values())
                yield True
        counts.log_count += log_count
        counts.freed_size += freed_size
        yield from self._summarize()
        return log_count, freed_size

    def _summarize(self) -> Iterator[bool]:
        """Report the logs that are left."""
        summary = LogSummary()
        for garbage in self._garbages:
            for log_id in garbage.left_logs():
                summary = garbage.summary_with(summary, log_id)
                yield True
        self.counts.logs = summary

    def _note(self, result: RoundResult, log_count: int, freed_size: int) -> None:
        self.counts.result = result
        self.counts.round_log_count, self.counts.round_freed_size = log_count, freed_size
        if result.gave_up:
            is_grave = result.is_suspicious or result.is_stuck
            level = logging.WARNING if is_grave else logging.INFO
            left = "left ledgers" if result.dropped_count else "dropped no ledger"
            LOG.log(
                level,
                "gc.gave_up",
                "garbage collection %(outcome)s: %(reason)s",
                outcome=left,
                reason=result.gave_up,
            )
        if result.dropped_count or log_count:
            LOG.info(
                "gc.done",
                "garbage collection: %(dropped_count)d ledgers dropped, %(log_count)d logs "
                "removed, %(freed_size)d bytes freed",
                dropped_count=result.dropped_count,
                log_count=log_count,
                freed_size=freed_size,
            )
