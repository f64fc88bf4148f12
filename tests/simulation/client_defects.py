"""Wrong methods of writers, owners of logs, recoverers and tails: what each leaves out."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.watch_requests import WatchRequests
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
from zbk.protocol.entry.words import NO_ENTRY
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
