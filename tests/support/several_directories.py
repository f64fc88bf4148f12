"""Storage over two journal directories and two ledger directories."""

from collections.abc import Sequence

from tests.support.bookie_storages import TwinnedStorage, storage_on
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.bookie_storage import BookieStorage

JOURNALS = ("/j1", "/j2")
LEDGERS = ("/l1", "/l2")


class SeveralTwin(TwinnedStorage):
    """Two of each, and the twin that knows what was promised."""

    def _storage(self) -> BookieStorage:
        return storage_on(
            self.disk,
            journal_dir=JOURNALS,
            ledger_dir=LEDGERS,
            ledger_cache_size=self._cache_size,
            log_size_max=self._log_size_max,
        )


def opened(disk: SimulatedDisk, out_of_service: Sequence[str] = ()) -> BookieStorage:
    storage = storage_on(
        disk, journal_dir=JOURNALS, ledger_dir=LEDGERS, out_of_service=out_of_service
    )
    storage.open()
    return storage


def filled(disk: SimulatedDisk) -> SeveralTwin:
    """Return a twin with four ledgers, one for each pair of journal and ledger directory."""
    twin = SeveralTwin(disk)
    twin.open()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5))
    twin.sync()
    return twin


def home(storage: BookieStorage, ledger_id: int) -> str:
    return storage.ledger_dirs[storage.homes.ledger(ledger_id).home.number]
