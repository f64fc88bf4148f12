"""Too many files are open, at any moment, for a short time or a long one: nothing is lost by it.

Storage is driven as the actors drive it (``test_full_disk.Run``). What finds no descriptor is
refused or tried again; nothing of it is taken for damage, and the bookie goes on.
"""

from collections.abc import Hashable
from contextlib import suppress
from random import Random

import pytest

from tests.support.bookie_storages import KEY
from tests.support.simulated_disk import SimulatedDisk
from tests.unit.storage.test_full_disk import LEDGERS, Run, story
from zbk.errors import OutOfDescriptorsError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import JournalRecord, LedgerKeyRecord

pytestmark = pytest.mark.usefixtures("same_nonce")


class BusyRun(Run):
    """What the storage actor refuses is refused before anything has changed."""

    def add(self, ledger_id: int, first: int, count: int = 3) -> None:
        with suppress(OutOfDescriptorsError):
            super().add(ledger_id, first, count)

    def fence(self, ledger_id: int) -> None:
        with suppress(OutOfDescriptorsError):
            self.storage.homes.info(ledger_id)
            super().fence(ledger_id)

    def check(self) -> None:
        with suppress(OutOfDescriptorsError):
            super().check()

    def _records_of_new(self, ledger_id: int) -> list[JournalRecord]:
        if ledger_id in self._known:
            return []
        self.storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        self._known.add(ledger_id)
        return [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)]


def start(disk: SimulatedDisk) -> BusyRun:
    # one page in memory: headers and pages are read again and again
    run = BusyRun(disk, ledger_cache_size=1)
    run.open()
    run.add(LEDGERS[0], 1_000)
    run.checkpoint()
    return run


def open_count() -> int:
    """Return how many opens there are in the story."""
    disk = SimulatedDisk()
    run = start(disk)
    before = disk.descriptor_count
    story(run)
    return disk.descriptor_count - before


@pytest.mark.parametrize(("length", "step"), [(1, 1), (2, 5), (30, 7)])
def test_wherever_there_is_no_descriptor_nothing_is_lost_and_all_goes_on(
    length: int, step: int, passed: set[Hashable]
) -> None:
    count = open_count()
    assert count > 100
    for at in range(1, count + 1, step):
        disk = SimulatedDisk()
        run = start(disk)
        first = disk.descriptor_count + at
        disk.without_descriptor = range(first, first + length)

        story(run)

        disk.without_descriptor = range(0)
        assert run.no_space_paths == [], "the bookie is busy, not read-only"
        run.write()
        run.refused_count = 0
        for ledger_id in LEDGERS:
            run.add(ledger_id, 100)
        run.fence(99)
        for _ in range(2):
            run.checkpoint()
        assert not run.refused_count
        assert 99 in run.fenced
        assert run.storage.open_checkpoint is None
        assert run.storage.last_mark == (run.storage.journal.position,)
        Run.check(run)
        disk.crash(Random(at))
        state = run.state()
        if state in passed:
            continue
        run.restart()
        Run.check(run)
        passed.add(state)


def test_no_handle_is_left_open_by_what_found_none() -> None:
    count = open_count()
    for at in range(1, count + 1, 3):
        disk = SimulatedDisk()
        run = start(disk)
        disk.without_descriptor = range(disk.descriptor_count + at, disk.descriptor_count + at + 1)
        story(run)
        disk.without_descriptor = range(0)
        run.checkpoint()
        run.storage.close()
        assert disk.open_count == 0
