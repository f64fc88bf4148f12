"""The k-th call of each kind to the file system fails, for every k of a whole life of storage.

Whatever it is, and whatever the error: the bookie goes on, without the request that met it or, for
want of space, read-only; or it stops, and says which file it was. Either way a start afterwards has
everything that was promised, with the power lost or not, and nothing that was never written.

The lives differ in nothing but the failure. Many leave the same disk and the same promises, more so
after a loss of power; a start from the same is tried once.
"""

import errno
from collections.abc import Callable, Hashable, Iterator
from random import Random

import pytest

from tests.support.crash_points import copy_of
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_lives import ACTS, PD, Life
from zbk.errors import DamageError, StorageFailedError, ZbkError
from zbk.storage.journal.record import FenceRecord

pytestmark = pytest.mark.usefixtures("same_nonce")

CALL_COUNT_MAX = 2_000

OPERATIONS = (
    "open",
    "create",
    "pread",
    "pwrite",
    "allocate",
    "sync",
    "rename",
    "remove",
    "sync_dir",
)
WRITES = ("create", "pwrite", "allocate", "rename", "remove", "sync", "sync_dir")


def test_a_life_without_faults_keeps_everything(passed: set[Hashable]) -> None:
    life, stopped = lived(Fault("no such operation", errno.EIO))

    assert stopped is None
    assert life.refused_count == 0
    life.check()
    check_next_lives(life, passed)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_whichever_call_fails_nothing_promised_is_lost(
    operation: str, passed: set[Hashable]
) -> None:
    for life, stopped in lives(operation, errno.EIO):
        if stopped is None:
            life.check()
        else:
            assert names_a_file(stopped), str(stopped)
            if life.has_started:
                check_that_it_stopped(life)
        check_next_lives(life, passed)


@pytest.mark.parametrize("operation", WRITES)
def test_whichever_call_finds_no_space_the_bookie_is_read_only_or_stops(
    operation: str, passed: set[Hashable]
) -> None:
    """An fsync is final whatever its error says; a removal is tried again by the next start."""
    for life, stopped in lives(operation, errno.ENOSPC):
        if stopped is None:
            assert life.no_space_paths, "whoever has to make it read-only is told"
            life.check()
        else:
            assert operation in {"sync", "sync_dir", "remove"}, f"stopped: {stopped}"
            assert names_a_file(stopped), str(stopped)
        check_next_lives(life, passed)


def lives(operation: str, error: int) -> Iterator[tuple[Life, ZbkError | None]]:
    """Yield a life in which the first such call failed, the second one ... and the last one."""
    for skip_count in range(CALL_COUNT_MAX):
        fault = Fault(operation, error, skip_count)
        life, stopped = lived(fault)
        if fault in life.disk.faults:
            assert skip_count > 0, "there is such a call"
            return
        yield life, stopped
    raise AssertionError("a life ends")


def lived(*faults: Fault) -> tuple[Life, ZbkError | None]:
    """Live with faults ahead; return what was raised if that stopped the bookie."""
    disk = SimulatedDisk()
    disk.faults = list(faults)
    life = Life(disk)
    try:
        for act in ACTS:
            act(life)
    except (StorageFailedError, DamageError) as error:
        return life, error
    return life, None


def names_a_file(error: ZbkError) -> bool:
    return any(path in str(error) for path in ("/j/", "/l/", "'/j'", "'/l'"))


def check_that_it_stopped(life: Life) -> None:
    """Nothing is promised any more, and reads go on."""
    with pytest.raises(StorageFailedError):
        life.storage.journal.append([FenceRecord(PD)])
    life.read(PD)


def check_next_lives(life: Life, passed: set[Hashable]) -> None:
    """Start after a crash of the process, and of the machine: all is there, and it goes on."""
    for seed in (None, 1):
        disk = copy_of(life.disk)
        if seed is None:
            disk.process_crash()
        else:
            disk.crash(Random(seed))
        again = life.reborn(disk, is_power_lost=seed is not None)
        start_and_check(again, passed, check_that_it_goes_on if seed is None else nothing)


def start_and_check(life: Life, passed: set[Hashable], then: Callable[..., None]) -> None:
    """Start on what a crash left, and go on, unless it is what another crash left."""
    case = (then, life.state())
    if case in passed:
        return
    life.start()
    life.check()
    then(life, passed)
    passed.add(case)


def check_that_it_goes_on(life: Life, passed: set[Hashable]) -> None:
    """Add to what is there, and start again without power."""
    life.add(PD, 9_000)
    life.checkpoint()
    life.disk.crash(Random(3))
    start_and_check(life.reborn(life.disk, is_power_lost=True), passed, nothing)


def nothing(_life: Life, _tried: set[Hashable]) -> None:
    """Leave it at the start."""
