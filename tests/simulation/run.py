"""One run, from a seed: a cluster, its clients, the nemesis, a calm end, and the verdict.

1   faults, bookies and ledgers are drawn; writers write, readers read, recoverers recover,
    while the nemesis acts
2   all faults stop; the dead come back; every call has to end
3   at times the power of all bookies is lost
4   every ledger that is not closed is recovered
5   at times the power of all bookies is lost again
6   every ledger is read from its first entry to its last
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tests.simulation.administrator import SimulatedAdministrator, SimulatedGuest
from tests.simulation.autorecovery import Autorecovery
from tests.simulation.bookie import SimulatedBookie
from tests.simulation.claimer import SimulatedClaimer
from tests.simulation.collector import UpkeepPlan
from tests.simulation.copies import check_copies
from tests.simulation.data_set_oracle import DataSetOracle
from tests.simulation.data_sets import SimulatedDataSetCollector, SimulatedLoader
from tests.simulation.deleter import SimulatedDeleter
from tests.simulation.faults import Faults
from tests.simulation.follower import SimulatedFollower, TailClient
from tests.simulation.intruder import SimulatedIntruder
from tests.simulation.kernel import MS, SECOND, Node, RunCutError
from tests.simulation.links import ClientPool
from tests.simulation.logs import SimulatedLogOwner
from tests.simulation.nemesis import Client, Nemesis
from tests.simulation.outside_syncer import SimulatedOutsideSyncer
from tests.simulation.principals import GUEST
from tests.simulation.reader import ReaderBody, SimulatedReader
from tests.simulation.recoverer import SimulatedRecoverer
from tests.simulation.repair_plan import SHARE
from tests.simulation.shared_client import SharedClient
from tests.simulation.tape import Tape
from tests.simulation.world import Parts, World
from tests.simulation.writer import Plan, SimulatedWriter
from tests.simulation.writer_oracle import may_lose
from tests.support.checker import Violation, check
from zbk.errors import ZbkError
from zbk.protocol.entry.words import LedgerState, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum

CALM_US_MAX: Final = 120 * SECOND
"""Simulated time within which everything has to end once the faults stopped (I35)."""

DATA_SET_SHARE: Final = 8
"""Of so many runs, one has a data set."""

RIGHTS_SHARE: Final = 6
"""Of so many runs, bookies enforce rights in one."""

SHARED_CLIENT_SHARE: Final = 8
"""Of so many runs, one has a client with several ledgers."""

GAPS_MS: Final = (40, 5, 200)
REPAIRED_GAPS_MS: Final = (200, 40, 600)
"""Between appends, at most; slow enough that bookies are lost, and given up, meanwhile."""

PD_QUORUMS: Final = (
    (3, 3, 2), (3, 3, 2), (3, 2, 2), (2, 2, 2), (3, 3, 3), (4, 3, 2), (5, 3, 2), (2, 2, 1),
    (1, 1, 1), (3, 2, 1), (4, 4, 3), (3, 3, 1),
)  # fmt: skip
VD_QUORUMS: Final = ((3, 3, 2), (3, 3, 2), (2, 2, 2), (2, 2, 1), (3, 3, 3), (4, 4, 3), (1, 1, 1))
STRIPED_VD_QUORUMS: Final = ((5, 3, 2), (4, 2, 2), (3, 2, 1), (4, 3, 2), (3, 2, 2), (5, 2, 1))
VD_TYPES: Final = (LedgerType.VD_JOURNAL, LedgerType.VD_BYPASS_JOURNAL)


class Outcome(msgspec.Struct):
    """What came of a run."""

    seed: int
    violations: list[Violation]
    trace_hash: int
    event_count: int
    entry_count: int
    sometimes: Counter[str]
    tape: list[int]
    lines: list[str]
    faults: Faults

    @property
    def names(self) -> set[str]:
        """The invariants that were broken."""
        return {violation.invariant for violation in self.violations}


def run_seed(
    seed: int,
    parts: Parts | None = None,
    *,
    recorded: Sequence[int] | None = None,
    is_traced: bool = False,
    is_cut_when_violated: bool = False,
) -> Outcome:
    """Run a seed, or a recorded tape, to its end, or to the first promise seen to be broken.

    Clients' observations are judged behind the last event in both cases.
    """
    tape = Tape(seed, recorded)
    world = World(tape, parts, is_traced=is_traced)
    world.kernel.is_cut_when_violated = is_cut_when_violated
    run = Run(world)
    try:
        run.play()
    except RunCutError:
        pass  # the violation is noted
    except AssertionError as error:
        text = _place_of(error)
        world.violated("assert", f"{text}: {error}")
    for bookie in world.bookies:
        world.violations += bookie.oracle.violations
    violations = world.violations + check(world.history)
    acks = sum(1 for e in world.history if e.kind == "ok" and e.call in ("add", "log_append"))
    return Outcome(
        seed,
        violations,
        world.kernel.trace_hash,
        world.kernel.event_count,
        acks,
        world.sometimes,
        tape.values,
        world.kernel.lines,
        world.faults,
    )


class Run:
    """The story of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clients: list[Client] = []
        self._followers: list[SimulatedFollower] = []  # they end with their ledgers
        self._tails: TailClient | None = None
        self._ledger_ids: list[int] = []
        self._creating_count = 0
        self._loss_count_max = 0
        self._repair: Autorecovery | None = None
        self._data_set: DataSetOracle | None = None

    def play(self) -> None:
        """Run it all."""
        world, tape = self._world, self._world.tape
        ledgers = [self._draw_ledger() for _ in range(1 + tape.draw(2))]
        largest = max(quorum.ensemble_size for quorum, _ in ledgers)
        world.has_autorecovery = tape.draw(SHARE) == 1
        if world.has_autorecovery:
            self._repair = Autorecovery(world)
            world.faults.deeds += ("long_outage",) * tape.pick((0, 2, 6))
        doomed_count = tape.pick((0, 0, 1, 2))
        if doomed_count:
            world.upkeep = UpkeepPlan.draw(tape)
        if tape.aside(RIGHTS_SHARE, "rights") == 1:
            world.use_rights()
        for number in range(largest + tape.draw(3) + world.has_autorecovery):
            world.add_bookie(f"host{number + 1}")
        self._loss_count_max = min(quorum.ack_size for quorum, _ in ledgers) - 1
        self._nemesis = Nemesis(world, loss_count_max=self._loss_count_max)
        self._nemesis.clients = self._clients
        self._nemesis.servants = self._servants
        self._create_ledgers(ledgers, doomed_count)
        if world.faults.is_skewed:
            for bookie in world.bookies:
                bookie.node.skew(tape.pick((1000, 900, 1100)))
        world.kernel.run_until((2 + tape.draw(5) + 4 * world.has_autorecovery) * SECOND)
        self._calm_down()
        self._wait("a call hangs", lambda: all(c.is_over for c in self._clients))
        self._at_times_lose_power()
        self._leave_limbo()
        self._recover_all()
        self._end_tails()
        self._at_times_lose_power()
        self._repair_all()
        self._collect_all()
        self._read_all()
        if self._data_set is not None:
            self._data_set.judge()
        self._lose_too_much()

    def _servants(self) -> Sequence[Client]:
        """Return the clients that are not over when faults stop."""
        processes = () if self._repair is None else self._repair.processes
        return (*processes, *(one for one in self._followers if not one.is_over))

    # ------------------------------------------------------------------ 1

    def _create_ledgers(
        self, ledgers: Sequence[tuple[Quorum, LedgerType]], doomed_count: int
    ) -> None:
        world, tape = self._world, self._world.tape
        for number, (quorum, ledger_type) in enumerate(ledgers):
            self._create(f"writer{number + 1}", quorum, ledger_type, 0)
        for number in range(doomed_count):
            self._create(f"doomed{number + 1}", *tape.pick(ledgers), 0, is_doomed=True)
        if tape.draw(3) == 1:
            self._begin_log(ledgers[0][0])
        if tape.draw(4) == 1:
            self._clients.append(SimulatedClaimer(world, "claimer"))
        if tape.aside(6) == 1:
            self._clients.append(SimulatedIntruder(world, "intruder"))
        if world.rights is not None:
            self._clients.append(SimulatedAdministrator(world, "administrator"))
            self._clients.append(SimulatedGuest(world, GUEST))
        if tape.aside(DATA_SET_SHARE) == 1:
            self._begin_data_set(ledgers[0][0])
        if tape.aside(SHARED_CLIENT_SHARE, "many ledgers") == 1:
            self._begin_shared_client(ledgers)

    def _begin_shared_client(self, ledgers: Sequence[tuple[Quorum, LedgerType]]) -> None:
        """Start one client that writes several ledgers."""
        client = SharedClient(self._world, "shared")
        self._clients.append(client)
        for number in range(6 - self._world.tape.draw(4)):
            kind = self._world.tape.pick(ledgers)
            self._create(f"shared{number + 1}", *kind, 0, client=client)

    def _draw_ledger(self) -> tuple[Quorum, LedgerType]:
        tape = self._world.tape
        if tape.draw(3) == 2:
            quorum = Quorum(*tape.pick(VD_QUORUMS))
            if tape.aside(2, "striped"):
                quorum = Quorum(*STRIPED_VD_QUORUMS[tape.aside(len(STRIPED_VD_QUORUMS), "stripes")])
            return quorum, VD_TYPES[tape.aside(2, "bypass")]
        return Quorum(*tape.pick(PD_QUORUMS)), LedgerType.PD_JOURNAL

    def _create(
        self,
        name: str,
        quorum: Quorum,
        ledger_type: LedgerType,
        attempt: int,
        *,
        is_doomed: bool = False,
        client: SharedClient | None = None,
    ) -> None:
        world, tape = self._world, self._world.tape
        self._creating_count += 1
        node = Node(world.kernel, f"{name}.create")
        session = world.session(node.name)
        alive = world.candidates()
        if len(alive) < quorum.ensemble_size or attempt > 5:
            return
        make = world.new_ledger(quorum, ledger_type, alive, f"{name} {attempt}")
        if world.rights is not None and client is None and not is_doomed:
            make = world.rights.owned(make, name)
        begun = world.history.invoke(world.kernel.now_ms, name, "create")

        def done(outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                world.history.end(begun, world.kernel.now_ms, "info", error=outcome)
                self._create(
                    name, quorum, ledger_type, attempt + 1, is_doomed=is_doomed, client=client
                )
                return
            metadata, _version = outcome
            ledger_id = metadata.ledger_id
            world.history.end(begun, world.kernel.now_ms, "ok", ledger_id=ledger_id)
            self._begin_clients(name, metadata, client)
            if is_doomed:
                at_us = tape.draw(16) * tape.pick((150, 300)) * MS
                world.kernel.after(at_us, self._begin_deleter, f"{name}.deleter", ledger_id)

        ledgers = session.ledgers()
        world.metadata.submit(node, lambda: ledgers.create(make), done)

    def _begin_clients(
        self, name: str, metadata: LedgerMetadata, client: SharedClient | None
    ) -> None:
        world, tape = self._world, self._world.tape
        ledger_id = metadata.ledger_id
        plan = Plan(
            append_count=tape.pick((20, 5, 60)),
            gap_us_max=tape.pick(REPAIRED_GAPS_MS if world.has_autorecovery else GAPS_MS) * MS,
            sync_share=tape.pick((100, 0, 400)),
            has_close=tape.draw(3) != 2,
        )
        if client is None:
            self._clients.append(SimulatedWriter(world, name, metadata, plan))
        else:
            client.write(metadata, plan)
        for number in range(tape.draw(3)):
            reader = SimulatedReader(world, f"{name}.reader{number + 1}", ledger_id)
            self._clients.append(reader)
        is_followed = tape.aside(5) == 1
        if client is not None:  # sessions are for many ledgers
            is_followed = tape.aside(3, "followed") > 0
        if is_followed:
            follower = SimulatedFollower(world, f"{name}.follower", ledger_id, self._tail_client)
            self._followers.append(follower)
        is_volatile = metadata.ledger_type.is_volatile
        has_close = plan.has_close or client is not None
        is_lossy = has_close and may_lose(ledger_id)  # it may drop what others made durable
        if is_volatile and not is_lossy and tape.aside(3):
            syncer = SimulatedOutsideSyncer(world, f"{name}.syncer", ledger_id)
            self._clients.append(syncer)
        for number in range(tape.draw(4)):
            at_us = tape.draw(16) * tape.pick((150, 15)) * MS
            recoverer = f"{name}.recoverer{number + 1}"
            world.kernel.after(at_us, self._begin_recovery, recoverer, ledger_id)

    def _tail_client(self) -> TailClient:
        """Return the client whose sessions followers share."""
        self._tails = self._tails or TailClient(self._world)
        return self._tails

    def _begin_deleter(self, name: str, ledger_id: int) -> None:
        if not self._world.is_ending:
            self._clients.append(SimulatedDeleter(self._world, name, ledger_id))

    def _begin_log(self, quorum: Quorum) -> None:
        """Start two or three clients that duel for a log."""
        world, tape = self._world, self._world.tape
        kind = LedgerType.PD_JOURNAL
        if tape.aside(4) == 1:
            kind = VD_TYPES[tape.aside(2, "bypass")]
            quorum = Quorum(quorum.write_size, quorum.write_size, quorum.ack_size)  # not striped
            world.sometimes["log: its ledgers are VD"] += 1
        for number in range(2 + tape.draw(2)):
            at_us = number * (1 + tape.draw(12)) * 60 * MS
            append_count = tape.pick((20, 60))
            name = f"owner{number + 1}"
            world.kernel.after(at_us, self._begin_owner, name, quorum, append_count, kind)

    def _begin_data_set(self, quorum: Quorum) -> None:
        """Start one to three clients that load into a data set, and at times one that tidies it."""
        world, tape = self._world, self._world.tape
        oracle = self._data_set = DataSetOracle(world)
        for number in range(3 - tape.draw(3)):
            loader = SimulatedLoader(world, f"loader{number + 1}", quorum, oracle, number)
            self._clients.append(loader)
        if tape.draw(2):
            self._clients.append(SimulatedDataSetCollector(world, "tidier", quorum, oracle))

    def _begin_owner(
        self, name: str, quorum: Quorum, append_count: int, ledger_type: LedgerType
    ) -> None:
        if not self._world.is_ending:
            self._world.sometimes["log: an owner begins"] += 1
            self._clients.append(
                SimulatedLogOwner(self._world, name, quorum, append_count, ledger_type)
            )

    def _begin_recovery(self, name: str, ledger_id: int) -> None:
        if not self._world.is_ending:
            busy = [c for c in self._clients if isinstance(c, SimulatedRecoverer) and not c.is_over]
            if busy:
                self._world.sometimes["recovery: two at once"] += 1
            attempt_count = 1 + self._world.tape.draw(3)
            self._clients.append(
                SimulatedRecoverer(self._world, name, ledger_id, attempt_count=attempt_count)
            )

    # ------------------------------------------------------------------ 2 to 6

    def _calm_down(self) -> None:
        world = self._world
        world.kernel.trace("world", "all faults stop")
        world.is_ending = True
        sync_us_max = world.faults.sync_us_max
        for field, value in msgspec.structs.asdict(Faults()).items():
            setattr(world.faults, field, value)
        world.faults.sync_us_max = sync_us_max
        world.network.heal()
        world.metadata.is_down = False
        for session in world.sessions:
            session.is_expired = False
        for bookie in world.bookies:
            bookie.disk.faults = []
            bookie.disk.crash_at = None
            bookie.node.resume()
        for client in (*self._clients, *self._nemesis.servants()):
            client.node.resume()
        self._start_all()

    def _start_all(self) -> None:
        world = self._world
        for bookie in list(world.bookies):
            if not bookie.node.is_alive and not bookie.is_lost:
                bookie.start()
        for bookie in list(world.bookies):
            if bookie.is_lost:
                world.replace_bookie(bookie)
            elif bookie.oracle.is_damaged:  # it may refuse what it is asked to keep
                world.add_bookie_beside(bookie)

    def _wait(self, what: str, is_done: Callable[[], bool]) -> None:
        kernel = self._world.kernel
        if not kernel.run_until(kernel.now_us + CALM_US_MAX, is_done):
            clients = (*self._clients, *self._followers)
            names = [c.node.name for c in clients if not c.is_over]
            self._world.violated("I35", f"{what}: {names}")

    def _at_times_lose_power(self) -> None:
        world = self._world
        if world.tape.draw(2):
            for bookie in world.bookies:
                if not bookie.is_lost:
                    bookie.crash("the last power loss", is_power_lost=True)
            self._start_all()
            world.kernel.run_until(world.kernel.now_us + 2 * SECOND)

    def _leave_limbo(self) -> None:
        """Make all bookies ask all others for what they may have lost."""
        world = self._world
        if any(bookie.oracle.is_damaged for bookie in world.bookies):
            # who cannot give what it says it has keeps others in limbo
            world.kernel.run_until(world.kernel.now_us + 10 * SECOND)
        else:
            self._wait("limbo does not end", lambda: not any(b.is_in_doubt for b in world.bookies))

    def _recover_all(self) -> None:
        world = self._world
        self._ledger_ids = sorted(world.metadata.current)
        clients = [
            SimulatedRecoverer(world, f"final.recoverer{ledger_id}", ledger_id, attempt_count=20)
            for ledger_id in self._ledger_ids
            if not world.current(ledger_id).is_closed
        ]
        self._clients += clients
        self._wait("a recovery hangs", lambda: all(c.is_over for c in clients))
        # an owner's late request may have deleted an orphan meanwhile
        self._ledger_ids = [i for i in self._ledger_ids if i in world.metadata.current]
        for ledger_id in self._ledger_ids:
            metadata = world.current(ledger_id)
            if metadata.state is not LedgerState.CLOSED and not self._may_be_stuck(metadata):
                self._world.violated("I35", f"ledger {ledger_id} cannot be recovered")

    def _end_tails(self) -> None:
        """Wait until all tails have come to the ends of their ledgers."""
        current = self._world.metadata.current
        tails = [
            one
            for one in self._followers
            if one.ledger_id not in current or current[one.ledger_id].is_closed
        ]
        self._wait("a tail does not end", lambda: all(one.is_over for one in tails))

    def _may_be_stuck(self, metadata: LedgerMetadata) -> bool:
        """Return whether an entry may be left that nobody can give and nobody may deny.

        Page caches were lost, and who still has the entry, or said so, cannot read it.
        """
        members = [self._world.bookie(b) for b in metadata.last_fragment.bookies]
        is_volatile = metadata.ledger_type.is_volatile
        return is_volatile and any(bookie.oracle.is_damaged for bookie in members)

    # ------------------------------------------------------------------ autorecovery

    def _repair_all(self) -> None:
        """Make all whole again, lose as many bookies as may be, and repeat."""
        world = self._world
        if self._repair is None:
            return
        self._drain(self._repair)
        check_copies(world, self._repair)
        for _ in range(world.tape.draw(3)):
            there = [b for b in world.bookies if not b.is_lost]
            doubtful = [b for b in there if b.oracle.is_damaged or b.lacks_copies]
            count = self._loss_count_max - len(doubtful)
            alive = [b for b in there if b.node.is_alive and b not in doubtful]
            for bookie in world.tape.shuffled(alive)[: max(0, count)]:
                world.sometimes["autorecovery: a bookie is lost when all is whole"] += 1
                self._lose(bookie)
            self._drain(self._repair)
            check_copies(world, self._repair)

    def _lose(self, bookie: SimulatedBookie) -> None:
        bookie.crash("lost for ever")
        bookie.is_lost = True
        self._world.replace_bookie(bookie)

    def _lose_too_much(self) -> None:
        """Lose, when all has been read, every replica of some entries: that has an end, too."""
        world, repair = self._world, self._repair
        if repair is None or not self._ledger_ids or not world.tape.draw(2):
            return
        metadata = world.current(world.tape.pick(self._ledger_ids))
        alive = [one for one in metadata.fragments[0].bookies if world.bookie(one).node.is_alive]
        if len(alive) > 1 and world.tape.draw(3):
            wiped = alive.pop(world.tape.draw(len(alive)))
            if self._is_alone(wiped):  # no task is made of what it has lost of that ledger
                alive.append(wiped)
            else:
                self._wipe(world.bookie(wiped))
        for bookie_id in alive:
            self._lose(world.bookie(bookie_id))
        self._drain(repair)
        if repair.put_aside():
            world.sometimes["autorecovery: a ledger cannot be repaired"] += 1

    def _is_alone(self, bookie_id: str) -> bool:
        """Return whether a bookie is the only one that has part of a ledger."""
        return any(
            set(fragment.bookies) == {bookie_id}
            for metadata in self._world.metadata.current.values()
            for fragment in metadata.fragments
        )

    def _wipe(self, bookie: SimulatedBookie) -> None:
        """Leave one in limbo: it waits for peers that will not come."""
        self._world.sometimes["autorecovery: the last holder is in limbo"] += 1
        bookie.crash("stopped")
        bookie.wipe()
        bookie.start()

    def _collect_all(self) -> None:
        """Drop what was deleted at bookies, as long as the metadata store lists a ledger."""
        world = self._world
        if world.upkeep is None or not world.metadata.current:
            return
        self._wait(
            "garbage is left",
            lambda: not any(b.garbage() for b in world.bookies if not b.oracle.is_damaged),
        )
        self._at_times_lose_power()

    def _drain(self, repair: Autorecovery) -> None:
        kernel = self._world.kernel
        kernel.run_until(kernel.now_us + 100 * MS)
        if not kernel.run_until(kernel.now_us + CALM_US_MAX, repair.is_drained):
            self._world.violated("I35", f"repairs do not end: {repair.state()}")

    def _read_all(self) -> None:
        world = self._world
        node = Node(world.kernel, "final.reader")
        pool = ClientPool(world.network, node, world.request_timeout_ms)
        body = ReaderBody(world, node, pool)
        left: set[int] = set()

        def done(ledger_id: int, error: ZbkError | None) -> None:
            left.discard(ledger_id)
            if error is not None and ledger_id in world.metadata.current:
                world.violated("I35", f"ledger {ledger_id} cannot be read: {error!r}")

        # an owner's late request may have deleted an orphan meanwhile
        for ledger_id in [i for i in self._ledger_ids if i in world.metadata.current]:
            metadata = world.current(ledger_id)
            if metadata.last_entry_id is not None and metadata.last_entry_id >= 0:
                left.add(ledger_id)
                body.read_range(
                    metadata,
                    0,
                    metadata.last_entry_id,
                    "read",
                    lambda error, ledger_id=ledger_id: done(ledger_id, error),  # type: ignore[misc]
                )
        self._wait("a read hangs", lambda: not left)
        logs = world.history.metadata.logs
        ledger_ids = list(logs[-1].ledger_ids) if logs else []
        # damage may have left one that cannot be recovered: ``_recover_all`` has judged that
        if all(world.current(ledger_id).is_closed for ledger_id in ledger_ids):
            self._read_log(body, ledger_ids)

    def _read_log(self, body: ReaderBody, ledger_ids: list[int]) -> None:
        """Read a log from its first ledger to its last."""
        world = self._world
        is_over = False

        def go_on(error: ZbkError | None) -> None:
            nonlocal is_over
            is_over = error is not None or not ledger_ids
            if error is not None:
                world.violated("I34", f"the log cannot be read: {error!r}")
            elif ledger_ids:
                metadata = world.current(ledger_ids.pop(0))
                last = metadata.last_entry_id
                assert last is not None, "all ledgers are closed by now"
                body.read_range(metadata, 0, last, "log_read", go_on)

        go_on(None)
        self._wait("a log cannot be read", lambda: is_over)


def _place_of(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/main/')[2]}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return place
