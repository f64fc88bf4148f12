"""A pass while others write, move and delete what it looks at: it raises no false alarm."""

from array import array
from collections.abc import Callable, Iterator
from random import Random

from tests.support.batches import batch_of
from tests.support.bookie_storages import TwinnedStorage
from tests.support.scrubbed_storages import (
    LOG_SIZE,
    damaged_ids,
    filled,
    forget,
    log_of,
    with_dead_damage,
)
from tests.support.scrubbing import Scrubber
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, LOG_HEADER_SIZE
from zbk.storage.entry_logs.location import ABSENT, split_location
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.scrub.scrub_effects import (
    DiskStateOf,
    LocationsOf,
    OwnerQuestion,
    Paid,
    ScrubEffect,
)
from zbk.storage.scrub.scrub_index import BUSY_COUNT_MAX, LOOK_COUNT_MAX
from zbk.system.files import File


class WatchedDisk(SimulatedDisk):
    """Calls back as soon as a new file has its name."""

    on_create: Callable[[], None] = staticmethod(lambda: None)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(path, create=create, write=write)
        if create:
            self.on_create()
        return file


def misplace(twinned: TwinnedStorage, ledger_id: int, entry_id: int) -> None:
    """Point an entry at another one, on the disk."""
    (cache,) = [one.cache for one in twinned.storage.directories]
    other = cache.handle(ledger_id).locations_of(range(entry_id + 1, entry_id + 1 + 1))
    cache.handle(ledger_id).set_locations([entry_id], other)
    twinned.finish_checkpoint()


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
    forget(twinned)
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
