"""A scrub actor without its thread, beside a storage actor and a store of reports for repair."""

import logging
from collections.abc import Callable, Collection

import pytest

from tests.support.garbage_collector import Box
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.actors.messages import AskCheckpoint, AskStorage, CheckpointEnded, ForgetLedgers
from zbk.actors.upkeep.scrub import RepairReports, ScrubActor, ScrubDue, ScrubParts
from zbk.actors.upkeep.waits import WaitPorts
from zbk.errors import MetadataUnavailableError
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.storage.entry_logs.location import split_location

PAYLOAD = b"x" * 500


class Ticker:
    """Keeps what was asked for; a test lets the time pass."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Callable[[], None]]] = []

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Note a callback and its interval."""
        self.calls.append((interval_ms, callback))

    def cancel(self, callback: Callable[[], None]) -> None:
        """Forget a callback."""
        self.calls = [call for call in self.calls if call[1] != callback]


class Reports:
    """A metadata store that takes reports, or does not answer."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.reasons: list[MissingReason] = []
        self.asked_count = 0
        self.is_down = False

    def report(self, ledger_id: int, bookie_ids: Collection[str], reason: MissingReason) -> bool:
        """Note a ledger that is reported for repair."""
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
        """Start the bookie, on what is on the disk."""
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
        """Take one step; false if there is nothing to do but to wait."""
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
        """Return the log of an entry, and where in it its block begins."""
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
    """Return a bookie with three ledgers on its disk."""
    world = ScrubWorld()
    world.fill([7, 8, 9])
    return world


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that were logged."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
