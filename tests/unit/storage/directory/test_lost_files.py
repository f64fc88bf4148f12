"""Storage that lost index files, entry logs or its census: what is missed, and what is noted."""

from collections.abc import Callable
from random import Random

import pytest

from tests.support.bookie_storages import TwinnedStorage, read_all
from tests.support.lost_files import NEXT_ID, filled, found, index_file, start, unknown
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.scrubbing import scrub
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import BookieError, CorruptRecordError
from zbk.storage.directory.lost_files import SCOPE_RANGE_COUNT_MAX, LostFiles, scope_of
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.location import split_location


def test_nothing_is_missed_where_nothing_is_gone() -> None:
    assert not found(SimulatedDisk()).is_any
    assert not found(filled().disk).is_any


def test_storage_does_not_open_while_nobody_has_noted_what_is_gone() -> None:
    twin = filled()
    twin.kill()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))

    with pytest.raises(BookieError, match="1 ledgers, 4 among them"):
        twin.open()


def test_an_index_file_that_goes_while_the_bookie_runs_is_damage_and_no_answer() -> None:
    twin = filled()
    twin.kill()
    twin.open()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))

    with pytest.raises(CorruptRecordError, match="is gone"):
        twin.storage.homes.info(4)

    twin.storage.homes.ledger(4).home.cache.delete(4)
    assert twin.storage.homes.info(4) is None


def test_an_index_file_that_is_cut_inside_its_header_is_gone() -> None:
    for size in (0, 1, 1_023):
        twin = filled()
        twin.kill()
        path = index_file(twin.disk, 4)
        twin.disk.set_content(path, twin.disk.content(path)[:size])
        assert found(twin.disk).short_ids == (4,)

        start(twin)

        twin.check()


def test_a_lost_census_puts_every_ledger_without_an_index_file_into_limbo() -> None:
    for damage in ("gone", "cut", "flipped"):
        twin = filled()
        twin.kill()
        twin.disk.remove_at_rest(index_file(twin.disk, 4))
        content = twin.disk.content("/l/census")
        if damage == "gone":
            twin.disk.remove_at_rest("/l/census")
        else:
            other = content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:]
            twin.disk.set_content("/l/census", other)

        storage = start(twin)

        assert unknown(storage) == [one for one in range(NEXT_ID) if one not in {3, 7}]
        assert read_all(storage, 4, range(5)), "it was made anew all the same"
        checkpoint = storage.begin_checkpoint()
        checkpoint.run()
        storage.end_checkpoint(checkpoint)
        twin.kill()
        again = found(twin.disk)
        assert not again.is_any
        assert again.least_sizes is None, "nobody knows which logs there were"


def test_a_crash_or_a_power_cut_at_any_step_of_such_a_start_loses_nothing() -> None:
    twins: list[TwinnedStorage] = []

    def prepare(disk: SimulatedDisk) -> Callable[[], object]:
        twin = TwinnedStorage(disk)
        twins.append(twin)
        twin.open()
        for ledger_id in (3, 4):
            twin.add(ledger_id, range(5))
        twin.sync()
        twin.finish_checkpoint()
        twin.kill()
        for path in disk.paths(".idx"):
            disk.remove_at_rest(path)
        return lambda: start(twin)

    cut_count = 0
    for disk, step in crashed_at_each_step(prepare):
        for after in power_cuts(disk, Random(step), 3):
            cut_count += 1
            storage = TwinnedStorage(after)
            start(storage)
            storage.attempted = storage.written = storage.promised = twins[-1].promised
            storage.check()
            denied = [one for one in (3, 4) if one not in unknown(storage.storage)]
            assert set(denied) <= set(storage.storage.ledgers()), "what is denied is whole"
    assert cut_count > 50


def test_a_lost_log_is_not_forgotten_while_a_lost_index_may_have_pointed_there() -> None:
    """Nothing points there now: the index that did is lost as well."""
    twin = filled(log_size_max=400)
    places = twin.storage.homes.ledger(4).resolve(range(5), 1 << 20)
    assert places is not None
    log_id = split_location(places.locations[0])[0]
    twin.kill()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))
    twin.disk.remove_at_rest(f"/l/logs/{log_id:08x}.log")

    for _ in range(2):
        storage = start(twin)
        (view,) = storage.scrubs
        assert log_id in view.lost_logs
        scrub(storage)
        assert log_id in view.lost_logs
        storage.close()
        twin.kill()


def test_a_loss_in_too_many_places_is_taken_for_one_from_the_first_to_the_last() -> None:
    ids = range(10, 10 + 2 * SCOPE_RANGE_COUNT_MAX + 2, 2)
    half = len(ids) // 2
    lost = [
        LostFiles("/l1", ledger_ids=tuple(ids[:half])),
        LostFiles("/l2", ledger_ids=tuple(ids[half:])),
    ]

    assert scope_of(lost, ids[-1] + 100) == LedgerRanges((ids[0],), (ids[-1],))
    assert scope_of(lost[:1], ids[-1] + 100).range_count == half, "it fits"
