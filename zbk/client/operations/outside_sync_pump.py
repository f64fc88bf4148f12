"""The sync of a ledger that another client writes: the body of an ``OutsideSync``.

Runs in the caller's thread.
"""

from typing import assert_never

from zbk.client.cluster.ledger_calls import LedgerContext
from zbk.client.cluster.requests import answer_of
from zbk.durability.outside_sync import (
    AskSync,
    Event,
    LacTold,
    MetadataNotRead,
    MetadataRead,
    OutsideSync,
    OutsideSyncDone,
    OutsideSyncFailed,
    ReadMetadata,
    SlotNotSynced,
    SlotSynced,
    SyncStarted,
    TellLac,
)
from zbk.errors import ZbkError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply
from zbk.wire.messages import SyncAnswer


def sync_from_outside(
    metadata: LedgerMetadata, version: int, ledgers: LedgerStore, context: LedgerContext
) -> int:
    """Make the entries of an open VD ledger durable; return the last durable one.

    ``metadata`` and ``version`` are fresh: older ones may lack bookies that acknowledged entries.

    Raises:
        CannotAdvanceError: too few bookies answered.
        NoSuchLedgerError: the ledger was deleted meanwhile.
        MetadataUnavailableError: the metadata store did not answer.
    """
    core = OutsideSync(metadata, version)
    ledger, ask_all = context.requests, context.sender.ask_all
    events: list[Event] = [SyncStarted()]
    while True:
        effects = [effect for event in events for effect in core.handle(event, monotonic_ms())]
        events = []
        for effect in effects:
            bookies = core.bookies
            match effect:
                case AskSync():
                    replies = ask_all(bookies, *ledger.sync(effect.lac))
                    events += [_event_of(i, replies[b]) for i, b in enumerate(bookies)]
                case TellLac():
                    ask_all(bookies, *ledger.write_lac(effect.lac))
                    events += [LacTold(slot) for slot in range(len(bookies))]
                case ReadMetadata():
                    events.append(_read(metadata.ledger_id, ledgers))
                case OutsideSyncDone():
                    return effect.lac
                case OutsideSyncFailed():
                    raise effect.error
                case _:
                    assert_never(effect)


def _read(ledger_id: int, ledgers: LedgerStore) -> Event:
    try:
        return MetadataRead(*ledgers.read(ledger_id, is_fresh=True))
    except ZbkError as error:
        return MetadataNotRead(error)


def _event_of(slot: int, reply: Reply) -> Event:
    answer = answer_of(reply, SyncAnswer)
    if isinstance(answer, ZbkError):
        return SlotNotSynced(slot, answer)
    return SlotSynced(slot, answer.incarnation, answer.last_add_synced)
