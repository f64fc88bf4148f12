"""What the threads of the client do: write ledgers, read them back, delete them.

A call may fail while a bookie is down: that is counted, and tried again. What was acknowledged may
not be missing afterwards. Of a VD ledger whose writer failed only what was synced is promised.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import zbk
from tests.soak.mixed.payloads import BATCH_SIZE, Plan, stored_size
from tests.soak.mixed.shelf import Shelf, Written
from zbk.system.clock import monotonic_s

TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 90.0
"""How long something may fail, with bookies killed meanwhile, before it counts as lost."""

PAUSE_S: Final = 0.2
READ_PAUSE_SHARE: Final = 3  # a reader rests that many times as long as it took
IN_FLIGHT_COUNT: Final = 16  # batches
TAKEOVER_SHARE: Final = 0.05  # of ledgers whose writer is still at work when they are recovered
SYNC_SHARE: Final = 0.05  # of VD batches that are followed by a sync


class Worker:
    """One thread; its dice decide what it does."""

    def __init__(
        self, client: "zbk.Client", shelf: Shelf, stop: threading.Event, dice: random.Random
    ) -> None:
        self._client = client
        self._shelf = shelf
        self._stop = stop
        self._dice = dice

    def run(self, work: Callable[[], None]) -> None:
        """Do the same over and over; whatever it did not expect is a violation."""
        while not self._stop.is_set():
            try:
                work()
            except zbk.ZbkError as error:
                self._shelf.note(refused=1)
                if not _is_passing(error):
                    self._shelf.violated(f"{work.__name__}: {error!r}")
                self._stop.wait(PAUSE_S)
            except Exception as error:  # noqa: BLE001 - the report tells
                self._shelf.violated(f"{work.__name__}: {error!r}")
                self._stop.wait(PAUSE_S)

    def insist(self, call: Callable[[], object], what: str) -> object:
        """Try until it is done; a violation if that takes too long."""
        deadline_s = monotonic_s() + PATIENCE_S
        while True:
            try:
                return call()
            except zbk.ZbkError as error:
                self._shelf.note(refused=1)
                if monotonic_s() > deadline_s:
                    self._shelf.violated(f"{what} fails for {PATIENCE_S:g} s: {error!r}")
                    raise
            threading.Event().wait(PAUSE_S)


class WriterWorker(Worker):
    """Writes one ledger after the other, no faster than its share of the rate."""

    def __init__(
        self,
        client: "zbk.Client",
        shelf: Shelf,
        stop: threading.Event,
        dice: random.Random,
        *,
        rate_size: float,
    ) -> None:
        super().__init__(client, shelf, stop, dice)
        self._rate_size = rate_size

    def write(self) -> None:
        """Write a ledger and put it onto the shelf."""
        plan = Plan.drawn(self._dice)
        ensemble_size, write_quorum_size, ack_quorum_size = plan.quorums
        ledger = self._client.create_ledger(
            ledger_type=plan.ledger_type,
            ensemble_size=ensemble_size,
            write_quorum_size=write_quorum_size,
            ack_quorum_size=ack_quorum_size,
        )
        promised = _Promise(plan.ledger_type)
        try:
            self._append(ledger, plan, promised)
            if self._dice.random() < TAKEOVER_SHARE:
                raise zbk.LedgerFencedError(ledger.ledger_id)  # as if somebody had recovered it
            promised.closed(ledger.close(timeout=TIMEOUT_S))
        except zbk.ZbkError:
            self._shelf.note(taken_over=1)
            count = self._take_over(ledger.ledger_id, promised)
        else:
            count = promised.count
        self._put(ledger.ledger_id, plan, count)

    def _append(self, ledger: zbk.LedgerWriter, plan: Plan, promised: "_Promise") -> None:
        start_s = monotonic_s()
        size = 0
        for batch in plan.batches():
            promised.add(ledger.append_many(batch, timeout=TIMEOUT_S))
            size += sum(map(len, batch)) + len(batch)
            if plan.ledger_type.is_volatile and self._dice.random() < SYNC_SHARE:
                promised.synced(ledger.sync(timeout=TIMEOUT_S))
            ahead_s = size / self._rate_size - (monotonic_s() - start_s)
            if ahead_s > BATCH_SIZE / self._rate_size and self._stop.wait(ahead_s):
                break
        promised.settle()

    def _take_over(self, ledger_id: int, promised: "_Promise") -> int:
        """Recover the ledger and return its length: all that was promised has to be there."""

        def recover() -> int:
            with self._client.recover_ledger(ledger_id) as reader:
                return reader.last_add_confirmed + 1

        count = self.insist(recover, f"the recovery of ledger {ledger_id}")
        assert isinstance(count, int)
        if count < promised.count:
            self._shelf.violated(
                f"ledger {ledger_id} ends at {count} after its recovery, "
                f"and {promised.count} entries were promised"
            )
        return count

    def _put(self, ledger_id: int, plan: Plan, count: int) -> None:
        sizes = [(len(payload), stored_size(payload)) for payload in plan.payloads(count)]
        if len(sizes) < count:
            self._shelf.violated(f"ledger {ledger_id} has {count} entries, more than were written")
        written = Written(
            ledger_id, plan, count, sum(stored for _, stored in sizes) * plan.quorums[1]
        )
        self._shelf.add(written, sum(size for size, _ in sizes))


class _Promise:
    """How many entries of a ledger its writer was promised."""

    def __init__(self, ledger_type: zbk.LedgerType) -> None:
        self._is_pd = not ledger_type.is_volatile
        self._pending: list[Future[range]] = []
        self.count = 0

    def add(self, future: "Future[range]") -> None:
        """Take in a batch; wait for the first one if too many are in flight."""
        self._pending.append(future)
        while len(self._pending) > IN_FLIGHT_COUNT:
            self._settle_one()

    def settle(self) -> None:
        """Wait for all."""
        while self._pending:
            self._settle_one()

    def synced(self, lac: int) -> None:
        self.count = max(self.count, lac + 1)

    def closed(self, last_entry_id: int) -> None:
        self.count = last_entry_id + 1

    def _settle_one(self) -> None:
        ids = self._pending.pop(0).result(TIMEOUT_S)
        if self._is_pd:
            self.count = ids.stop


class ReaderWorker(Worker):
    """Reads ledgers from the first entry to the last, and compares."""

    def read(self) -> None:
        """Read one ledger that is on the shelf."""
        written = self._shelf.borrow(self._dice)
        if written is None:
            self._stop.wait(PAUSE_S)
            return
        read_count = 0
        start_s = monotonic_s()
        try:
            self.insist(lambda: self.compare(written), f"reading ledger {written.ledger_id}")
            read_count = written.entry_count
        finally:
            self._shelf.give_back(written, read_count)
        self._stop.wait(READ_PAUSE_SHARE * (monotonic_s() - start_s))  # processors are for all

    def compare(self, written: Written) -> None:
        """Read a whole ledger; what differs is a violation, what cannot be read now is raised."""
        wanted = written.plan.payloads(written.entry_count)
        with self._client.open_ledger(written.ledger_id) as reader:
            last = reader.last_add_confirmed
            if last != written.entry_count - 1:
                self._shelf.violated(
                    f"ledger {written.ledger_id} ends at {last}, not {written.entry_count - 1}"
                )
                return
            if last < 0:
                return
            entry_id = 0
            for batch in reader.read_batches(0, last, timeout=TIMEOUT_S):
                for payload in batch:
                    if payload != next(wanted):
                        self._shelf.violated(
                            f"ledger {written.ledger_id} entry {entry_id} has other bytes"
                        )
                        return
                    entry_id += 1


class DeleterWorker(Worker):
    """Deletes ledgers while there are more bytes than there should be."""

    def __init__(
        self,
        client: "zbk.Client",
        shelf: Shelf,
        stop: threading.Event,
        dice: random.Random,
        *,
        live_size_max: int,
    ) -> None:
        super().__init__(client, shelf, stop, dice)
        self._live_size_max = live_size_max

    def delete(self) -> None:
        """Delete one ledger, if there is too much."""
        taken = None
        if self._shelf.live_size > self._live_size_max:
            taken = self._shelf.take(self._dice)
        if taken is None:
            self._stop.wait(PAUSE_S)
            return
        ledger_id = taken.ledger_id
        self.insist(lambda: self._delete(ledger_id), f"the deletion of ledger {ledger_id}")

    def _delete(self, ledger_id: int) -> None:
        try:
            self._client.delete_ledger(ledger_id)
        except zbk.NoSuchLedgerError:
            return  # the answer of the attempt before was lost
        try:
            self._client.open_ledger(ledger_id).close()
        except zbk.NoSuchLedgerError:
            return
        self._shelf.violated(f"ledger {ledger_id} was deleted and can be opened")


def _is_passing(error: zbk.ZbkError) -> bool:
    """Return whether a call may fail so while a bookie, or the metadata, cannot be reached."""
    return isinstance(
        error,
        zbk.NotEnoughBookiesError
        | zbk.BookieUnavailableError
        | zbk.RequestTimeoutError
        | zbk.MetadataUnavailableError,
    )
