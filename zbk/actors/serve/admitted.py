"""An add between its admission and the end of its turn.

Made by ``zbk.actors.serve.add_requests``, for ``zbk.actors.serve.turn``.
"""

from collections.abc import Sequence

import msgspec

from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.durability.level import AcknowledgesAfter
from zbk.durability.synced_run import SyncedRun
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import EntriesRecord
from zbk.transport.inbound import Inbound
from zbk.wire.messages import AddAnswer


class Admitted(msgspec.Struct, frozen=True):
    """An add to store, and the answer that follows."""

    inbound: Inbound
    slot: LedgerSlot
    ledger_type: LedgerType
    batch: EntryBatch
    runs: Sequence[SyncedRun]  # that the cursor counts once it is synced
    answer: AddAnswer
    answers_after: AcknowledgesAfter
    recorded_lac: int | None  # that a start would find in it; None: it is not the last entry
    is_recovery: bool
    is_journaled: bool

    @property
    def record_size(self) -> int:
        """Bytes of the records that the journal gets once it is stored."""
        key = self.slot.key_record
        size = EntriesRecord(self.batch).size if self.is_journaled else 0
        return size if key is None else size + key.size
