"""The wrong methods that ``tests.simulation.defects`` puts in. Each says what it leaves out."""

from collections.abc import Callable, Collection, Sequence
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
from zbk.actors.serve.watch_requests import WatchRequests
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import AcknowledgesAfter
from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.synced_lac import SyncedLac
from zbk.errors import (
    BadVersionError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchEntryError,
    ZbkError,
)
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import Operation, SetValue
from zbk.metadata.values import encode
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.log.owner import LogOwner
from zbk.protocol.log.owner_effects import Effect as LogEffect
from zbk.protocol.procedure import Steps
from zbk.protocol.read import tail
from zbk.protocol.read.lac_session import LacSession, WatchEnd, WatchRequest
from zbk.protocol.read.tail import TailCore
from zbk.protocol.recovery.events import Effect
from zbk.protocol.recovery.fence import FenceRound
from zbk.protocol.recovery.reads import RecoveryReads
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.protocol.recovery.writes import RecoveryWrites
from zbk.protocol.write import events as ev
from zbk.protocol.write.ack_tracker import AckTracker
from zbk.protocol.write.bookie_answers import BookieAnswers
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.writer import WriterCore
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

# ------------------------------------------------------------------ the bookie


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


# ------------------------------------------------------------------ the writer

_synced_lac_init = SyncedLac.__init__


def lac_of_the_fastest(self: SyncedLac, quorum: Quorum) -> None:
    """M10: the largest value in the place of the Qa-th largest."""
    _synced_lac_init(self, quorum)
    self._index = quorum.write_size - 1
    self._ack_size = 1


_ack_tracker_init = AckTracker.__init__


def one_ack_less(self: AckTracker, quorum: Quorum, last_entry_id: int = NO_ENTRY) -> None:
    """X3."""
    _ack_tracker_init(self, quorum, last_entry_id)
    self._ack_size = max(1, quorum.ack_size - 1)


def close_at_the_last_pushed(self: WriterCore, ticket: object) -> None:
    """M15."""
    last = self.path.last_pushed_id
    self._effects.append(ev.CloseLedger(ticket, last, self.path._length))
    self._end()


def sync_is_done_at_once(self: SyncRounds, lac: int) -> list[ev.Effect]:
    """M16."""
    done: list[ev.Effect] = []
    while self._waiting:
        ticket, flush_id = self._waiting.pop(0)
        if ticket is not None:
            done.append(ev.SyncDone(ticket, max(lac, flush_id)))
    return done


def change_at_the_last_pushed(
    self: EnsembleKeeper, failed: Collection[int], now_ms: int
) -> list[ev.Effect]:
    """M17."""
    if not self._changes.is_due(failed, now_ms):
        return []
    change = self._changes.begin(
        {slot: self._slots.bookie(slot) for slot in sorted(failed)},
        self._path.last_pushed_id + 1,
        now_ms,
        is_urgent=True,
        length_before=self._path.length,
        unsynced={},
    )
    self._path.hold()
    return [change]


_end_of_turn = Turn.end


def answers_the_last_first(self: Turn) -> None:
    """J1: what a turn has answered leaves after the adds that came behind it."""
    answers, self._answers = self._answers, []
    _end_of_turn(self)
    self._answers += answers


_add_answered = BookieAnswers.add_answered


def any_epoch_counts(self: BookieAnswers, event: ev.AddAnswered) -> Sequence[ev.Effect]:
    """M18."""
    epoch = self._slots.epochs[event.slot]
    return _add_answered(self, msgspec.structs.replace(event, epoch=epoch))


def unanswered_is_won(
    self: LedgerStore,
    ledger_id: int,
    change: Callable[[LedgerMetadata], LedgerMetadata | None],
    *,
    beside: Callable[[LedgerMetadata], Sequence[Operation]] | None = None,
) -> tuple[LedgerMetadata, int]:
    """M21: nobody reads back."""
    for _ in range(32):
        node = self._get(ledger_id)
        current = self._decoded(ledger_id, node)
        wanted = change(current)
        if wanted is None or wanted == current:
            return current, node.version
        try:
            path, value = self._path(ledger_id), encode(wanted, write_token="t")
            others = () if beside is None else beside(wanted)
            self._store.multi([SetValue(path, value, node.version), *others])
            return wanted, node.version + 1
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
        except MetadataUnavailableError:
            return wanted, node.version + 1
    raise MetadataConflictError(self._path(ledger_id), "too often")


def serves_before_the_list(self: LogOwner) -> Steps[LogEffect, ZbkError | None]:
    """X7: it takes the list as written, and never writes it."""
    yield from ()
    assert self.log is not None
    assert self._candidate is not None
    self.log = self.log.with_ledger(self._candidate)
    self._version += 1
    return None


# ------------------------------------------------------------------ recovery

_recovery_init = RecoveryCore.__init__


def recovery_without_floor(self: RecoveryCore, metadata: LedgerMetadata, **options: Any) -> None:  # noqa: ANN401
    """M2."""
    _recovery_init(self, metadata, **options)
    self._fence = FenceRound(metadata.quorum, NO_ENTRY, self._limits)


_reads_failed = RecoveryReads.failed


def unknown_is_negative(self: RecoveryReads, read_id: int, error: ZbkError, now_ms: int) -> None:
    """M13."""
    entry_ids = self._asked[read_id].entry_ids
    if not isinstance(error, NoSuchEntryError):
        error = NoSuchEntryError(self._metadata.ledger_id, entry_ids[0])
    _reads_failed(self, read_id, error, now_ms)


_send_write = RecoveryWrites._send


def writes_back_to_one(self: RecoveryWrites, slot: int, first: int) -> list[Effect]:
    """M14: one bookie of the write set gets it, and that is enough."""
    self._tracker._ack_size = 1
    return _send_write(self, slot, first)


# ------------------------------------------------------------------ tails

_go_on = TailCore._proceed
_learn = TailCore._learn


def ends_when_closed(self: TailCore, now_ms: int) -> list[tail.Effect]:
    """T1: what is confirmed with the close is left out."""
    if self._is_waiting and not self._is_over and self._metadata.is_closed:
        self._is_over = True
        return [tail.TailEnded()]
    return _go_on(self, now_ms)


def tells_what_is_not_durable(_self: WatchRequests, slot: LedgerSlot) -> int:
    """T4: a loss of power takes back what a reader was told."""
    return slot.ledger.lac


_answered = LacSession.answered


def ends_the_watch_beside(
    self: LacSession,
    request: WatchRequest,
    risen: Sequence[tuple[int, int]],
    refused: Sequence[tuple[int, ZbkError]],
    *,
    is_lost: bool,
) -> list[WatchEnd]:
    """T5: LACs go to the wrong ledgers."""
    numbers = [number for number, _ in risen]
    beside = [*numbers[1:], *numbers[:1]]
    swapped = [(number, lac) for number, (_, lac) in zip(beside, risen, strict=True)]
    return _answered(self, request, swapped, refused, is_lost=is_lost)


def confirms_the_first_of_a_fragment(self: TailCore, metadata: LedgerMetadata) -> None:
    """T3: a fragment that begins counts as one entry that is confirmed."""
    _learn(self, metadata)
    first_entry_id = metadata.last_fragment.first_entry_id
    if first_entry_id and not metadata.is_closed:
        self._lac = max(self._lac, first_entry_id)
