"""A copy of a bookie's directories does not serve, and does the real bookie no harm."""

import copy

import pytest

from tests.support.bookie_starts import Start, known, refused, served, vanish
from tests.support.memory_store import MemoryStore
from tests.support.simulated_disk import SimulatedDisk
from zbk.durability.limbo import LossReason
from zbk.errors import LostHistoryError, NodeExistsError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.values import BookieRegistration
from zbk.storage.directory.identity import COOKIE_NAME, write_incarnation


def test_an_older_copy_of_the_directories_does_not_start(store: MemoryStore) -> None:
    """B40: what came later is missing."""
    disk = served(store, start_count=2)
    older = copy.deepcopy(disk)
    Start(disk, store).run().stop()

    assert "/l has incarnation 2" in refused(older, store)
    assert Start(disk.process_crash(), store).run().history.incarnation == 4


def test_a_cookie_copied_to_an_empty_disk_does_the_real_bookie_no_harm(store: MemoryStore) -> None:
    """B40: it changes nothing in the metadata store."""
    real = served(store)
    copied = SimulatedDisk()
    for directory in ("/j", "/l"):
        copied.make_dirs(directory)
        content = real.content(f"{directory}/{COOKIE_NAME}")
        copied.open(f"{directory}/{COOKIE_NAME}", create=True).close()
        copied.set_content(f"{directory}/{COOKIE_NAME}", content)

    assert "only the cookie was copied" in refused(copied, store)

    start = Start(real, store).run()
    assert start.history.incarnation == 3
    assert not start.losses.reasons


def test_of_two_on_the_same_history_the_second_one_does_not_serve_now_or_later(
    store: MemoryStore,
) -> None:
    disk = served(store)
    winner, loser = Start(disk, store), Start(copy.deepcopy(disk), store)
    winner.open()
    loser.open()

    winner.history.claim()
    with pytest.raises(LostHistoryError, match="the cluster knows its incarnation 3"):
        loser.history.claim()

    assert known(store) == (3, True)
    loser.storage.close()
    assert isinstance(loser.disk, SimulatedDisk)
    refused(loser.disk.process_crash(), store)
    assert Start(loser.disk, store).storage.limbo is not None
    later = Start(loser.disk, store, is_wiped_on_purpose=True)
    later.open()
    assert later.losses.reasons == (LossReason.WIPED,)
    winner.stop()
    assert Start(disk.process_crash(), store).run().history.incarnation == 4


@pytest.mark.parametrize("is_wiped_on_purpose", [False, True])
def test_a_copy_takes_nothing_from_a_bookie_that_runs(
    store: MemoryStore, *, is_wiped_on_purpose: bool
) -> None:
    disk = served(store)
    copied = copy.deepcopy(disk)
    if is_wiped_on_purpose:
        vanish(copied, "/j", "/l")
    running = Start(disk, store).run()
    (bookie_id,) = BookieRegistry(store).cookies()
    if not is_wiped_on_purpose:
        write_incarnation(copied, "/l", incarnation=3)
    registration = BookieRegistration(
        bookie_id=bookie_id,
        address="tcp://h:1",
        incarnation=3,
        is_readonly=False,
        started_ms=0,
        version="0",
    )
    registered = BookieRegistry(store).register(registration)

    with pytest.raises(NodeExistsError, match=r"at tcp://h:1.* does this bookie run twice\?"):
        Start(copied, store, is_wiped_on_purpose=is_wiped_on_purpose).run()

    assert known(store) == (3, True)
    registered.close()
    running.stop()
    assert Start(disk.process_crash(), store).run().history.incarnation == 4
