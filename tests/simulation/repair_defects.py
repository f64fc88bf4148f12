"""The wrong methods of limbo and of autorecovery that ``tests.simulation.defects`` puts in."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from zbk.actors.identity.losses import Losses
from zbk.actors.serve.read_requests import ReadRequests
from zbk.durability.limbo import LossReason
from zbk.durability.limbo_recheck import LedgerRecheck, RecheckEffect, RecheckResult
from zbk.errors import ZbkError
from zbk.metadata.records.election import AuditorElection
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.procedure import Steps
from zbk.protocol.repair import fragment_copy_events as copy_ev
from zbk.protocol.repair import repair_task
from zbk.protocol.repair.audit_events import BrakeApplied
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.ledger_view import FragmentSlot
from zbk.protocol.repair.lost_bookies import LostBookies
from zbk.protocol.repair.repair_effects import RepairEffect, RepairResult
from zbk.protocol.repair.repair_task import Outcome, OutcomeKind
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger
from zbk.storage.directory.lost_files import LostFiles
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.tools.reindex import Reindex
from zbk.transport.inbound import Inbound
from zbk.wire.messages import GetLedgerInfo

# ------------------------------------------------------------------ limbo


def cleared_at_once(_self: LedgerRecheck) -> Steps[RecheckEffect, RecheckResult]:
    """L2."""
    yield from ()
    return RecheckResult()


def left_by_reason(self: Losses, *, has_lost_fences: bool) -> LedgerRanges:
    """L4."""
    return self._file.left(one for one in LossReason if one.has_lost_fences is has_lost_fences)


def misses_nothing(_files: object, directory: str, _owner: bytes) -> LostFiles:
    """L5: what is not there was never there."""
    return LostFiles(directory, has_all_logs=True)


def doubts_nothing(_self: Reindex, _reason: str) -> None:
    """L6."""


# ------------------------------------------------------------------ autorecovery

_send_copy_add = FragmentCopy._send_add
_outcome_of = repair_task.outcome_of
_tell_ledger_info = ReadRequests.ledger_info


def counts_as_soon_as_sent(self: FragmentCopy, part: ReadBatch) -> copy_ev.SendAdd:
    """R1: the copy does not wait for the target's fsync."""
    sent = _send_copy_add(self, part)
    self._on_added(sent.request_id, None)
    self._adds.pop(sent.request_id, None)
    return sent


def added_already(
    self: FragmentCopy, request_id: int, _error: ZbkError | None
) -> list[copy_ev.Effect]:
    """R1: what was counted is counted once."""
    if request_id not in self._adds:
        return []
    batch = self._adds.pop(request_id)
    self._copied_count += batch.count
    self._copied_size += batch.size
    self._confirmation.note_copied(batch)
    return []


def tells_before_the_fsync(self: ReadRequests, inbound: Inbound, request: GetLedgerInfo) -> None:
    """R1: nor does what the target says that it holds."""
    slot = self._ledgers.find(request.ledger_id)
    if slot is None:
        _tell_ledger_info(self, inbound, request)
        return
    ticket, slot.ticket = slot.ticket, 0
    _tell_ledger_info(self, inbound, request)
    slot.ticket = ticket


def first_and_last_only(order: CopyOrder) -> Iterator[Sequence[int]]:
    """R2."""
    for span in order.spans:
        ids = order.metadata.quorum.entry_ids(order.slot, *span)
        yield from ([one] for one in sorted({*ids[:1], *ids[-1:]}))


def fences_without_grace(self: LedgerRepair, fragment: Fragment) -> Steps[RepairEffect, bool]:
    """R4."""
    self._limits = msgspec.structs.replace(self._limits, grace_ms=0)
    return _look_after_open(self, fragment)


_look_after_open = LedgerRepair._look_after_open


def leads_for_ever(self: AuditorElection) -> int | None:
    """R5: a term outlasts its session."""
    return self._term_count or None


def holds_nothing(self: LostBookies, why: str, now_ms: int) -> BrakeApplied:
    """R6."""
    self._hold_until_ms = now_ms
    return BrakeApplied(tuple(self._lost_since_ms), self._known_count, why, now_ms)


def never_final(task: UnderreplicatedLedger, result: RepairResult) -> Outcome:
    """R7, B41."""
    outcome = _outcome_of(task, result)
    if outcome.kind is OutcomeKind.UNREPAIRABLE:
        return Outcome(OutcomeKind.POSTPONED, result.unrepairable)
    return outcome


def waits_for_limbo(
    self: LedgerRepair, one: FragmentSlot, _order: CopyOrder, copied: CopyResult
) -> Steps[RepairEffect, tuple[Span, ...]]:
    """R10: a bookie that does not know what it lost is asked again, and again."""
    self._notes.give_up(one, error=copied.source_error, lost=copied.lost)
    yield from ()
    return ()


_merged = UnderreplicatedLedger.merged


def forgets_failures(self: UnderreplicatedLedger, *report: Any) -> UnderreplicatedLedger:  # noqa: ANN401 - as of ``merged``
    """R11: attempts have no end if bookies are checked more often than three of them take."""
    return msgspec.structs.replace(_merged(self, *report), failure_count=0)


def copies_nothing(_self: LedgerRepair, _order: CopyOrder) -> Steps[RepairEffect, CopyResult]:
    """R8: the metadata name the new bookie before it has anything."""
    yield from ()
    return CopyResult()


def copies_damage(self: FragmentCopy, part: ReadBatch) -> copy_ev.SendAdd:
    """R9: the bytes change on the way, and nobody looks."""
    sent = _send_copy_add(self, part)
    body = bytearray(sent.batch.body)
    body[-1] ^= 1
    batch = EntryBatch.of(sent.batch.ledger_id, sent.batch.entry_ids, sent.batch.sizes, bytes(body))
    self._adds[sent.request_id] = batch
    return msgspec.structs.replace(sent, batch=batch)
