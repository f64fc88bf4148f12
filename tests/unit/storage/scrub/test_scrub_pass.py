"""A pass over a ledger directory: every damaged byte is found; nothing that is whole ever is."""

from array import array

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import NO_LIMIT, TwinnedStorage, part_to_mend, read_all
from tests.support.scrubbed_storages import damaged_ids, filled, forget, log_of, log_paths
from tests.support.scrubbing import BadDisk, Scrubber, scrub
from zbk.protocol.upkeep.scrub import DamagedEntries
from zbk.storage.entry_logs.location import UNKNOWN
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.replay import add_batches


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
            forget(twinned)
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


def test_a_damaged_page_damages_its_entries_and_a_damaged_header_nobody_knows_which() -> None:
    twinned = filled()
    (path,) = [one for one in twinned.disk.paths(".idx") if one.endswith("07.idx")]
    content = twinned.disk.content(path)
    twinned.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 100))

    assert scrub(twinned.storage).ranges == [DamagedEntries(7, 0, 1_023, is_index_lost=True)]

    twinned.disk.set_content(path, content)
    forget(twinned)
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


def test_an_entry_of_the_wrong_ledger_is_found_though_every_checksum_fits() -> None:
    twinned = filled()
    (cache,) = [one.cache for one in twinned.storage.directories]
    other = cache.handle(8).locations_of(range(3, 4))
    cache.handle(7).set_locations([5], other)
    twinned.finish_checkpoint()

    assert damaged_ids(twinned) == {7: {5}}


def test_an_index_that_the_disk_does_not_give_is_damaged() -> None:
    disk = BadDisk()
    twinned = filled(disk)
    (path,) = [one for one in disk.paths(".idx") if one.endswith("07.idx")]
    disk.bad[path] = range(INDEX_HEADER_SIZE + 5, INDEX_HEADER_SIZE + 6)
    assert scrub(twinned.storage).ranges == [DamagedEntries(7, 0, 1_023, is_index_lost=True)]

    forget(twinned)
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
