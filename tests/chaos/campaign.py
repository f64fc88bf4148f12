"""Rounds until the time is over: what this machine can do, what was injected, what was found."""

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.chaos import namespaces, power
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import FAULTS, Deck, Fault
from tests.chaos.firewall import FirewalledNetwork
from tests.chaos.namespaces import NamespaceNetwork
from tests.chaos.network import Network, ProxiedNetwork
from tests.chaos.partitions import PARTITIONS
from tests.chaos.rounds import Kept, run_round
from tests.chaos.world import CLIENT_PLACE_COUNT
from zbk.cluster.java import find_java, zookeeper_class_path
from zbk.errors import MissingDependencyError
from zbk.system.clock import monotonic_s

BOOKIE_COUNT = 5
COMPARED_LEDGER_COUNT = 8  # of earlier rounds, in each round
ROUND_SECONDS_MIN = 4.0
BESIDE_PARTITIONS = (
    "kill -9 of a bookie",
    "connections of a bookie cut in the middle",
    "takeover of live writers",
    "kill -9 of a writer",
)
"""Faults of processes, and resets, among those of the network."""

Say = Callable[[str], None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to run."""

    seed: int
    seconds: float
    round_seconds: float = 15.0  # of faults in one round
    can_zookeeper: bool = True
    can_namespaces: bool = True
    can_power: bool = True
    is_partitioned: bool = False  # firewalls, autorecovery, and faults of the network above all


class Report(msgspec.Struct):
    """What was done, and what was found."""

    injected: Counter[str] = msgspec.field(default_factory=Counter)
    checked: Counter[str] = msgspec.field(default_factory=Counter)
    violations: list[str] = []
    troubles: list[str] = []  # of the harness itself


def run(settings: Settings, folder: Path, say: Say) -> Report:
    """Run rounds on one cluster in ``folder`` until the time is over or a promise is broken."""
    dice = random.Random(settings.seed)
    abilities = _abilities(settings, folder, say)
    faults = _faults(settings, abilities)
    network = _network(settings, abilities)
    store = "ZooKeeper" if "zookeeper" in abilities else "SQLite"
    say(f"{BOOKIE_COUNT} bookies, metadata in {store}, {network.description}")
    report = Report()
    deck = Deck(faults, dice)
    kept: list[Kept] = []
    number = 0
    with ChaosCluster(
        folder / "cluster",
        network,
        bookie_count=BOOKIE_COUNT,
        use_zookeeper="zookeeper" in abilities,
        has_power="power" in abilities,
        has_autorecovery=settings.is_partitioned,
    ) as cluster:
        deadline_s = monotonic_s() + settings.seconds
        while monotonic_s() < deadline_s and not (report.violations or report.troubles):
            number += 1
            left_s = max(ROUND_SECONDS_MIN, deadline_s - monotonic_s())
            outcome = run_round(
                cluster,
                folder / f"round{number}",
                seed=dice.randrange(2**32),
                seconds=min(settings.round_seconds, left_s),
                deck=deck,
                kept=dice.sample(kept, min(len(kept), COMPARED_LEDGER_COUNT)),
            )
            report.injected += outcome.faults
            report.checked += outcome.counts
            report.violations += outcome.violations
            report.troubles += outcome.troubles
            kept += outcome.kept
            _say_round(say, number, outcome.faults, outcome.counts)
    _say_summary(say, faults, report)
    return report


def _faults(settings: Settings, abilities: set[str]) -> list[Fault]:
    possible = [fault for fault in FAULTS if not fault.needs or fault.needs in abilities]
    if not settings.is_partitioned:
        return possible
    processes = [fault for fault in possible if fault.name in BESIDE_PARTITIONS]
    return [*PARTITIONS, *processes]


def _network(settings: Settings, abilities: set[str]) -> Network:
    if settings.is_partitioned:
        return FirewalledNetwork(BOOKIE_COUNT)
    if "pairs" in abilities:
        return NamespaceNetwork(BOOKIE_COUNT, CLIENT_PLACE_COUNT)
    return ProxiedNetwork(BOOKIE_COUNT)


def _abilities(settings: Settings, folder: Path, say: Say) -> set[str]:
    """Return which faults are possible here; say why the others are not."""
    not_wanted = "not asked for"
    can_power = settings.can_power and not settings.is_partitioned
    reasons = {
        "zookeeper": _why_no_zookeeper() if settings.can_zookeeper else not_wanted,
        "pairs": namespaces.why_not() if settings.can_namespaces else not_wanted,
        "power": power.why_not(folder) if can_power else not_wanted,
    }
    texts = {
        "zookeeper": "ZooKeeper (metadata is in SQLite instead)",
        "pairs": "network namespaces (a proxy before each bookie instead)",
        "power": "power loss",
    }
    for ability, reason in reasons.items():
        if reason:
            say(f"skipped: {texts[ability]}: {reason}")
    return {ability for ability, reason in reasons.items() if not reason}


def _why_no_zookeeper() -> str:
    try:
        find_java(os.environ)
        zookeeper_class_path()
    except MissingDependencyError as error:
        return str(error)
    return ""


def _say_round(say: Say, number: int, faults: Counter[str], counts: Counter[str]) -> None:
    say(
        f"round {number}: {faults.total()} faults; {counts['ledgers']} ledgers, "
        f"{counts['adds']:,} adds, {counts['adds acknowledged']:,} acknowledged, "
        f"{counts['calls fenced']:,} calls fenced, {counts['entries read']:,} entries read"
    )


def _say_summary(say: Say, faults: list[Fault], report: Report) -> None:
    say("\ninjected")
    for fault in faults:
        say(f"  {report.injected[fault.name]:>9,}  {fault.name}")
    say("checked")
    for name, count in sorted(report.checked.items()):
        say(f"  {count:>9,}  {name}")
