"""Carries out the sync of a ledger that somebody else writes: the requests of an ``OutsideSync``.

Runs in the thread of the caller, who waits.
"""

from typing import assert_never

from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.cluster.requests import RequestSender
from zbk.durability.outside_sync import (
    AskSync,
    Event,
    LacTold,
    OutsideSync,
    OutsideSyncDone,
    OutsideSyncFailed,
    SlotNotSynced,
    SlotSynced,
    SyncStarted,
    TellLac,
)
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply
from zbk.wire.messages import SyncAnswer


def sync_from_outside(metadata: LedgerMetadata, ledger_key: bytes, requests: RequestSender) -> int:
    """Make the entries of an open VD ledger durable; return the last one that is.

    Raises:
        CannotAdvanceError: too few bookies answered.
    """
    fragment = metadata.last_fragment
    core = OutsideSync(metadata.ledger_id, metadata.quorum, fragment.first_entry_id - 1)
    bookies = fragment.bookies
    ledger = LedgerRequests.of(metadata, ledger_key)
    events: list[Event] = [SyncStarted()]
    while True:
        effects = [effect for event in events for effect in core.handle(event, monotonic_ms())]
        events = []
        for effect in effects:
            match effect:
                case AskSync():
                    replies = requests.ask_all(bookies, *ledger.sync(effect.lac))
                    events += [_event_of(i, replies[b]) for i, b in enumerate(bookies)]
                case TellLac():
                    requests.ask_all(bookies, *ledger.write_lac(effect.lac))
                    events += [LacTold(slot) for slot in range(len(bookies))]
                case OutsideSyncDone():
                    return effect.lac
                case OutsideSyncFailed():
                    raise effect.error
                case _:
                    assert_never(effect)


def _event_of(slot: int, reply: Reply) -> Event:
    match reply.outcome:
        case SyncAnswer() as answer:
            return SlotSynced(slot, answer.incarnation, answer.last_add_synced)
        case _:
            return SlotNotSynced(slot, reply.error)
