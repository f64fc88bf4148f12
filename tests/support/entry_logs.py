"""Entry logs on a simulated disk, and batches for them."""

from tests.support.batches import batch_of
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.entry_log import AHEAD_SIZE, EntryLogs, log_path
from zbk.storage.entry_logs.scan import EntryLogScan

OWNER = b"bookie-1"
DIRECTORY = "/l/logs"
LOG_1 = log_path(DIRECTORY, 1)


def batches(count: int) -> list[EntryBatch]:
    """Return batches of five entries, of three ledgers in turn."""
    return [batch_of(n % 3, range(n * 10, n * 10 + 5)) for n in range(count)]


def open_logs(
    disk: SimulatedDisk,
    *,
    log_size_max: int = 1 << 20,
    last_log_id: int = 0,
    open_max: int = 8,
    ahead_size: int = AHEAD_SIZE,
) -> EntryLogs:
    """Return logs that go on behind those that are here."""
    logs = EntryLogs(
        disk,
        DIRECTORY,
        owner=OWNER,
        open_files=OpenFiles(disk, open_max),
        fail_stop=FailStop(),
        log_size_max=log_size_max,
        ahead_size=ahead_size,
    )
    logs.open(last_log_id)
    return logs


def scan_of(disk: SimulatedDisk, log_id: int) -> EntryLogScan:
    """Return a scan of one log."""
    return EntryLogScan(disk, DIRECTORY, log_id, OWNER)


def shared_log(logs: EntryLogs) -> tuple[int, int]:
    """Return the id of the only open log, and the bytes written to it."""
    ((log_id, size),) = logs.open_sizes().items()
    return log_id, size
