"""The scrub actor: its rate, its reports, and what a repair of what it found is allowed to do."""

import logging
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.support.garbage_collector import Box
from tests.support.memory_store import MemoryTree
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch, read, read_lac
from zbk.actors.messages import Answered, AskCheckpoint, AskStorage, CheckpointEnded, ForgetLedgers
from zbk.actors.upkeep.scrub import (
    CHECKPOINT_WAIT_MS,
    GO_SIZE,
    REPORT_COUNT,
    SHORT_WAIT_MS,
    RepairReports,
    ScrubActor,
    ScrubAsked,
    ScrubDue,
    ScrubParts,
)
from zbk.actors.upkeep.scrub_status import SHOWN_RANGE_COUNT, scrub_status
from zbk.actors.upkeep.waits import WaitPorts
from zbk.errors import (
    DamageError,
    DuplicateEntryError,
    EntryUnreadableError,
    MetadataUnavailableError,
    OutOfDescriptorsError,
)
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile
from zbk.storage.entry_logs.location import split_location
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.scrub.scrub_effects import LocationsOf
from zbk.system.clock import monotonic_ms
from zbk.system.files import OsFiles
from zbk.wire import codec
from zbk.wire.messages import AddAnswer, GetLedgerInfo, LacAnswer, LedgerInfo, ReadAnswer

PAYLOAD = b"x" * 500


class Ticker:
    """Keeps what was asked for; a test lets the time pass."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Callable[[], None]]] = []

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        self.calls.append((interval_ms, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        self.calls = [call for call in self.calls if call[1] != callback]


class Reports:
    """A metadata store that takes reports, or does not answer."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.reasons: list[MissingReason] = []
        self.asked_count = 0
        self.is_down = False

    def report(self, ledger_id: int, bookie_ids: Collection[str], reason: MissingReason) -> bool:
        self.asked_count += 1
        if self.is_down:
            raise MetadataUnavailableError("memory:", "down")
        assert tuple(bookie_ids) == ("b-test",)
        self.taken.append(ledger_id)
        self.reasons.append(reason)
        return True


class ScrubWorld:
    """A bookie whose scrub actor has no thread."""

    def __init__(
        self,
        *,
        rate_size: int = 0,
        disk: SimulatedDisk | None = None,
        tasks: RepairReports | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.rate_size = rate_size
        self.ticker = Ticker()
        self.reports = Reports()
        self.tasks = tasks or self.reports
        self.now_ms = 10_000
        self.failures: list[BaseException] = []
        self.to_storage: list[AskStorage | ForgetLedgers] = []
        self.checkpoints: list[AskCheckpoint] = []  # those asked for
        self.start()

    def start(self) -> None:
        self.bookie = World(self.disk, "/b", log_size_max=6_000)
        self.scrubber = ScrubActor(
            ScrubParts(
                views=self.bookie.storage.scrubs,
                damaged=self.bookie.storage.damaged,
                reports=self.tasks,
                ports=WaitPorts(self, Box(self.checkpoints), self.ticker, lambda: self.now_ms),
            ),
            bookie_id="b-test",
            rate_size=self.rate_size,
            stop_bookie=self.failures.append,
        )

    def tell(self, message: AskStorage | ForgetLedgers) -> None:
        """Be the storage actor's ref."""
        self.to_storage.append(message)

    def end_checkpoint(self) -> None:
        """Carry out the checkpoint that was asked for."""
        asked = self.checkpoints.pop()
        assert not self.checkpoints, "one pass at a time"
        self.bookie.checkpoint()
        asked.reply_to.tell(CheckpointEnded(asked.wait_no))

    def restart(self) -> None:
        """Kill the bookie; nothing of its index is in memory afterwards."""
        self.bookie.storage.close()
        self.disk.process_crash()
        self.start()

    def fill(self, ledger_ids: Collection[int], count: int = 20) -> None:
        """Write entries, two a block, and have a checkpoint behind them."""
        for first in range(0, count, 2):
            for ledger_id in ledger_ids:
                request = add(batch(first, [PAYLOAD] * 2, ledger_id=ledger_id))
                self.bookie.say(*request)
        self.bookie.settle()
        self.bookie.checkpoint()

    def scrub(self) -> None:
        """Carry out a pass."""
        self.scrubber.on_receive(ScrubDue())
        self.run()

    def run(self) -> None:
        """Go on to the end of the pass; time passes where it has to."""
        for _ in range(100_000):
            if self.checkpoints:
                self.end_checkpoint()
            if not self.go_on():
                counts = self.scrubber.counts
                if counts.begun_pass == counts.ended_pass:
                    return
                self.pass_time()
        raise AssertionError("a pass ends")

    def go_on(self) -> bool:
        if self.to_storage:
            self.bookie.tell(self.to_storage.pop(0))
        elif not self.scrubber.actor_inbox.empty():
            self.scrubber.on_receive(self.scrubber.actor_inbox.get().message)
        else:
            return False
        return True

    def pass_time(self) -> None:
        """End the first of the waits."""
        interval_ms, callback = min(self.ticker.calls, key=lambda call: call[0])
        self.now_ms += interval_ms
        callback()

    def place(self, ledger_id: int, entry_id: int) -> tuple[str, int]:
        resolved = self.bookie.storage.homes.ledger(ledger_id).resolve([entry_id], 1)
        assert resolved is not None
        log_id, offset = split_location(resolved.locations[0])
        return f"/b/ledgers/logs/{log_id:08x}.log", offset

    def damage(self, ledger_id: int, entry_id: int, at: int = 100) -> str:
        """Flip a bit of an entry; return the log's path."""
        path, offset = self.place(ledger_id, entry_id)
        self.disk.flip_bit(path, 8 * (offset + at))
        return path


@pytest.fixture
def world() -> ScrubWorld:
    world = ScrubWorld()
    world.fill([7, 8, 9])
    return world


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_pass_over_healthy_disks_says_nothing(
    world: ScrubWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.scrub()

    counts = world.scrubber.counts
    assert (counts.begun_pass, counts.ended_pass, counts.share) == (1, 1, 0.0)
    assert counts.read_size > 20 * 3 * 500
    assert counts.ended_ms > 0
    assert not world.scrubber.findings.is_damage_found
    assert (warnings(caplog), world.reports.taken, world.failures) == ([], [], [])


def test_a_pass_that_was_asked_for_reads_what_was_written_just_now() -> None:
    world = ScrubWorld()
    for first in range(0, 20, 2):
        world.bookie.say(*add(batch(first, [PAYLOAD] * 2)))
    world.bookie.settle()
    world.damage(7, 2)

    world.scrubber.on_receive(ScrubAsked(1))
    assert not world.go_on(), "it waits for a checkpoint"
    assert world.scrubber.counts.begun_pass == 1
    world.end_checkpoint()
    world.run()

    assert world.scrubber.counts.read_size > 20 * 500
    assert world.reports.taken == [7]


def test_a_pass_does_not_wait_for_ever_for_a_checkpoint(world: ScrubWorld) -> None:
    world.scrubber.on_receive(ScrubAsked(1))
    (asked,) = world.checkpoints
    world.checkpoints.clear()  # a full disk holds it up

    world.pass_time()
    world.run()

    counts = world.scrubber.counts
    assert world.now_ms == 10_000 + CHECKPOINT_WAIT_MS
    assert (counts.begun_pass, counts.ended_pass) == (1, 1)
    read_size = counts.read_size
    asked.reply_to.tell(CheckpointEnded(asked.wait_no))
    assert not world.go_on() or counts.read_size == read_size, "news of it comes too late"


def test_a_question_that_finds_no_descriptor_begins_the_pass_anew(world: ScrubWorld) -> None:
    world.damage(7, 2)
    world.scrubber.on_receive(ScrubDue())
    while not (world.to_storage and isinstance(question_of(world.to_storage[0]), LocationsOf)):
        assert world.go_on()
    asked = world.to_storage.pop()
    assert asked.reply_to is not None
    error = OutOfDescriptorsError("/b/ledgers/index", "open", "simulated")
    asked.reply_to.tell(Answered(asked.wait_no, error))

    world.run()

    assert world.failures == []
    assert world.now_ms == 10_000 + SHORT_WAIT_MS
    counts = world.scrubber.counts
    assert (counts.begun_pass, counts.ended_pass) == (1, 1)
    assert world.reports.taken == [7]


def question_of(message: AskStorage | ForgetLedgers) -> object:
    return message.question if isinstance(message, AskStorage) else None


def test_a_page_that_only_memory_has_is_written_again_without_new_entries(
    world: ScrubWorld,
) -> None:
    """A bookie that is only read has no checkpoint due, and a kill would take the page."""
    (path,) = (one for one in world.disk.paths(".idx") if one.endswith("7.idx"))
    world.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 50))

    world.scrub()

    assert [one.path for one in world.scrubber.findings.files] == [path]
    assert world.scrubber.findings.ledger_count == 0, "memory has it"
    world.restart()
    world.scrub()
    assert not world.scrubber.findings.is_damage_found


def test_only_a_pass_that_was_asked_for_has_a_checkpoint_begun(world: ScrubWorld) -> None:
    world.scrubber.on_receive(ScrubAsked(1))
    world.run()
    world.scrubber.on_receive(ScrubAsked(1))  # it has been, already

    world.scrubber.on_receive(ScrubDue())

    assert world.scrubber.counts.begun_pass == 2
    assert world.checkpoints == []


def test_damage_is_told_of_once_and_its_ledgers_are_reported(
    world: ScrubWorld, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.damage(7, 2)
    assert world.damage(8, 2) == path

    world.scrub()

    assert sorted(world.reports.taken) == [7, 8]
    (warning,) = warnings(caplog)
    assert path in warning
    assert "at byte" in warning
    assert "ledger 7" in warning
    status = scrub_status(world.scrubber, request_id=1, incarnation=3, awaited_pass=1)
    assert status.ranges == [(7, 2, 3), (8, 2, 3)]
    assert (status.file_count, status.ledger_count, status.entry_count) == (1, 2, 4)

    caplog.clear()
    world.scrub()
    assert len(warnings(caplog)) == 1, "once a pass"


def test_what_the_last_pass_found_is_kept_while_the_next_one_is_under_way(
    world: ScrubWorld,
) -> None:
    world.damage(7, 2)
    world.scrub()

    world.scrubber.on_receive(ScrubDue())
    assert world.scrubber.counts.begun_pass == 2
    assert (world.scrubber.findings.entry_count, world.scrubber.ended_findings.entry_count) == (
        0,
        2,
    )
    world.run()
    assert world.scrubber.findings is world.scrubber.ended_findings


def test_a_pass_that_was_asked_for_twice_is_one_and_one_asked_for_meanwhile_follows(
    world: ScrubWorld,
) -> None:
    world.scrubber.on_receive(ScrubAsked(1))
    world.scrubber.on_receive(ScrubAsked(1))
    world.scrubber.on_receive(ScrubAsked(2))
    world.run()
    assert world.scrubber.counts.ended_pass == 2


def test_no_more_is_read_than_the_rate_allows() -> None:
    world = ScrubWorld(rate_size=100_000)
    world.fill([7], 2)
    for first in range(2, 3_002, 200):
        world.bookie.say(*add(batch(first, [b"y" * 900] * 200)))
    world.bookie.settle()
    world.bookie.checkpoint()
    begun_ms = world.now_ms

    world.scrub()

    read_size = world.scrubber.counts.read_size
    assert read_size > 2_700_000
    assert world.now_ms - begun_ms >= (read_size - GO_SIZE - 200_000) * 1_000 // 100_000 - 250


def test_a_ledger_that_is_damaged_in_many_places_is_reported_once(world: ScrubWorld) -> None:
    """Or it would be repaired, and called whole, for each of them."""
    for first in range(20, 4_020, 200):
        world.bookie.say(*add(batch(first, [PAYLOAD] * 200, ledger_id=7)))
    world.bookie.settle()
    world.bookie.checkpoint()
    for entry_id in (2, 1_500, 3_700):
        world.damage(7, entry_id)

    world.scrub()

    assert world.reports.taken == [7]
    assert len(world.scrubber.findings.ranges) >= 3


def test_a_metadata_store_that_does_not_answer_is_asked_again(
    world: ScrubWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass goes on meanwhile; it is told of once."""
    world.damage(7, 2)
    world.damage(9, 8)
    world.reports.is_down = True

    world.scrub()

    assert world.reports.taken == []
    assert world.scrubber.queue.pending_count == 2
    asked_count = world.reports.asked_count
    for _ in range(100):
        world.pass_time()
        world.go_on()
    assert asked_count < world.reports.asked_count < asked_count + 12
    assert len([one for one in warnings(caplog) if "reported for repair" in one]) == 1

    world.reports.is_down = False
    for _ in range(100):
        if world.ticker.calls:
            world.pass_time()
            world.go_on()
    assert sorted(world.reports.taken) == [7, 9]
    assert world.ticker.calls == []


def test_reports_of_many_ledgers_come_a_few_at_a_time(world: ScrubWorld) -> None:
    for ledger_id in range(100, 200):
        world.scrubber.queue.add(ledger_id)

    world.scrubber.on_receive(ScrubDue())
    assert len(world.reports.taken) == REPORT_COUNT
    world.run()
    while world.ticker.calls:
        world.pass_time()
        world.go_on()
    assert world.reports.taken == [*range(100, 200)]


def test_a_report_reaches_the_metadata_store() -> None:
    session = MemoryTree("scrub").open_session()
    tasks = UnderreplicationStore(session)
    world = ScrubWorld(tasks=tasks)
    world.fill([7, 8, 9])
    world.damage(8, 4)

    world.scrub()

    found = tasks.read(8)
    assert found is not None
    assert found[0].missing == {"b-test": (MissingReason.CHECKED,)}
    assert tasks.read(7) is None
    session.close()


def test_an_answer_with_all_that_may_be_shown_fits_into_a_message() -> None:
    world = ScrubWorld()
    findings = world.scrubber.findings
    for number in range(1_000):
        findings.add_file(DamagedFile(f"{'/p' * 200}{number}", 1 << 62, "why" * 100, 1 << 62))
        findings.add_entries(DamagedEntries(number, 1 << 60, (1 << 60) + number))

    status = scrub_status(world.scrubber, request_id=1, incarnation=3, awaited_pass=1)

    assert codec.decode_answer(codec.encode(status)) == status
    assert (status.file_count, len(status.ranges)) == (1_000, SHOWN_RANGE_COUNT)


def test_a_scrubber_is_stopped_between_two_steps(world: ScrubWorld) -> None:
    world.scrubber.on_receive(ScrubDue())
    world.go_on()
    assert world.scrubber.counts.ended_pass == 0
    world.restart()
    world.scrub()
    assert not world.scrubber.findings.is_damage_found


# ------------------------------------------------------------------ repair


def test_a_recovery_add_stores_anew_what_is_damaged_and_answers_behind_the_sync(
    world: ScrubWorld,
) -> None:
    world.damage(7, 2)
    bookie = world.bookie
    wanted = batch(2, [PAYLOAD] * 2)

    bookie.say(*add(wanted, is_recovery=True, request_id=55))
    bookie.written()
    assert not any(one.request_id == 55 for one in bookie.answers), "it waits for the sync"
    bookie.settle()

    assert isinstance(bookie.answers[-1], AddAnswer)
    world.scrub()
    findings = world.scrubber.findings
    assert (findings.file_count, findings.ledger_count) == (1, 0), "nothing points there any more"
    world.restart()
    world.bookie.say(read(0, 19))
    world.bookie.fetched()
    answer = world.bookie.answers[-1]
    assert isinstance(answer, ReadAnswer)
    assert answer.count == 20


def test_other_bytes_beside_a_sound_copy_stay_refused_from_a_recovery_too(
    world: ScrubWorld,
) -> None:
    world.damage(7, 2)
    other = batch(0, [b"y" * 500] * 2)

    world.bookie.say(*add(other, is_recovery=True))

    assert world.bookie.last_error() is DuplicateEntryError


def test_an_ordinary_add_over_a_damaged_copy_is_still_refused(world: ScrubWorld) -> None:
    path, offset = world.place(7, 2)
    world.disk.flip_bit(path, 8 * (offset + 8))  # of the ledger id

    world.bookie.say(*add(batch(2, [PAYLOAD])))

    assert world.bookie.last_error() is EntryUnreadableError


def test_an_index_page_that_is_damaged_says_neither_yes_nor_no_and_takes_no_copy(
    world: ScrubWorld,
) -> None:
    """What the page held is not known: `zbk bookie rebuild-index` knows, from the logs."""
    (path,) = [one for one in world.disk.paths(".idx") if one.endswith("07.idx")]
    world.restart()
    world.disk.flip_bit(path, 8 * (INDEX_HEADER_SIZE + 16))

    world.bookie.say(read(0, 1))
    assert world.bookie.last_error() is EntryUnreadableError
    world.bookie.say(read(500, 501))
    assert world.bookie.last_error() is EntryUnreadableError, "no 'no such entry'"
    world.bookie.say(*add(batch(0, [PAYLOAD] * 2), is_recovery=True))
    assert issubclass(world.bookie.last_error(), DamageError)

    world.scrub()
    assert (world.reports.taken, world.reports.reasons) == ([7], [MissingReason.DAMAGED])
    assert "zbk bookie rebuild-index" in world.scrubber.findings.files[0].reason
    assert [one.last_entry_id for one in world.scrubber.findings.ranges] == [1_023]


def test_real_files(tmp_path: Path) -> None:
    """The same on a file system, with a byte flipped by hand."""
    bookie = World(OsFiles(), str(tmp_path), log_size_max=6_000)
    for first in range(0, 40, 2):
        bookie.say(*add(batch(first, [PAYLOAD] * 2)))
    bookie.settle()
    bookie.checkpoint()
    log = tmp_path / "ledgers" / "logs" / "00000001.log"
    content = bytearray(log.read_bytes())
    content[300] ^= 1
    log.write_bytes(content)
    reports = Reports()
    scrubber = ScrubActor(
        ScrubParts(
            views=bookie.storage.scrubs,
            damaged=bookie.storage.damaged,
            reports=reports,
            ports=WaitPorts(_AtOnce(bookie), Box([]), Ticker(), monotonic_ms),
        ),
        bookie_id="b-test",
        rate_size=0,
        stop_bookie=bookie.failures.append,
    )
    scrubber.on_receive(ScrubDue())
    while not scrubber.actor_inbox.empty():
        scrubber.on_receive(scrubber.actor_inbox.get().message)

    assert reports.taken == [7]
    assert [(one.first_entry_id, one.last_entry_id) for one in scrubber.findings.ranges] == [(0, 1)]
    bookie.storage.close()


class _AtOnce:
    def __init__(self, bookie: World) -> None:
        self._bookie = bookie

    def tell(self, message: AskStorage | ForgetLedgers) -> None:
        self._bookie.tell(message)


def held(world: ScrubWorld, ledger_id: int) -> list[tuple[int, int]]:
    world.bookie.say(GetLedgerInfo(request_id=70, ledger_id=ledger_id))
    answer = world.bookie.answers[-1]
    assert isinstance(answer, LedgerInfo)
    return answer.ranges


def test_a_bookie_does_not_say_that_it_holds_what_is_damaged_until_it_is_stored_anew(
    world: ScrubWorld,
) -> None:
    """So a repair that asks what is held copies just that."""
    world.damage(7, 2)
    world.damage(8, 6)
    assert held(world, 7) == [(0, 19)]

    world.scrub()
    while world.go_on():
        continue
    assert held(world, 7) == [(0, 1), (4, 19)]
    assert held(world, 8) == [(0, 5), (8, 19)]
    assert held(world, 9) == [(0, 19)]

    world.bookie.say(*add(batch(2, [PAYLOAD] * 2), is_recovery=True))
    world.bookie.settle()
    assert held(world, 7) == [(0, 19)]
    world.scrub()
    while world.go_on():
        continue
    assert held(world, 7) == [(0, 19)]
    assert held(world, 8) == [(0, 5), (8, 19)]


@pytest.mark.parametrize("at", [25, 100])
def test_a_lac_is_not_taken_from_an_entry_that_is_damaged(world: ScrubWorld, at: int) -> None:
    """B23: what was never confirmed would be readable, and be gone again later."""
    for first in (20, 22):
        world.bookie.say(*add(batch(first, [PAYLOAD] * 2, lac=3), lac=3))
    world.bookie.settle()
    world.bookie.checkpoint()
    world.restart()
    world.bookie.say(read_lac())
    assert lac_of(world) == 3

    world.damage(7, 23, at)
    world.restart()

    world.bookie.say(read_lac())
    assert lac_of(world) == -1


def lac_of(world: ScrubWorld) -> int:
    answer = world.bookie.answers[-1]
    assert isinstance(answer, LacAnswer)
    return answer.lac
