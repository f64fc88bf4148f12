"""What goes into a writer and what comes out of it: events, effects, limits.

    the application          Append, Appends, SyncRequested, CloseRequested, Abandoned
    the connections          SlotUp, SlotDown, AddAnswered, AddFailed, SyncAnswered, SyncFailed
    the clock                Tick

    to the application       Acked, Failed, SyncDone, SyncFailedFor, CloseFailed
    to the connections       SendAdd, SendSync, SlotSuspect
    to the metadata          CloseLedger

A *ticket* is whatever the caller wants to get back: the writer never looks at it. Every ticket
comes back exactly once.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry_batch import EntryBatch

Ticket: TypeAlias = Any
AckedTicket: TypeAlias = tuple[Ticket, int, int]
"""A ticket, the id of its first entry, and the count of its entries."""


class WriterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a writer keeps in memory and how long it waits.

    At ``window_size`` or ``window_count`` appends wait in the queue, whose size the caller limits.
    A single batch may go over ``window_size`` and ``batch_size_max``: one entry is never cut.
    """

    window_size: int = 16 * 1024 * 1024  # bytes of batches that some live bookie has not answered
    window_count: int = 16  # such batches
    batch_size_max: int = 512 * 1024  # bytes of encoded entries
    batch_count_max: int = 4096  # entries
    quorum_grace_ms: int = 5_000  # how long a lost ack quorum may take to come back
    close_linger_ms: int = 2_000  # how long close waits for bookies beyond the ack quorum
    unsynced_batch_count_max: int = 65_536  # acknowledged batches beyond the LAC; see writer.py
    sync_count_max: int = 4_096  # syncs that wait; one more fails with BusyError


# ------------------------------------------------------------------ events


class Append(msgspec.Struct, frozen=True):
    """Add entries. The payloads belong to the writer now and must not change.

    Without payloads it is answered, with count 0, once everything appended before it is.
    """

    ticket: Ticket
    payloads: Sequence[bytes]


class Appends(msgspec.Struct, frozen=True):
    """Many appends, in order: what queued while the last ones were handled."""

    items: Sequence[tuple[Ticket, Sequence[bytes]]]


class AddAnswered(msgspec.Struct, frozen=True):
    """A bookie has the batch that begins, for its slot, with ``first_entry_id``."""

    slot: int
    first_entry_id: int
    incarnation: int
    last_add_synced: int


class AddFailed(msgspec.Struct, frozen=True):
    """A bookie refused a batch, or did not answer in time."""

    slot: int
    first_entry_id: int
    error: ZbkError


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


class SyncFailed(msgspec.Struct, frozen=True):
    """A bookie refused a sync, or did not answer in time."""

    slot: int
    sync_id: int
    error: ZbkError


class CloseRequested(msgspec.Struct, frozen=True):
    """Finish what was appended, and close the ledger."""

    ticket: Ticket


class Abandoned(msgspec.Struct, frozen=True):
    """Nobody will drive this writer any longer: give every ticket back with this error, now."""

    error: ZbkError


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Wanted every 100 ms or so: all waiting ends here."""


ApplicationEvent: TypeAlias = Append | Appends | SyncRequested | CloseRequested | Abandoned
ConnectionEvent: TypeAlias = AddAnswered | AddFailed | SlotUp | SlotDown | SyncAnswered | SyncFailed
Event: TypeAlias = ApplicationEvent | ConnectionEvent | Tick


# ------------------------------------------------------------------ effects


class SendAdd(msgspec.Struct, frozen=True):
    """Send a batch to the bookie of a slot. One batch object may go to many slots."""

    slot: int
    batch: EntryBatch
    lac: int


class SendSync(msgspec.Struct, frozen=True):
    """Ask the bookie of a slot to fsync."""

    slot: int
    sync_id: int
    lac: int


class Acked(msgspec.Struct, frozen=True):
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

    ``length`` is the bytes of payload up to ``last_entry_id``. ``error``, if there is one, is
    raised to the application after the ledger was closed.
    """

    ticket: Ticket
    last_entry_id: int
    length: int
    error: ZbkError | None


class CloseFailed(msgspec.Struct, frozen=True):
    """The ledger must not be closed by this writer, or is being closed already."""

    ticket: Ticket
    error: ZbkError


class SlotSuspect(msgspec.Struct, frozen=True):
    """The slot counts as down; reset its connection, and say ``SlotUp`` when there is a new one."""

    slot: int
    error: ZbkError


Effect: TypeAlias = (
    SendAdd
    | SendSync
    | Acked
    | Failed
    | SyncDone
    | SyncFailedFor
    | CloseLedger
    | CloseFailed
    | SlotSuspect
)
