"""What goes into a writer and what comes out of it: events, effects, limits.

    the application          Append, Appends, SyncRequested, CloseRequested, Abandoned
    the connections          SlotUp, SlotDown, AddAnswered, AddFailed, SyncAnswered, SyncFailed,
                             LacFailed
    the metadata             EnsembleChanged, EnsembleChangeFailed, BookiesChanged, MissingReported
    the clock                Tick

    to the application       Acked, Failed, SyncDone, SyncFailedFor, CloseFailed
    to the connections       SendAdd, SendSync, SendLac, SlotSuspect
    to the metadata          ChangeEnsemble, ReportMissing, CloseLedger

A *ticket* is whatever the caller wants to get back: the writer never looks at it. Every ticket
comes back exactly once.

An *epoch* counts how often the bookie of a slot was replaced. What is sent carries it, and its
answer brings it back, so that an answer of the bookie that was there before is told from one of
the bookie that is there now.
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


class WriterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a writer keeps in memory and how long it waits.

    At the limits of window and backlog appends wait in the queue, whose size the caller limits.
    A single batch may go over them and over ``batch_size_max``: one entry is never cut. The memory
    is ``backlog_size`` and a batch.
    """

    window_size: int = 16 * 1024 * 1024  # bytes of batches that are not acknowledged
    window_count: int = 16  # such batches
    backlog_size: int = 32 * 1024 * 1024  # with those that some live bookie has not answered
    backlog_count: int = 4_096  # such batches
    batch_size_max: int = 512 * 1024  # bytes of encoded entries
    batch_count_max: int = 4096  # entries
    quorum_grace_ms: int = 5_000  # how long bookies that are needed may take to come back
    close_linger_ms: int = 2_000  # how long close waits for bookies beyond the ack quorum
    unsynced_batch_count_max: int = 65_536  # acknowledged batches beyond the LAC; see writer.py
    sync_count_max: int = 4_096  # syncs that wait; one more fails with BusyError
    ensemble_change_count_max: int = 100  # in the life of a writer; one more ends it
    ensemble_retry_ms: int = 1_000  # pause after a change that found no bookie, or no metadata
    sync_point_retry_ms_max: int = 8_000  # that pause grows up to this where each try costs a sync
    metadata_grace_ms: int = 20_000  # how long a change waits for the metadata store
    slow_bookie_ms: int = 2_000  # a slot that alone holds up the writer so long is replaced
    explicit_lac_ms: int = 100  # how long a writer is idle before it tells its LAC; 0: never
    explicit_lac_count_max: int = 3  # times that one slot is told the same LAC


# ------------------------------------------------------------------ events


class Append(msgspec.Struct, frozen=True, gc=False):
    """Add entries. The payloads belong to the writer now and must not change.

    Without payloads it is answered, with count 0, once everything appended before it is.
    """

    ticket: Ticket
    payloads: Sequence[bytes]


class Appends(msgspec.Struct, frozen=True, gc=False):
    """Many appends, in order: what queued while the last ones were handled."""

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
    """The connection is lost; whatever was outstanding on it will not be answered."""

    slot: int
    error: ZbkError


class SyncRequested(msgspec.Struct, frozen=True):
    """Make everything appended so far durable."""

    ticket: Ticket


class SyncAnswered(msgspec.Struct, frozen=True):
    """A bookie has fsynced all that it received before the sync."""

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


class LacFailed(msgspec.Struct, frozen=True):
    """A bookie refused an explicit LAC, or did not answer in time."""

    slot: int
    lac: int
    error: ZbkError


class EnsembleChanged(msgspec.Struct, frozen=True):
    """The metadata name this last ensemble now, by slot, from ``first_entry_id`` on.

    It need not be what was asked for: what others changed stays.
    """

    change_id: int
    first_entry_id: int
    ensemble: tuple[str, ...]


class EnsembleChangeTurn(msgspec.Struct, frozen=True):
    """A change begins to wait for its turn at the metadata store, or its turn has come.

    Many ledgers change at once when a bookie fails. Their store answers, one after another, so the
    wait for a turn does not count as a store that does not answer.
    """

    change_id: int
    has_come: bool


class EnsembleChangeFailed(msgspec.Struct, frozen=True):
    """A change was not made, or nobody knows.

    NotEnoughBookies: there is no replacement, and the metadata were not touched.
    MetadataUnavailable, MetadataConflict: the change may or may not have been made.
    LedgerFenced, LedgerClosed, NoSuchLedger and whatever else: it cannot be made any more.
    """

    change_id: int
    error: ZbkError


class BookiesChanged(msgspec.Struct, frozen=True):
    """Bookies have begun or ceased to take new entries: a replacement may be found now."""


class MissingReported(msgspec.Struct, frozen=True):
    """What a ``ReportMissing`` said is noted."""

    missing: Mapping[str, Sequence[Span]]


class CloseRequested(msgspec.Struct, frozen=True):
    """Finish what was appended, and close the ledger.

    ``wait_ms`` is how long bookies may take until all that is acknowledged is durable. Then the
    close fails with NotDurable and the ledger stays open, unless the caller ``accepts_loss``: then
    acknowledged entries after the LAC are dropped, after ``quorum_grace_ms`` at most.

    The same ticket again, while it is closing, changes the terms: the longer wait, the permission.
    """

    ticket: Ticket
    wait_ms: int
    accepts_loss: bool = False


class Abandoned(msgspec.Struct, frozen=True):
    """Nobody will drive this writer any longer: give every ticket back with this error, now."""

    error: ZbkError


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Wanted every 100 ms or so: all waiting ends here."""


CallEvent: TypeAlias = Append | SyncRequested | CloseRequested | Abandoned
ConnectionEvent: TypeAlias = (
    AddAnswered | AddFailed | SlotUp | SlotDown | SyncAnswered | SyncFailed | LacTaken | LacFailed
)
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
    """Send the bookie of a slot the LAC, without an entry. Only a failure is reported."""

    slot: int
    lac: int


class ChangeEnsemble(msgspec.Struct, frozen=True):
    """Put other bookies into these slots, from ``first_entry_id`` on.

    Choose replacements, outside of the ensemble; write them by compare-and-swap
    (``metadata_changes.change_ensemble``); answer with EnsembleChanged or EnsembleChangeFailed,
    once. Fewer replacements than slots are welcome. Bookies that failed lately are taken only if
    the change ``is_urgent``: without it nothing more can be acknowledged.

    The same ``change_id`` again: the outcome was not known. Try again with the same replacements,
    so that it does not matter whether they were written before.
    """

    change_id: int
    first_entry_id: int
    failed: Mapping[int, str]  # the bookies to replace, by slot
    is_urgent: bool
    length_before: int | msgspec.UnsetType = msgspec.UNSET  # bytes of payload before that entry


class ReportMissing(msgspec.Struct, frozen=True):
    """Report to autorecovery that bookies lack entries of closed fragments, by bookie id.

    Answer with MissingReported if it is noted. If not, it is reported again with what is missing
    when the next fragment ends, or the ledger; nobody waits.
    """

    missing: Mapping[str, Sequence[Span]]


class Acked(msgspec.Struct, frozen=True, gc=False):
    """These appends are acknowledged, in order."""

    tickets: list[AckedTicket]


class Failed(msgspec.Struct, frozen=True):
    """These appends failed; ``error.outcome`` says whether their entries may be there still.

    The first entries of an append of many may have been acknowledged.
    """

    tickets: list[Ticket]
    error: ZbkError


class SyncDone(msgspec.Struct, frozen=True):
    """Everything up to ``last_entry_id`` is durable on an ack quorum."""

    ticket: Ticket
    last_entry_id: int


class SyncFailedFor(msgspec.Struct, frozen=True):
    """A sync did not reach what it had to."""

    ticket: Ticket
    error: ZbkError


class CloseLedger(msgspec.Struct, frozen=True):
    """Close the ledger in the metadata at this end, then answer the ticket.

    ``length`` is the bytes of payload up to ``last_entry_id``. Unless the caller accepted a loss,
    every acknowledged entry is in it.
    ``missing`` is what bookies lack, by bookie id, and autorecovery was not told of. It is reported
    in one step with the close: a worker must neither see the report while the ledger may still
    grow, nor miss it because the writer died.
    """

    ticket: Ticket
    last_entry_id: int
    length: int
    missing: Mapping[str, Sequence[Span]] = {}


class CloseFailed(msgspec.Struct, frozen=True):
    """The ledger is not closed: it is not this writer's, or is being closed already.

    NotDurable: acknowledged entries would be dropped. The writer takes no more appends; another
    CloseRequested tries again.
    """

    ticket: Ticket
    error: ZbkError


class SlotSuspect(msgspec.Struct, frozen=True):
    """The slot counts as down; say ``SlotUp`` when it may be tried again."""

    slot: int
    error: ZbkError

    @property
    def is_connection_broken(self) -> bool:
        """True when the connection is to be made anew, whoever else uses it.

        Not so when the bookie has refused: it serves all else. It is to be left alone for a while.
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
"""Effects beside those that each batch has."""

Effect: TypeAlias = SendAdd | Acked | OtherEffect
