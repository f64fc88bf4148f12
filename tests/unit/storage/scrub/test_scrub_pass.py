"""A pass over a ledger directory: every damaged byte is found; nothing that is whole ever is."""

import logging
from array import array
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import NO_LIMIT, TwinnedStorage, part_to_mend, read_all
from tests.support.compactions import Compactor
from tests.support.scrubbing import BadDisk, Scrubber, scrub
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.upkeep.compaction import CompactionLimits
from zbk.protocol.upkeep.scrub import DamagedEntries
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, LOG_HEADER_SIZE
from zbk.storage.entry_logs.left_logs import LeftLogs
from zbk.storage.entry_logs.location import ABSENT, UNKNOWN, split_location
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.replay import add_batches
from zbk.storage.scrub.scrub_effects import (
    DiskStateOf,
    LocationsOf,
    OwnerQuestion,
    Paid,
    ScrubEffect,
)
from zbk.storage.scrub.scrub_index import BUSY_COUNT_MAX, LOOK_COUNT_MAX
from zbk.system.files import File

LOG_SIZE = 3_000


class WatchedDisk(SimulatedDisk):
    """Calls back as soon as a new file has its name."""

    on_create: Callable[[], None] = staticmethod(lambda: None)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(path, create=create, write=write)
        if create:
            self.on_create()
        return file


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


def test_nothing_is_found_where_nothing_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    twinned = filled()
    (view,) = twinned.storage.scrubs
    scrubber = Scrubber(view)

    findings = scrubber.run()

    assert not findings.is_damage_found
    assert scrubber.question_count == scrubber.pause_count == 0
    total = sum(len(twinned.disk.content(path)) for path in twinned.disk.paths("/l/"))
    assert scrubber.read_size >= sum(len(twinned.disk.content(p)) for p in log_paths(twinned.disk))
    assert scrubber.read_size < 20 * total
    assert [one for one in caplog.records if one.name.startswith("zbk")] == []


def test_every_damaged_byte_of_every_log_is_found() -> None:
    """Each seventh, that is; `test_scrub_log` takes every one."""
    paths = log_paths(filled().disk)
    assert len(paths) >= 3
    twinned = filled()
    contents = {path: twinned.disk.content(path) for path in paths}
    blocks = set()
    for path in paths:
        for at in range(path == paths[0], len(contents[path]), 7):
            damaged = bytearray(contents[path])
            damaged[at] ^= 1 << at % 8
            twinned.disk.set_content(path, bytes(damaged))

            findings = scrub(twinned.storage)

            assert findings.file_count == 1, (path, at)
            assert findings.files[0].path == path
            blocks.add((path, findings.ledger_count, findings.entry_count))
        twinned.disk.set_content(path, contents[path])
    assert not scrub(twinned.storage).is_damage_found
    assert any(entry_count for _, _, entry_count in blocks)


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_every_damaged_byte_of_every_index_file_is_found(*, is_in_memory: bool) -> None:
    """Memory that has the page or the header writes it anew."""
    twinned = filled(is_restarted=not is_in_memory)
    disk = twinned.disk
    for path in disk.paths(".idx"):
        content = disk.content(path)
        for at in (*range(0, 1_200, 5), *range(1_200, len(content), 97), len(content) - 1):
            damaged = bytearray(content)
            damaged[at] ^= 1 << at % 8
            _forget(twinned)
            if is_in_memory:
                _look_at_all(twinned)
            disk.set_content(path, bytes(damaged))

            findings = scrub(twinned.storage)

            assert findings.file_count == 1, (path, at)
            assert findings.ledger_count == (not is_in_memory), (path, at)
            if is_in_memory:
                twinned.finish_checkpoint()
                assert disk.content(path)[at] == content[at], "it was written anew"
            disk.set_content(path, content)


def _look_at_all(twinned: TwinnedStorage) -> None:
    """Load the index into memory."""
    for ledger_id, twin in twinned.written.items():
        resolved = twinned.storage.homes.ledger(ledger_id).resolve(sorted(twin.entries), NO_LIMIT)
        assert resolved is not None
        assert len(resolved.entry_ids) == len(twin.entries)


def _forget(twinned: TwinnedStorage) -> None:
    """Drop the index from memory."""
    (one,) = twinned.storage.directories
    cache = one.cache
    for values in (cache.pages, cache.headers):
        while values.drop_oldest_clean() is not None:
            continue


def test_a_damaged_page_damages_its_entries_and_a_damaged_header_nobody_knows_which() -> None:
    twinned = filled()
    (path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]
    content = twinned.disk.content(path)
    twinned.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 100))

    assert scrub(twinned.storage).ranges == [DamagedEntries(7, 0, 1_023, is_index_lost=True)]

    twinned.disk.set_content(path, content)
    _forget(twinned)
    twinned.disk.flip_bit(path, 8 * 100)
    assert scrub(twinned.storage).ranges == [DamagedEntries(7, 0, -1, is_index_lost=True)]


def test_a_lost_log_damages_what_the_index_has_in_it() -> None:
    twinned = filled()
    path, _ = log_of(twinned, 7, 15)
    wanted = {e for e in range(60) if log_of(twinned, 7, e)[0] == path}
    twinned.disk.remove_at_rest(path)

    assert damaged_ids(twinned)[7] == wanted


def test_bad_sectors_damage_the_entries_in_them_and_the_others_stay_readable() -> None:
    disk = BadDisk()
    twinned = filled(disk)
    path, offset = log_of(twinned, 7, 20)
    disk.bad[path] = range(offset, offset + 1)

    found = damaged_ids(twinned)

    assert 20 in found[7]
    assert found[7] <= {e for e in range(60) if log_of(twinned, 7, e)[0] == path}
    twinned.storage.garbages  # noqa: B018 - still open
    whole = [e for e in range(60) if e not in found[7] and log_of(twinned, 7, e)[0] != path]
    assert read_all(twinned.storage, 7, whole)


def misplace(twinned: TwinnedStorage, ledger_id: int, entry_id: int) -> None:
    """Point an entry at another one, on the disk."""
    (cache,) = [one.cache for one in twinned.storage.directories]
    other = cache.handle(ledger_id).locations_of(range(entry_id + 1, entry_id + 1 + 1))
    cache.handle(ledger_id).set_locations([entry_id], other)
    twinned.finish_checkpoint()


def delete(twinned: TwinnedStorage, *ledger_ids: int) -> None:
    """Drop ledgers as garbage collection does."""
    (garbage,) = twinned.storage.garbages
    assert twinned.storage.mark_deleted(ledger_ids)
    assert garbage.deleted.write()
    garbage.drop(ledger_ids)


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


def test_damage_that_nothing_points_at_hurts_nobody_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    twinned, path, offset = with_dead_damage()

    assert not scrub(twinned.storage).is_damage_found
    assert not scrub(twinned.storage).is_damage_found

    told = "is not what was written, and no entry is missing there"
    lines = [one.message for one in caplog.records if path in one.message]
    assert lines == [f"{path} at byte {offset} {told}"]


def test_damage_counts_as_damage_while_the_index_that_may_point_there_is_lost() -> None:
    """A rebuild of that index needs the log, and must not find it whole."""
    twinned, path, _ = with_dead_damage()
    (view,) = twinned.storage.scrubs
    view.is_index_lost = lambda: True

    findings = scrub(twinned.storage)

    assert [one.path for one in findings.files] == [path]
    assert len(view.lost) == 0
    Compactor(twinned.storage, CompactionLimits(major_threshold=1.0)).major()
    assert path in log_paths(twinned.disk)

    view.is_index_lost = lambda: False
    assert not scrub(twinned.storage).is_damage_found


def test_a_log_with_damage_that_nobody_misses_is_compacted_as_any_other() -> None:
    twinned, path, _ = with_dead_damage()
    compactor = Compactor(twinned.storage, CompactionLimits(major_threshold=1.0))
    compactor.major()
    assert path in log_paths(twinned.disk), "nobody has looked yet"

    scrub(twinned.storage)
    compactor.major()

    assert path not in log_paths(twinned.disk)
    twinned.check()
    assert not scrub(twinned.storage).is_damage_found


def test_a_log_that_lost_its_first_page_goes_with_its_ledgers() -> None:
    twinned = filled()
    path = log_paths(twinned.disk)[0]
    twinned.disk.set_content(path, bytes(LOG_HEADER_SIZE) + twinned.disk.content(path)[32:-1])
    (garbage,) = twinned.storage.garbages
    delete(twinned, 7, 8, 9)
    assert not garbage.remove_dead([1]), "nobody has looked yet"

    assert not scrub(twinned.storage).is_damage_found

    assert garbage.remove_dead([1])


def test_a_damaged_header_of_a_log_is_told_of_and_the_log_stays() -> None:
    twinned, path, _ = with_dead_damage()
    twinned.disk.flip_bit(path, 8)

    assert scrub(twinned.storage).file_count == 1
    assert not twinned.storage.scrubs[0].lost.of(1)


def test_damage_in_what_compaction_has_made_is_damage_though_the_disk_points_past_it() -> None:
    """The index in memory points there, and a checkpoint may fail for long."""
    twinned = filled()
    delete(twinned, 8)
    before = set(log_paths(twinned.disk))
    compactor = Compactor(twinned.storage, CompactionLimits(major_threshold=1.0))
    compactor.ask_checkpoint = lambda _asked: None
    compactor.major()
    (made, *_) = sorted(set(log_paths(twinned.disk)) - before)
    twinned.add(7, range(60, 61), LOG_SIZE)
    (view,) = twinned.storage.scrubs
    view._logs.left = LeftLogs(99)
    content = twinned.disk.content(made)
    twinned.disk.flip_bit(made, 8 * (len(content) // 2))

    findings = scrub(twinned.storage)

    assert [one.path for one in findings.files] == [made]
    assert len(view.lost) == 0


def test_what_was_missed_by_nobody_is_damage_again_when_that_cannot_be_told() -> None:
    twinned, _, _ = with_dead_damage()
    scrub(twinned.storage)
    (view,) = twinned.storage.scrubs
    assert len(view.lost) == 1
    _forget(twinned)
    (index_path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]
    twinned.disk.flip_bit(index_path, 8 * (INDEX_HEADER_SIZE + 100))

    assert scrub(twinned.storage).file_count == 2

    assert len(view.lost) == 0


@pytest.mark.parametrize("what", ["page", "header", "busy", "place", "sector", "no mark"])
def test_damage_is_told_of_unless_all_of_the_index_was_seen(what: str) -> None:
    """B33: whatever cannot be read of the index may point there."""
    disk = BadDisk()
    twinned, path, offset = with_dead_damage(disk)
    (index_path,) = [one for one in disk.paths(".idx") if one.endswith("07.idx")]
    (view,) = twinned.storage.scrubs
    (one,) = twinned.storage.directories
    match what:
        case "page":
            _forget(twinned)
            disk.flip_bit(index_path, 8 * (INDEX_HEADER_SIZE + 100))
        case "header":
            _forget(twinned)
            disk.flip_bit(index_path, 8 * 100)
        case "busy":
            twinned.add(7, range(70, 80), 20)
            twinned.storage.begin_checkpoint()
            disk.flip_bit(index_path, 8 * 100)
        case "place":
            one.cache.handle(7).set_locations([5], array("Q", [UNKNOWN]))
            twinned.finish_checkpoint()
        case "sector":
            disk.bad[path] = range(offset, offset + 1)
        case _:
            one.logs.left = LeftLogs()

    findings = scrub(twinned.storage)

    assert path in [one.path for one in findings.files]
    assert not any(view.lost.of(log_id) for log_id in range(1, 9))


def test_an_entry_of_the_wrong_ledger_is_found_though_every_checksum_fits() -> None:
    twinned = filled()
    (cache,) = [one.cache for one in twinned.storage.directories]
    other = cache.handle(8).locations_of(range(3, 4))
    cache.handle(7).set_locations([5], other)
    twinned.finish_checkpoint()

    assert damaged_ids(twinned) == {7: {5}}


# ------------------------------------------------------------------ while others work


def test_a_page_that_is_torn_because_it_is_being_written_is_no_damage() -> None:
    """The flush is waited for: nothing is concluded while it may be writing."""
    twinned = filled()
    (path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]
    twinned.add(7, range(60, 70), 20)
    checkpoint = twinned.storage.begin_checkpoint()
    content = twinned.disk.content(path)
    twinned.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 100))  # half of a write
    (view,) = twinned.storage.scrubs
    pauses = 0

    def between(step: ScrubEffect) -> None:
        nonlocal pauses
        pauses += not isinstance(step, Paid | DiskStateOf | LocationsOf)
        if pauses == 3:
            twinned.disk.set_content(path, content)
            checkpoint.run()
            twinned.storage.end_checkpoint(checkpoint)
            pauses = 4

    scrubber = Scrubber(view, between=between)
    assert not scrubber.run().is_damage_found
    assert scrubber.pause_count >= 3


def test_what_stays_busy_is_left_to_the_next_pass() -> None:
    twinned = filled()
    (path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]
    twinned.add(7, range(60, 70), 20)
    checkpoint = twinned.storage.begin_checkpoint()
    twinned.disk.flip_bit(path, 8 * 100)
    (view,) = twinned.storage.scrubs
    scrubber = Scrubber(view)

    assert not scrubber.run().is_damage_found
    assert scrubber.pause_count == BUSY_COUNT_MAX
    assert scrubber.scrub.unconfirmed_count >= 1
    twinned.storage.end_checkpoint(checkpoint)


def test_ledgers_and_logs_that_go_under_the_scrubber_are_no_damage() -> None:
    for seed in range(30):
        rng = Random(seed)
        twinned = filled()
        garbage = twinned.storage.garbages[0]
        doomed = iter([8, 7])

        def between(
            _step: ScrubEffect,
            twinned: TwinnedStorage = twinned,
            doomed: Iterator[int] = doomed,
            rng: Random = rng,
        ) -> None:
            garbage = twinned.storage.garbages[0]
            if rng.random() < 0.05 and (ledger_id := next(doomed, None)) is not None:
                garbage.deleted.mark([ledger_id])
                garbage.deleted.write()
                garbage.drop([ledger_id])
                for log_id in garbage.left_logs():
                    garbage.remove_dead([log_id])

        assert garbage.left_logs()
        (view,) = twinned.storage.scrubs
        findings = Scrubber(view, between=between).run()
        assert not findings.is_damage_found, (seed, findings.files)


def test_a_ledger_that_is_deleted_while_its_entries_are_looked_at_is_no_damage() -> None:
    """Its entries are wanted no more, and so all of the index was seen."""
    twinned, _, _ = with_dead_damage()
    (view,) = twinned.storage.scrubs
    misplace(twinned, 7, 5)

    def between(step: ScrubEffect) -> None:
        if isinstance(step, DiskStateOf | LocationsOf):
            twinned.storage.mark_deleted([7])

    scrubber = Scrubber(view, between=between)

    assert not scrubber.run().is_damage_found
    assert scrubber.question_count == 1
    assert len(view.lost) == 1, "nothing points at what was there"


def test_an_entry_of_which_the_index_cannot_tell_any_more_is_left_to_the_next_pass() -> None:
    twinned, path, _ = with_dead_damage()
    (view,) = twinned.storage.scrubs
    misplace(twinned, 7, 5)
    _forget(twinned)
    (index_path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]

    def between(step: ScrubEffect) -> None:
        if isinstance(step, DiskStateOf | LocationsOf):
            twinned.disk.flip_bit(index_path, 8 * (INDEX_HEADER_SIZE + 100))

    findings = Scrubber(view, between=between).run()

    assert findings.ranges == []
    assert [one.path for one in findings.files] == [path], "not all of the index was seen"
    assert len(view.lost) == 0


def test_entries_that_move_under_the_scrubber_are_no_damage() -> None:
    """As compaction moves them: copied, the index points there, the old log goes."""
    for seed in range(30):
        rng = Random(seed)
        twinned = filled()
        disk = twinned.disk
        (one,) = twinned.storage.directories

        def move(
            _step: ScrubEffect,
            twinned: TwinnedStorage = twinned,
            rng: Random = rng,
            disk: SimulatedDisk = disk,
        ) -> None:
            if rng.random() > 0.05:
                return
            (one,) = twinned.storage.directories
            left = one.garbage.left_logs()
            if not left:
                return
            log_id = rng.choice(left)
            for ledger_id, twin in twinned.promised.items():
                ids = [
                    e
                    for e in twin.entries
                    if split_location(one.cache.handle(ledger_id).locations_of(range(e, e + 1))[0])[
                        0
                    ]
                    == log_id
                ]
                for entry_id in ids:
                    old = one.cache.handle(ledger_id).locations_of(range(entry_id, entry_id + 1))[0]
                    size = len(twin.entries[entry_id])
                    body = one.logs.read(old, size)
                    copy = batch_of(ledger_id, [entry_id])
                    copy = type(copy).of(ledger_id, [entry_id], [size], body)
                    one.add([copy], [one.cache.handle(ledger_id)])
            twinned.finish_checkpoint()
            disk.remove_at_rest(f"/l/logs/{log_id:08x}.log")

        (view,) = twinned.storage.scrubs
        findings = Scrubber(view, between=move).run()
        assert not findings.is_damage_found, (seed, findings.files)
        assert one.garbage.left_logs()


def test_an_entry_that_is_elsewhere_at_every_look_is_left_to_the_next_pass() -> None:
    twinned = filled()
    misplace(twinned, 7, 5)
    (cache,) = [one.cache for one in twinned.storage.directories]
    elsewhere = iter(range(7, 60))

    def between(step: ScrubEffect) -> None:
        if isinstance(step, DiskStateOf | LocationsOf):
            other = next(elsewhere)
            cache.handle(7).set_locations(
                [5], cache.handle(7).locations_of(range(other, other + 1))
            )

    (view,) = twinned.storage.scrubs
    scrubber = Scrubber(view, between=between)

    assert not scrubber.run().is_damage_found
    assert scrubber.question_count == LOOK_COUNT_MAX
    assert scrubber.scrub.unconfirmed_count == 1


def test_an_entry_that_the_index_has_no_more_is_no_damage() -> None:
    twinned = filled()
    misplace(twinned, 7, 5)
    (view,) = twinned.storage.scrubs

    def ask(question: OwnerQuestion) -> object:
        return array("Q", [ABSENT]) if isinstance(question, LocationsOf) else question.answer()

    scrubber = Scrubber(view, ask=ask)

    assert not scrubber.run().is_damage_found
    assert (scrubber.question_count, scrubber.scrub.unconfirmed_count) == (1, 0)


def test_adds_and_checkpoints_between_the_steps_raise_no_alarm() -> None:
    for seed in range(20):
        rng = Random(seed)
        twinned = filled()
        next_id = {7: 60, 8: 60, 9: 1_030}

        def work(
            _step: ScrubEffect,
            twinned: TwinnedStorage = twinned,
            rng: Random = rng,
            next_id: dict[int, int] = next_id,
        ) -> None:
            if rng.random() < 0.3:
                ledger_id = rng.choice([7, 8, 9])
                first = next_id[ledger_id]
                next_id[ledger_id] += 5
                twinned.add(ledger_id, range(first, first + 5))
            if rng.random() < 0.3:
                twinned.take_step()

        (view,) = twinned.storage.scrubs
        assert not Scrubber(view, between=work).run().is_damage_found, seed


def test_a_block_of_the_log_that_is_being_written_is_read_too() -> None:
    twinned = filled()
    twinned.add(7, range(60, 61), 20)
    twinned.sync()
    twinned.finish_checkpoint()
    path, offset = log_of(twinned, 7, 60)
    assert offset == LOG_HEADER_SIZE + BLOCK_HEADER_SIZE, "a new log"
    twinned.disk.flip_bit(path, 8 * (offset + 45))  # of the payload

    assert damaged_ids(twinned) == {7: {60}}

    twinned.add(7, range(61, 62), LOG_SIZE)  # the next log begins
    twinned.finish_checkpoint()
    assert damaged_ids(twinned) == {7: {60}}


def test_a_log_that_is_begun_while_logs_are_listed_is_not_taken_as_whole() -> None:
    disk = WatchedDisk()
    twinned = filled(disk)
    (view,) = twinned.storage.scrubs
    seen: list[tuple[int, int | None]] = []

    disk.on_create = lambda: seen.extend(view.logs())
    twinned.add(7, range(60, 70), 20)

    (one,) = twinned.storage.directories
    assert seen == [(log_id, None) for log_id in range(1, one.logs.last_log_id)]


def test_an_index_that_the_disk_does_not_give_is_damaged() -> None:
    disk = BadDisk()
    twinned = filled(disk)
    (path,) = [one for one in disk.paths(".idx") if one.endswith("07.idx")]
    disk.bad[path] = range(INDEX_HEADER_SIZE + 5, INDEX_HEADER_SIZE + 6)
    assert scrub(twinned.storage).ranges == [DamagedEntries(7, 0, 1_023, is_index_lost=True)]

    _forget(twinned)
    disk.bad[path] = range(1)
    findings = scrub(twinned.storage)
    assert findings.ranges == [DamagedEntries(7, 0, -1, is_index_lost=True)]
    assert "cannot be read" in findings.files[0].reason


@pytest.mark.parametrize("part", ["/l/logs", "/l/index"])
def test_a_directory_that_cannot_be_listed_is_damage_and_not_the_end(part: str) -> None:
    disk = BadDisk()
    twinned = filled(disk)
    disk.unlistable = part

    findings = scrub(twinned.storage)

    assert [one.path for one in findings.files] == [part]
    assert findings.ledger_count == 0


def test_an_entry_whose_place_was_lost_with_a_page_is_damaged_and_may_be_stored_anew() -> None:
    twinned = filled()
    (cache,) = [one.cache for one in twinned.storage.directories]
    cache.handle(7).set_locations([5], array("Q", [UNKNOWN]))
    twinned.finish_checkpoint()

    findings = scrub(twinned.storage)

    assert findings.ranges == [DamagedEntries(7, 5, 5)]
    assert findings.files[0].path.endswith("07.idx")
    part = part_to_mend(twinned.storage, batch_of(7, range(4, 7), 20))
    assert part is not None
    add_batches(twinned.storage.homes, [part])
    twinned.finish_checkpoint()
    assert not scrub(twinned.storage).is_damage_found
