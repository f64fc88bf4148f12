"""Who does the damage: one deed after the other, within the budget.

The budget is what the promises allow: fewer bookies than the smallest ack quorum may lose, for
ever, what they had. Everything else may happen to all of them.
"""

import errno
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.simulation.bookie import SimulatedBookie
from tests.simulation.kernel import MS, Node
from tests.simulation.rot import lose_files, rot
from tests.simulation.world import World
from tests.support.simulated_disk import Fault

RESTART_US_MAX = 800 * MS


class Client(Protocol):
    """Whoever may be paused, cut off and killed."""

    node: Node

    @property
    def is_over(self) -> bool:
        """True when it wants nothing more."""
        ...

    def crash(self) -> None:
        """End the process."""
        ...


class Nemesis:
    """Draws deeds and does them."""

    def __init__(self, world: World, *, loss_count_max: int) -> None:
        self._world = world
        self._loss_count_left = loss_count_max
        self.clients: list[Client] = []
        self.servants: Callable[[], Sequence[Client]] = tuple  # clients that are never over
        if world.faults.deeds:
            world.kernel.after(self._gap_us(), self._act)

    def _gap_us(self) -> int:
        return (1 + self._world.tape.draw(8)) * self._world.faults.deed_gap_us // 4

    def _act(self) -> None:
        world = self._world
        if world.is_ending:
            return
        deed = world.tape.pick(world.faults.deeds)
        getattr(self, f"_{deed}")()
        world.kernel.after(self._gap_us(), self._act)

    # ------------------------------------------------------------------ bookies

    def _bookie(self) -> SimulatedBookie | None:
        alive = [b for b in self._world.bookies if b.node.is_alive]
        return self._world.tape.pick(alive) if alive else None

    def _note(self, fault: str, node: str) -> None:
        self._world.history.nemesis(self._world.kernel.now_ms, node, fault)
        self._world.kernel.trace("nemesis", f"{fault} {node}")

    def _restart_later(self, bookie: SimulatedBookie) -> None:
        delay_us = 20 * MS + self._world.tape.draw(8) * RESTART_US_MAX // 8
        self._world.kernel.after(delay_us, self._restart, bookie)

    def _restart(self, bookie: SimulatedBookie) -> None:
        if not bookie.node.is_alive and not bookie.is_lost and not bookie.start():
            self._restart_later(bookie)

    def _crash(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            self._note("crash", bookie.address)
            bookie.crash("killed")
            self._restart_later(bookie)

    def _long_outage(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            self._note("a long outage", bookie.address)
            bookie.crash("killed for long", is_power_lost=bool(self._world.tape.draw(2)))
            delay_us = 2_000 * MS + self._world.tape.draw(8) * 500 * MS
            self._world.kernel.after(delay_us, self._restart, bookie)

    def _crash_in_operation(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            disk = bookie.disk
            disk.crash_at = disk.operation_count + 1 + self._world.tape.draw(40)
            self._watch(bookie)

    def _watch(self, bookie: SimulatedBookie) -> None:
        """Restart a bookie some time after it has fallen."""
        if self._world.is_ending:
            return
        if bookie.node.is_alive:
            self._world.kernel.after(100 * MS, self._watch, bookie)
        else:
            self._restart_later(bookie)

    def _power_loss(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            self._lose_power_of(bookie)

    def _lose_power_of(self, bookie: SimulatedBookie) -> None:
        if not bookie.is_lost and not self._world.is_ending:
            bookie.crash("power loss", is_power_lost=True)
            self._restart_later(bookie)

    def _power_loss_of_all(self) -> None:
        self._world.sometimes["bookie: power loss of all at once"] += 1
        for bookie in self._world.bookies:
            if not bookie.is_lost:
                bookie.crash("power loss of all", is_power_lost=True)
                self._restart_later(bookie)

    def _fail_disk(self, operation: str, error: int) -> None:
        bookie = self._bookie()
        if bookie is not None:
            skip_count = self._world.tape.draw(6)
            path_part = self._world.tape.pick(("", *bookie.directories.journals))
            bookie.disk.faults.append(Fault(operation, error, skip_count, path_part))
            self._watch(bookie)
            if self._world.tape.draw(2):
                delay_us = (1 + self._world.tape.draw(8)) * 40 * MS
                self._world.kernel.after(delay_us, self._lose_power_of, bookie)

    def _failed_fsync(self) -> None:
        self._fail_disk("sync", errno.EIO)

    def _failed_write(self) -> None:
        self._fail_disk("pwrite", errno.EIO)

    def _full_disk(self) -> None:
        self._fail_disk(self._world.tape.pick(("pwrite", "allocate", "create")), errno.ENOSPC)

    def _pause_bookie(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            bookie.node.pause((1 + self._world.tape.draw(16)) * 100 * MS)

    def _take_loss(self) -> SimulatedBookie | None:
        if not self._loss_count_left:
            return None
        candidates = [b for b in self._world.bookies if not b.is_lost and not b.oracle.is_damaged]
        if not candidates:
            return None
        self._loss_count_left -= 1
        return self._world.tape.pick(candidates)

    def _bit_rot(self) -> None:
        bookie = self._take_loss()
        if bookie is None:
            return
        tape = self._world.tape
        bookie.oracle.is_damaged = True
        if bookie.node.is_alive and tape.draw(2):  # it is met when the bookie starts again
            bookie.crash("killed", is_power_lost=bool(tape.draw(2)))
            self._restart_later(bookie)
        for path in rot(bookie, tape, self._world.undigested()):
            self._note("bit rot", f"{bookie.address}{path}")
        self._world.sometimes["bookie: bit rot"] += 1

    def _lose_bookie(self) -> None:
        bookie = self._take_loss()
        if bookie is None:
            return
        self._note("lost for ever", bookie.address)
        self._world.sometimes["bookie: another one at the old address"] += 1
        if bookie.node.is_alive:
            bookie.crash("its disk is gone")
        bookie.lose_disk()
        if bookie.start():  # the cookie is gone: it must not
            return
        bookie.is_lost = True
        self._world.kernel.after(self._gap_us(), self._world.replace_bookie, bookie)

    def _wipe_bookie(self) -> None:
        bookie = self._take_loss()
        if bookie is None:
            return
        if bookie.node.is_alive:
            bookie.crash("stopped")
        kind = self._world.tape.draw(3)
        if kind == 0:
            self._note("wiped", bookie.address)
            self._world.sometimes["bookie: wiped on purpose"] += 1
            bookie.wipe()
        elif kind == 1:
            self._note("its files vanish", bookie.address)
            self._world.sometimes["bookie: its files vanish"] += 1
            bookie.lose_files()
            if bookie.start():  # nothing says that this was meant: it must not
                return
            bookie.start_on_purpose()
        else:
            for path in lose_files(bookie, self._world.tape):
                self._note("lost file", f"{bookie.address}{path}")
            self._world.sometimes["bookie: files vanish in part"] += 1
        self._restart_later(bookie)

    # ------------------------------------------------------------------ clients and network

    def _client(self) -> Client | None:
        alive = [c for c in (*self.clients, *self.servants()) if not c.is_over]
        return self._world.tape.pick(alive) if alive else None

    def _pause_client(self) -> None:
        client = self._client()
        if client is not None:
            client.node.pause((1 + self._world.tape.draw(16)) * 200 * MS)

    def _crash_client(self) -> None:
        client = self._client()
        if client is not None and self._world.tape.draw(3) == 1:
            self._note("crash", client.node.name)
            client.crash()

    def _reset(self) -> None:
        links = [link for link in self._world.network.links if link.is_up]
        if links:
            link = self._world.tape.pick(links)
            self._world.kernel.trace("nemesis", f"resets {link.name} - {link.bookie_id}")
            link.lose_life(link.life, "was reset")

    def _cut_one_way(self) -> None:
        client, bookie = self._client(), self._bookie()
        if client is None or bookie is None:
            return
        ends = [client.node.name, bookie.address]
        if self._world.tape.draw(2):
            ends.reverse()
        self._world.network.cut(ends[0], ends[1], (1 + self._world.tape.draw(16)) * 100 * MS)
        self._world.kernel.trace("nemesis", f"cuts {ends[0]} -> {ends[1]}")

    def _isolate(self, name: str, others: list[str]) -> None:
        duration_us = (1 + self._world.tape.draw(16)) * 100 * MS
        self._world.kernel.trace("nemesis", f"isolates {name}")
        for other in others:
            self._world.network.cut(name, other, duration_us)
            self._world.network.cut(other, name, duration_us)

    def _isolate_bookie(self) -> None:
        bookie = self._bookie()
        if bookie is not None:
            clients = (*self.clients, *self.servants())
            self._isolate(bookie.address, [client.node.name for client in clients])

    def _isolate_client(self) -> None:
        client = self._client()
        if client is not None:
            self._isolate(client.node.name, [b.address for b in self._world.bookies])

    # ------------------------------------------------------------------ metadata

    def _metadata_outage(self) -> None:
        metadata = self._world.metadata
        metadata.is_down = True
        self._world.kernel.trace("nemesis", "nobody answers for metadata")

        def resume() -> None:
            metadata.is_down = False

        self._world.kernel.after((1 + self._world.tape.draw(16)) * 100 * MS, resume)

    def _expire_session(self) -> None:
        sessions = self._world.sessions
        if not sessions:
            return
        session = self._world.tape.pick(sessions)
        session.expire()

        def renew() -> None:
            session.is_expired = False

        self._world.kernel.after((1 + self._world.tape.draw(8)) * 100 * MS, renew)
