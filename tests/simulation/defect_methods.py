"""Wrong methods of bookies, which ``tests.simulation.defects`` puts in: what each leaves out."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tests.simulation.bookie_parts import TimedSyncQueue
from tests.support.simulated_file import SimulatedFile
from zbk.actors.serve.add_requests import AddRequests
from zbk.actors.serve.journal import JournalActor, WriteMessage
from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.read import Fetch, ReadActor
from zbk.actors.serve.sync_queue import AppendGroup
from zbk.actors.serve.turn import Turn
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import AcknowledgesAfter
from zbk.durability.sync_cursor import SyncCursor
from zbk.errors import (
    NoSuchEntryError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, Recovery
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.journal.journal import Journal, SyncBegun
from zbk.storage.replay import Replayer
from zbk.storage.stored_ledger import StoredLedger
from zbk.storage.tools.rebuild_sources import AskOthers, ask_nobody
from zbk.system.files import Buffer, File
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Add, Read, ReadLac, WriteLac


def takes_in_any_ledger(
    self: NewLedgerGate, _inbound: Inbound, request: Add | Read | ReadLac | WriteLac
) -> LedgerSlot | None:
    """X8."""
    self._ledgers.check_not_deleted(request.ledger_id)
    return self._ledgers.find(request.ledger_id) or self._ledgers.new(request.ledger_id)


_handle_group = JournalActor.handle


def answers_before_the_fsync(self: JournalActor, message: WriteMessage) -> None:
    """M4."""
    if isinstance(message, AppendGroup):
        message = msgspec.structs.replace(
            message, after_write=[*message.after_write, *message.after_sync], after_sync=[]
        )
    _handle_group(self, message)


def fence_is_answered_at_once(self: JournalActor, message: WriteMessage) -> None:
    """M6."""
    if isinstance(message, AppendGroup):
        at_once = [o for o in message.after_sync if _is_fencing(o)]
        message = msgspec.structs.replace(
            message,
            after_write=[*message.after_write, *at_once],
            after_sync=[o for o in message.after_sync if not _is_fencing(o)],
        )
    _handle_group(self, message)


def _is_fencing(outbound: Outbound) -> bool:
    request = outbound.inbound.request
    return isinstance(request, Read | ReadLac) and request.is_fencing


_answer = ReadActor._answer


def unreadable_is_absent(self: ReadActor, one: Fetch) -> Outbound | None:
    """M3."""
    try:
        self._fetch(one.resolved)
    except ZbkError:
        request_id = one.inbound.request.request_id
        error = NoSuchEntryError(one.resolved.ledger_id, one.resolved.entry_ids[0])
        return Outbound(one.inbound, refusal(request_id, self._incarnation, error))
    return _answer(self, one)


_end_sync = TimedSyncQueue._end


def fsync_covers_later_writes(
    self: TimedSyncQueue, groups: list[AppendGroup], begun: SyncBegun | None, mark: int
) -> None:
    """M5: the answers of groups that were written while the fsync ran leave with it."""
    _end_sync(self, groups + self._take(), begun, mark)


_open_storage = BookieStorage.open


def fence_is_not_replayed(_self: Replayer, _ledger: StoredLedger) -> None:
    """M7."""


def start_without_fsync(
    self: BookieStorage, ask_others: AskOthers = ask_nobody, *, was_killed: bool = False
) -> Recovery:
    """M9: what was replayed stays in the page cache."""
    disk: Any = self._files
    disk.sync_until = 0
    try:
        return _open_storage(self, ask_others, was_killed=was_killed)
    finally:
        disk.sync_until = None


def cursor_over_holes(self: SyncCursor, _first: int, last: int) -> None:
    """M8."""
    self._raise_to(last)


def lac_in_memory(self: AddRequests, slot: LedgerSlot, lac: int) -> None:
    """M32: nothing is journaled,"""
    assert self._turn is not None
    slot.ledger.added(lac)


def lac_told_at_once(self: BookieLedger, _synced_ticket: int) -> int:
    """M32: and readers are told."""
    return self.lac


_acknowledges_after = BookieLedger.acknowledges_after


def recovery_adds_as_others(self: BookieLedger, *, is_recovery: bool) -> AcknowledgesAfter:
    """M14: on a VD ledger, without an fsync."""
    del is_recovery
    return _acknowledges_after(self, is_recovery=False)


_admit_add = BookieLedger.admit_add


def admits_behind_a_fence(
    self: BookieLedger,
    ledger_key: bytes,
    ledger_type: LedgerType,
    *,
    is_recovery: bool,
) -> bool:
    """X1."""
    del is_recovery
    return _admit_add(self, ledger_key, ledger_type, is_recovery=True)


_fence = BookieLedger.fence


def fences_for_any_key(
    self: BookieLedger, ledger_key: bytes, ledger_type: LedgerType
) -> tuple[bool, bool]:
    """P1."""
    return _fence(self, self.ledger_key or ledger_key, ledger_type)


def fences_before_the_key(
    self: BookieLedger, ledger_key: bytes, ledger_type: LedgerType
) -> tuple[bool, bool]:
    """P2: the client is refused; the ledger is fenced all the same."""
    needed = _fence(self, self.ledger_key or ledger_key, ledger_type)
    self.check_key(ledger_key)
    return needed


def fsync_again(self: Journal, file: File) -> None:
    """M22: the second one finds clean pages and says that all is well."""
    assert self._files is not None
    for _ in range(4):
        with suppress(OSError):
            file.sync()
            return


def never_looks_behind(_self: object, _place: int, _offset: int) -> int:
    """M23: evidence behind the first bad record is not looked for."""
    return 0


def entries_not_synced(self: Checkpoint) -> None:
    """X4: the step is skipped."""
    for one in self.flushes:
        with one.flush._lock:
            one.flush._step_count = 1


_pwrite = SimulatedFile.pwrite


def short_write(self: SimulatedFile, buffers: Sequence[Buffer], offset: int) -> int:
    """M35: what was not written is taken as written."""
    try:
        return _pwrite(self, buffers, offset)
    except OSError:
        return sum(map(len, buffers))


_end_of_turn = Turn.end


def answers_the_last_first(self: Turn) -> None:
    """J1: what a turn has answered leaves after the adds that came behind it."""
    answers, self._answers = self._answers, []
    _end_of_turn(self)
    self._answers += answers
