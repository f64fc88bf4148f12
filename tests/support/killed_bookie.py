"""A bookie that is killed with entries that only its entry logs have, and may lose some of them."""

from collections.abc import Iterable

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch
from zbk.durability.limbo import LossReason
from zbk.protocol.entry.words import LedgerType
from zbk.storage.entry_logs.own_logs import OwnLogLimits

BYPASS = LedgerType.VD_BYPASS_JOURNAL
PD = LedgerType.PD_JOURNAL
LOGS = "/b/ledgers/logs/"
YOUNG, OTHER, JOURNALED = 5, 6, 9
OWN_SIZE = 400
OWN_LOGS = OwnLogLimits("bypass", 4, OWN_SIZE)


def bookie(disk: SimulatedDisk, *, was_killed: bool = False) -> World:
    return World(
        disk, "/b", segment_size=1 << 16, log_size_max=4_000, own_logs=OWN_LOGS,
        was_killed=was_killed,
    )  # fmt: skip


def add_some(
    world: World, first: int, count: int, ledger_id: int = LEDGER_ID, kind: LedgerType = BYPASS
) -> None:
    payloads = [b"<%03d>" % number for number in range(first, first + count)]
    world.say(*add(batch(first, payloads, ledger_id=ledger_id), kind=kind))
    world.written()


def add_large(world: World, first: int, ledger_id: int) -> None:
    """Add what gives a ledger an entry log of its own."""
    world.say(*add(batch(first, [b"L" * OWN_SIZE], ledger_id=ledger_id), kind=BYPASS))
    world.written()


def killed(disk: SimulatedDisk, lost_logs: Iterable[str]) -> World:
    """Kill the process, take logs away, and start again."""
    disk.process_crash()
    for path in lost_logs:
        disk.remove_at_rest(path)
    return bookie(disk, was_killed=True)


def in_doubt(world: World) -> set[int]:
    limbo = world.storage.limbo.limbo
    assert limbo.reasons in ((), (LossReason.INDEX_LOST,))
    return {one for one in range(20) if limbo.is_miss_unknown(one, BYPASS)}
