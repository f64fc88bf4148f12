"""The auditor of the simulation: the real core, election and steps, and a body without threads.

The body does what ``zbk.auditor.auditor`` does. Of the checks that ask bookies there is that of
holdings; those that read entries are left out.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.holdings_check import HoldingsCheckBody
from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.live_session import LiveSession
from tests.simulation.metadata import Done, MetadataServer
from tests.simulation.repair_oracle import CheckedTasks, RepairOracle
from tests.simulation.repair_plan import InlinePool, RepairPlan, SimulatedConnection
from tests.simulation.world import World
from zbk.auditor.audit_steps import AuditSteps
from zbk.auditor.auditor import settings_of
from zbk.errors import ZbkError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY
from zbk.metadata.records.election import AuditorElection
from zbk.protocol.repair import audit_events as ev
from zbk.protocol.repair.audit import Auditor

ELECTION_US: Final = 150 * MS
RETRY_MS: Final = 200


class SteppedElection(AuditorElection):
    """The real one; its steps are taken by whoever calls ``step``."""

    def step(self) -> None:
        """Take one step, as its thread would.

        Raises:
            MetadataUnavailableError: the store does not answer; to be taken again.
        """
        self._reconcile()

    def _run(self) -> None:
        """Leave the steps to others: the thread ends before anything happens."""


class Executor:
    """An executor of one thread: the next step begins when the one before is answered."""

    def __init__(self, metadata: MetadataServer, node: Node) -> None:
        self._metadata = metadata
        self._node = node
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()
        self._is_busy = False

    def submit(self, step: Callable[[], Any], done: Done) -> None:
        """Queue a step after those that were submitted before; ``done`` gets its result."""
        self._waiting.append((step, done))
        if not self._is_busy:
            self._take_next()

    def _take_next(self) -> None:
        self._is_busy = bool(self._waiting)
        if not self._is_busy:
            return
        step, done = self._waiting.popleft()

        def end(outcome: Any) -> None:  # noqa: ANN401 - a result, or an error
            self._take_next()
            done(outcome)

        self._metadata.submit(self._node, step, end)


class SimulatedAuditor:
    """One candidate, for as long as its node lives."""

    def __init__(
        self, world: World, node: Node, session: LiveSession, plan: RepairPlan, oracle: RepairOracle
    ) -> None:
        self._world = world
        self._node = node
        self._oracle = oracle
        self._core = Auditor(settings_of(plan.config, RETRY_MS))
        tasks = CheckedTasks(session, oracle)
        self._connection = SimulatedConnection(world, session, tasks)
        self._election = SteppedElection(session, node.name, self._on_term)
        self._steps = AuditSteps(
            self._connection, InlinePool(1), self._election.term, is_full=False
        )
        self._looks, self._scans, self._checks = (Executor(world.metadata, node) for _ in range(3))
        self.pool = ClientPool(world.network, node, world.request_timeout_ms)
        self._is_look_due = False
        self._wake_ms: int | None = None
        for path in (COOKIES, AVAILABLE, READONLY):
            session.watch_children(path, lambda _names: self._want_look())
        tasks.watch_trigger(lambda _number: None)
        self._stand()

    # ------------------------------------------------------------------ news

    def _stand(self) -> None:
        """Take the steps of the election, one after the other."""

        def rest(_outcome: object) -> None:
            self._node.after(ELECTION_US, self._stand)

        self._world.metadata.submit(self._node, self._election.step, rest)

    def _on_term(self, term: int | None) -> None:
        self._node.trace(f"the term is {term}")
        if term is not None:
            self._world.sometimes["auditor: a term begins"] += 1
        event = ev.TermEnded() if term is None else ev.TermBegun(term)
        self._node.after(0, self._handle, event)

    def _want_look(self) -> None:
        if not self._is_look_due:
            self._is_look_due = True
            self._do(self._looks, self._look_unasked)

    def _look_unasked(self) -> ev.Event | None:
        self._is_look_due = False
        return self._steps.look(0, None)

    def _do(
        self,
        executor: Executor,
        step: Callable[[], ev.Event | None],
        failed: Callable[[ZbkError], ev.Event] | None = None,
    ) -> None:
        def done(outcome: Any) -> None:  # noqa: ANN401 - an event, nothing, or an error
            event: ev.Event | None = outcome
            if isinstance(outcome, ZbkError):
                event = failed and failed(outcome)
            if event is not None:
                self._handle(event)

        executor.submit(step, done)

    # ------------------------------------------------------------------ the core

    def _handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.BookiesSeen) and event.bookies is not None:
            self._oracle.seen(event.bookies.present, self._world.kernel.now_us)
        for effect in self._core.handle(event, self._node.now_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: ev.Effect) -> None:  # noqa: C901 - a case an effect
        match effect:
            case ev.WakeAt(at_ms):
                self._wake_ms = at_ms
                self._node.after(max(0, at_ms - self._node.now_ms()) * MS, self._wake, at_ms)
            case ev.LookAtBookies(look, term):
                failed = ev.BookiesSeen(look, None)
                self._do(self._looks, lambda: self._steps.look(look, term), lambda _error: failed)
            case ev.ReadLedgers(job) | ev.Publish(job):
                self._do(
                    self._scans,
                    lambda: self._steps.take(effect),
                    lambda error: ev.JobAnswered(job, error),
                )
            case ev.RecallChecks(term):
                self._do(self._looks, lambda: ev.ChecksRecalled(term, {}))
            case ev.RetryUnrepairable(_, term):
                self._do(self._looks, lambda: self._retry_unrepairable(term))
            case ev.BrakeApplied():
                self._node.trace(f"holds: {effect.why}; lost: {effect.lost}")
                self._world.sometimes["auditor: the brake is applied"] += 1
                self._oracle.held(self._world.kernel.now_us)
            case ev.JobEnded(result):
                self._node.trace(f"a scan has ended: {result}")
            case ev.CheckLedgers():
                self._check(effect)
            case ev.BrakeReleased():
                self._node.trace(f"looked again; lost: {effect.lost}")
                self._oracle.released(self._world.kernel.now_us)
            case ev.JobStalled():
                self._node.trace(f"{effect}")
                self._oracle.stalled(self._world.kernel.now_us)
            case ev.JobBegun():
                self._node.trace(f"{effect}")
                self._oracle.begun(effect.lost, self._world.kernel.now_us)
            case ev.RememberCheck():
                self._node.trace(f"{effect}")

    def _check(self, wanted: ev.CheckLedgers) -> None:
        """Compare the holdings of all ledgers that are left."""
        assert wanted.kind is ev.CheckKind.REPLICAS, "the other checks are off"

        def compare(outcome: ev.JobAnswered | ZbkError) -> None:
            read = outcome if isinstance(outcome, ZbkError) else outcome.value
            if isinstance(read, ZbkError):
                self._handle(ev.JobAnswered(wanted.job, read))
                return
            assert isinstance(read, ev.LedgersRead)

            def done(reports: list[ev.Report]) -> None:
                self._world.sometimes["auditor: holdings are compared"] += 1
                self._world.sometimes["auditor: a comparison finds holes"] += bool(reports)
                for one in reports:
                    self._node.trace(f"L{one.ledger_id} lacks {one.ranges}")
                checked = ev.LedgersChecked(
                    reports=tuple(reports),
                    last_ledger_id=read.last_ledger_id,
                    is_last=read.is_last,
                    ledger_count=len(read.ledgers),
                )
                self._handle(ev.JobAnswered(wanted.job, checked))

            HoldingsCheckBody(self.pool, read.ledgers, wanted.lost, done)

        wanted_read = ev.ReadLedgers(wanted.job, wanted.after)
        self._checks.submit(lambda: self._steps.take(wanted_read), compare)

    def _retry_unrepairable(self, term: int) -> None:
        if self._election.term() == term:
            self._connection.tasks.retry_unrepairable()

    def _wake(self, at_ms: int) -> None:
        if self._wake_ms == at_ms:
            self._wake_ms = None
            self._handle(ev.TimePassed())
