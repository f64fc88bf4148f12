"""The end of a run: all faults stop, and everything has to come to its end.

The dead come back, calls end, every ledger is recovered and read, and tails end with their ledgers.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tests.simulation.clients import Clients
from tests.simulation.faults import Faults
from tests.simulation.kernel import SECOND, Node
from tests.simulation.links import ClientPool
from tests.simulation.nemesis import Client
from tests.simulation.reader import ReaderBody
from tests.simulation.recoverer import SimulatedRecoverer
from tests.simulation.world import World
from zbk.errors import ZbkError
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata

CALM_US_MAX: Final = 120 * SECOND
"""Simulated time within which everything has to end once the faults stopped (I35)."""


class CalmEnd:
    """What is done when faults stop, one step after the other; ``ledger_ids`` are those left."""

    def __init__(
        self, world: World, clients: Clients, servants: Callable[[], Sequence[Client]]
    ) -> None:
        self._world = world
        self._clients = clients
        self._servants = servants  # clients that are never over
        self.ledger_ids: list[int] = []

    def begin(self) -> None:
        """Stop all faults, and start who is dead."""
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
        for client in (*self._clients.all, *self._servants()):
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

    def wait(self, what: str, is_done: Callable[[], bool]) -> None:
        """Pass time until something is done; it breaks I35 if that takes too long."""
        kernel = self._world.kernel
        if not kernel.run_until(kernel.now_us + CALM_US_MAX, is_done):
            clients = (*self._clients.all, *self._clients.followers)
            names = [c.node.name for c in clients if not c.is_over]
            self._world.violated("I35", f"{what}: {names}")

    def end_calls(self) -> None:
        """Wait until the calls of all clients have ended."""
        self.wait("a call hangs", lambda: all(c.is_over for c in self._clients.all))

    def lose_power_at_times(self) -> None:
        """Sometimes take the power from all bookies at once."""
        world = self._world
        if world.tape.draw(2):
            for bookie in world.bookies:
                if not bookie.is_lost:
                    bookie.crash("the last power loss", is_power_lost=True)
            self._start_all()
            world.kernel.run_until(world.kernel.now_us + 2 * SECOND)

    def leave_limbo(self) -> None:
        """Make all bookies ask all others for what they may have lost."""
        world = self._world
        if any(bookie.oracle.is_damaged for bookie in world.bookies):
            # who cannot give what it says it has keeps others in limbo
            world.kernel.run_until(world.kernel.now_us + 10 * SECOND)
        else:
            self.wait("limbo does not end", lambda: not any(b.is_in_doubt for b in world.bookies))

    # ------------------------------------------------------------------ ledgers

    def recover_all(self) -> None:
        """Recover every ledger that is not closed."""
        world = self._world
        self.ledger_ids = sorted(world.metadata.current)
        clients = [
            SimulatedRecoverer(world, f"final.recoverer{ledger_id}", ledger_id, attempt_count=20)
            for ledger_id in self.ledger_ids
            if not world.current(ledger_id).is_closed
        ]
        self._clients.all += clients
        self.wait("a recovery hangs", lambda: all(c.is_over for c in clients))
        # an owner's late request may have deleted an orphan meanwhile
        self.ledger_ids = [i for i in self.ledger_ids if i in world.metadata.current]
        for ledger_id in self.ledger_ids:
            metadata = world.current(ledger_id)
            if metadata.state is not LedgerState.CLOSED and not self._may_be_stuck(metadata):
                self._world.violated("I35", f"ledger {ledger_id} cannot be recovered")

    def _may_be_stuck(self, metadata: LedgerMetadata) -> bool:
        """Return whether an entry may be left that nobody can give and nobody may deny.

        Page caches were lost, and who still has the entry, or said so, cannot read it.
        """
        members = [self._world.bookie(b) for b in metadata.last_fragment.bookies]
        is_volatile = metadata.ledger_type.is_volatile
        return is_volatile and any(bookie.oracle.is_damaged for bookie in members)

    def end_tails(self) -> None:
        """Wait until all tails have come to the ends of their ledgers."""
        current = self._world.metadata.current
        tails = [
            one
            for one in self._clients.followers
            if one.ledger_id not in current or current[one.ledger_id].is_closed
        ]
        self.wait("a tail does not end", lambda: all(one.is_over for one in tails))

    def collect_all(self) -> None:
        """Drop what was deleted at bookies, as long as the metadata store lists a ledger."""
        world = self._world
        if world.upkeep is None or not world.metadata.current:
            return
        self.wait(
            "garbage is left",
            lambda: not any(b.garbage() for b in world.bookies if not b.oracle.is_damaged),
        )
        self.lose_power_at_times()

    # ------------------------------------------------------------------ entries

    def read_all(self) -> None:
        """Read every ledger from its first entry to its last."""
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
        for ledger_id in [i for i in self.ledger_ids if i in world.metadata.current]:
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
        self.wait("a read hangs", lambda: not left)
        logs = world.history.metadata.logs
        ledger_ids = list(logs[-1].ledger_ids) if logs else []
        # damage may have left one that cannot be recovered: ``recover_all`` has judged that
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
        self.wait("a log cannot be read", lambda: is_over)
