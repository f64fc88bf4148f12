"""The actors of a simulated bookie, without their threads.

What they tell each other arrives some time later, and an fsync of entry logs takes its time, too:
it covers what was written when it began.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from tests.simulation.bookie_journal import BookieJournal, JournalingBookie
from tests.simulation.bookie_parts import Parts, PollingBookie, PollTicker, Tell, never_stops
from tests.simulation.kernel import SECOND
from zbk.actors.serve.ledger_lookups import LookUp
from zbk.actors.serve.log_syncs import SyncLogs
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import Fetch, MovedEntries
from zbk.actors.serve.storage import StorageMessage
from zbk.actors.space_gate import SpaceGate
from zbk.errors import ZbkError
from zbk.security.access_table import AccessTable
from zbk.storage.bookie_storage import BookieStorage
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Pong

ENTRY_SIZE_MAX = 1 << 20


class ServingBookie(JournalingBookie, PollingBookie, Protocol):
    """What the actors need of their bookie."""

    sync_interval_us: int

    @property
    def incarnation(self) -> int:
        """The number of this start."""
        ...


class BookieActors:
    """The actors of one life of a bookie, which serve what its storage has."""

    def __init__(
        self,
        bookie: ServingBookie,
        parts: Parts,
        storage: BookieStorage,
        look_up: Callable[[LookUp], None],
        access: AccessTable | None,
    ) -> None:
        self._bookie = bookie
        self._storage = storage
        space = SpaceGate(bookie.node.name)
        self._journals = [
            BookieJournal(bookie, parts, journal, number, space)
            for number, journal in enumerate(storage.journals)
        ]
        moved = MovedEntries(
            lambda one: storage.home_of(one).is_gone(one),
            partial(bookie.later, 50, bookie.tell_storage_actor),
        )
        self._read_actor = parts.read_actor(
            lambda one: storage.home_of(one).fetch(one),
            bookie.send,
            bookie.incarnation,
            never_stops,
            moved,
        )
        self._log_sync_actor = parts.log_sync_actor(Tell(bookie.tell_synced), never_stops)
        self._storage_actor = parts.storage_actor(
            storage,
            ServeParts(
                journals=lambda: self._journals,
                progresses=[one.progress for one in self._journals],
                reader=Tell(self._fetch),
                look_up=look_up,
                sync_logs=self._sync_logs,
                send=bookie.send,
                space=space,
                ticker=PollTicker(bookie),
                status=lambda request: Pong(request_id=request.request_id),
                now_ms=bookie.node.now_ms,
                access=access,
            ),
            ServeLimits(ENTRY_SIZE_MAX, read_size_max=1 << 20),
            incarnation=bookie.incarnation,
            stop_bookie=never_stops,
        )

    def handle(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        self._storage_actor.handle(message)

    @property
    def waiting(self) -> list[Inbound]:
        """The requests that wait for a look-up."""
        waiting = self._storage_actor._gate._room._waiting.values()
        return [one.request for some in waiting for one in some if one.request is not None]

    def _fetch(self, fetches: list[Fetch]) -> None:
        bookie = self._bookie
        bookie.later(30 + bookie.kernel.tape.draw(4) * 100, self._read_actor.handle, fetches)

    # ------------------------------------------------------------------ journals

    def note_synced_at_times(self) -> None:
        """Write down in each journal what was synced last, again and again."""
        self._bookie.later(SECOND // 2, self._note_synced)

    def _note_synced(self) -> None:
        for one in self._journals:
            one.note_synced()
        self.note_synced_at_times()

    def sync_at_times(self) -> None:
        """Sync each journal again and again, if the bookie does that by itself."""
        if self._bookie.sync_interval_us:
            self._bookie.later(self._bookie.sync_interval_us, self._sync_due)

    def _sync_due(self) -> None:
        for one in self._journals:
            one.sync()
        self.sync_at_times()

    # ------------------------------------------------------------------ entry logs

    def _sync_logs(self, message: SyncLogs) -> None:
        """Begin an fsync of entry logs; it covers what is written now."""
        bookie = self._bookie
        bookie.later(
            bookie.sync_us(), self._end_log_sync, message, bookie.disk.change_count, self._held()
        )

    def _held(self) -> dict[int, Sequence[tuple[int, int]]]:
        """Return the entries that the index has, of ledgers that bypass the journal."""
        held: dict[int, Sequence[tuple[int, int]]] = {}
        for one in self._storage_actor.unsynced(0):
            with suppress(ZbkError):  # of a damaged disk
                held[one.ledger_id], _ = self._storage.homes.ledger(one.ledger_id).held_ranges(
                    0, range_count_max=1 << 20, entry_count_max=1 << 20
                )
        return held

    def _end_log_sync(
        self, message: SyncLogs, mark: int, held: dict[int, Sequence[tuple[int, int]]]
    ) -> None:
        bookie = self._bookie
        bookie.kernel.sometimes["bookie: entry logs are synced for a ledger"] += 1
        bookie.disk.sync_until = mark
        self._log_sync_actor.handle(message)
        bookie.disk.sync_until = None
        bookie.oracle.logs_synced(held)
