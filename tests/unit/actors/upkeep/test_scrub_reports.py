"""What a scrub finds is logged, shown and reported for repair, once for each ledger."""

import pytest

from tests.support.memory_store import MemoryTree
from tests.support.scrub_world import PAYLOAD, ScrubWorld, warnings, world
from tests.support.storage_actor import add, batch
from zbk.actors.upkeep.scrub import REPORT_COUNT, ScrubDue
from zbk.actors.upkeep.scrub_status import SHOWN_RANGE_COUNT, scrub_status
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile
from zbk.wire import codec

__all__ = ["world"]


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
