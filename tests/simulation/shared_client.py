"""A client that writes several ledgers with the code that ships, all but its threads.

``LedgerWriter``, ``AppendMailbox``, ``WriterActor``, ``WriterBody``, ``Deadlines`` and the bundles
are the real ones. Three threads are events here: the application's, the actor's own, and that of
the connections, which delivers news, calls back at deadlines, and takes turns of an idle actor. It
may come in between wherever the actor's thread calls the connections.

A bug is put into one writer at times: it ends that one, and no other (I42). Turns do not run beside
one another (I43).
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from tests.simulation.connections_thread import ConnectionsThread
from tests.simulation.kernel import MS, Node
from tests.simulation.open_ledger import OpenLedger
from tests.simulation.stepped_writer import PlannedError, SteppedWriterActor
from tests.simulation.world import World
from tests.simulation.writer import Plan
from zbk.client.cluster.metadata_actor import MetadataTask
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.writer_actor import WriterDoor
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.transport.bundles import BundleLimits
from zbk.transport.events import Outgoing
from zbk.wire.messages import Add

LIMITS: Final = (
    BundleLimits(),
    BundleLimits(part_size_max=600, size_max=1_000, count_max=3),
    BundleLimits(part_size_max=200, size_max=600, count_max=2),
)


class _Placer:
    """Chooses replacements, as ``BookiePlacer``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        """Remember nothing: any bookie may be chosen again."""

    def lacking(self, needs: Collection[str]) -> str:
        """Return the names of bookies that lack features: none."""
        del needs
        return ""

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        may_avoided: bool = True,
        needs: Collection[str] = (),
    ) -> dict[int, str]:
        """Return a new bookie for each failed slot, as many as there are."""
        del may_avoided, needs  # all bookies know all ledgers
        return self._world.replacements(list(ensemble), tuple(failed_slots))


class _MetadataThread:
    """Waits for the metadata store, as ``MetadataActors``."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def tell(self, key: object, task: MetadataTask) -> None:
        """Carry out a task."""
        del key
        self._world.metadata.submit(self._node, task.run, task.done)


class SharedClient:
    """One process that writes several ledgers."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        connections = ConnectionsThread(world, self.node, world.tape.pick(LIMITS))
        connections.on_request = self._on_request
        self._connections = connections
        self.pool: Any = connections
        self.budget = AppendBudget(1 << 24)
        session = world.session(name)
        self.ledgers = session.ledgers()
        self.tasks = UnderreplicationStore(session)
        self.placer: Any = _Placer(world)
        self.metadata_thread: Any = _MetadataThread(world, self.node)
        self._open: dict[int, OpenLedger] = {}
        self._doors = [self._make_door() for _ in range(1 + world.tape.draw(2))]
        if world.tape.draw(3) == 1:
            self.node.after((1 + world.tape.draw(20)) * 50 * MS, self._break_one)

    @property
    def is_over(self) -> bool:
        """True when all of its ledgers are closed, or have failed to be, or when it is dead."""
        return not self.node.is_alive or all(one.is_over for one in self._open.values())

    def write(self, metadata: LedgerMetadata, plan: Plan) -> None:
        """Begin to write one more ledger."""
        if self.node.is_alive:
            self._open[metadata.ledger_id] = OpenLedger(self, metadata, plan)

    def crash(self) -> None:
        """End the process: whoever waits never hears."""
        self.node.trace("the client of many ledgers dies")
        self.node.die()
        self._connections.close()
        for one in self._open.values():
            one.give_up()

    def door_of(self, ledger_id: int) -> WriterDoor:
        """Return the way to the actor of a ledger."""
        return self._doors[ledger_id % len(self._doors)]

    def _make_door(self) -> WriterDoor:
        door = WriterDoor(self.pool)
        SteppedWriterActor(self.world, self.node, door, self._connections, self._check)
        return door

    def _on_request(self, outgoing: Outgoing) -> None:
        request = outgoing.request
        if isinstance(request, Add):
            last_entry_id = request.first_entry_id + request.count - 1
            self._open[request.ledger_id].oracle.sent(last_entry_id)

    def _check(self) -> None:
        for one in self._open.values():
            one.oracle.check_lac()

    def _break_one(self) -> None:
        """Put a bug into one writer."""
        victims = [one for one in self._open.values() if not one.is_over and not one.body.is_ended]
        if not victims or self.world.is_ending:
            return
        victim = victims[self.world.tape.draw(len(victims))]
        self.world.sometimes["shared client: a bug ends one writer"] += 1

        def fail(*_arguments: object) -> None:
            raise PlannedError

        body: Any = victim.body
        body.take_in = body.tick = fail
