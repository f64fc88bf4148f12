"""The scrub actor: reads the files on the bookie's disks, and reports damaged ledgers.

mailbox     ScrubDue, from the ticker; ScrubAsked, from the storage actor, for an operator;
            LogsLost, at the start; Answered, from the storage actor and the ticker;
            CheckpointEnded, from the checkpoint actor; GoOn, from itself; ReportsDue, from the
            ticker while reports wait; OptionsChanged
answers     none; ``counts`` and ``findings`` hold the results
owns        the pass under way, one at a time; its findings; the reports that wait
on failure  the bookie stops; a read error of a disk is a finding, not a failure

``zbk.storage.scrub.scrub_pass`` defines what a pass reads, ``zbk.protocol.upkeep.scrub_pace`` how
fast. A *go* is what it reads between two looks at the mailbox; between two goes the actor can be
stopped. The storage actor gets short questions only: one page or header at a time.

After a start that found entry logs missing, a first pass reads the index only, at the same rate.

Damage has three consequences. It is logged, once for each file and pass. The bookie no longer
reports the entry as held. And the bookie reports the ledger to the metadata store as one of which
it lacks parts, so that a repair copies them from other replicas. While the store does not answer,
reports are retried, and the pass continues.

Decision: damage in a log is reported as entries that the bookie lacks: exactly these are copied
back to this bookie. If the index is lost, no copy can be stored here, and the reason is "damaged":
another bookie takes the slot.

Decision: a pass that an operator requests begins with a checkpoint. It reads what the index on disk
has, and must see entries that were written just before. It waits at most ``CHECKPOINT_WAIT_MS`` for
a checkpoint that a full disk delays.

Decision: a pass that found damage in the index on disk of which memory has the content ends with a
checkpoint, which writes it again. On a bookie without adds no other checkpoint is due.

Decision: a pass that ends with the bookie is not resumed. The next one begins an interval after the
start.

Source: BookKeeper's ``ScrubberService``, which stops the bookie at the first damage. In zbk the
other entries stay readable.
"""

import logging
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import Answered, CheckpointEnded, OptionsChanged
from zbk.actors.upkeep.waits import WaitPorts, Waits
from zbk.errors import OutOfDescriptorsError, ZbkError
from zbk.protocol.procedure import Procedure
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile, Findings, ReportQueue
from zbk.protocol.upkeep.scrub_pace import ScrubPace
from zbk.storage.scrub.damaged_entries import DamagedEntryIds, EndDamagePass, RecordDamage
from zbk.storage.scrub.scrub_effects import DiskStateOf, LocationsOf, Paid, Pause, ScrubEffect
from zbk.storage.scrub.scrub_pass import ScrubPass
from zbk.storage.scrub.scrub_view import DiskState, ScrubView
from zbk.system.clock import wall_ms
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

GO_SIZE: Final = 256 * 1024
"""Bytes of one go."""

CHECKPOINT_WAIT_MS: Final = 30_000
REPORT_POLL_MS: Final = 1_000
SHORT_WAIT_MS: Final = 10_000
"""The pause of a pass that found too many files open."""

REPORT_COUNT: Final = 16
"""Ledgers that are reported together, at most so many each ``REPORT_POLL_MS``."""


class ScrubDue(msgspec.Struct, frozen=True):
    """Begin a pass, unless one is under way."""


class ScrubAsked(msgspec.Struct, frozen=True):
    """Begin the pass with this number after the one before has ended."""

    pass_no: int


class LogsLost(msgspec.Struct, frozen=True):
    """Entry logs are missing: find the ledgers with entries there, in a pass over the index.

    It comes before any other message.
    """


class GoOn(msgspec.Struct, frozen=True):
    """Begin the next go."""


class ReportsDue(msgspec.Struct, frozen=True):
    """Retry the reports."""


ScrubMessage: TypeAlias = (
    ScrubDue
    | ScrubAsked
    | LogsLost
    | Answered
    | CheckpointEnded
    | GoOn
    | ReportsDue
    | OptionsChanged
)


class RepairReports(Protocol):
    """Receives ledgers that need repair."""

    def report(self, ledger_id: int, bookie_ids: Collection[str], reason: MissingReason) -> bool:
        """Record that these bookies lack parts of a ledger that they should hold.

        Raises:
            ZbkError: it is unknown whether that was recorded; retry.
        """
        ...


class ScrubCounts(msgspec.Struct):
    """Progress of passes; written by the actor's thread. Sizes in bytes."""

    begun_pass: int = 0  # the number of the last pass that began; the first is 1
    ended_pass: int = 0
    ended_ms: int = 0  # wall clock; 0: none has ended since the start
    read_size: int = 0  # by the pass under way, or the last one
    share: float = 0.0  # of the pass under way that is done
    unconfirmed_count: int = 0  # places that looked damaged and changed at each look


class ScrubParts(msgspec.Struct, frozen=True):
    """The parts of a bookie that a scrub works with."""

    views: Sequence[ScrubView]  # one of each ledger directory
    damaged: DamagedEntryIds  # in the storage actor's thread
    reports: RepairReports
    ports: WaitPorts


class ScrubActor(BookieActor):
    """Carries out passes, and reports."""

    def __init__(
        self,
        parts: ScrubParts,
        *,
        bookie_id: str,
        rate_size: int,
        stop_bookie: StopBookie,
        go_size: int = GO_SIZE,
    ) -> None:
        super().__init__(stop_bookie)
        self._parts = parts
        self._bookie_id = bookie_id
        self._pace = ScrubPace(rate_size, go_size)
        self._waits = Waits(self.actor_ref, parts.ports)
        self._steps: Iterator[bool] | None = None  # of the pass under way; true: continue at once
        self._asked_pass = 0
        self._is_checkpoint_wanted = False  # by the pass that begins next
        self._is_of_index = False  # the pass under way leaves the logs out
        self._has_mended = False  # the next checkpoint writes what the pass found damaged
        self._is_polling = False
        self._found: list[DamagedEntries] = []  # not recorded in storage yet
        self._reading_id: int | None = None  # the ledger whose index is being read
        self.counts = ScrubCounts()
        self.findings = Findings()  # of the pass under way, or the last one
        self.ended_findings = Findings()  # of the last one that has ended
        self.queue = ReportQueue()

    def handle(self, message: ScrubMessage) -> None:  # noqa: C901 - a case for each message
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
            case Answered() | CheckpointEnded():
                if self._waits.take(message):
                    self._go()
            case GoOn():
                self._go()
            case ReportsDue():
                pass
            case OptionsChanged(config):
                self._pace.change(config.scrub_rate_size)
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
        self._go()

    def _go(self) -> None:
        """Run the pass until it has read enough for one go, or waits."""
        if self._steps is None:
            return
        self._pace.begin_burst()
        may_go_on = next(self._steps, None)
        if self._found:
            found, self._found = self._found, []
            record = RecordDamage(self._parts.damaged, found, self.counts.begun_pass)
            self._waits.run_in_storage(record)
        if may_go_on is None:
            self._steps = None
        elif may_go_on:
            self.actor_ref.tell(GoOn())

    def _pass(self) -> Iterator[bool]:
        """Yield after each go: true, or false if the next one waits for an answer."""
        if self._is_checkpoint_wanted:
            self._is_checkpoint_wanted = False
            yield from self._waits.checkpoint(CHECKPOINT_WAIT_MS)
        else:
            yield True
        while True:
            try:
                yield from self._read()
            except OutOfDescriptorsError as error:
                LOG.info(
                    "scrub.postponed",
                    "scrub pass %(scrub_pass)d restarts later: %(error)s",
                    scrub_pass=self.counts.begun_pass,
                    error=error,
                )
                yield from self._waits.until(self._waits.now_ms() + SHORT_WAIT_MS)
            else:
                break
        if self._has_mended:
            self._has_mended = False
            yield from self._waits.checkpoint(CHECKPOINT_WAIT_MS)
        self._end()

    def _read(self) -> Iterator[bool]:
        """Read all directories, one after the other."""
        views = self._parts.views
        for number, view in enumerate(views):
            scrub = ScrubPass(view, is_of_index=self._is_of_index)
            procedure = Procedure(scrub.steps())
            step = procedure.begin()
            while step is not None:
                self.counts.share = (number + scrub.share) / len(views)
                self._reading_id = scrub.ledger_id
                step = procedure.answer((yield from self._carry_out(step)))
            self.counts.unconfirmed_count += scrub.unconfirmed_count

    def _carry_out(self, step: ScrubEffect) -> Generator[bool, None, object]:
        """Carry out one step of a pass; return its answer."""
        match step:
            case Paid(size):
                self.counts.read_size += size
                self._pace.read(size)
                if self._pace.is_burst_over:
                    yield from self._rest()
            case Pause(wait_ms):
                yield from self._waits.until(self._waits.now_ms() + wait_ms)
            case DiskStateOf() | LocationsOf():
                answer = yield from self._waits.in_storage(step)
                self._has_mended |= answer is DiskState.MENDED
                return answer
            case DamagedFile() | DamagedEntries():
                self._on_damage(step)
            case _:
                assert_never(step)
        return None

    def _rest(self) -> Iterator[bool]:
        now_ms = self._waits.now_ms()
        rest_ms = self._pace.rest_ms(now_ms)
        if rest_ms:
            yield from self._waits.until(now_ms + rest_ms)
        else:
            yield True

    def _on_damage(self, damage: DamagedFile | DamagedEntries) -> None:
        if isinstance(damage, DamagedEntries):
            self.findings.add_entries(damage)
            self.queue.add(damage.ledger_id, is_index_lost=damage.is_index_lost)
            if damage.count:
                self._found.append(damage)
        elif self.findings.add_file(damage):
            of = "" if damage.ledger_id is None else f", of ledger {damage.ledger_id}"
            LOG.warning(
                "scrub.damage",
                "scrub pass %(scrub_pass)d: %(path)s is damaged at byte %(offset)d%(of)s: "
                "%(reason)s",
                scrub_pass=self.counts.begun_pass,
                path=damage.path,
                offset=damage.offset,
                of=of,
                ledger_id=damage.ledger_id,
                reason=damage.reason,
            )

    def _end(self) -> None:
        counts, findings = self.counts, self.findings
        self._reading_id = None
        self._waits.run_in_storage(EndDamagePass(self._parts.damaged, counts.begun_pass))
        counts.ended_ms = wall_ms()
        counts.share = 0.0
        counts.ended_pass = counts.begun_pass
        self.ended_findings = findings
        level = logging.INFO
        if self._is_of_index:
            self._is_of_index = False
            level = logging.ERROR if findings.entry_count else logging.INFO
        LOG.log(
            level,
            "scrub.done",
            "scrub pass %(scrub_pass)d: %(read_size)d bytes read, %(file_count)d damaged files, "
            "%(entry_count)d damaged entries of %(ledger_count)d ledgers",
            scrub_pass=counts.ended_pass,
            read_size=counts.read_size,
            file_count=findings.file_count,
            entry_count=findings.entry_count,
            ledger_count=findings.ledger_count,
        )

    # ------------------------------------------------------------------ reports

    def _report(self) -> None:
        """Report ledgers that are due, and poll while others wait."""
        for _ in range(REPORT_COUNT):
            due = self.queue.due(self._waits.now_ms(), besides=self._reading_id)
            if due is None:
                break
            self._report_one(*due)
        is_wanted = bool(self.queue.pending_count)
        if is_wanted is not self._is_polling:
            self._is_polling = is_wanted
            if is_wanted:
                self._parts.ports.ticker.every(REPORT_POLL_MS, self._on_tick)
            else:
                self._parts.ports.ticker.cancel(self._on_tick)

    def _report_one(self, ledger_id: int, is_index_lost: bool) -> None:
        reason = MissingReason.DAMAGED if is_index_lost else MissingReason.CHECKED
        try:
            self._parts.reports.report(ledger_id, (self._bookie_id,), reason)
        except ZbkError as error:
            if self.queue.not_taken(self._waits.now_ms()):
                LOG.warning(
                    "scrub.not_reported",
                    "scrub: %(ledger_count)d damaged ledgers cannot be reported for repair yet: "
                    "%(error)s",
                    ledger_count=self.queue.pending_count,
                    error=error,
                )
        else:
            self.queue.taken(ledger_id)

    def _on_tick(self) -> None:
        """Look at the reports again. The ticker's thread."""
        with suppress(pykka.ActorDeadError):
            self.actor_ref.tell(ReportsDue())
