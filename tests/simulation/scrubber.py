"""How a bookie of the simulation scrubs: the real ``ScrubActor``, over files that change meanwhile.

On a disk that nobody damaged it finds no entry that cannot be read, and nothing wrong with any
index file, whatever crashes, compactions and checkpoints leave. In an entry log it may find bytes
that a loss of power has taken: what was not synced, and nobody was promised. It tells of them only
as long as no checkpoint has shown that nobody misses them.
"""

from collections.abc import Callable, Collection

from tests.simulation.bookie_parts import never_stops
from tests.simulation.stepped_actor import SteppedActor, SteppingBookie
from zbk.actors.upkeep.scrub import LogsLost, ScrubActor, ScrubDue, ScrubParts
from zbk.metadata.records.underreplication import MissingReason
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile
from zbk.storage.bookie_storage import BookieStorage

GO_SIZE = 300
RATE_SIZE = 1 << 20


class WatchedScrubActor(ScrubActor):
    """Tells of each finding."""

    on_damage: Callable[[DamagedFile | DamagedEntries], None]

    def _on_damage(self, damage: DamagedFile | DamagedEntries) -> None:
        self.on_damage(damage)
        super()._on_damage(damage)


class BookieScrubber:
    """The scrubbing of one life of a bookie."""

    def __init__(self, bookie: SteppingBookie, storage: BookieStorage, interval_ms: int) -> None:
        self._bookie = bookie
        self._views = storage.scrubs
        steps = SteppedActor(bookie)
        self._scrub = WatchedScrubActor(
            ScrubParts(
                views=storage.scrubs,
                damaged=storage.damaged,
                reports=self,
                ports=steps.ports,
            ),
            bookie_id=bookie.bookie_id,
            rate_size=RATE_SIZE,
            stop_bookie=never_stops,
            go_size=GO_SIZE,
        )
        self._scrub.on_damage = self._found
        if any(view.lost_logs for view in self._views):
            self._scrub.actor_ref.tell(LogsLost())
        steps.drive(self._scrub)
        steps.give_every(interval_ms, ScrubDue())

    def end(self) -> None:
        """The bookie's life is over."""
        sometimes = self._bookie.kernel.sometimes
        sometimes["scrub: a pass has ended"] += self._scrub.counts.ended_pass
        lost_count = sum(len(view.lost) for view in self._views)
        sometimes["scrub: nobody misses what a loss of power took"] += lost_count

    def report(self, ledger_id: int, bookie_ids: Collection[str], reason: MissingReason) -> bool:
        """Take a report; that damage is repaired is tested elsewhere."""
        del ledger_id, bookie_ids, reason
        return True

    def _found(self, step: DamagedFile | DamagedEntries) -> None:
        oracle, kernel = self._bookie.oracle, self._bookie.kernel
        is_in_log = isinstance(step, DamagedFile) and step.path.endswith(".log")
        if oracle.is_damaged:
            kernel.sometimes["scrub: damage found"] += 1
        elif is_in_log and oracle.has_lost_power:
            kernel.sometimes["scrub: what a loss of power left in a log"] += 1
        else:
            oracle.violated("scrub", f"finds damage where there is none: {step}")
