"""The scrub actor: when a pass begins, waits and ends, at which rate, and what is kept of it."""

from pathlib import Path

import pytest

from tests.support.garbage_collector import Box
from tests.support.scrub_world import PAYLOAD, Reports, ScrubWorld, Ticker, warnings, world
from tests.support.storage_actor import World, add, batch
from zbk.actors.messages import Answered, AskStorage, CheckpointEnded, ForgetLedgers
from zbk.actors.upkeep.scrub import (
    CHECKPOINT_WAIT_MS,
    GO_SIZE,
    SHORT_WAIT_MS,
    ScrubActor,
    ScrubAsked,
    ScrubDue,
    ScrubParts,
)
from zbk.actors.upkeep.waits import WaitPorts
from zbk.errors import OutOfDescriptorsError
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.scrub.scrub_effects import LocationsOf
from zbk.system.clock import monotonic_ms
from zbk.system.files import OsFiles

__all__ = ["world"]


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


def test_a_scrubber_is_stopped_between_two_steps(world: ScrubWorld) -> None:
    world.scrubber.on_receive(ScrubDue())
    world.go_on()
    assert world.scrubber.counts.ended_pass == 0
    world.restart()
    world.scrub()
    assert not world.scrubber.findings.is_damage_found


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
