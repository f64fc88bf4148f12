"""Entry ids far from all others: an index file is as long as it has pages; nothing takes long."""

from array import array
from collections.abc import Callable
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import (
    BOOKIE_ID,
    KEY,
    TwinnedStorage,
    prepare,
    read_all,
    storage_on,
)
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.scrubbing import Scrubber
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import ScatteredLedgerError
from zbk.protocol.entry.entry_batch import STORED_ENTRY_ID_MAX
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.index_page import INDEX_HEADER_SIZE, PAGE_ENTRY_COUNT, PAGE_SIZE
from zbk.storage.index.page_extents import ADMITTED_COUNT_MAX
from zbk.storage.replay import add_batches
from zbk.storage.tools.inspect_index import IndexInspection
from zbk.storage.tools.rebuild import IndexRebuild
from zbk.storage.tools.rebuild_sources import ask_nobody
from zbk.storage.tools.sanity import SanityCheck

HIGHEST = STORED_ENTRY_ID_MAX
FAR = 1 << 20  # entries: some thousand pages


def checked(disk: SimulatedDisk) -> SanityCheck:
    check = SanityCheck(disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID)
    assert list(check.problems()) == []
    return check


def index_size(disk: SimulatedDisk) -> int:
    (path,) = disk.paths(".idx")
    return len(disk.content(path))


def test_one_entry_with_the_highest_id_makes_a_file_of_one_page() -> None:
    twin = TwinnedStorage(SimulatedDisk())
    twin.open()
    twin.add(1, [HIGHEST])
    twin.sync()
    twin.finish_checkpoint()
    assert index_size(twin.disk) == INDEX_HEADER_SIZE + PAGE_SIZE

    twin.add(1, range(5))
    twin.add(1, [HIGHEST - 5_000, HIGHEST - 1])
    twin.sync()
    twin.finish_checkpoint()
    assert index_size(twin.disk) == INDEX_HEADER_SIZE + 3 * PAGE_SIZE

    for _ in range(2):
        assert twin.storage.homes.ledger(1).held_ranges(
            0, range_count_max=10, entry_count_max=1_000
        ) == (
            [(0, 4), (HIGHEST - 5_000, HIGHEST - 5_000), (HIGHEST - 1, HIGHEST)],
            None,
        )
        assert twin.storage.homes.ledger(1).index.contiguous_until(-1) == 4
        twin.check()
        twin.kill()
        twin.open()
    assert not Scrubber(twin.storage.scrubs[0]).run().is_damage_found
    twin.storage.close()
    assert checked(twin.disk).entry_count == 8


def test_every_tool_reads_a_scattered_ledger() -> None:
    twin = TwinnedStorage(SimulatedDisk())
    twin.open()
    ids = [FAR * n for n in range(120)]  # more than the header has room for
    for entry_id in ids:
        twin.add(1, [entry_id])
    twin.sync()
    twin.finish_checkpoint()
    twin.add(1, [HIGHEST])
    twin.sync()
    twin.finish_checkpoint()
    assert index_size(twin.disk) == INDEX_HEADER_SIZE + 122 * PAGE_SIZE  # and a directory page
    assert not Scrubber(twin.storage.scrubs[0]).run().is_damage_found
    twin.kill()
    assert checked(twin.disk).entry_count == 121
    (path,) = twin.disk.paths(".idx")
    whole = twin.disk.content(path)

    for content in (whole, bytes(INDEX_HEADER_SIZE) + whole[INDEX_HEADER_SIZE:]):
        twin.disk.set_content(path, content)
        inspection = IndexInspection(twin.disk, path)
        found = list(inspection.findings())
        assert inspection.entry_count == 121, "also where its header is gone"
        assert bool(inspection.fault_count) == (content != whole), found
    twin.disk.set_content(path, whole)

    report = IndexRebuild(
        twin.disk, journal_dir="/j", ledger_dir="/l", bookie_id=BOOKIE_ID, ask_others=ask_nobody
    ).run()

    assert report is not None
    assert report.entry_count == 121
    assert checked(twin.disk).entry_count == 121
    twin.open()
    twin.check()


def test_too_many_places_are_refused_and_the_others_grow_on() -> None:
    """And nothing of it depends on when checkpoints are taken, or on a replay."""
    disk = SimulatedDisk()
    storage = storage_on(disk, ledger_cache_size=64 << 20)
    storage.open()
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    refused_id = -1
    for number in range(ADMITTED_COUNT_MAX + 10):
        batch = batch_of(1, [number * FAR], 10)
        try:
            index = prepare(storage, batch)
        except ScatteredLedgerError:
            refused_id = batch.first_entry_id
            break
        storage.begin_turn()
        if number % 2:
            storage.directories[0].add([batch], [index])
        else:
            add_batches(storage.homes, [batch])
        if number % 500 == 499:
            checkpoint = storage.begin_checkpoint()
            checkpoint.run()
            storage.end_checkpoint(checkpoint)
    assert refused_id == ADMITTED_COUNT_MAX * FAR

    for entry_id in (7, refused_id - FAR + 1):  # beside what is there
        batch = batch_of(1, [entry_id])
        storage.homes.ledger(batch.ledger_id).index.prepare(batch.entry_ids, is_admission=True)
        add_batches(storage.homes, [batch])
        assert read_all(storage, 1, [entry_id]) == batch.body
    storage.homes.place(2).home.cache.set_ledger_key(2, KEY, LedgerType.PD_JOURNAL)
    prepare(storage, batch_of(2, [refused_id]))
    with pytest.raises(ScatteredLedgerError, match=f"up to {ADMITTED_COUNT_MAX} places"):
        prepare(storage, batch_of(1, [refused_id]))
    ranges, _ = storage.homes.ledger(1).held_ranges(
        0, range_count_max=1_000, entry_count_max=1_000_000
    )
    assert len(ranges) == 1_000


def test_a_long_ledger_is_refused_nothing_however_it_comes() -> None:
    """A writer at its end, copies from its start, and a striped one, with checkpoints between."""
    storage = storage_on(SimulatedDisk(), ledger_cache_size=64 << 20, log_size_max=64 << 20)
    storage.open()
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    start = 5_000_000_000
    step = 3 * PAGE_ENTRY_COUNT
    for number in range(60):
        for first in (number * step, start + number * step):
            ids = array("q", range(first, first + step, 512))
            batch = batch_of(1, ids, 10)
            storage.homes.ledger(batch.ledger_id).index.prepare(batch.entry_ids, is_admission=True)
            add_batches(storage.homes, [batch])
        checkpoint = storage.begin_checkpoint()
        checkpoint.run()
        storage.end_checkpoint(checkpoint)

    assert storage.homes.ledger(1).index.last_entry_id == start + 60 * step - 512


def test_a_power_cut_at_any_step_of_a_flush_of_scattered_pages_loses_nothing() -> None:
    twins: list[TwinnedStorage] = []

    def prepare(disk: SimulatedDisk) -> Callable[[], object]:
        twin = TwinnedStorage(disk)
        twins.append(twin)
        twin.open()
        for number in range(80):
            twin.add(1, [number * FAR])
        twin.sync()
        twin.finish_checkpoint()
        for number in (3, 50, 79, 81, 90):
            twin.add(1, [number * FAR + 1_024, number * FAR + 2_500])
        twin.sync()
        return twin.finish_checkpoint

    cut_count = 0
    for disk, step in crashed_at_each_step(prepare):
        for after in power_cuts(disk, Random(step), 3):
            cut_count += 1
            again = TwinnedStorage(after)
            again.attempted = again.written = again.promised = twins[-1].promised
            again.open()
            again.check()
    assert cut_count > 40
