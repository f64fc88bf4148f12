"""The parts of one ledger directory, as those see them that maintain it: ``gc`` and ``scrub``.

With the limits of a directory.
"""

import msgspec

from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.entry_logs.lost_regions import LostRegions
from zbk.storage.entry_logs.own_logs import OwnLogLimits
from zbk.storage.index.census import Census
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.journal.last_mark import LastMark
from zbk.system.files import FileSystem


class DirectoryLimits(msgspec.Struct, frozen=True):
    """The limits of one ledger directory."""

    log_size_max: int
    own_logs: OwnLogLimits
    memory_size_max: int
    ledger_count_max: int


class DirectoryParts(msgspec.Struct, frozen=True):
    """Made by ``LedgerDirectory``; each part has its own rules about threads."""

    files: FileSystem
    path: str
    owner: bytes  # the bookie's identity
    fail_stop: FailStop
    deleted: DeletedLedgers
    cache: LedgerCache
    logs: EntryLogs
    last_mark: LastMark
    lost: LostRegions
    census: Census

    @property
    def index_dir(self) -> str:
        """The directory of the index files."""
        return f"{self.path}/index"

    @property
    def log_dir(self) -> str:
        """The directory of the entry logs."""
        return f"{self.path}/logs"
