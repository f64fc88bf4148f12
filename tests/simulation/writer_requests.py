"""The requests of a writer in the simulation, and the events that their replies are to its core."""

import msgspec

from tests.simulation.world import World
from zbk.errors import BookieUnavailableError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write import events as ev
from zbk.protocol.write.writer import WriterCore
from zbk.transport.events import Reply
from zbk.wire.messages import Add, AddAnswer, LacAnswer, Sync, SyncAnswer, WriteLac


class AddKey(msgspec.Struct, frozen=True):
    slot: int
    first_entry_id: int
    epoch: int


class SyncKey(msgspec.Struct, frozen=True):
    slot: int
    sync_id: int
    epoch: int


class LacKey(msgspec.Struct, frozen=True):
    slot: int
    lac: int
    epoch: int


class CatchUpKey(msgspec.Struct, frozen=True):
    slot: int
    change_id: int


class WriterRequests:
    """Makes the requests of the writer of one ledger."""

    def __init__(self, world: World, metadata: LedgerMetadata, core: WriterCore) -> None:
        self._ledger_id = metadata.ledger_id
        self._ledger_type = metadata.ledger_type
        self._key = world.ledger_key(self._ledger_id)
        self._core = core

    def sync(self, slot: int, lac: int) -> Sync:
        """Return a request to sync the ledger."""
        return Sync(
            request_id=0,
            ledger_id=self._ledger_id,
            ledger_key=self._key,
            lac=lac,
            stripe=self._core.stripes[slot] or msgspec.UNSET,
        )

    def add(self, batch: EntryBatch, lac: int, slot: int) -> Add:
        """Return a request to add entries."""
        return Add(
            request_id=0,
            ledger_id=self._ledger_id,
            ledger_key=self._key,
            ledger_type=self._ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=lac,
            checksum=batch.checksum,
            is_striped=not batch.is_in_a_row,
            stripe=self._core.stripes[slot] or msgspec.UNSET,
        )

    def lac(self, lac: int) -> WriteLac:
        """Return a request that tells a LAC."""
        return WriteLac(
            request_id=0,
            ledger_id=self._ledger_id,
            ledger_key=self._key,
            ledger_type=self._ledger_type,
            lac=lac,
        )


def event_of(reply: Reply) -> ev.Event | None:
    """Return what a reply is to the core of the writer that asked."""
    key, outcome = reply.key, reply.outcome
    error = outcome if isinstance(outcome, ZbkError) else BookieUnavailableError("?", "nonsense")
    match key, outcome:
        case AddKey(slot, first, epoch), AddAnswer():
            return ev.AddAnswered(slot, first, outcome.incarnation, outcome.last_add_synced, epoch)
        case AddKey(slot, first, epoch), _:
            return ev.AddFailed(slot, first, error, epoch)
        case SyncKey(slot, sync_id, epoch), SyncAnswer():
            las = outcome.last_add_synced
            return ev.SyncAnswered(slot, sync_id, outcome.incarnation, las, epoch)
        case SyncKey(slot, sync_id, epoch), _:
            return ev.SyncFailed(slot, sync_id, error, epoch)
        case LacKey(slot, lac, epoch), LacAnswer():
            return ev.LacTaken(slot, lac, epoch)
        case LacKey(slot, lac, epoch), _:
            return ev.LacFailed(slot, lac, error, epoch)
    raise AssertionError("a writer sends nothing else")
