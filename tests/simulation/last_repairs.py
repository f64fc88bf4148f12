"""Autorecovery at the end of a run: everything is repaired, and then more is lost than it can bear.

When all ledgers are whole, as many bookies are lost as may be, and all is repaired again. What has
lost every replica cannot be repaired: its tasks have to be put aside.
"""

from tests.simulation.autorecovery import Autorecovery
from tests.simulation.bookie import SimulatedBookie
from tests.simulation.calm_end import CALM_US_MAX
from tests.simulation.copies import check_copies
from tests.simulation.kernel import MS
from tests.simulation.world import World


class LastRepairs:
    """What autorecovery has to do when faults have stopped."""

    def __init__(self, world: World, repair: Autorecovery, loss_count_max: int) -> None:
        self._world = world
        self._repair = repair
        self._loss_count_max = loss_count_max

    def repair_all(self) -> None:
        """Make all whole again, lose as many bookies as may be, and repeat."""
        world = self._world
        self._drain()
        check_copies(world, self._repair)
        for _ in range(world.tape.draw(3)):
            there = [b for b in world.bookies if not b.is_lost]
            doubtful = [b for b in there if b.oracle.is_damaged or b.lacks_copies]
            count = self._loss_count_max - len(doubtful) - self._unrepaired_count()
            alive = [b for b in there if b.node.is_alive and b not in doubtful]
            for bookie in world.tape.shuffled(alive)[: max(0, count)]:
                world.sometimes["autorecovery: a bookie is lost when all is whole"] += 1
                self._lose(bookie)
            self._drain()
            check_copies(world, self._repair)

    def lose_too_much(self, ledger_ids: list[int]) -> None:
        """Lose, when all has been read, every replica of some entries: that has an end, too."""
        world = self._world
        if not ledger_ids or not world.tape.draw(2):
            return
        metadata = world.current(world.tape.pick(ledger_ids))
        alive = [one for one in metadata.fragments[0].bookies if world.bookie(one).node.is_alive]
        if len(alive) > 1 and world.tape.draw(3):
            wiped = alive.pop(world.tape.draw(len(alive)))
            if self._is_alone(wiped):  # no task is made of what it has lost of that ledger
                alive.append(wiped)
            else:
                self._wipe(world.bookie(wiped))
        for bookie_id in alive:
            self._lose(world.bookie(bookie_id))
        self._drain()
        if self._repair.put_aside():
            world.sometimes["autorecovery: a ledger cannot be repaired"] += 1

    def _unrepaired_count(self) -> int:
        """Return how many lost bookies a ledger still names: damage elsewhere stops its repair."""
        world = self._world
        named = {
            one
            for metadata in world.metadata.current.values()
            for fragment in metadata.fragments
            for one in fragment.bookies
        }
        return sum(one.is_lost and one.bookie_id in named for one in world.bookies)

    def _lose(self, bookie: SimulatedBookie) -> None:
        bookie.crash("lost for ever")
        bookie.is_lost = True
        self._world.replace_bookie(bookie)

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

    def _drain(self) -> None:
        kernel = self._world.kernel
        kernel.run_until(kernel.now_us + 100 * MS)
        if not kernel.run_until(kernel.now_us + CALM_US_MAX, self._repair.is_drained):
            self._world.violated("I35", f"repairs do not end: {self._repair.state()}")
