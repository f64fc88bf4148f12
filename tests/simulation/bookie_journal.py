"""One of the journals of a simulated bookie: its two actors, without their threads.

What the storage actor hands over, and what the journal actor answers, takes simulated time here.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from tests.simulation.bookie_parts import Inbox, Parts, SyncingBookie, Tell, never_stops
from tests.simulation.kernel import Kernel, Node
from zbk.actors.serve.journal import NoteSynced
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.actors.serve.sync_queue import (
    AppendGroup,
    Synced,
    SyncProgress,
)
from zbk.actors.space_gate import SpaceGate
from zbk.storage.journal.journal import Journal
from zbk.transport.inbound import Outbound

UNSYNCED_SIZE_MAX = 1 << 20


class JournalingBookie(SyncingBookie, Protocol):
    """What a journal needs of its bookie."""

    kernel: Kernel
    node: Node

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers."""
        ...

    def tell_synced(self, message: Synced | LogsSynced) -> None:
        """Notify the storage actor of a sync, some time later."""
        ...


LENT_SHARE: Final = 4
"""One in so many lone groups is written, synced and answered in the turn of the storage actor."""


class BookieJournal:
    """One journal in one life of a bookie; ``progress`` says how far it is synced."""

    def __init__(
        self,
        bookie: JournalingBookie,
        parts: Parts,
        journal: Journal,
        number: int,
        space: SpaceGate,
    ) -> None:
        self._bookie = bookie
        self._number = number
        self.progress = SyncProgress()
        self._groups: list[AppendGroup] = []
        self._queue = parts.sync_queue(
            journal, Tell(bookie.tell_synced), bookie.send, self.progress, bookie, number
        )
        self._inbox = Inbox()
        self._actor = parts.journal_actor(
            self._queue,
            Tell(lambda _flush: self._queue.run()),
            space,
            unsynced_size_max=UNSYNCED_SIZE_MAX,
            stop_bookie=never_stops,
            now_ms=bookie.node.now_ms,
        )
        self._actor.actor_inbox = self._inbox

    def sync(self) -> None:
        """Sync what nobody waits for."""
        self._queue.run()

    def note_synced(self) -> None:
        """Write down what was synced last, if nothing else is to be written."""
        self._actor.handle(NoteSynced())

    def take(self, group: AppendGroup) -> None:
        """Write the only group of a turn, sometimes in the turn of the storage actor."""
        is_idle = not self._groups and not self._queue.is_running
        if not (is_idle and self._bookie.kernel.tape.aside(LENT_SHARE) == 1):
            self.tell(group)
            return
        self._bookie.kernel.sometimes["bookie: a turn is lent to the journal"] += 1
        self._queue.takes_no_time = True
        self._groups.append(group)
        self._write_groups()
        self._queue.takes_no_time = False

    def tell(self, group: AppendGroup) -> None:
        """Queue a group; the next write covers all that are queued."""
        self._groups.append(group)
        if len(self._groups) == 1:
            self._bookie.later(20 + self._bookie.kernel.tape.draw(4) * 100, self._write_groups)

    def _write_groups(self) -> None:
        groups, self._groups = self._groups, []
        if self._number:
            self._bookie.kernel.sometimes["bookie: its second journal is written"] += 1
        self._inbox.count = len(groups)
        for group in groups:
            self._inbox.count -= 1
            self._actor.handle(group)
