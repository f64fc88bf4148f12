"""The clients of a run and their ledgers: who writes, reads, follows, syncs and recovers them.

At times there are owners of a log, loaders of a data set, and those that do what they may not.
"""

from collections.abc import Sequence
from typing import Final

from tests.simulation.administrator import SimulatedAdministrator, SimulatedGuest
from tests.simulation.claimer import SimulatedClaimer
from tests.simulation.data_set_oracle import DataSetOracle
from tests.simulation.data_sets import SimulatedDataSetCollector, SimulatedLoader
from tests.simulation.deleter import SimulatedDeleter
from tests.simulation.follower import SimulatedFollower, TailClient
from tests.simulation.intruder import SimulatedIntruder
from tests.simulation.kernel import MS, Node
from tests.simulation.logs import SimulatedLogOwner
from tests.simulation.nemesis import Client
from tests.simulation.outside_syncer import SimulatedOutsideSyncer
from tests.simulation.principals import GUEST
from tests.simulation.reader import SimulatedReader
from tests.simulation.recoverer import SimulatedRecoverer
from tests.simulation.shared_client import SharedClient
from tests.simulation.tape import Tape
from tests.simulation.world import World
from tests.simulation.writer import Plan, SimulatedWriter
from tests.simulation.writer_oracle import may_lose
from zbk.errors import ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum

DATA_SET_SHARE: Final = 8
"""Of so many runs, one has a data set."""

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


class Clients:
    """All clients of one run; followers end with their ledgers, and are apart from the others."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: list[Client] = []
        self.followers: list[SimulatedFollower] = []
        self.data_set: DataSetOracle | None = None
        self._tails: TailClient | None = None

    def begin(self, ledgers: Sequence[tuple[Quorum, LedgerType]], doomed_count: int) -> None:
        """Create these ledgers, and some that are deleted soon; clients begin with theirs."""
        world, tape = self._world, self._world.tape
        for number, (quorum, ledger_type) in enumerate(ledgers):
            self._create(f"writer{number + 1}", quorum, ledger_type, 0)
        for number in range(doomed_count):
            self._create(f"doomed{number + 1}", *tape.pick(ledgers), 0, is_doomed=True)
        if tape.draw(3) == 1:
            self._begin_log(ledgers[0][0])
        if tape.draw(4) == 1:
            self.all.append(SimulatedClaimer(world, "claimer"))
        if tape.aside(6) == 1:
            self.all.append(SimulatedIntruder(world, "intruder"))
        if world.rights is not None:
            self.all.append(SimulatedAdministrator(world, "administrator"))
            self.all.append(SimulatedGuest(world, GUEST))
        if tape.aside(DATA_SET_SHARE) == 1:
            self._begin_data_set(ledgers[0][0])
        if tape.aside(SHARED_CLIENT_SHARE, "many ledgers") == 1:
            self._begin_shared_client(ledgers)

    def _begin_shared_client(self, ledgers: Sequence[tuple[Quorum, LedgerType]]) -> None:
        """Start one client that writes several ledgers."""
        client = SharedClient(self._world, "shared")
        self.all.append(client)
        for number in range(6 - self._world.tape.draw(4)):
            kind = self._world.tape.pick(ledgers)
            self._create(f"shared{number + 1}", *kind, 0, client=client)

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
            self.all.append(SimulatedWriter(world, name, metadata, plan))
        else:
            client.write(metadata, plan)
        for number in range(tape.draw(3)):
            reader = SimulatedReader(world, f"{name}.reader{number + 1}", ledger_id)
            self.all.append(reader)
        is_followed = tape.aside(5) == 1
        if client is not None:  # sessions are for many ledgers
            is_followed = tape.aside(3, "followed") > 0
        if is_followed:
            follower = SimulatedFollower(world, f"{name}.follower", ledger_id, self._tail_client)
            self.followers.append(follower)
        is_volatile = metadata.ledger_type.is_volatile
        has_close = plan.has_close or client is not None
        is_lossy = has_close and may_lose(ledger_id)  # it may drop what others made durable
        if is_volatile and not is_lossy and tape.aside(3):
            syncer = SimulatedOutsideSyncer(world, f"{name}.syncer", ledger_id)
            self.all.append(syncer)
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
            self.all.append(SimulatedDeleter(self._world, name, ledger_id))

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
        oracle = self.data_set = DataSetOracle(world)
        for number in range(3 - tape.draw(3)):
            loader = SimulatedLoader(world, f"loader{number + 1}", quorum, oracle, number)
            self.all.append(loader)
        if tape.draw(2):
            self.all.append(SimulatedDataSetCollector(world, "tidier", quorum, oracle))

    def _begin_owner(
        self, name: str, quorum: Quorum, append_count: int, ledger_type: LedgerType
    ) -> None:
        if not self._world.is_ending:
            self._world.sometimes["log: an owner begins"] += 1
            self.all.append(SimulatedLogOwner(self._world, name, quorum, append_count, ledger_type))

    def _begin_recovery(self, name: str, ledger_id: int) -> None:
        if not self._world.is_ending:
            busy = [c for c in self.all if isinstance(c, SimulatedRecoverer) and not c.is_over]
            if busy:
                self._world.sometimes["recovery: two at once"] += 1
            attempt_count = 1 + self._world.tape.draw(3)
            self.all.append(
                SimulatedRecoverer(self._world, name, ledger_id, attempt_count=attempt_count)
            )


def draw_ledger(tape: Tape) -> tuple[Quorum, LedgerType]:
    """Draw what kind of ledger there is."""
    if tape.draw(3) == 2:
        quorum = Quorum(*tape.pick(VD_QUORUMS))
        if tape.aside(2, "striped"):
            quorum = Quorum(*STRIPED_VD_QUORUMS[tape.aside(len(STRIPED_VD_QUORUMS), "stripes")])
        return quorum, VD_TYPES[tape.aside(2, "bypass")]
    return Quorum(*tape.pick(PD_QUORUMS)), LedgerType.PD_JOURNAL
