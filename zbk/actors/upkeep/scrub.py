"""The scrub actor: reads what lies on the bookie's disks, and reports the ledgers that are damaged.

mailbox     ScrubDue, from the ticker; ScrubAsked, from whoever asks for a pass; LogsLost, at the
            start; Resume, from the storage actor and the ticker; GoOn, from itself; ReportsDue,
            from the ticker while reports wait
answers     nobody; ``counts`` and ``findings`` tell what came of it
owns        the pass under way, one at a time, its findings, and the reports that wait
on failure  the bookie stops; what a disk does not give is a finding and no failure

What a pass reads stands in ``scrub.scrub_pass``. Here each step is paid for: after every
``STEP_SIZE`` bytes the rate is kept by waiting, and the actor can be stopped. The storage actor is
asked for one page or header at a time.

After a start that found entry logs gone, a first pass reads the index only, at the same rate.

What follows from damage: a line in the log, once a file and pass; the bookie does not say any more
that it holds the entry; and its ledger is reported to the metadata store, as one that this bookie
lacks parts of, so that the other copies are used to make it whole. A store that does not answer is
asked again, and the pass goes on.

Decision: damage in a log is reported as entries that the bookie lacks: the copies come to this very
bookie, and no more than what is damaged. Where the index is lost no copy can be stored, and the
reason says "damaged": another bookie takes the place.

Decision: a pass that somebody asked for begins with a checkpoint, as it reads what the index on the
disk knows: who has just loaded something wants that to be read. A checkpoint that a full disk holds
up is waited for no longer than ``CHECKPOINT_WAIT_MS``.

Decision: a pass that a stop cut off is not resumed; the next one begins anew, an interval after the
start.

Source: BookKeeper's ``ScrubberService``, which stops the bookie at the first damage; here the
entries beside it stay readable.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import AskCheckpoint, RunInStorage, Sink, TickSource
from zbk.errors import OutOfDescriptorsError, ZbkError
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.protocol.throttle import Throttle
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile, Findings, ReportQueue
from zbk.storage.scrub.damaged_entries import DamagedEntryIds
from zbk.storage.scrub.scrub_pass import ScrubPass
from zbk.storage.scrub.scrub_step import AskOwner, Paid, Pause, Scrubbing, ScrubStep
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.system.clock import monotonic_ms, wall_ms

logger = logging.getLogger("zbk.bookie")

STEP_SIZE: Final = 256 * 1024
"""Bytes read between two looks at the mailbox, the clock and the rate."""

CHECKPOINT_WAIT_MS: Final = 30_000
REPORT_POLL_MS: Final = 1_000
SHORT_WAIT_MS: Final = 10_000
"""Rest of a pass that met too many open files."""

REPORT_COUNT: Final = 16
"""Ledgers that are reported at once, at most so many each ``REPORT_POLL_MS``."""


# ------------------------------------------------------------------ messages


class ScrubDue(msgspec.Struct, frozen=True):
    """Begin a pass, unless one is under way."""


class ScrubAsked(msgspec.Struct, frozen=True):
    """Begin the pass with this number, as soon as the one before has ended."""

    pass_no: int


class LogsLost(msgspec.Struct, frozen=True):
    """Entry logs are gone: find the ledgers whose entries were there, in a pass over the index.

    It comes before any other message.
    """


class Resume(msgspec.Struct, frozen=True):
    """What a step waited for has come."""

    wait_no: int
    value: Any  # what the owner of the index said


class GoOn(msgspec.Struct, frozen=True):
    """Run the next steps."""


class ReportsDue(msgspec.Struct, frozen=True):
    """Try again to report."""


ScrubMessage: TypeAlias = ScrubDue | ScrubAsked | LogsLost | Resume | GoOn | ReportsDue


class RepairReports(Protocol):
    """Where ledgers are reported that are to be made whole."""

    def report(self, ledger_id: int, bookie_ids: Collection[str], reason: MissingReason) -> bool:
        """Note that a ledger lacks what these bookies should hold.

        Raises:
            ZbkError: nobody knows whether it was noted: repeat it.
        """
        ...


class ScrubCounts(msgspec.Struct):
    """How passes go; written by the actor's thread. Sizes in bytes."""

    begun_pass: int = 0  # the number of the last pass that began; the first is 1
    ended_pass: int = 0
    ended_ms: int = 0  # wall clock; 0: none has ended since the start
    read_size: int = 0  # by the pass under way, or the last one
    share: float = 0.0  # of the pass under way that is done
    unconfirmed_count: int = 0  # places that looked damaged, and changed whenever looked at


class ScrubActor(BookieActor):
    """Carries out passes, and reports."""

    def __init__(
        self,
        views: Sequence[ScrubView],
        damaged: DamagedEntryIds,
        storage_actor: Sink[RunInStorage],
        reports: RepairReports,
        *,
        ask_checkpoint: AskCheckpoint,
        bookie_id: str,
        rate_size: int,
        ticker: TickSource,
        stop_bookie: StopBookie,
        now_ms: Callable[[], int] = monotonic_ms,
        step_size: int = STEP_SIZE,
    ) -> None:
        super().__init__(stop_bookie)
        self._views = views
        self._damaged = damaged
        self._storage_actor = storage_actor
        self._reports = reports
        self._ask_checkpoint = ask_checkpoint
        self._bookie_id = bookie_id
        self._throttle = Throttle(rate_size)
        self._ticker = ticker
        self._now_ms = now_ms
        self._step_size = step_size
        self._steps: Scrubbing | None = None  # of the pass under way
        self._asked_pass = 0
        self._is_checkpoint_wanted = False  # by the pass that begins next
        self._is_of_index = False  # the pass under way leaves the logs out
        self._wait_no = 0
        self._is_polling = False
        self._debt_size = 0  # read, and not paid for yet
        self._found: list[DamagedEntries] = []  # that storage does not know of yet
        self._reading_id: int | None = None  # the ledger of which more may be found
        self.counts = ScrubCounts()
        self.findings = Findings()  # of the pass under way, or the last one
        self.queue = ReportQueue()

    def handle(self, message: ScrubMessage) -> None:
        """Begin a pass, take its next steps, or report."""
        match message:
            case ScrubDue():
                self._asked_pass = max(self._asked_pass, self.counts.begun_pass + 1)
            case ScrubAsked(pass_no):
                if pass_no > self.counts.begun_pass:
                    self._asked_pass = max(self._asked_pass, pass_no)
                    self._is_checkpoint_wanted = True
            case LogsLost():
                self._is_of_index = True
                self._asked_pass = self.counts.begun_pass + 1
            case Resume(wait_no, value):
                if wait_no == self._wait_no:  # not a second call of the ticker
                    self._wait_no += 1
                    self._take_steps(value)
            case GoOn():
                self._take_steps(None)
            case ReportsDue():
                pass
            case _:
                assert_never(message)
        if self._steps is None and self._asked_pass > self.counts.begun_pass:
            self._begin()
        self._report()

    # ------------------------------------------------------------------ the pass

    def _begin(self) -> None:
        self.counts.begun_pass += 1
        self.counts.read_size = self.counts.unconfirmed_count = 0
        self.counts.share = 0.0
        self.findings = Findings()
        self._steps = self._pass()
        if self._is_checkpoint_wanted:
            self._is_checkpoint_wanted = False
            resume = self._wait(CHECKPOINT_WAIT_MS)
            self._ask_checkpoint(lambda: resume(None))
        else:
            self.actor_ref.tell(GoOn())

    def _pass(self) -> Scrubbing:
        for number, view in enumerate(self._views):
            scrub = ScrubPass(view, is_of_index=self._is_of_index)
            steps = scrub.steps()
            answer = None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration:
                    break
                self.counts.share = (number + scrub.share) / len(self._views)
                self._reading_id = scrub.ledger_id
                answer = yield step
            self.counts.unconfirmed_count += scrub.unconfirmed_count

    def _take_steps(self, answer: object) -> None:
        """Run steps until ``step_size`` bytes were read, or one has to be waited for."""
        read_size = 0
        is_waiting = False
        while self._steps is not None and not is_waiting and read_size < self._step_size:
            step = self._next(self._steps, answer)
            answer = None
            if isinstance(step, Paid):
                read_size += step.size
            elif step is not None:
                is_waiting = self._is_waiting_for(step)
        self.counts.read_size += read_size
        self._debt_size += read_size
        if self._found:
            self._tell_found(self._found)
            self._found = []
        if self._steps is not None and not is_waiting:
            self._go_on_at_rate()

    def _next(self, steps: Scrubbing, answer: object) -> ScrubStep | None:
        """Return the next step; ``None``, and the pass has ended, after the last one."""
        try:
            return steps.send(answer)
        except StopIteration:
            self._end()
            return None
        except OutOfDescriptorsError as error:
            logger.info("the scrub pass begins anew later: %s", error)
            self._steps = self._pass()
            return Pause(SHORT_WAIT_MS)

    def _is_waiting_for(self, step: ScrubStep) -> bool:
        """Carry out a step that reads nothing; return whether its answer is still to come."""
        match step:
            case Paid():
                raise AssertionError("reads are counted")
            case Pause(wait_ms):
                self._wait(wait_ms)
                return True
            case AskOwner(question):
                resume = self._resume_later()
                self._in_storage(lambda: resume(question()))
                return True
            case DamagedFile():
                self._on_damaged_file(step)
            case DamagedEntries():
                self.findings.add_entries(step)
                self.queue.add(step.ledger_id, is_index_lost=step.is_index_lost)
                if step.count:
                    self._found.append(step)
            case _:
                assert_never(step)
        return False

    def _tell_found(self, found: Sequence[DamagedEntries]) -> None:
        """Record in storage what it does not hold any more."""
        damaged, pass_no = self._damaged, self.counts.begun_pass

        def note() -> None:
            for one in found:
                damaged.add(one.ledger_id, one.first_entry_id, one.last_entry_id, pass_no)

        self._in_storage(note)

    def _in_storage(self, step: Callable[[], None]) -> None:
        with suppress(pykka.ActorDeadError):  # then the bookie stops: nothing more to do
            self._storage_actor.tell(RunInStorage(step))

    def _on_damaged_file(self, damaged: DamagedFile) -> None:
        if self.findings.add_file(damaged):
            of = "" if damaged.ledger_id is None else f", of ledger {damaged.ledger_id}"
            logger.warning(
                "damage found: %s at byte %d%s: %s",
                damaged.path,
                damaged.offset,
                of,
                damaged.reason,
            )

    def _end(self) -> None:
        counts, findings = self.counts, self.findings
        self._steps = self._reading_id = None
        self._in_storage(partial(self._damaged.end_pass, counts.begun_pass))
        counts.ended_ms = wall_ms()
        counts.share = 0.0
        counts.ended_pass = counts.begun_pass
        level = logging.INFO
        if self._is_of_index:
            self._is_of_index = False
            level = logging.ERROR if findings.entry_count else logging.INFO
        logger.log(
            level,
            "scrub pass %d: %d bytes read, %d damaged files, %d damaged entries of %d ledgers",
            counts.ended_pass,
            counts.read_size,
            findings.file_count,
            findings.entry_count,
            findings.ledger_count,
        )

    # ------------------------------------------------------------------ waiting

    def _go_on_at_rate(self) -> None:
        debt_size, self._debt_size = self._debt_size, 0
        wait_ms = self._throttle.wait_ms(debt_size, self._now_ms())
        if wait_ms:
            self._wait(wait_ms)
        else:
            self.actor_ref.tell(GoOn())

    def _wait(self, wait_ms: int) -> Callable[[object], None]:
        """Go on after this time, or when what is returned is called, whichever is sooner."""
        resume = self._resume_later()

        def wake() -> None:
            self._ticker.cancel(wake)
            resume(None)

        self._ticker.every(wait_ms, wake)
        return resume

    def _resume_later(self) -> Callable[[object], None]:
        """Return what takes the steps after this one, whoever calls it, once."""
        wait_no = self._wait_no

        def resume(value: object) -> None:
            with suppress(pykka.ActorDeadError):
                self.actor_ref.tell(Resume(wait_no, value))

        return resume

    # ------------------------------------------------------------------ reports

    def _report(self) -> None:
        """Report some ledgers, if it is time; have the rest come later."""
        for _ in range(REPORT_COUNT):
            due = self.queue.due(self._now_ms(), besides=self._reading_id)
            if due is None:
                break
            self._report_one(*due)
        is_wanted = bool(self.queue.pending_count)
        if is_wanted is not self._is_polling:
            self._is_polling = is_wanted
            if is_wanted:
                self._ticker.every(REPORT_POLL_MS, self._on_tick)
            else:
                self._ticker.cancel(self._on_tick)

    def _report_one(self, ledger_id: int, is_index_lost: bool) -> None:
        reason = MissingReason.DAMAGED if is_index_lost else MissingReason.CHECKED
        try:
            self._reports.report(ledger_id, (self._bookie_id,), reason)
        except ZbkError as error:
            if self.queue.not_taken(self._now_ms()):
                logger.warning(
                    "%d damaged ledgers cannot be reported for repair yet: %s",
                    self.queue.pending_count,
                    error,
                )
        else:
            self.queue.taken(ledger_id)

    def _on_tick(self) -> None:
        """Come back for the reports. The ticker's thread."""
        with suppress(pykka.ActorDeadError):
            self.actor_ref.tell(ReportsDue())
