"""A bookie with ledgers that bypass the journal, and what it holds of them."""

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch
from tests.support.storage_actor import held as held_with
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.wire.messages import Message, Sync, SyncAnswer

BYPASS = LedgerType.VD_BYPASS_JOURNAL
SYNC = Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1)


@pytest.fixture(name="disk")
def empty_disk() -> SimulatedDisk:
    return SimulatedDisk()


def bookie(disk: SimulatedDisk) -> World:
    """Return a bookie with small journal segments."""
    return World(disk, "/b", segment_size=1 << 16)


def payload(entry_id: int) -> bytes:
    """Return the payload of an entry."""
    return b"<%03d>" % entry_id


def add_some(world: World, first: int, count: int, ledger_id: int = LEDGER_ID) -> None:
    """Add entries to a bypass ledger, and write them."""
    payloads = [payload(number) for number in range(first, first + count)]
    world.say(*add(batch(first, payloads, ledger_id=ledger_id), kind=BYPASS))
    world.written()


def sync_all(world: World) -> None:
    """Sync the entry logs that the actor asked for, and then the journal."""
    world.sync_logs()
    world.settle_journal()


def cursors(answers: list[Message]) -> list[int]:
    """Return the sync cursors that answers to syncs told."""
    return [one.last_add_synced for one in answers if isinstance(one, SyncAnswer)]


def held(storage: BookieStorage, ledger_id: int = LEDGER_ID) -> list[tuple[int, int]]:
    """Return the ids that a ledger has, as ranges; each entry has the payload of its id."""
    return held_with(storage, ledger_id, payload)
