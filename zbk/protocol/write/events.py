"""Input and output of a writer: events, effects, limits.

    the application          Append, Appends, SyncRequested, CloseRequested, Abandoned
    the connections          SlotUp, SlotDown, AddAnswered, AddFailed, SyncAnswered, SyncFailed,
                             LacTaken, LacFailed
    the metadata             EnsembleChanged, EnsembleChangeFailed, BookiesChanged, MissingReported
    the clock                Tick

    to the application       Acked, Failed, SyncDone, SyncFailedFor, CloseFailed
    to the connections       SendAdd, SendSync, SendLac, SlotSuspect
    to the metadata          ChangeEnsemble, ReportMissing, CloseLedger

A *ticket* is an object of the caller, which the writer never inspects. Every ticket comes back
exactly once.

An *epoch* counts how often the bookie of a slot was replaced. Each request and its answer carry it,
so that answers of a replaced bookie are recognized.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from zbk.errors import BookieUnavailableError, RequestTimeoutError, WireError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span

Ticket: TypeAlias = Any
AckedTicket: TypeAlias = tuple[Ticket, int, int]
"""A ticket, the id of its first entry, and the count of its entries."""


# ------------------------------------------------------------------ events


# The garbage collector follows appends: a ticket may lead back to the writer that they wait in.
class Append(msgspec.Struct, frozen=True):
    """Add entries. The payloads belong to the writer now and must not change.

    Without payloads it is answered, with count 0, once everything appended before it is.
    """

    ticket: Ticket
    payloads: Sequence[bytes]


class Appends(msgspec.Struct, frozen=True):
    """Many appends, in order: those that queued while the last ones were handled."""

    items: Sequence[tuple[Ticket, Sequence[bytes]]]


class AddAnswered(msgspec.Struct, frozen=True, gc=False):
    """A bookie has the batch that begins, for its slot, with ``first_entry_id``."""

    slot: int
    first_entry_id: int
    incarnation: int
    last_add_synced: int
    epoch: int = 0


class AddFailed(msgspec.Struct, frozen=True):
    """A bookie refused a batch, or did not answer in time."""

    slot: int
    first_entry_id: int
    error: ZbkError
    epoch: int = 0


class SlotUp(msgspec.Struct, frozen=True):
    """There is a connection to the bookie of this slot. Slots start down."""

    slot: int
    incarnation: int


class SlotDown(msgspec.Struct, frozen=True):
    """The connection is lost; its outstanding requests will not be answered."""

    slot: int
    error: ZbkError


class SyncRequested(msgspec.Struct, frozen=True):
    """Make all earlier appends durable."""

    ticket: Ticket


class DurableRequested(msgspec.Struct, frozen=True):
    """Report when an entry that was appended before is durable, and sync for it.

    The answer is that of a sync.
    """

    ticket: Ticket
    entry_id: int


class SyncAnswered(msgspec.Struct, frozen=True):
    """A bookie has fsynced everything that it received before the sync."""

    slot: int
    sync_id: int
    incarnation: int
    last_add_synced: int
    epoch: int = 0


class SyncFailed(msgspec.Struct, frozen=True):
    """A bookie refused a sync, or did not answer in time."""

    slot: int
    sync_id: int
    error: ZbkError
    epoch: int = 0


class LacTaken(msgspec.Struct, frozen=True):
    """A bookie has an explicit LAC on stable storage."""

    slot: int
    lac: int
    epoch: int = 0


class LacFailed(msgspec.Struct, frozen=True):
    """A bookie refused an explicit LAC, or did not answer in time."""

    slot: int
    lac: int
    error: ZbkError
    epoch: int = 0


class EnsembleChanged(msgspec.Struct, frozen=True):
    """The metadata now have this last ensemble, by slot, from ``first_entry_id`` on.

    It may differ from the requested one, because changes by others stay.
    """

    change_id: int
    first_entry_id: int
    ensemble: tuple[str, ...]


class EnsembleChangeTurn(msgspec.Struct, frozen=True):
    """A change waits for the metadata store, or the store begins with it.

    Many ledgers change at once when a bookie fails. The store handles them one after another, so
    this wait does not count as a store that does not answer.
    """

    change_id: int
    has_come: bool


class EnsembleChangeFailed(msgspec.Struct, frozen=True):
    """A change was not made, or its outcome is unknown.

    NotEnoughBookies: there is no replacement, and the metadata are unchanged.
    MetadataUnavailable, MetadataConflict: the change may or may not have been made.
    LedgerFenced, LedgerClosed, NoSuchLedger and all others: it can no longer be made.
    """

    change_id: int
    error: ZbkError


class BookiesChanged(msgspec.Struct, frozen=True):
    """Bookies have begun or ceased to accept new entries: a replacement may be found now."""


class MissingReported(msgspec.Struct, frozen=True):
    """The report of a ``ReportMissing`` is recorded."""

    missing: Mapping[str, Sequence[Span]]


class CloseRequested(msgspec.Struct, frozen=True):
    """Finish pending appends, and close the ledger.

    Bookies may take ``wait_ms`` until all acknowledged entries are durable. Then the close fails
    with NotDurable and the ledger stays open, unless the caller ``accepts_loss``: then acknowledged
    entries after the LAC are dropped, after ``quorum_grace_ms`` at most.

    The same ticket again, while the ledger is closing, extends the wait or adds the permission.
    """

    ticket: Ticket
    wait_ms: int
    accepts_loss: bool = False


class Abandoned(msgspec.Struct, frozen=True):
    """The writer gets no more events: return every ticket with this error, now."""

    error: ZbkError


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Needed about every 100 ms: all waits end here."""


CallEvent: TypeAlias = Append | SyncRequested | DurableRequested | CloseRequested | Abandoned
AnswerEvent: TypeAlias = (
    AddAnswered | AddFailed | SlotDown | SyncAnswered | SyncFailed | LacTaken | LacFailed
)
ConnectionEvent: TypeAlias = AnswerEvent | SlotUp
MetadataEvent: TypeAlias = (
    EnsembleChanged | EnsembleChangeTurn | EnsembleChangeFailed | BookiesChanged | MissingReported
)
Event: TypeAlias = Appends | CallEvent | ConnectionEvent | MetadataEvent | Tick


# ------------------------------------------------------------------ effects


class SendAdd(msgspec.Struct, frozen=True, gc=False):
    """Send a batch to the bookie of a slot. One batch object may go to many slots."""

    slot: int
    batch: EntryBatch
    lac: int
    epoch: int = 0


class SendSync(msgspec.Struct, frozen=True):
    """Ask the bookie of a slot to fsync."""

    slot: int
    sync_id: int
    lac: int
    epoch: int = 0


class SendLac(msgspec.Struct, frozen=True):
    """Send the LAC to the bookie of a slot, without an entry."""

    slot: int
    lac: int
    epoch: int = 0


class ChangeEnsemble(msgspec.Struct, frozen=True):
    """Put other bookies into these slots, from ``first_entry_id`` on, or from a later entry on.

    Choose replacements from outside the ensemble; bring the ``unsynced`` batches of each slot to
    its new bookie (``catch_up``); write the bookies by compare-and-swap
    (``ledger.changes.change_ensemble``); answer with EnsembleChanged or EnsembleChangeFailed,
    once. Fewer replacements than slots are accepted. Choose bookies that failed recently only if
    the change ``is_urgent``: without it nothing more can be acknowledged.

    The same ``change_id`` again means that the outcome was unknown. Repeat the change with the same
    replacements, so that it does not matter whether they were written before.
    """

    change_id: int
    first_entry_id: int
    failed: Mapping[int, str]  # the bookies to replace, by slot
    is_urgent: bool
    length_before: int | msgspec.UnsetType = msgspec.UNSET  # bytes of payload before that entry
    unsynced: Mapping[int, tuple[EntryBatch, ...]] = {}  # what new bookies need first; by slot


class ReportMissing(msgspec.Struct, frozen=True):
    """Report to autorecovery that bookies lack entries of closed fragments, by bookie id.

    Answer with MissingReported if it is recorded. Otherwise the writer reports it again when the
    next fragment ends, or the ledger. No call waits for it.
    """

    missing: Mapping[str, Sequence[Span]]


class Acked(msgspec.Struct, frozen=True, gc=False):
    """These appends are acknowledged, in order."""

    tickets: list[AckedTicket]


class Failed(msgspec.Struct, frozen=True):
    """These appends failed; ``error.outcome`` says whether their entries may be in the ledger.

    The first entries of an append of many may have been acknowledged.
    """

    tickets: list[Ticket]
    error: ZbkError


class SyncDone(msgspec.Struct, frozen=True):
    """Everything up to ``last_entry_id`` is durable on an ack quorum."""

    ticket: Ticket
    last_entry_id: int


class SyncFailedFor(msgspec.Struct, frozen=True):
    """A sync failed."""

    ticket: Ticket
    error: ZbkError


class CloseLedger(msgspec.Struct, frozen=True):
    """Close the ledger in the metadata at this end, then answer the ticket.

    ``length`` is the bytes of payload up to ``last_entry_id``. Unless the caller accepted a loss,
    the ledger has every acknowledged entry. ``missing`` are the entries that bookies lack, by
    bookie id, and that were not reported to autorecovery. They are reported in one step with the
    close: a worker must neither see the report while the ledger may still grow, nor miss it because
    the writer died.
    """

    ticket: Ticket
    last_entry_id: int
    length: int
    missing: Mapping[str, Sequence[Span]] = {}


class CloseFailed(msgspec.Struct, frozen=True):
    """The ledger is not closed: it belongs to another client, or is already being closed.

    NotDurable: acknowledged entries would be dropped. The writer accepts no more appends; another
    CloseRequested retries.
    """

    ticket: Ticket
    error: ZbkError


class SlotSuspect(msgspec.Struct, frozen=True):
    """The slot counts as down until ``SlotUp`` reports that it may be tried again."""

    slot: int
    error: ZbkError

    @property
    def is_connection_broken(self) -> bool:
        """True when the connection must be opened again, even if others use it.

        False when the bookie has refused the request: it serves other requests. Retry it later.
        """
        return isinstance(self.error, BookieUnavailableError | RequestTimeoutError | WireError)


OtherEffect: TypeAlias = (
    SendSync
    | SendLac
    | ChangeEnsemble
    | ReportMissing
    | Failed
    | SyncDone
    | SyncFailedFor
    | CloseLedger
    | CloseFailed
    | SlotSuspect
)
"""Effects other than those of each batch."""

Effect: TypeAlias = SendAdd | Acked | OtherEffect
