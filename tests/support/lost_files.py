"""Storage on a simulated disk that loses index files or entry logs, and its next start."""

from tests.support.bookie_storages import BOOKIE_ID, KEY, TwinnedStorage
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.losses import Losses
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.lost_files import LostFiles, look
from zbk.storage.tools.rebuild_sources import LedgerSecret

OWNER = BOOKIE_ID.encode()
NEXT_ID = 20


def secret_of(ledger_id: int) -> LedgerSecret | None:
    """Answer as the metadata store does."""
    return None if ledger_id == 9 else LedgerSecret(KEY, LedgerType.PD_JOURNAL)


def filled(*, log_size_max: int = 1 << 20) -> TwinnedStorage:
    """Return storage after a checkpoint, with three ledgers in its index, and then killed."""
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=log_size_max)
    twin.open()
    for ledger_id in (3, 4, 7):
        twin.add(ledger_id, range(5))
        twin.add(ledger_id, range(2_000, 2_003))
    twin.sync()
    twin.finish_checkpoint()
    return twin


def found(disk: SimulatedDisk) -> LostFiles:
    """Return what a look at the ledger directory misses."""
    return look(disk, "/l", OWNER)


def index_file(disk: SimulatedDisk, ledger_id: int) -> str:
    """Return the path of the index file of a ledger."""
    (path,) = disk.paths(f"{ledger_id:016x}.idx")
    return path


def note_losses(twin: TwinnedStorage) -> None:
    """Do what a start does ahead of storage."""
    losses = Losses(twin.disk, twin.storage.limbo, ["/l"], "boot")
    losses.find(lambda: NEXT_ID, is_wiped_on_purpose=False)
    losses.find_lost_files(OWNER, lambda: NEXT_ID)


def start(twin: TwinnedStorage) -> BookieStorage:
    """Open storage as a start does; return it."""
    note_losses(twin)
    twin.storage.open(secret_of)
    return twin.storage


def unknown(storage: BookieStorage) -> list[int]:
    """Return the ledgers of which a miss in the index tells nothing."""
    limbo = storage.limbo.limbo
    return [one for one in range(NEXT_ID) if limbo.is_miss_unknown(one, LedgerType.PD_JOURNAL)]
