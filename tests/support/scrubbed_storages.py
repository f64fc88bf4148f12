"""Storage with ledgers in several entry logs for a scrub to look at, and what the scrub finds."""

from tests.support.bookie_storages import TwinnedStorage
from tests.support.scrubbing import scrub
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.entry_logs.location import split_location

LOG_SIZE = 3_000


def filled(disk: SimulatedDisk | None = None, *, is_restarted: bool = True) -> TwinnedStorage:
    """Return storage with some ledgers in several logs, all of it checkpointed.

    After a restart nothing of the index is in memory.
    """
    twinned = TwinnedStorage(disk or SimulatedDisk(), log_size_max=LOG_SIZE)
    twinned.open()
    for first in range(0, 60, 10):
        twinned.add(7, range(first, first + 10), 20)
        twinned.add(8, [*range(first, first + 10, 3)])
    twinned.add(9, range(1_020, 1_030))
    twinned.sync()
    twinned.finish_checkpoint()
    if is_restarted:
        twinned.storage.close()
        twinned.kill()
        twinned.open()
    return twinned


def log_paths(disk: SimulatedDisk) -> list[str]:
    """Return the paths of all entry logs."""
    return disk.paths("/logs/")


def log_of(twinned: TwinnedStorage, ledger_id: int, entry_id: int) -> tuple[str, int]:
    """Return the path of the log that an entry lies in, and its offset there."""
    resolved = twinned.storage.homes.ledger(ledger_id).resolve([entry_id], 1)
    assert resolved is not None
    log_id, offset = split_location(resolved.locations[0])
    return f"/l/logs/{log_id:08x}.log", offset


def damaged_ids(twinned: TwinnedStorage) -> dict[int, set[int]]:
    """Return what a pass finds damaged, by ledger."""
    found: dict[int, set[int]] = {}
    for one in scrub(twinned.storage).ranges:
        ids = found.setdefault(one.ledger_id, set())
        ids.update(range(one.first_entry_id, one.last_entry_id + 1))
    return found


def forget(twinned: TwinnedStorage) -> None:
    """Drop the index from memory."""
    (one,) = twinned.storage.directories
    cache = one.cache
    for values in (cache.pages, cache.headers):
        while values.drop_oldest_clean() is not None:
            continue


def with_dead_damage(disk: SimulatedDisk | None = None) -> tuple[TwinnedStorage, str, int]:
    """Return storage that has damage where nothing points; the log, and where."""
    twinned = filled(disk)
    twinned.add(7, range(60, 61), 20)
    twinned.sync()
    path, offset = log_of(twinned, 8, 0)
    twinned.storage.homes.ledger(8).home.cache.delete(8)
    for twins in (twinned.attempted, twinned.written, twinned.promised):
        del twins[8]
    twinned.finish_checkpoint()
    twinned.disk.flip_bit(path, 8 * (offset + 3))
    return twinned, path, offset
