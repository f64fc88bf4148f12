"""What can go wrong, as generators: begin the fault, ``yield`` while it lasts, end it.

The budget. The files of one bookie vanish, always of the same one: an ack quorum is two, so another
one has what it had. All other disks stay, so no number of process crashes may lose what a PD ledger
acknowledged, or a VD ledger either; power may fail everywhere at once, and may then take what a VD
ledger has not synced. Nothing limits safety, then. What is limited is how many bookies are out of
reach for long at a time: one, so that writers find a way on, and the round tests more than waiting.
Everything that is begun is ended before the judgement: after that, nothing may be unavailable.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from tests.chaos.cluster import SESSION_TIMEOUT_MS
from tests.chaos.namespaces import METADATA
from tests.chaos.vanishing import Part, vanish
from tests.chaos.world import World
from tests.support.history import POWER_LOSS

PAST_SESSION_S = SESSION_TIMEOUT_MS / 1000 * 1.6

Running = Iterator[None]
Kind = Literal["bookie", "metadata", "client"]


class Fault(msgspec.Struct, frozen=True):
    """One kind of fault."""

    name: str
    kind: Kind
    inject: Callable[[World], Running]
    needs: str = ""  # "power", "pairs", "zookeeper"


# ------------------------------------------------------------------ bookies


def kill_bookie(world: World) -> Running:
    """Kill -9; later it replays its journal."""
    index = world.pick_bookie()
    world.note(f"b{index}", "kill_bookie")
    world.cluster.bookies.kill(index)
    yield
    world.cluster.bookies.restart(index)


def kill_all_bookies(world: World) -> Running:
    """Kill -9 of all, one right after the other."""
    for index in world.cluster.indexes:
        world.note(f"b{index}", "kill_bookie", "all of them")
        world.cluster.bookies.kill(index)
    for index in world.cluster.indexes:
        world.cluster.bookies.restart(index)
    yield


def stop_bookie(world: World) -> Running:
    """End a bookie in order."""
    index = world.pick_bookie()
    world.note(f"b{index}", "stop_bookie")
    world.cluster.bookies.terminate(index)
    yield
    world.cluster.bookies.restart(index)


def pause_bookie(world: World) -> Running:
    """SIGSTOP until its session is over: it wakes up and does not know."""
    index = world.pick_bookie()
    world.note(f"b{index}", "pause_bookie")
    world.cluster.bookies.pause(index)
    world.wait(PAST_SESSION_S)
    yield
    world.cluster.bookies.resume(index)


def isolate_bookie(world: World) -> Running:
    """Cut a bookie off: both ways, or so that it hears and is not heard, or the other way round."""
    index = world.pick_bookie()
    way = world.dice.choice(["both", "to_server", "to_client"])
    world.note(f"b{index}", "isolate_bookie", way)
    if way == "to_server":
        world.network.isolate(index, "to_server")
    elif way == "to_client":
        world.network.isolate(index, "to_client")
    else:
        world.network.isolate(index)
    world.some_time(0.5, 3.0)
    yield
    world.network.heal()


def reset_connections(world: World) -> Running:
    """Cut a bookie's connections several times, with what is under way in them."""
    index = world.pick_bookie()
    for _ in range(world.dice.randint(1, 6)):
        world.note(f"b{index}", "reset_connections")
        world.network.reset(index)
        world.some_time(0.02, 0.4)
    yield


def lose_files(world: World) -> Running:
    """Kill -9, and files are gone: it does not serve as if it had them.

    Without any file it refuses to start until an operator says that it was wiped.
    """
    cluster, index = world.cluster, world.cluster.fragile_index
    part = world.dice.choice(list(Part))
    world.note(f"b{index}", "lose_files", part)
    cluster.bookies.kill(index)
    gone = vanish(part, cluster.bookies.directories(index), world.dice)
    yield
    if cluster.bookies.restart_or_refuse(index):
        if part is Part.ALL and gone:
            world.broken.append(f"b{index} serves though there is nothing left of {part}")
    else:
        cluster.bookies.restart_wiped(index)


def lose_power_of_one(world: World) -> Running:
    """Cut the power of one bookie's machine."""
    index = world.pick_bookie()
    world.note(f"b{index}", POWER_LOSS)
    world.cluster.lose_power([index])
    yield
    world.cluster.power_on(index)


def lose_power_of_all(world: World) -> Running:
    """Cut the power of the whole house."""
    world.note("all", POWER_LOSS)
    world.cluster.lose_power(world.cluster.indexes)
    for index in world.cluster.indexes:
        world.cluster.power_on(index)
    yield


# ------------------------------------------------------------------ metadata


def pause_zookeeper(world: World) -> Running:
    """SIGSTOP until every session is over."""
    assert world.cluster.zookeeper is not None, "the fault needs it"
    world.note(METADATA, "pause_zookeeper")
    world.cluster.zookeeper.pause()
    world.wait(PAST_SESSION_S)
    world.cluster.zookeeper.resume()
    yield


def kill_zookeeper(world: World) -> Running:
    """Kill -9, and a new start after a while."""
    assert world.cluster.zookeeper is not None, "the fault needs it"
    world.note(METADATA, "kill_zookeeper")
    world.cluster.zookeeper.kill()
    world.some_time(0.0, 2.0)
    world.cluster.zookeeper.start()
    yield


# ------------------------------------------------------------------ clients


def take_over(world: World) -> Running:
    """Recover what live writers write: they are fenced."""
    yield
    world.note("clients", "take_over")
    world.start_recoverer()


def take_over_by_two(world: World) -> Running:
    """Recover the same ledgers in two processes at once."""
    world.note("clients", "take_over_by_two")
    world.start_recoverer()
    world.start_recoverer()
    yield


def kill_recoverer(world: World) -> Running:
    """Kill -9 of a recoverer in the middle; another one finishes."""
    ledger_ids = world.open_ledgers()
    victim = world.start_recoverer()
    world.some_time(0.25, 0.8)  # Python needs a while to start
    world.note("clients", "kill_recoverer")
    victim.kill()
    world.forget(victim)
    yield
    world.start_recoverer(ledger_ids)


def kill_writer(world: World) -> Running:
    """Kill -9 of a writer; its ledger is recovered, and another writer comes."""
    place = world.dice.choice(world.writer_places)
    ledger_ids = world.open_ledgers()
    world.note(place, "kill_writer")
    world.client(place).kill()
    world.start_recoverer(ledger_ids)
    yield
    world.start_writer(place)


def pause_writer(world: World) -> Running:
    """SIGSTOP a writer past its session; meanwhile its ledger is taken over; then it goes on."""
    place = world.dice.choice(world.writer_places)
    world.note(place, "pause_writer")
    world.client(place).pause()
    world.wait(PAST_SESSION_S)
    world.start_recoverer(world.open_ledgers())
    yield
    world.some_time(0.0, 1.0)
    world.client(place).resume()


def kill_owner(world: World) -> Running:
    """Kill -9 of one of the log's two owners, maybe while it takes over or rolls."""
    place = world.dice.choice(world.owner_places)
    world.note(place, "kill_owner")
    world.client(place).kill()
    yield
    world.start_owner(place)


def pause_owner(world: World) -> Running:
    """SIGSTOP an owner of the log past its session: it wakes up and thinks that it still is."""
    place = world.dice.choice(world.owner_places)
    world.note(place, "pause_owner")
    world.client(place).pause()
    world.wait(PAST_SESSION_S)
    yield
    world.client(place).resume()


def part_client_from_bookie(world: World) -> Running:
    """Cut one client off from one bookie, which everybody else reaches."""
    place, index = world.dice.choice(world.client_places), world.pick_bookie()
    world.note(place, "part_client_from_bookie", f"b{index}")
    world.network.part(place, f"b{index}")
    world.some_time(0.5, 3.0)
    yield
    world.network.heal()


def part_client_from_metadata(world: World) -> Running:
    """Cut one client off from the metadata, until its session is over."""
    place = world.dice.choice(world.client_places)
    world.note(place, "part_client_from_metadata")
    world.network.part(place, METADATA)
    world.wait(PAST_SESSION_S)
    yield
    world.network.heal()


FAULTS = (
    Fault("kill -9 of a bookie", "bookie", kill_bookie),
    Fault("kill -9 of all bookies", "bookie", kill_all_bookies),
    Fault("clean stop of a bookie", "bookie", stop_bookie),
    Fault("SIGSTOP of a bookie past its session", "bookie", pause_bookie),
    Fault("partition of a bookie", "bookie", isolate_bookie),
    Fault("connections of a bookie cut in the middle", "bookie", reset_connections),
    Fault("files of a bookie vanish", "bookie", lose_files),
    Fault("power loss of a bookie", "bookie", lose_power_of_one, "power"),
    Fault("power loss of all bookies", "bookie", lose_power_of_all, "power"),
    Fault("SIGSTOP of ZooKeeper past all sessions", "metadata", pause_zookeeper, "zookeeper"),
    Fault("kill -9 of ZooKeeper", "metadata", kill_zookeeper, "zookeeper"),
    Fault("takeover of live writers", "client", take_over),
    Fault("takeover by two at once", "client", take_over_by_two),
    Fault("kill -9 of a recoverer", "client", kill_recoverer),
    Fault("kill -9 of a writer", "client", kill_writer),
    Fault("SIGSTOP of a writer, takeover, SIGCONT", "client", pause_writer),
    Fault("kill -9 of a log's owner", "client", kill_owner),
    Fault("SIGSTOP of a log's owner past its session", "client", pause_owner),
    Fault("partition of one client from one bookie", "client", part_client_from_bookie, "pairs"),
    Fault("partition of one client from ZooKeeper", "client", part_client_from_metadata, "pairs"),
)


class Deck:
    """Deals faults in an order drawn by chance, each as often as any other of its kind."""

    def __init__(self, faults: Sequence[Fault], dice: random.Random) -> None:
        self._around = [fault for fault in faults if fault.kind != "client"]
        self._inner = [fault for fault in faults if fault.kind == "client"]
        self._dice = dice
        self._left: dict[bool, list[Fault]] = {True: [], False: []}

    def deal(self) -> list[Fault]:
        """Return what overlaps next: one of a bookie or the metadata, or none; some of clients."""
        dealt = [self._next(is_client=False)] if self._dice.random() < 0.75 else []
        count = self._dice.choice((0, 1, 2) if dealt else (1, 1, 2))
        return dealt + [self._next(is_client=True) for _ in range(count)]

    def _next(self, *, is_client: bool) -> Fault:
        left = self._left[is_client]
        if not left:
            left += self._inner if is_client else self._around
            self._dice.shuffle(left)
        return left.pop()
