"""A ledger cache on a simulated disk, with entry logs that count how often they are synced."""

from array import array

from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.log_sync import LogSync
from zbk.storage.index.ledger_cache import LedgerCache

KEY = bytes(range(16))
PAGE_MEMORY = 9000
"""Room for exactly one page."""


class FakeLogs:
    """Entry logs that have nothing to sync, but say when they were asked."""

    def __init__(self, disk: SimulatedDisk, fail_stop: FailStop) -> None:
        self._disk = disk
        self._fail_stop = fail_stop
        self.begun_count = 0
        self.runs: list[int] = []  # operations on the disk before each run

    def begin_sync(self) -> LogSync:
        self.begun_count += 1
        logs = self

        class Sync(LogSync):
            def run(self) -> None:
                logs.runs.append(logs._disk.operation_count)

        return Sync([], self._fail_stop)


def open_cache(
    disk: SimulatedDisk,
    *,
    memory_size_max: int = 100 * PAGE_MEMORY,
    ledger_count_max: int = 100,
    open_max: int = 8,
) -> tuple[LedgerCache, FakeLogs]:
    """Return an open cache, and its logs."""
    fail_stop = FailStop()
    logs = FakeLogs(disk, fail_stop)
    cache = LedgerCache(
        disk,
        "/l",
        begin_log_sync=logs.begin_sync,
        open_files=OpenFiles(disk, open_max),
        fail_stop=fail_stop,
        memory_size_max=memory_size_max,
        ledger_count_max=ledger_count_max,
    )
    cache.open()
    return cache, logs


def put(cache: LedgerCache, ledger_id: int, locations: dict[int, int]) -> None:
    """Set locations of entries, ascending, as an add does."""

    ids = sorted(locations)
    is_row = ids[-1] - ids[0] + 1 == len(ids)
    entry_ids = range(ids[0], ids[-1] + 1) if is_row else array("q", ids)
    cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
    cache.handle(ledger_id).set_locations(entry_ids, array("Q", [locations[i] for i in ids]))


def location(ledger_id: int, entry_id: int) -> int:
    """Return a location that no other entry has."""
    return 1 << 34 | ledger_id << 24 | entry_id + 1


def put_range(cache: LedgerCache, ledger_id: int, first: int, last: int) -> None:
    """Set the locations of entries in a row, each by ``location``."""
    put(cache, ledger_id, {e: location(ledger_id, e) for e in range(first, last + 1)})
