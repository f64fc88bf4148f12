"""The sync of a ledger that another client writes: the driver of an ``OutsideSync``.

Runs in the caller's thread.
"""

from typing import assert_never

from zbk.client.cluster.ledger_calls import LedgerContext
from zbk.client.cluster.requests import answer_of
from zbk.durability.outside_sync import (
    AskSync,
    Cursor,
    Effect,
    OutsideSync,
    ReadMetadata,
    RecordLac,
    TellLac,
)
from zbk.errors import ZbkError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.ledger.changes import report_lac
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import stripes_of
from zbk.protocol.procedure import Procedure
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
        MetadataConflictError: other clients changed the metadata all the time.
    """
    ledger, sender = context.requests, context.sender
    stripes = stripes_of(metadata.quorum)

    def carry_out(effect: Effect) -> object:
        match effect:
            case AskSync(bookies, lac):
                slots = zip(bookies, stripes, strict=True)
                replies = sender.ask_each({one: ledger.sync(lac, stripe) for one, stripe in slots})
                return {slot: _cursor(replies[bookie]) for slot, bookie in enumerate(bookies)}
            case TellLac(bookies, lac):
                sender.ask_all(bookies, *ledger.write_lac(lac))
                return None
            case ReadMetadata():
                return ledgers.read(metadata.ledger_id, is_fresh=True)
            case RecordLac(fragment, lac):
                return ledgers.update(
                    metadata.ledger_id, lambda current: report_lac(current, fragment, lac)
                )
            case _:
                assert_never(effect)

    procedure = Procedure(OutsideSync(metadata, version).run())
    procedure.begin()
    while not procedure.is_over:
        procedure.resume(carry_out)
    return procedure.result


def _cursor(reply: Reply) -> Cursor | ZbkError:
    answer = answer_of(reply, SyncAnswer)
    if isinstance(answer, ZbkError):
        return answer
    return Cursor(answer.incarnation, answer.last_add_synced)
