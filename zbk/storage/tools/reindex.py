"""Rebuilds, at a start, the index files that a disk has lost, from the entry logs.

    scan     every log that may hold a lost ledger, by the maps of sealed logs. Only blocks of lost
             ledgers are read, into an index in a folder of its own, ``reindex``
    swap     each new file, whole and synced, gets its name in the index

The ledgers are in limbo before this begins (``zbk.durability.limbo``), so a crash at any step loses
nothing: named files stay, and the next start makes the others.

Fences and explicit LACs of an index file are lost. Key and type of the ledger come from the
cluster's metadata; a ledger that the metadata do not have is left out.

A ledger is *whole* if every entry of it is in the index again: every log in the census exists with
its full size, and no damage in it can be the ledger's. The journal brings back entries after the
last log mark. Of other ledgers, missing entries stay unknown until the bookie has asked its peers.

Bounded: logs are read in order, up to ``SIZE_MAX`` bytes, so that a start ends. The rest is left to
`zbk bookie rebuild-index`, or to the peers.

One thread, before the bookie serves. Source: zbk's; ``zbk.storage.tools.rebuild`` rebuilds all.
"""

from array import array
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError, InvalidOptionError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE, check_log_header, log_seed
from zbk.storage.entry_logs.location import entry_locations, location_of
from zbk.storage.entry_logs.runs import entries_of
from zbk.storage.entry_logs.scan import Block, BlockWalk, EntryLogScan, write_block_again
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.tools.new_index import NewIndex
from zbk.storage.tools.rebuild_sources import AskOthers
from zbk.system.files import File, FileSystem

SIZE_MAX: Final = 16 * 1024 * 1024 * 1024
"""Bytes of logs that one start reads. A GiB takes about a second with large blocks, and ten seconds
with entries that came one by one."""

FOLDER: Final = "reindex"


class Reindexed(msgspec.Struct, frozen=True):
    """The result."""

    ledger_count: int = 0  # with a new index file
    entry_count: int = 0
    doubtful_ids: frozenset[int] = frozenset()  # ledgers that may lack entries
    doubt: str = ""  # why every ledger may; empty: all others are whole


class Reindex:
    """One attempt, for one ledger directory.

    ``lost``: the ledgers to find. ``least_sizes``: the logs in the census, and their least bytes;
    ``None``: not known.

    Raises:
        ZbkError: the metadata store does not give a ledger's key.
        OSError: writing failed, or a directory cannot be listed.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        lost: LedgerRanges,
        least_sizes: Mapping[int, int] | None,
        ask_others: AskOthers,
        fail_stop: FailStop,
        size_max: int = SIZE_MAX,
    ) -> None:
        self._files = files
        self._log_dir = f"{directory}/logs"
        self._new = NewIndex(files, directory, FOLDER)
        self._owner = owner
        self._lost = lost
        self._least_sizes = least_sizes
        self._ask_others = ask_others
        self._fail_stop = fail_stop
        self._size_left = size_max
        self._taken: dict[int, bool] = {}
        self._doubtful: set[int] = set()
        self._doubt = "" if least_sizes is not None else "it is not known which logs there were"
        self._entry_count = 0

    def run(self) -> Reindexed:
        """Rebuild the index files; when this returns they are on stable storage."""
        self._new.remove()
        open_files = OpenFiles(self._files, OPEN_FILES_MAX)
        try:
            cache = self._new.begin(open_files, self._fail_stop)
            self._scan_logs(cache)
            cache.flush()
        finally:
            open_files.close()
        ledger_count = self._new.name_files()
        self._new.remove()
        return Reindexed(ledger_count, self._entry_count, frozenset(self._doubtful), self._doubt)

    # ------------------------------------------------------------------ scan

    def _scan_logs(self, cache: LedgerCache) -> None:
        found = log_ids(self._files, self._log_dir) if self._files.exists(self._log_dir) else []
        for log_id in sorted((self._least_sizes or {}).keys() - set(found)):
            self._doubt_all(f"entry log {log_path(self._log_dir, log_id)} is missing")
        has_entries = False
        for log_id in found:
            try:
                has_entries |= self._scan_log(cache, log_id)
            except (CorruptRecordError, CookieMismatchError) as error:
                self._doubt_all(str(error))
            except OSError as error:
                self._doubt_all(f"{log_path(self._log_dir, log_id)} cannot be read: {error}")
        if has_entries:
            self._files.sync_dir(self._log_dir)  # an index file must not outlive its logs

    def _scan_log(self, cache: LedgerCache, log_id: int) -> bool:
        """Index the entries of lost ledgers in a log; return whether there are any."""
        path = log_path(self._log_dir, log_id)
        scan = EntryLogScan(self._files, self._log_dir, log_id, self._owner)
        ledgers = scan.map_of_ledgers()
        if ledgers is not None and not any(one in self._lost for one in ledgers):
            return False
        before = self._entry_count
        with closing(self._files.open(path)) as file:
            size = file.size()
            if size > self._size_left:
                told = "there are more entry logs than a start reads"
                self._doubt_all(f"{told}: stop the bookie and run `zbk bookie rebuild-index`")
                return False
            self._size_left -= size
            self._walk(cache, file, log_id)
            if self._entry_count > before:
                file.sync()
        return self._entry_count > before

    def _walk(self, cache: LedgerCache, file: File, log_id: int) -> None:
        promised_size = self._promised_size(file, log_id)
        if promised_size:
            check_log_header(file.pread(LOG_HEADER_SIZE, 0), self._owner, log_id, file.path)
        for found in BlockWalk(file, log_seed(self._owner, log_id)).blocks(is_body_read=False):
            is_promised = found.offset < promised_size
            if not isinstance(found, Block):
                if is_promised:
                    self._doubt_all(f"{file.path} is damaged at byte {found.offset}")
            elif found.header.ledger_id in self._lost:
                is_taken = self._take(cache, file, log_id, found)
                if is_taken and not is_promised:
                    write_block_again(file, found)
                if is_promised and not is_taken:
                    self._doubtful.add(found.header.ledger_id)

    def _promised_size(self, file: File, log_id: int) -> int:
        """Return the bytes of a log that the index may have pointed at."""
        if self._least_sizes is None or log_id not in self._least_sizes:
            return 0
        size, least_size = file.size(), self._least_sizes[log_id]
        if size < least_size:
            self._doubt_all(f"entry log {file.path} has {size} bytes, and had {least_size}")
        elif not least_size:
            self._doubt_all(f"the size of entry log {file.path} is not known")
        return least_size

    def _take(self, cache: LedgerCache, file: File, log_id: int, block: Block) -> bool:
        """Index the entries of a block; return false if they cannot be read."""
        ledger_id = block.header.ledger_id
        body = file.pread(block.header.body_size, block.offset)
        if checksum(body) != block.header.body_checksum:
            return False
        found = entries_of(body, block.header.count)
        if found is None or found[0] != ledger_id:
            return False
        if not self._take_in(cache, ledger_id):
            return False
        _, entry_ids, sizes = found
        locations: array[int] = entry_locations(location_of(log_id, block.offset), sizes)
        cache.handle(ledger_id).set_locations(entry_ids, locations)
        self._entry_count += len(entry_ids)
        return True

    def _take_in(self, cache: LedgerCache, ledger_id: int) -> bool:
        if ledger_id not in self._taken:
            try:
                secret = self._ask_others(ledger_id)
            except InvalidOptionError:
                secret = None  # of an old ledger: only its password gives the key
            self._taken[ledger_id] = secret is not None
            if secret is not None:
                cache.set_ledger_key(ledger_id, secret.ledger_key, secret.ledger_type)
        return self._taken[ledger_id]

    def _doubt_all(self, reason: str) -> None:
        self._doubt = self._doubt or reason
