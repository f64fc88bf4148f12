"""Starts of a bookie without its actors, and disks that lose what it had on them."""

import pytest

from tests.support.batches import batch_of
from tests.support.memory_store import MemoryStore
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.identity import check_identity, init_identity, service_note
from zbk.actors.identity.losses import Losses
from zbk.actors.identity.service import settle
from zbk.config import BookieConfig
from zbk.errors import LostHistoryError
from zbk.metadata.paths import cookie_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import COOKIE_NAME, PLACE_NAME
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches
from zbk.system.files import FileSystem

ONE_OF_EACH = BookieConfig(journal_dir="/j", ledger_dir="/l")
TWO_OF_EACH = BookieConfig(journal_dir=("/j1", "/j2"), ledger_dir=("/l1", "/l2"))
NEXT_LEDGER_ID = 7


class Start:
    """One start of a bookie, as ``zbk.actors.process.bookie`` does it, without its actors."""

    def __init__(
        self,
        disk: FileSystem,
        store: MemoryStore,
        config: BookieConfig = ONE_OF_EACH,
        *,
        is_wiped_on_purpose: bool = False,
        next_ledger_id: int = NEXT_LEDGER_ID,
    ) -> None:
        self.disk = disk
        self.is_wiped_on_purpose = is_wiped_on_purpose
        self.next_ledger_id = next_ledger_id
        bookie_id = check_identity(disk, store, config).bookie_id
        self.note = service_note(disk, config)
        self.config = config
        lost = self.note.paths
        self.storage = BookieStorage(
            disk,
            journal_dir=config.journal_dir,
            ledger_dir=config.ledger_dir,
            bookie_id=bookie_id,
            out_of_service=lost,
            limits=StorageLimits(segment_size=SEGMENT_HEADER_SIZE + 4096),
        )
        self.losses = Losses(disk, self.storage.limbo, self.storage.ledger_dirs, "boot-1")
        self.history = BookieHistory(
            disk,
            BookieRegistry(store, session_timeout_ms=100),
            bookie_id,
            journals={no: one for no, one in enumerate(config.journal_dirs) if one not in lost},
            ledger_dirs=self.storage.ledger_dirs,
            losses=self.losses,
            next_ledger_id=lambda: next_ledger_id,
        )

    def open(self) -> None:
        """Do all that comes before the claim."""
        self.history.check(is_wiped_on_purpose=self.is_wiped_on_purpose)
        self.history.count_up()
        self.losses.find(lambda: self.next_ledger_id, is_wiped_on_purpose=self.is_wiped_on_purpose)
        settle(self.disk, self.config, self.note, self.losses, lambda: self.next_ledger_id)
        self.losses.begin_serving()
        self.storage.open()

    def run(self) -> "Start":
        """Start, up to where it serves."""
        self.open()
        self.history.claim()
        return self

    def stop(self) -> None:
        """Stop in good order."""
        self.storage.close()
        self.losses.end_serving()


def fill(storage: BookieStorage, ledger_id: int) -> None:
    """Add ten entries to a new ledger, and checkpoint: the journal's first segment goes."""
    batch = batch_of(ledger_id, range(10), payload_size=500)
    key = LedgerKeyRecord(ledger_id, bytes(16), LedgerType.PD_JOURNAL)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(
        ledger_id, bytes(16), LedgerType.PD_JOURNAL
    )
    add_batches(storage.homes, [batch])
    journal = list(storage.journals)[storage.journals.of(ledger_id)]
    journal.append([key, EntriesRecord(batch)])
    journal.sync()
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)


def served(
    store: MemoryStore, config: BookieConfig = ONE_OF_EACH, *, start_count: int = 2
) -> SimulatedDisk:
    """Return the disk of a bookie that has started so often, and has served some ledgers."""
    disk = SimulatedDisk()
    init_identity(disk, store, config)
    for number in range(start_count):
        start = Start(disk, store, config).run()
        fill(start.storage, number)
        start.stop()
        disk.process_crash()
    return disk


def vanish(disk: SimulatedDisk, *directories: str, kept: tuple[str, ...] = ()) -> None:
    """Delete everything in directories, but what says whose they are."""
    for directory in directories:
        for path in disk.paths(f"{directory}/"):
            if path.rpartition("/")[2] not in (COOKIE_NAME, PLACE_NAME, *kept):
                disk.remove_at_rest(path)


def known(store: MemoryStore) -> tuple[int, bool]:
    """Return what the cluster knows of its bookie: the incarnation, and whether it has served."""
    (bookie_id,) = BookieRegistry(store).cookies()
    cookie = BookieRegistry(store).read_stored_cookie(bookie_id)
    assert cookie is not None
    return cookie.incarnation, cookie.has_served


def refused(disk: FileSystem, store: MemoryStore, config: BookieConfig = ONE_OF_EACH) -> str:
    """Return what a start says that must be refused, and must change nothing in the store."""
    path = cookie_path(*BookieRegistry(store).cookies())
    version = store.get(path).version
    start = Start(disk, store, config)
    with pytest.raises(LostHistoryError) as caught:
        start.open()
    assert store.get(path).version == version
    return str(caught.value)
