"""The garbage collection actor: drops deleted ledgers and the entry logs that held them.

mailbox     GcDue, from the ticker; GcAsked, from whoever asks for a round; Gathered, from the
            storage actor; Resume, from the storage actor and the ticker; GoOn, from itself
answers     nobody; ``counts`` tell what came of it
owns        the round under way, one at a time
on failure  the bookie stops; a metadata store that does not answer ends the round, no more

What may go is decided by ``zbk.protocol.gc``; what going means, by ``zbk.storage.garbage``. Here
each question to the metadata store, each piece of the list and each log is a step: between two the
actor can be stopped. The storage actor is asked for short steps only: it does not wait for a disk
that writes down what was deleted, or that removes logs.

Order of a round: what is local; the proof; drops, in pieces: mark, note, drop; then the logs in
which nothing is live. Compaction would follow here, on the logs that are left.

Source: BookKeeper's ``GarbageCollectorThread``.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.checkpoint import RunInStorage
from zbk.errors import CookieMismatchError, MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.metadata.instance import instance_id
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.session_number import SessionNumber
from zbk.metadata.store import MetadataStore
from zbk.protocol.gc import GarbageRound
from zbk.protocol.gc_events import (
    CounterRead,
    DropLedgers,
    Effect,
    EndRound,
    Event,
    Finding,
    LedgersDropped,
    LedgersListed,
    LedgersRead,
    ListLedgers,
    MetadataFailed,
    ReadCounter,
    ReadMetadata,
    RoundBegun,
    RoundResult,
    TimePassed,
    Wait,
)
from zbk.storage.garbage import Garbage, LogSummary
from zbk.system.clock import monotonic_ms

logger = logging.getLogger("zbk.bookie")

LIST_COUNT: Final = 1_000
"""Ledgers of the list that are read in one step."""

GAP_COUNT_MAX: Final = 10_000
"""Ids between deleted ones that are asked for in one round, when there are too many ranges."""


# ------------------------------------------------------------------ messages


class GcDue(msgspec.Struct, frozen=True):
    """Begin a round, unless one is under way."""


class GcAsked(msgspec.Struct, frozen=True):
    """Begin the round with this number, as soon as the one before has ended."""

    round_no: int


class Gathered(msgspec.Struct, frozen=True):
    """The ledgers that storage has in memory."""

    ledger_ids: Sequence[int]


class Resume(msgspec.Struct, frozen=True):
    """What a step waited for has come."""

    wait_no: int
    value: int


class GoOn(msgspec.Struct, frozen=True):
    """Take the next step."""


class ForgetLedgers(msgspec.Struct, frozen=True):
    """To the storage actor: take these ledgers in no more; ``done`` is told whether that is so."""

    ledger_ids: Sequence[int]
    done: Callable[[bool], None]


GcMessage: TypeAlias = GcDue | GcAsked | Gathered | Resume | GoOn


class GcStorage(Protocol):
    """Where steps go: the storage actor's ref."""

    def tell(self, message: RunInStorage | ForgetLedgers) -> None:
        """Deliver without waiting."""
        ...


class GcTicker(Protocol):
    """What calls back at intervals, in any thread."""

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Begin to call back."""
        ...

    def cancel(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""
        ...


class GcCounts(msgspec.Struct):
    """What was collected; written by the actor's thread. Sizes in bytes."""

    begun_round: int = 0  # the number of the last round that began; the first is 1
    ended_round: int = 0
    ledger_count: int = 0  # dropped of the index
    log_count: int = 0  # removed
    freed_size: int = 0  # of the logs removed
    round_log_count: int = 0  # of the last round
    round_freed_size: int = 0  # of the last round
    result: RoundResult = RoundResult()  # of the last round
    logs: LogSummary = LogSummary()  # as the last round left them


class GcActor(BookieActor):
    """Carries out rounds of garbage collection."""

    def __init__(
        self,
        garbage: Garbage,
        storage_actor: GcStorage,
        store: MetadataStore,
        *,
        cluster_id: str,
        confirm_delay_ms: int,
        ticker: GcTicker,
        stop_bookie: StopBookie,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(stop_bookie)
        self._garbage = garbage
        self._storage_actor = storage_actor
        self._store = store
        self._ledgers = LedgerStore(store)
        self._session = SessionNumber(store)
        self._cluster_id = cluster_id
        self._confirm_delay_ms = confirm_delay_ms
        self._ticker = ticker
        self._now_ms = now_ms
        self._steps: Iterator[bool] | None = None  # of the round under way; true: go on at once
        self._is_gathering = False
        self._asked_round = 0
        self._wait_no = 0
        self._value = 0  # that a step waited for
        self.counts = GcCounts()

    def handle(self, message: GcMessage) -> None:
        """Begin a round, or take its next step."""
        match message:
            case GcDue():
                self._asked_round = max(self._asked_round, self.counts.begun_round + 1)
            case GcAsked(round_no):
                self._asked_round = max(self._asked_round, round_no)
            case Gathered(ledger_ids):
                self._is_gathering = False
                self._steps = self._round(ledger_ids)
                self._take_step()
            case Resume(wait_no, value):
                if wait_no == self._wait_no:  # not a second call of the ticker
                    self._wait_no += 1
                    self._value = value
                    self._take_step()
            case GoOn():
                self._take_step()
            case _:
                assert_never(message)
        if not self._is_busy and self._asked_round > self.counts.begun_round:
            self._begin()

    def on_stop(self) -> None:
        """Leave the session alone."""
        self._session.close()

    # ------------------------------------------------------------------ the round

    @property
    def _is_busy(self) -> bool:
        return self._is_gathering or self._steps is not None

    def _begin(self) -> None:
        # counted first: who asks from now on wants to be sure that what it deleted is seen
        self.counts.begun_round += 1
        self._is_gathering = True
        self._tell_storage(RunInStorage(self._gather))

    def _gather(self) -> None:
        """Hand over what only the storage actor's thread may look at."""
        self.actor_ref.tell(Gathered(self._garbage.ledgers_in_memory()))

    def _take_step(self) -> None:
        if self._steps is None:
            return
        may_go_on = next(self._steps, None)
        if may_go_on is None:
            self._steps = None
            self.counts.ended_round = self.counts.begun_round
        elif may_go_on:
            self.actor_ref.tell(GoOn())

    def _round(self, ids_in_memory: Sequence[int]) -> Iterator[bool]:
        """Yield after each step: true, or false if it has to be waited for ``Resume``."""
        garbage = self._garbage
        local = {*ids_in_memory, *garbage.ledgers_on_disk(), *garbage.gap_ids(GAP_COUNT_MAX)}
        for log_id in garbage.left_logs():
            local.update(garbage.live_ids(garbage.use_of(log_id)))
            yield True
        core = GarbageRound(self._confirm_delay_ms)
        effects = core.handle(RoundBegun(sorted(local)), self._now_ms())
        result = RoundResult()
        while True:
            (effect,) = effects
            if isinstance(effect, EndRound):
                result = effect.result
                break
            effects = yield from self._carry_out(core, effect)
        log_count, freed_size = yield from self._remove_logs()
        self._note(result, log_count, freed_size)

    def _carry_out(self, core: GarbageRound, effect: Effect) -> Generator[bool, None, list[Effect]]:
        """Do what the round wants; return what it wants next."""
        event: Event
        match effect:
            case ReadCounter():
                event = self._read_counter()
            case ListLedgers():
                return (yield from self._list(core))
            case ReadMetadata(ledger_ids):
                event = self._read(ledger_ids)
            case Wait(until_ms):
                yield from self._wait(until_ms)
                event = TimePassed()
            case DropLedgers(ledger_ids):
                event = LedgersDropped((yield from self._drop(ledger_ids)))
            case EndRound():
                raise AssertionError("nothing follows")
            case _:
                assert_never(effect)
        yield True
        return core.handle(event, self._now_ms())

    # ------------------------------------------------------------------ metadata

    def _read_counter(self) -> Event:
        session = self._session.now()
        try:
            found = instance_id(self._store)
            if found != self._cluster_id:
                raise CookieMismatchError(f"the metadata store is of another cluster, {found}")
            next_ledger_id = self._ledgers.next_ledger_id()
        except ZbkError as error:
            return MetadataFailed(str(error))
        return CounterRead(next_ledger_id, self._session.since(session))

    def _list(self, core: GarbageRound) -> Generator[bool, None, list[Effect]]:
        session = self._session.now()
        listing = self._ledgers.list()
        while True:
            try:
                some = list(islice(listing, LIST_COUNT))
            except ZbkError as error:
                return core.handle(MetadataFailed(str(error)), self._now_ms())
            is_last = len(some) < LIST_COUNT
            event = LedgersListed(some, is_last, self._session.since(session))
            effects = core.handle(event, self._now_ms())
            yield True
            if effects:  # the list is over, or not wanted any more
                return effects

    def _read(self, ledger_ids: Sequence[int]) -> Event:
        session = self._session.now()
        findings = {}
        for ledger_id in ledger_ids:
            try:
                self._ledgers.read(ledger_id, is_fresh=True)
                findings[ledger_id] = Finding.PRESENT
            except NoSuchLedgerError:
                findings[ledger_id] = Finding.ABSENT
            except MetadataUnavailableError as error:  # nor will it answer for the others
                return MetadataFailed(str(error))
            except ZbkError as error:
                logger.info("ledger %d is kept: %s", ledger_id, error)
                findings[ledger_id] = Finding.UNKNOWN
        return LedgersRead(findings, self._session.since(session))

    # ------------------------------------------------------------------ waiting

    def _wait(self, until_ms: int) -> Iterator[bool]:
        delay_ms = until_ms - self._now_ms()
        if delay_ms <= 0:
            return
        wake = self._resume_later()
        callback = lambda: wake(0)  # noqa: E731 - the ticker cancels by identity
        self._ticker.every(delay_ms, callback)
        yield False
        self._ticker.cancel(callback)

    def _resume_later(self) -> Callable[[int], None]:
        """Return what takes the step after this one, whoever calls it, once."""
        wait_no = self._wait_no

        def resume(value: int) -> None:
            with suppress(pykka.ActorDeadError):
                self.actor_ref.tell(Resume(wait_no, value))

        return resume

    def _tell_storage(self, message: RunInStorage | ForgetLedgers) -> None:
        with suppress(pykka.ActorDeadError):  # then the bookie stops: nothing more to do
            self._storage_actor.tell(message)

    # ------------------------------------------------------------------ storage

    def _drop(self, ledger_ids: Sequence[int]) -> Generator[bool, None, int]:
        """Return how many of the ledgers may not come back: all, or none."""
        resume = self._resume_later()
        self._tell_storage(ForgetLedgers(ledger_ids, lambda is_done: resume(int(is_done))))
        yield False
        if not self._value:
            logger.warning("too many ranges of deleted ledgers: %d ledgers stay", len(ledger_ids))
            return 0
        if not self._garbage.note():
            logger.warning("no space to note %d deleted ledgers: they stay", len(ledger_ids))
            return 0
        resume = self._resume_later()
        self._tell_storage(RunInStorage(lambda: resume(self._garbage.drop(ledger_ids))))
        yield False
        self.counts.ledger_count += self._value
        return len(ledger_ids)

    def _remove_logs(self) -> Generator[bool, None, tuple[int, int]]:
        """Remove the logs in which nothing is live; return how many, and their bytes."""
        counts, garbage = self.counts, self._garbage
        summary = LogSummary()
        log_count = freed_size = 0
        for log_id in garbage.left_logs():
            size = garbage.remove_if_dead(log_id)
            if size:
                log_count += 1
                freed_size += size
            else:
                summary = garbage.summary_with(summary, log_id)
            yield True
        counts.log_count += log_count
        counts.freed_size += freed_size
        counts.logs = summary
        return log_count, freed_size

    def _note(self, result: RoundResult, log_count: int, freed_size: int) -> None:
        self.counts.result = result
        self.counts.round_log_count, self.counts.round_freed_size = log_count, freed_size
        if result.gave_up:
            level = logging.WARNING if result.is_suspicious else logging.INFO
            logger.log(level, "garbage collection dropped no ledger: %s", result.gave_up)
        if result.dropped_count or log_count:
            logger.info(
                "garbage collection: %d ledgers dropped, %d logs removed, %d bytes freed",
                result.dropped_count,
                log_count,
                freed_size,
            )
