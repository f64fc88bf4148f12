"""A pass over damage where nothing points: it hurts no entry, if all of the index was seen."""

import logging
from array import array

import pytest

from tests.support.bookie_storages import TwinnedStorage
from tests.support.compactions import Compactor
from tests.support.scrubbed_storages import LOG_SIZE, filled, forget, log_paths, with_dead_damage
from tests.support.scrubbing import BadDisk, scrub
from zbk.protocol.upkeep.compaction import CompactionLimits
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE
from zbk.storage.entry_logs.left_logs import LeftLogs
from zbk.storage.entry_logs.location import UNKNOWN
from zbk.storage.index.index_page import INDEX_HEADER_SIZE


def delete(twinned: TwinnedStorage, *ledger_ids: int) -> None:
    """Drop ledgers as garbage collection does."""
    (garbage,) = twinned.storage.garbages
    assert twinned.storage.mark_deleted(ledger_ids)
    assert garbage.deleted.write()
    garbage.drop(ledger_ids)


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
    forget(twinned)
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
            forget(twinned)
            disk.flip_bit(index_path, 8 * (INDEX_HEADER_SIZE + 100))
        case "header":
            forget(twinned)
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
