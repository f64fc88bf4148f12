"""A whole bookie in this process that lost some of its files: it never denies what it had."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.waiting import wait_until
from zbk.actors.identity.identity import init_identity
from zbk.actors.identity.offline import check, rebuild_index
from zbk.actors.process.bookie import Bookie
from zbk.client.api import Client, connect
from zbk.config import BookieConfig
from zbk.durability.limbo import LossReason
from zbk.errors import EntryUnreadableError, NotEnoughBookiesError, ZbkError
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import LastMark
from zbk.storage.tools.sanity import Problem

CONFIG = BookieConfig(
    metadata="memory://test-lost-files",
    journal_dir="/j",
    ledger_dir="/l",
    listen="tcp://127.0.0.1:0",
    journal_segment_size=1 << 20,
    entry_log_size_max=1 << 20,
    disk_reserve_size=2 << 20,
    disk_warn_free="0",
    disk_readonly_free="0",
    sync_interval_ms=0,
    boot_id="boot-1",
)
PAYLOADS = [b"entry %d " % number * 20 for number in range(200)]


@pytest.fixture
def store() -> Iterator[MetadataStore]:
    opened = open_store(CONFIG.metadata)
    yield opened
    opened.close()


@pytest.fixture
def disk(store: MetadataStore) -> SimulatedDisk:
    disk = SimulatedDisk()
    init_identity(disk, store, CONFIG)
    return disk


@contextmanager
def running(disk: SimulatedDisk) -> Iterator[Bookie]:
    bookie = Bookie(CONFIG, disk)
    bookie.start()
    try:
        yield bookie
    finally:
        bookie.request_stop()
        assert bookie.run_until_ended() == 0


def filled(disk: SimulatedDisk, count: int = 3, password: bytes = b"") -> list[int]:
    """Return ledgers of all payloads, of a stopped bookie; their writers are gone."""
    ledger_ids = []
    with running(disk), connect(CONFIG.metadata) as client:
        for _ in range(count):
            ledger = client.create_ledger(
                ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, password=password
            )
            ledger.append_many(PAYLOADS).result(30)
            ledger_ids.append(ledger.ledger_id)
    return ledger_ids


def recovered(ledger_id: int, password: bytes = b"") -> list[bytes]:
    """Return what a recovery leaves of a ledger."""
    with connect(CONFIG.metadata) as client:
        reader = client.recover_ledger(ledger_id, password=password)
        last = reader.last_add_confirmed
        return [bytes(entry.payload) for entry in reader.read(0, last)] if last >= 0 else []


def impatient() -> Client:
    return connect(CONFIG.metadata, request_timeout_ms=500, quorum_grace_ms=500)


def assert_not_denied(ledger_id: int) -> None:
    """A recovery does not end the ledger ahead of what was acknowledged."""
    with impatient() as client:
        with pytest.raises(ZbkError):
            client.recover_ledger(ledger_id, timeout=0.5)
        assert client.get_ledger_metadata(ledger_id).last_entry_id is None


def problems(disk: SimulatedDisk, store: MetadataStore) -> list[Problem]:
    with check(disk, store, CONFIG) as checked:
        return list(checked.problems())


def lose(disk: SimulatedDisk, *parts: str) -> None:
    for part in parts:
        paths = disk.paths(part)
        assert paths, f"there is nothing to lose of {part}"
        for path in paths:
            disk.remove_at_rest(path)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> str:
    return "\n".join(one.getMessage() for one in caplog.records if one.levelno >= level)


def test_index_files_that_are_gone_are_made_anew_and_nothing_is_denied(
    disk: SimulatedDisk, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: the entry logs have all of it."""
    ledger_ids = filled(disk)
    lose(disk, ".idx")

    assert [one.reason for one in problems(disk, store)] == [
        f"is missing: ledger {one} was here" for one in ledger_ids
    ]
    with running(disk) as bookie:
        assert f"lost the index files of 3 ledgers: {ledger_ids[0]}, " in lines(
            caplog, logging.CRITICAL
        )
        assert bookie.losses.reasons == ()  # of all of them every entry is here
        for ledger_id in ledger_ids:
            assert recovered(ledger_id) == PAYLOADS
    assert problems(disk, store) == []


def test_one_index_file_that_is_gone_concerns_no_other_ledger(
    disk: SimulatedDisk, store: MetadataStore
) -> None:
    first, second, third = filled(disk, password=b"secret")
    lose(disk, f"{second:016x}.idx")
    with running(disk):
        with connect(CONFIG.metadata) as client:
            writer = client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
            writer.append(b"more")
            writer.close()
        for ledger_id in (first, second, third):
            assert recovered(ledger_id, b"secret") == PAYLOADS
    assert problems(disk, store) == []


def test_an_index_file_that_a_file_system_check_has_cut_to_nothing_is_made_anew(
    disk: SimulatedDisk, store: MetadataStore
) -> None:
    ledger_ids = filled(disk)
    disk.set_content(disk.paths(".idx")[1], b"")

    assert len(problems(disk, store)) == 1
    with running(disk):
        assert recovered(ledger_ids[1]) == PAYLOADS
    assert problems(disk, store) == []


def test_a_ledger_that_is_still_written_changes_to_no_bookie_that_may_lack_its_fence(
    disk: SimulatedDisk,
) -> None:
    """What an index file says of fences is in no entry log."""
    (ledger_id,) = filled(disk, 1)
    lose(disk, ".idx")
    with running(disk) as bookie:
        assert bookie.losses.reasons == ()
        with impatient() as client, pytest.raises(NotEnoughBookiesError):
            client.open_ledger(ledger_id)  # a lower LAC than before would hide entries
        assert recovered(ledger_id) == PAYLOADS


def test_what_cannot_be_found_again_stays_in_limbo_and_is_not_denied(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    (ledger_id,) = filled(disk, 1)
    lose(disk, ".idx", "/logs/")
    with running(disk) as bookie:
        assert bookie.losses.reasons == (LossReason.INDEX_LOST,)
        assert "entry log /l/logs/00000001.log is missing" in lines(caplog, logging.ERROR)
        assert_not_denied(ledger_id)


def test_a_census_that_goes_with_the_index_files_is_missed(
    disk: SimulatedDisk, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: the last log mark knows that there was one."""
    (ledger_id,) = filled(disk, 1)
    lose(disk, ".idx", "/l/census")

    assert [one.reason for one in problems(disk, store)] == ["is missing"]
    with running(disk) as bookie:
        assert "/l/census is missing" in lines(caplog, logging.CRITICAL)
        assert bookie.losses.reasons == (LossReason.INDEX_LOST,)  # a log may be gone, too
        assert_not_denied(ledger_id)
    with check(disk, store, CONFIG) as checked:
        assert list(checked.problems()) == []
        assert checked.entry_count == len(PAYLOADS)


def found_missing(tasks: UnderreplicationStore) -> list[int]:
    """Return the ledgers that a scrub has reported; recoveries report theirs for other reasons."""
    found = {ledger_id: tasks.read(ledger_id) for ledger_id in tasks.list()}
    return [
        ledger_id
        for ledger_id, task in sorted(found.items())
        if task is not None
        and any(MissingReason.CHECKED in reasons for reasons in task[0].missing.values())
    ]


def test_the_ledgers_of_a_lost_entry_log_are_reported_at_the_start(
    disk: SimulatedDisk, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: and what was in it is an error, whoever reads it."""
    ledger_ids = filled(disk)
    lose(disk, "/logs/")

    assert disk.paths("/logs/")[:1] == []
    assert problems(disk, store)[0] == Problem("/l/logs/00000001.log", 0, "is missing")
    with running(disk):
        assert "has lost 1 entry logs, or their ends: /l/logs/00000001.log" in lines(
            caplog, logging.CRITICAL
        )
        tasks = UnderreplicationStore(store)
        wait_until(lambda: found_missing(tasks) == ledger_ids, what="the reports")
        with impatient() as client, pytest.raises(EntryUnreadableError):
            list(client.open_ledger(ledger_ids[0]).read_unconfirmed(0, 9))
        assert_not_denied(ledger_ids[0])


def test_rebuild_index_counts_anew_and_ends_the_limbo(
    disk: SimulatedDisk, store: MetadataStore
) -> None:
    ledger_ids = filled(disk)
    lose(disk, ".idx")

    reports = rebuild_index(disk, store, CONFIG, (), lambda _what, _count: None)

    report = reports["/l"]
    assert report is not None
    assert report.ledger_count == len(ledger_ids)
    assert problems(disk, store) == []
    with running(disk):
        for ledger_id in ledger_ids:
            assert recovered(ledger_id) == PAYLOADS


def test_a_healthy_bookie_says_nothing_of_lost_files(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    filled(disk)
    with running(disk):
        pass

    assert lines(caplog, logging.WARNING) == ""


def test_a_directory_of_before_there_was_a_census_gets_one_without_a_word(
    disk: SimulatedDisk, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    (ledger_id,) = filled(disk, 1)
    lose(disk, "/l/census")
    _forget_the_census(disk)
    with running(disk):
        assert recovered(ledger_id) == PAYLOADS

    assert disk.exists("/l/census")
    assert lines(caplog, logging.WARNING) == ""
    assert problems(disk, store) == []


def _forget_the_census(disk: SimulatedDisk) -> None:
    """Write the last mark as an older version does."""
    mark = LastMark(disk, "/l", FailStop()).look()
    assert mark is not None
    old = msgspec.structs.replace(mark, has_census=False, entry_log_size=0)
    disk.remove_at_rest("/l/last_mark")
    LastMark(disk, "/l", FailStop()).write(old)
