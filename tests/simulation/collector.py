"""How a bookie of the simulation collects garbage: the real ``GcActor`` with its compaction.

Its session with the metadata store is one that may be lost, and the list of ledgers that it is
given leaves some out at times.
"""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from tests.simulation.bookie_parts import Tell, never_stops
from tests.simulation.live_session import LiveSession
from tests.simulation.metadata import MetadataServer
from tests.simulation.stepped_actor import SteppedActor, SteppingBookie
from tests.simulation.tape import Tape
from zbk.actors.messages import Answered, AskStorage, ForgetLedgers, Sink
from zbk.actors.upkeep.compaction_rounds import CompactionOptions
from zbk.actors.upkeep.gc import GcActor, GcDue, GcOptions
from zbk.protocol.upkeep.compaction import CompactionLimits
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.gc.garbage import DropIndexes


class UpkeepPlan(msgspec.Struct, frozen=True):
    """How often bookies collect, compact and scrub; times in milliseconds."""

    interval_ms: int
    confirm_delay_ms: int
    limits: CompactionLimits
    scrub_interval_ms: int  # 0: never

    @classmethod
    def draw(cls, tape: Tape) -> "UpkeepPlan":
        """Draw what this run has."""
        limits = CompactionLimits(
            minor_threshold=tape.pick((0.2, 0.5)),
            minor_interval_ms=tape.pick((400, 1_000, 0)),
            major_threshold=tape.pick((0.8, 0.95)),
            major_interval_ms=tape.pick((700, 2_000, 0)),
        )
        return cls(
            interval_ms=tape.pick((500, 150, 1_500)),
            confirm_delay_ms=tape.pick((100, 10, 400)),
            limits=limits,
            scrub_interval_ms=tape.pick((0, 700)),
        )


class WatchedDrop(msgspec.Struct, frozen=True):
    """A drop that is reported the moment before."""

    drop: DropIndexes
    on_drop: Callable[[Sequence[int]], None]

    def answer(self) -> int:
        """Drop, as the storage actor would."""
        self.on_drop(self.drop.ledger_ids)
        return self.drop.answer()


class BookieCollector:
    """The garbage collection of one life of a bookie."""

    def __init__(
        self,
        bookie: SteppingBookie,
        storage: BookieStorage,
        metadata: MetadataServer,
        plan: UpkeepPlan,
        cluster_id: str,
    ) -> None:
        self._bookie = bookie
        self._metadata = metadata
        self._steps = SteppedActor(bookie)
        self._session = LiveSession(metadata, bookie.node, f"{bookie.bookie_id}.gc")
        self._session.is_list_whole = False
        metadata.sessions.append(self._session)
        room_size = 1 << 40
        compaction = CompactionOptions(plan.limits, 0, lambda _path: room_size)
        self._gc = GcActor(
            storage.garbages,
            self._session,
            GcOptions(cluster_id, plan.confirm_delay_ms, compaction),
            msgspec.structs.replace(self._steps.ports, storage_actor=Tell(self._to_storage)),
            never_stops,
        )
        if self._gc.compaction.is_open:
            bookie.kernel.sometimes["gc: a compaction taken up after a crash"] += 1
        self._gc.on_start()
        self._steps.drive(self._gc)
        self._steps.give_every(plan.interval_ms, GcDue())

    def end(self) -> None:
        """The bookie's life is over."""
        self._metadata.sessions.remove(self._session)
        sometimes = self._bookie.kernel.sometimes
        sometimes["gc: an entry log removed"] += self._gc.counts.log_count
        sometimes["gc: an entry log compacted"] += self._gc.compaction.counts.log_count

    def _to_storage(self, message: AskStorage | ForgetLedgers) -> None:
        match message:
            case ForgetLedgers(ledger_ids, reply_to):
                watched = Tell(partial(self._marked, ledger_ids, reply_to))
                message = msgspec.structs.replace(message, reply_to=watched)
            case AskStorage(question=DropIndexes() as drop):
                watched_drop = WatchedDrop(drop, self._dropping)
                message = msgspec.structs.replace(message, question=watched_drop)
        self._steps.tell(message)

    # ------------------------------------------------------------------ who looks at it

    def _marked(
        self, ledger_ids: Sequence[int], reply_to: Sink[Answered], answer: Answered
    ) -> None:
        bookie = self._bookie
        for ledger_id in ledger_ids:
            if ledger_id in self._metadata.current:
                bookie.oracle.violated("I29", f"forgets ledger {ledger_id}, which is there")
            elif ledger_id not in self._metadata.ever:
                bookie.oracle.violated("I29", f"forgets ledger {ledger_id}, which never was")
        if answer.value:
            bookie.oracle.marked(ledger_ids)
        reply_to.tell(answer)

    def _dropping(self, ledger_ids: Sequence[int]) -> None:
        bookie = self._bookie
        bookie.node.trace(f"drops {[f'L{ledger_id}' for ledger_id in ledger_ids]}")
        bookie.kernel.sometimes["gc: a deleted ledger dropped"] += len(ledger_ids)
        bookie.oracle.dropped(ledger_ids)
