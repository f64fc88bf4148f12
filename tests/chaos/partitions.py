"""What can go wrong between machines, one peer or one direction at a time. As in ``faults``."""

from tests.chaos.faults import PAST_SESSION_S, Fault, Running
from tests.chaos.firewall import FirewalledNetwork
from tests.chaos.network import AUTORECOVERY, ZOOKEEPER
from tests.chaos.world import World

LONG_S = 7.0
"""Longer than a client's request time-out, a session, and a writer's patience with a bookie."""

LOSS_SHARE = 0.2
FLAP_COUNT_MAX = 8


def lose_one_way(world: World) -> Running:
    """Drop what a bookie receives from all others, or what it sends to them."""
    index = world.pick_bookie()
    chain = world.dice.choice(["INPUT", "OUTPUT"])
    world.note(f"b{index}", "lose_one_way", chain)
    network = _network(world)
    network.drop(f"b{index}", network.others(f"b{index}"), chains=(chain,))
    world.some_time(0.5, LONG_S)
    yield
    network.heal()


def isolate_for_long(world: World) -> Running:
    """Cut a bookie off from everything, past its session and all time-outs."""
    index = world.pick_bookie()
    world.note(f"b{index}", "isolate_for_long")
    world.network.isolate(index)
    world.wait(LONG_S)
    yield
    world.network.heal()


def isolate_from_zookeeper(world: World) -> Running:
    """End a bookie's session while all clients reach the bookie."""
    index = world.pick_bookie()
    world.note(f"b{index}", "isolate_from_zookeeper")
    _network(world).drop(f"b{index}", [ZOOKEEPER])
    world.wait(PAST_SESSION_S)
    world.some_time(0.0, 2.0)
    yield
    world.network.heal()


def isolate_from_clients(world: World) -> Running:
    """Cut a registered bookie off from all clients."""
    index = world.pick_bookie()
    world.note(f"b{index}", "isolate_from_clients")
    network = _network(world)
    network.drop(f"b{index}", network.clients)
    world.some_time(0.5, LONG_S)
    yield
    network.heal()


def flap(world: World) -> Running:
    """Cut a bookie off and heal it, several times, shorter than any time-out."""
    index = world.pick_bookie()
    count = world.dice.randint(2, FLAP_COUNT_MAX)
    world.note(f"b{index}", "flap", f"{count} times")
    for _ in range(count):
        world.network.isolate(index)
        world.some_time(0.05, 0.6)
        world.network.heal()
        world.some_time(0.05, 0.4)
    yield


def lose_packets(world: World) -> Running:
    """Lose a fifth of all packets to and from a bookie."""
    index = world.pick_bookie()
    world.note(f"b{index}", "lose_packets")
    network = _network(world)
    network.drop(f"b{index}", network.others(f"b{index}"), share=LOSS_SHARE)
    world.some_time(1.0, LONG_S)
    yield
    network.heal()


def part_client_from_majority(world: World) -> Running:
    """Cut one client machine off from most bookies, which the other one reaches."""
    network = _network(world)
    client = world.dice.choice(network.clients)
    bookies = world.dice.sample(network.bookies, len(network.bookies) // 2 + 1)
    world.note(client, "part_client_from_majority", " ".join(sorted(bookies)))
    network.drop(client, bookies)
    world.some_time(0.5, LONG_S)
    yield
    network.heal()


def part_client_from_zookeeper(world: World) -> Running:
    """End the sessions of one client machine while it reaches all bookies."""
    client = world.dice.choice(_network(world).clients)
    world.note(client, "part_client_from_zookeeper")
    _network(world).drop(client, [ZOOKEEPER])
    world.wait(PAST_SESSION_S)
    yield
    world.network.heal()


def isolate_autorecovery(world: World) -> Running:
    """Cut autorecovery off: from ZooKeeper, from the bookies, or from all."""
    network = _network(world)
    others = world.dice.choice([[ZOOKEEPER], network.bookies, network.others(AUTORECOVERY)])
    world.note(AUTORECOVERY, "isolate_autorecovery", " ".join(others))
    network.drop(AUTORECOVERY, others)
    world.some_time(0.5, LONG_S)
    yield
    network.heal()


PARTITIONS = (
    Fault("one-way loss at a bookie", "bookie", lose_one_way),
    Fault("long isolation of a bookie", "bookie", isolate_for_long),
    Fault("isolation of a bookie from ZooKeeper only", "bookie", isolate_from_zookeeper),
    Fault("isolation of a bookie from clients only", "bookie", isolate_from_clients),
    Fault("flapping of a bookie", "bookie", flap),
    Fault("20 % packet loss at a bookie", "bookie", lose_packets),
    Fault("isolation of autorecovery", "bookie", isolate_autorecovery),
    Fault("partition of a client from most bookies", "client", part_client_from_majority),
    Fault("partition of a client from ZooKeeper only", "client", part_client_from_zookeeper),
)


def _network(world: World) -> FirewalledNetwork:
    assert isinstance(world.network, FirewalledNetwork), "these faults need a firewall"
    return world.network
