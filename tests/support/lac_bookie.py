"""A bookie whose LACs readers ask for and wait for."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE

PD = LedgerType.PD_JOURNAL
SEGMENT_SIZE = SEGMENT_HEADER_SIZE + 8192
WATCH_COUNT_MAX = 50


def bookie(disk: SimulatedDisk | None = None, *, ledger_count_max: int = 1_000) -> World:
    """Return a bookie with small journal segments and room for some watches."""
    return World(
        disk or SimulatedDisk(),
        "/b",
        segment_size=SEGMENT_SIZE,
        ledger_count_max=ledger_count_max,
        watch_count_max=WATCH_COUNT_MAX,
    )


def with_two_entries(*, kind: LedgerType = PD) -> World:
    """Return a bookie with a ledger of two entries, on stable storage, and no answers."""
    world = bookie()
    world.say(*add(batch(0, [b"a", b"b"]), kind=kind))
    world.settle()
    world.answers.clear()
    return world
