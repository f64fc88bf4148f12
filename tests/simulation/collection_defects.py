"""The wrong methods of garbage collection that ``tests.simulation.defects`` puts in."""

from collections.abc import Sequence

from tests.simulation.stepped_actor import SteppedActor
from zbk.actors.messages import AskCheckpoint
from zbk.actors.upkeep.gc_questions import GcQuestions
from zbk.durability.new_ledgers import KnownLedger, check_claim
from zbk.errors import NoSuchLedgerError, ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.upkeep.gc import Finding, Findings
from zbk.storage.gc.compaction_log import CompactionLog
from zbk.storage.index.deleted_ledgers import DeletedLedgers


def believes_the_list(self: GcQuestions, ledger_ids: Sequence[int]) -> Findings:
    """C1: no ledger is looked at by its own node."""
    return Findings(dict.fromkeys(ledger_ids, Finding.ABSENT), self._session.now())


def takes_in_what_was_deleted(
    ledger_id: int, key: bytes, kind: LedgerType, found: KnownLedger | ZbkError
) -> None:
    """C2, C3: the metadata would refuse a late add of a deleted ledger, too.

    Claims of ledgers that nobody has made, which show a key of zeros, are refused as they are.
    """
    if not isinstance(found, NoSuchLedgerError) or not any(key):
        check_claim(ledger_id, key, kind, found)


def noted_in_memory(self: DeletedLedgers) -> bool:
    """C2."""
    self._noted = self._marked
    return True


def waits_for_no_checkpoint(self: SteppedActor, asked: AskCheckpoint) -> None:
    """C4."""
    self._on_checkpoint(asked)


_finish = CompactionLog.finish


def finishes_without_fsync(self: CompactionLog) -> None:
    """C5."""
    file = self._opened()
    sync, file.sync = file.sync, lambda: None  # type: ignore[method-assign]
    try:
        _finish(self)
    finally:
        file.sync = sync  # type: ignore[method-assign]
