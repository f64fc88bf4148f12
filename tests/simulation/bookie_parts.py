"""What a simulated bookie is made of: its real parts, and what stands in for threads."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.simulation.kernel import MS
from tests.simulation.oracle import BookieOracle
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.serve.journal import JournalActor
from zbk.actors.serve.journal_times import NO_WRITE, WriteTime
from zbk.actors.serve.log_sync import LogSyncActor
from zbk.actors.serve.read import ReadActor
from zbk.actors.serve.storage import StorageActor, StorageMessage, WatchesDue
from zbk.actors.serve.sync_queue import (
    AppendGroup,
    SyncProgress,
    SyncQueue,
)
from zbk.durability.limbo_recheck import LedgerRecheck
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.journal import Journal, SyncBegun
from zbk.transport.inbound import Outbound


class Inbox:
    """What ``actor_inbox`` is asked of an actor without a thread."""

    def __init__(self) -> None:
        self.count = 0

    def empty(self) -> bool:
        return not self.count


class Tell:
    """A ref that hands messages to a function."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def tell(self, message: Any) -> None:  # noqa: ANN401 - each actor takes its own
        self._take(message)


class SyncingBookie(Protocol):
    """What a queue needs of its bookie."""

    disk: SimulatedDisk
    oracle: BookieOracle

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life."""
        ...

    def sync_us(self) -> int:
        """Draw how long an fsync takes."""
        ...


class TimedSyncQueue(SyncQueue):
    """The real queue, whose fsync takes simulated time."""

    def __init__(
        self,
        journal: Journal,
        storage: Tell,
        send: Callable[[Sequence[Outbound]], None],
        progress: SyncProgress,
        bookie: "SyncingBookie",
        journal_no: int = 0,
    ) -> None:
        super().__init__(journal, storage, send, progress, journal_no)
        self._real_journal = journal
        self._bookie = bookie
        self._is_busy = False
        self._is_wanted = False
        self.takes_no_time = False

    @property
    def is_running(self) -> bool:
        return self._is_busy

    def run(self, write: WriteTime = NO_WRITE) -> None:
        """Begin an fsync; with one under way, the next follows it."""
        self.observe(write)
        if self._is_busy:
            self._is_wanted = True
            return
        groups = self._take()
        if not groups:
            return
        self._is_busy = True
        begun = self._real_journal.begin_sync()
        mark = self._bookie.disk.change_count
        if self.takes_no_time:
            self._end(groups, begun, mark)
            return
        self._bookie.later(self._bookie.sync_us(), self._end, groups, begun, mark)

    def _end(self, groups: list[AppendGroup], begun: SyncBegun | None, mark: int) -> None:
        if begun is not None:
            self._bookie.disk.sync_until = mark
            self._real_journal.end_sync(begun)
            self._bookie.disk.sync_until = None
        self._bookie.oracle.synced(groups)
        self._tell(groups)
        self._is_busy = False
        if self._is_wanted:
            self._is_wanted = False
            self.run()


class Parts:
    """What a bookie is made of; a defect puts another part in."""

    storage_actor: type[StorageActor] = StorageActor
    journal_actor: type[JournalActor] = JournalActor
    sync_queue: type[TimedSyncQueue] = TimedSyncQueue
    read_actor: type[ReadActor] = ReadActor
    log_sync_actor: type[LogSyncActor] = LogSyncActor
    storage: type[BookieStorage] = BookieStorage
    limbo_recheck: type[LedgerRecheck] = LedgerRecheck
    is_cookie_checked = True


class PollingBookie(Protocol):
    """What a ticker needs of its bookie."""

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life."""
        ...

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        ...


class PollTicker:
    """The ticker of a bookie, as the storage actor knows it: it says when long polls are due."""

    def __init__(self, bookie: PollingBookie) -> None:
        self._bookie = bookie
        self._action: Callable[[], None] | None = None

    def every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Do something again and again until it is cancelled."""
        self._action = action
        self._bookie.later(interval_ms * MS, self._poll, interval_ms, action)

    def cancel(self, _action: Callable[[], None]) -> None:
        """Stop doing it."""
        self._action = None

    def _poll(self, interval_ms: int, action: Callable[[], None]) -> None:
        if self._action is action:
            self._bookie.tell_storage_actor(WatchesDue())
            self._bookie.later(interval_ms * MS, self._poll, interval_ms, action)


def never_stops(error: BaseException) -> None:
    raise AssertionError(f"an actor without a thread stops nothing: {error}")
