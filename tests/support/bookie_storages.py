"""Storage of a bookie on a simulated disk, and a twin that knows what was promised."""

import copy
from collections.abc import Hashable, Sequence
from random import Random
from typing import Self

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.bookie_storage import BookieStorage, Recovery, StorageLimits
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches
from zbk.storage.stored_ledger import Presence

KEY = bytes(range(16))
BOOKIE_ID = "bookie-1"
NO_LIMIT = 1 << 40


def storage_on(
    disk: SimulatedDisk,
    *,
    journal_dir: str | tuple[str, ...] = "/j",
    ledger_dir: str | tuple[str, ...] = "/l",
    out_of_service: Sequence[str] = (),
    ledger_cache_size: int = 1 << 20,
    log_size_max: int = 1 << 20,
) -> BookieStorage:
    """Return storage with small files, not open yet."""
    return BookieStorage(
        disk,
        journal_dir=journal_dir,
        ledger_dir=ledger_dir,
        out_of_service=out_of_service,
        bookie_id=BOOKIE_ID,
        limits=StorageLimits(
            segment_size=SEGMENT_HEADER_SIZE + 4096,
            log_size_max=log_size_max,
            ledger_cache_size=ledger_cache_size,
            open_files_max=4,
        ),
    )


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return an empty disk."""
    return SimulatedDisk()


@pytest.fixture
def storage(disk: SimulatedDisk) -> BookieStorage:
    """Return open storage that knows the key of ledger 1."""
    storage = storage_on(disk)
    storage.open()
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    return storage


def reopened(disk: SimulatedDisk) -> BookieStorage:
    """Return storage that was opened again after the process ended."""
    storage = storage_on(disk.process_crash())
    storage.open()
    return storage


def prepare(storage: BookieStorage, batch: EntryBatch) -> IndexHandle:
    """Prepare the index for a batch as an admission does; return the handle."""
    index = storage.homes.ledger(batch.ledger_id).index
    index.prepare(batch.entry_ids, is_admission=True)
    return index


def presence(storage: BookieStorage, batch: EntryBatch) -> Presence:
    """Return what storage has of a batch."""
    return storage.homes.ledger(batch.ledger_id).presence(batch)


def part_to_mend(storage: BookieStorage, batch: EntryBatch) -> EntryBatch | None:
    """Return the part of a recovery's batch that storage would store."""
    return storage.homes.ledger(batch.ledger_id).part_to_mend(batch)


def read_all(storage: BookieStorage, ledger_id: int, entry_ids: Sequence[int]) -> bytes:
    """Return the entries' bytes, asking again as a client does; all of them must be there."""
    bodies = []
    while len(entry_ids):
        resolved = storage.homes.ledger(ledger_id).resolve(entry_ids, NO_LIMIT)
        assert resolved is not None, f"ledger {ledger_id} has no entry {entry_ids[0]}"
        count, body = storage.home_of(resolved).fetch(resolved)
        bodies.append(body)
        entry_ids = entry_ids[count:]
    return b"".join(bodies)


class LedgerTwin:
    """What is known of one ledger."""

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.is_fenced = False
        self.lac = NO_ENTRY

    def copy(self) -> "LedgerTwin":
        """Return a copy that does not change with it."""
        twin = LedgerTwin()
        twin.entries, twin.is_fenced, twin.lac = dict(self.entries), self.is_fenced, self.lac
        return twin

    def state(self) -> Hashable:
        """Return all that is known of it."""
        return frozenset(self.entries.items()), self.is_fenced, self.lac


class TwinnedStorage:
    """Storage driven as the actors drive it; ``written`` and ``promised`` say what it must have."""

    def __init__(
        self,
        disk: SimulatedDisk,
        *,
        ledger_cache_size: int = 1 << 20,
        log_size_max: int = 1 << 20,
    ) -> None:
        self.disk = disk
        self._cache_size = ledger_cache_size
        self._log_size_max = log_size_max
        self.attempted: dict[int, LedgerTwin] = {}  # begun: may be there after a crash
        self.written: dict[int, LedgerTwin] = {}  # must survive a killed process
        self.promised: dict[int, LedgerTwin] = {}  # must survive a power loss
        self.checkpoint: Checkpoint | None = None
        self._promised_on_disk: dict[int, LedgerTwin] | None = None  # of a killed process
        self._made: BookieStorage | None = None

    @property
    def storage(self) -> BookieStorage:
        """The storage of this process; many copies are never opened, and need none."""
        if self._made is None:
            self._made = self._storage()
        return self._made

    def open(self) -> Recovery:
        """Open storage."""
        return self.storage.open()

    def add(
        self, ledger_id: int, entry_ids: Sequence[int], payload_size: int | None = None
    ) -> None:
        """Store a batch and journal it."""
        records: list[JournalRecord] = []
        if ledger_id not in self.attempted:
            self.attempted[ledger_id] = LedgerTwin()
            self.storage.homes.place(ledger_id).home.cache.set_ledger_key(
                ledger_id, KEY, LedgerType.PD_JOURNAL
            )
            records.append(LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL))
        batch = batch_of(ledger_id, entry_ids, payload_size)
        self.attempted[ledger_id].entries |= entries_in(batch)
        assert self.storage.homes.ledger(batch.ledger_id).presence(batch) is Presence.NONE
        add_batches(self.storage.homes, [batch])
        self._journal([*records, EntriesRecord(batch)])

    def fence(self, ledger_id: int) -> None:
        """Fence a ledger and journal it."""
        self.attempted[ledger_id].is_fenced = True
        self.storage.homes.ledger(ledger_id).index.set_fenced()
        self._journal([FenceRecord(ledger_id)])

    def set_lac(self, ledger_id: int, lac: int) -> None:
        """Note an explicit LAC and journal it."""
        self.attempted[ledger_id].lac = max(lac, self.attempted[ledger_id].lac)
        self.storage.homes.ledger(ledger_id).index.set_explicit_lac(lac)
        self._journal([ExplicitLacRecord(ledger_id, lac)])

    def sync(self) -> None:
        """Sync the journal: everything written is promised now."""
        for journal in self.storage.journals:
            journal.sync()
        self.promised = _copy(self.written)

    def take_step(self) -> None:
        """Take one step of a checkpoint, the first one if none is under way."""
        if self.checkpoint is None:
            self.checkpoint = self.storage.begin_checkpoint()
            self._steps = iter(self.checkpoint.steps)
            return
        step = next(self._steps, None)
        if step is None:
            self.storage.end_checkpoint(self.checkpoint)
            self.checkpoint = None
        else:
            step()

    def finish_checkpoint(self) -> None:
        """Take all steps that are left, of a new checkpoint if none is under way."""
        self.take_step()
        while self.checkpoint is not None:
            self.take_step()

    def kill(self) -> None:
        """Stop the process where it is."""
        self.disk.process_crash()
        self._promised_on_disk = self.promised
        self.promised = _copy(self.written)  # the page cache has it, until the power is lost, too
        self._forget()

    def lose_power(self, rng: Random) -> None:
        """Stop the machine where it is."""
        self.disk.crash(rng)
        if self._promised_on_disk is not None:
            self.promised = self._promised_on_disk
        self._forget()

    def copy(self) -> Self:
        """Return a copy of stopped storage, on a copy of its disk."""
        other = copy.copy(self)
        other.disk = copy.deepcopy(self.disk)
        other.attempted, other.written, other.promised = (
            _copy(twins) for twins in (self.attempted, self.written, self.promised)
        )
        other._forget()
        return other

    def state(self) -> Hashable:
        """Return what a start and a check depend on, of stopped storage."""
        twins = (self.attempted, self.written, self.promised, self._promised_on_disk or {})
        limits = (self._cache_size, self._log_size_max)
        return self.disk.state(), limits, *map(_state, twins)

    def check(self) -> None:
        """Compare: everything promised is served, and nothing that is wrong; then go on from it."""
        self._promised_on_disk = None
        for ledger_id, twin in self.promised.items():
            info = self.storage.homes.info(ledger_id)
            assert info is not None, f"ledger {ledger_id} is gone"
            assert info.ledger_key == KEY
            assert info.is_fenced or not twin.is_fenced, "a fence is for ever"
            assert info.explicit_lac >= twin.lac
            ids = sorted(twin.entries)
            wanted = b"".join(twin.entries[e] for e in ids)
            assert read_all(self.storage, ledger_id, ids) == wanted
        here: dict[int, LedgerTwin] = {}
        for ledger_id, twin in self.attempted.items():
            info = self.storage.homes.info(ledger_id)
            if info is None:
                continue
            found = here[ledger_id] = LedgerTwin()
            found.is_fenced, found.lac = info.is_fenced, info.explicit_lac
            assert twin.is_fenced or not info.is_fenced
            assert info.explicit_lac <= twin.lac
            for entry_id, entry in twin.entries.items():
                resolved = self.storage.homes.ledger(ledger_id).resolve([entry_id], NO_LIMIT)
                if resolved is not None:
                    assert self.storage.home_of(resolved).fetch(resolved) == (1, entry)
                    found.entries[entry_id] = entry
            assert info.last_entry_id == max(found.entries, default=NO_ENTRY)
        assert self.storage.ledgers() == sorted(here)
        self.attempted, self.written, self.promised = here, _copy(here), _copy(here)

    def _storage(self) -> BookieStorage:
        return storage_on(
            self.disk, ledger_cache_size=self._cache_size, log_size_max=self._log_size_max
        )

    def _forget(self) -> None:
        self.checkpoint = None
        self._made = None

    def _journal(self, records: list[JournalRecord]) -> None:
        last = records[-1]
        assert not isinstance(last, SyncedRecord), "it is of no ledger"
        ledger_id = last.batch.ledger_id if isinstance(last, EntriesRecord) else last.ledger_id
        journals = list(self.storage.journals)
        journals[self.storage.journals.of(ledger_id)].append(records)
        self.written = {**self.written, ledger_id: self.attempted[ledger_id].copy()}


def _copy(twins: dict[int, LedgerTwin]) -> dict[int, LedgerTwin]:
    return {ledger_id: twin.copy() for ledger_id, twin in twins.items()}


def _state(twins: dict[int, LedgerTwin]) -> Hashable:
    return tuple((ledger_id, twins[ledger_id].state()) for ledger_id in sorted(twins))


def batch_with_other_bytes(batch: EntryBatch) -> EntryBatch:
    """Return a batch with the same ids and sizes and another last byte."""
    body = batch.body[:-1] + bytes([batch.body[-1] ^ 1])
    return EntryBatch.of(batch.ledger_id, batch.entry_ids, batch.sizes, body)
