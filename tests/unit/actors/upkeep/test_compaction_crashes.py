"""Whatever step of a compaction is the last one before a crash: no live entry is lost."""

import copy
from array import array
from collections.abc import Hashable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import TwinnedStorage, read_all
from tests.support.compacted_storage import (
    add,
    check,
    check_clean,
    checkpoint,
    delete,
    logs_of,
    opened,
)
from tests.support.compactions import Compactor
from tests.support.crash_points import copy_of, left_by_crashes
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.gc.compaction_note import NOTE_NAME, CompactionNote

pytestmark = pytest.mark.usefixtures("same_nonce")

SMALL_LOG = 400
SUBSET_BITS = 7


class Subset(Random):
    """What a loss of power leaves of the changes that were not synced: those with a bit set."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self._bits = bits
        self.count = 0  # changes there were, and two other questions

    def choice(self, seq: Any) -> Any:  # noqa: ANN401 - as the one above
        assert 0.5 in seq, "the share that is kept"
        return 0.5

    def random(self) -> float:
        self.count += 1
        if self.count == 1:
            return 0.9  # not a prefix of the changes of names, but any of them
        self._bits, bit = self._bits >> 1, self._bits & 1
        return 0.4 if bit else 0.9


def small_disk() -> SimulatedDisk:
    """Return a disk with three small logs of which two are half dead, and nothing unsynced."""
    disk = SimulatedDisk()
    storage = opened(disk, log_size_max=SMALL_LOG)
    for first in (0, 1):
        add(storage, 1, first, count=1)
        add(storage, 2, first, count=1)
    add(storage, 3, count=2)
    checkpoint(storage)
    delete(storage, 2)
    assert logs_of(disk) == [1, 2, 3]
    disk.process_crash()
    storage = opened(disk, log_size_max=SMALL_LOG)
    add(storage, 4, count=1)
    checkpoint(storage)
    return disk.process_crash()


def left_by_compaction(base: SimulatedDisk) -> list[SimulatedDisk]:
    """Return the disks of a bookie that stopped at each change of a compaction, and at its end."""
    disk = copy_of(base)
    storage = opened(disk, log_size_max=SMALL_LOG)
    return left_by_crashes(disk, Compactor(storage).major, lambda: copy_of(disk))


def crashes(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """Return the disk after the process was killed, and after every loss of power there may be."""
    killed = copy.deepcopy(disk).process_crash()
    yield killed
    bits = question_count = 0
    while bits < 1 << min(question_count, SUBSET_BITS):
        rng = Subset(bits if question_count <= SUBSET_BITS else Random(bits).getrandbits(64))
        lost = copy.deepcopy(disk).crash(rng)
        question_count = max(question_count, rng.count)
        bits += 1
        yield lost


def test_every_part_of_what_was_not_synced_may_be_there_or_not() -> None:
    """B30: a crash at every step; each set of unsynced writes and names, where they are few."""
    base = small_disk()
    state_count = 0
    found_removed: list[bool] = []
    tried: set[Hashable] = set()  # disks: what follows is the same on each that is alike
    left = left_by_compaction(base)
    for disk in left:
        for after in crashes(disk):
            state_count += 1
            found_removed.append(1 not in logs_of(after))
            state = after.state()
            if state in tried:
                continue
            tried.add(state)
            storage = opened(after, log_size_max=SMALL_LOG)
            check_small(storage)
            assert after.paths(".compacting") == []
            compactor = Compactor(storage)
            compactor.finish()
            assert not compactor.rounds.is_open
            check_small(storage)
            compactor.major()
            check_small(storage)
            check_clean(after)
            assert not {1, 2} & set(logs_of(after))
    assert len(left) > 20
    assert state_count > 10 * len(left)
    # a source goes in the last steps only
    assert not any(found_removed[: state_count // 3])
    assert found_removed[-1]


def check_small(storage: BookieStorage) -> None:
    check(storage, 1, 2)
    check(storage, 3, 2)
    check(storage, 4, 1)
    assert storage.ledgers() == [1, 3, 4]


@pytest.mark.parametrize("first", ["killed", "power lost"])
@pytest.mark.parametrize("second", ["killed", "power lost"])
def test_a_crash_while_what_a_crash_left_is_finished_is_survived(first: str, second: str) -> None:
    """B30: the second time, at every step; what the first one left may not be durable yet."""
    base = small_disk()
    first_step = 0
    tried: set[Hashable] = set()  # what the second crash left
    for first_step, disk in enumerate(left_by_compaction(base), 1):
        crash(disk, first, first_step)
        for number, again in enumerate(left_by_finishing(disk, 2 + first_step % 2), 1):
            crash(again, second, 2 * number)
            state = again.state()
            if state in tried:
                continue
            tried.add(state)
            storage = opened(again, log_size_max=SMALL_LOG)
            check_small(storage)
            Compactor(storage).finish()
            check_small(storage)
    assert first_step > 20


def left_by_finishing(disk: SimulatedDisk, first: int) -> list[SimulatedDisk]:
    """Return the disks of a bookie that stopped at every second step of what follows a crash."""

    def finish() -> None:
        compactor = Compactor(opened(disk, log_size_max=SMALL_LOG))
        compactor.finish()
        compactor.major()

    return left_by_crashes(disk, finish, lambda: copy_of(disk), first=first, stride=2)


def crash(disk: SimulatedDisk, kind: str, seed: int) -> None:
    if kind == "killed":
        disk.process_crash()
    else:
        disk.crash(Random(seed))


def test_a_compaction_cut_short_a_hundred_times_takes_no_more_room() -> None:
    """B31: wherever it is cut, what is left over is finished or removed."""
    disk = small_disk()
    storage = opened(disk, log_size_max=SMALL_LOG)
    limit = 2 * disk.used_size
    rng = Random(31)
    for round_no in range(100):
        disk.crash_at = disk.operation_count + rng.randrange(1, 30)
        with suppress(SimulatedCrash):
            Compactor(storage).major()
        disk.process_crash()
        storage = opened(disk, log_size_max=SMALL_LOG)
        assert disk.used_size < limit
        if round_no % 10 == 9:
            add(storage, 4, 1 + round_no, count=1)
            checkpoint(storage)
    Compactor(storage).major()
    check_clean(disk)
    check(storage, 1, 2)
    check(storage, 3, 2)


# ------------------------------------------------------------------ random lives


class _Life:
    """A bookie that adds, deletes, checkpoints and compacts, all at once, until it crashes."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = SimulatedDisk()
        self.bookie = TwinnedStorage(
            self.disk,
            ledger_cache_size=self.rng.choice([9_000, 1 << 20]),
            log_size_max=self.rng.choice([1_500, 6_000]),
        )
        self.bookie.open()
        self.next_id: dict[int, int] = {}
        self.dropped: set[int] = set()
        self.ledger_id = 1
        self.compacted_count = 0

    def live(self, round_count: int) -> None:
        for _ in range(round_count):
            for _ in range(self.rng.randrange(12)):
                self.do_something()
            if self.rng.random() < 0.4:
                self.delete_some()
            if self.rng.random() < 0.7:
                self.bookie.sync()
                self.bookie.finish_checkpoint()
                if self.bookie.checkpoint is not None:
                    self.bookie.finish_checkpoint()
            self.compact()

    def do_something(self) -> None:
        choice = self.rng.random()
        if choice < 0.6:
            if self.rng.random() < 0.3:
                self.ledger_id += 1
            ledger_id = self.ledger_id - self.rng.randrange(min(3, self.ledger_id))
            if ledger_id in self.dropped:
                return
            first = self.next_id.get(ledger_id, 0)
            count, step = self.rng.randrange(1, 12), self.rng.choice([1, 1, 3])
            last = first + step * (count - 1)
            ids = range(first, last + 1) if step == 1 else array("q", range(first, last + 1, step))
            self.next_id[ledger_id] = last + 1
            self.bookie.add(ledger_id, ids)
        elif choice < 0.8:
            self.bookie.sync()
        else:
            self.bookie.take_step()

    def delete_some(self) -> None:
        ids = [one for one in self.bookie.attempted if self.rng.random() < 0.4]
        self.dropped.update(ids)
        for ledger_id in ids:
            for twins in (self.bookie.attempted, self.bookie.written, self.bookie.promised):
                twins.pop(ledger_id, None)
        (garbage,) = self.bookie.storage.garbages
        assert garbage.deleted.mark(ids)
        assert garbage.deleted.write()
        garbage.drop(ids)
        for log_id in garbage.left_logs():
            garbage.remove_dead([log_id])

    def compact(self) -> None:
        compactor = Compactor(self.bookie.storage)

        def between() -> None:
            if self.rng.random() < 0.3:
                self.do_something()

        def checkpoint() -> None:
            if self.bookie.checkpoint is not None:
                self.bookie.finish_checkpoint()  # it began too early
            self.bookie.finish_checkpoint()

        compactor.between, compactor.checkpoint = between, checkpoint
        self.compacted_count += compactor.major()


@pytest.mark.parametrize("seed", range(24))
def test_random_lives_lose_nothing(seed: int) -> None:
    """B30: adds, deletions, checkpoints and compaction at once; killed, and power lost."""
    life = _Life(seed)
    for number in range(12):
        life.disk.crash_at = life.disk.operation_count + life.rng.randrange(50, 1_500)
        with suppress(SimulatedCrash):
            life.live(6)
        life.disk.crash_at = None
        if (seed + number) % 2:
            life.bookie.kill()
        else:
            life.bookie.lose_power(life.rng)
        life.bookie.open()
        forget_half_deleted(life)
        life.bookie.check()
        life.next_id = {
            ledger_id: max(twin.entries, default=-1) + 1
            for ledger_id, twin in life.bookie.attempted.items()
        }
    assert life.compacted_count > 3


def forget_half_deleted(life: _Life) -> None:
    """Take ledgers away whose deletion the crash has undone: nobody has told the twin of them."""
    storage = life.bookie.storage
    for ledger_id in set(storage.ledgers()) - set(life.bookie.attempted):
        storage.homes.ledger(ledger_id).home.cache.delete(ledger_id)


# ------------------------------------------------------------------ leftovers


def test_a_damaged_note_costs_no_entry_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    base = small_disk()
    tried: set[Hashable] = set()  # files after the start: what follows is the same on all alike
    for step, disk in enumerate(left_by_compaction(base)[:-1][:59], 1):
        disk.process_crash()
        if not disk.paths(f"/l/{NOTE_NAME}") or disk.paths(f"{NOTE_NAME}.new"):
            continue
        whole = disk.content(f"/l/{NOTE_NAME}")
        for at in range(len(whole)):
            caplog.clear()
            other = copy.deepcopy(disk)
            damaged = bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]])
            other.set_content(f"/l/{NOTE_NAME}", damaged)
            storage = opened(other, log_size_max=SMALL_LOG)
            assert "damaged" in caplog.text
            check_clean(other)
            check_small(storage)
            files = tuple((path, other.content(path)) for path in other.paths())
            if files in tried:
                continue
            tried.add(files)
            add(storage, 4, 1, count=4)
            checkpoint(storage)
            Compactor(storage).major()
            check(storage, 1, 2)
            assert not {1, 2} & set(logs_of(other))
        if len(whole) * step > 2_000:
            break


def test_what_a_start_finds_of_a_log_half_made_is_removed() -> None:
    disk = small_disk()
    storage = opened(disk, log_size_max=SMALL_LOG)
    path = log_path("/l/logs", 99) + ".compacting"
    disk.open(path, create=True).pwrite([b"half"], 0)
    del storage
    disk.process_crash()

    storage = opened(disk, log_size_max=SMALL_LOG)

    check_clean(disk)
    check_small(storage)
    assert CompactionNote(disk, "/l", b"bookie-1").read() is None


def test_an_index_that_is_older_than_the_copy_keeps_the_source_it_points_at() -> None:
    """What the new log does not hold, and the index of before the crash has in a source, stays."""
    disk = small_disk()
    storage = opened(disk, log_size_max=SMALL_LOG)
    cache = storage.garbages[0].compaction._cache
    before = cache.handle(1).locations_of(range(1))
    add(storage, 1, 0, count=1)  # while it is copied, entry 0 is elsewhere ...
    compactor = Compactor(storage)
    compactor.ask_checkpoint = lambda _asked: None
    compactor.major()
    assert compactor.rounds.is_open
    # ... and after a crash where it was: nothing of the new place has come to the disk
    cache.handle(1).set_locations(range(1), before)
    checkpoint(storage)
    storage = opened(disk.process_crash(), log_size_max=SMALL_LOG)

    Compactor(storage).finish()

    assert read_all(storage, 1, range(2)) == batch_of(1, range(2), 50).body
    check_clean(disk)
