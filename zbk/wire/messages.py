"""The messages between clients and bookies, version 4 of the protocol.

A message is a row of ZeroMQ frames: a msgpack map (the *header*, below), followed by plain bytes
that are never inside msgpack. Unknown keys of a header are ignored; an unknown operation is
answered with ``UnknownOperationError``.

    operation     frames after the header
    ---------     -----------------------
    add           sizes (u32 LE an entry), body (encoded entries) [, entry ids (i64 LE each)]
    read          [entry ids (i64 LE each)]
    read answer   body (encoded entries, in the order asked)
    bundle        the frames of its parts, back to back in one frame
    others        none

The first message of a connection is ``Hello``; everything else is refused before it. Each request
has an id that its answer repeats. Requests are idempotent: the same one may be sent again.

A request may carry ``traceparent``, a field of W3C Trace Context: the bookie's span of the request
then belongs to the trace of the caller. It is absent when the caller is not traced. A bookie that
does not trace, or does not know the field, ignores it. A bookie that does not know ``is_at_once``
of ``ledger_info`` answers after an fsync, and one that does not know its ``stripe`` reports the
cursor of the slot that it was last told, or only the LAC.

A bookie of version 3 or 2 ignores the ``stripe`` of an add or a sync. Its sync cursor stops at the
first entry that is not due there, so it never reports too much, and it reports next to nothing.
Version 2 has neither bundles nor ``watch_lacs``. Everything else is as in version 4. HELLO says
which version is spoken: the highest one that both sides know.

Version 1 has neither fences nor recovery. It is no longer spoken: a bookie that ignores the
unknown key ``is_fencing`` would answer a recovery without a fence.

Every request names the incarnation of the bookie that it is meant for, and every answer the
incarnation that sent it. After a restart the bookie refuses requests for its earlier life.

Source: design of the wire; BookKeeper's ``BookkeeperProtocol.proto`` for the operations.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe

MAGIC: Final = "zbk"
VERSION_MIN: Final = 2
VERSION_MAX: Final = 4
BUNDLE_VERSION: Final = 3
"""The first version with bundles."""

STRIPE_VERSION: Final = 4
"""The first version whose bookies count a stripe."""

PART_COUNT_MAX: Final = 200
"""Parts of a bundle. Each takes up to 300 bytes of the header, which has a limit of 64 KiB."""

PART_FRAME_COUNT_MAX: Final = 3
"""Frames of a part: a striped add has so many."""

WATCH_COUNT_MAX: Final = 500
"""Watches that one ``watch_lacs`` begins. Each takes up to 80 bytes of the header."""

WATCH_END_COUNT_MAX: Final = 2_000
"""Watches that one ``watch_lacs`` ends."""

RISEN_COUNT_MAX: Final = 2_000
"""Watches that one answer to ``watch_lacs`` ends with a LAC."""

WATCH_REFUSED_COUNT_MAX: Final = 50
"""Watches that one answer to ``watch_lacs`` ends with an error."""

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
EntryIdOrNone: TypeAlias = Annotated[int, Meta(ge=NO_ENTRY, le=2**63 - 1)]
Checksum: TypeAlias = Annotated[int, Meta(ge=0)]
Name: TypeAlias = Annotated[str, Meta(max_length=256)]
LedgerKey: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 24)]
Traceparent: TypeAlias = Annotated[str, Meta(max_length=55)]


class Message(msgspec.Struct, frozen=True, tag_field="op", kw_only=True, gc=False):
    """The fields of every header.

    No message is part of a reference cycle, so the garbage collector need not track them: with
    thousands of ledgers that took a tenth of a client's time.
    """

    request_id: Natural
    incarnation: Natural = 0


class TracedRequest(Message, frozen=True, kw_only=True):
    """A request whose span at the bookie may be part of a trace; see above."""

    traceparent: Traceparent | msgspec.UnsetType = msgspec.UNSET


# ------------------------------------------------------------------ requests


class Hello(Message, frozen=True, tag="hello"):
    """Open a connection. Empty ids accept any bookie and any cluster (for tools)."""

    magic: Name = MAGIC
    version_min: Natural = VERSION_MIN
    version_max: Natural = VERSION_MAX
    instance_id: Name = ""
    bookie_id: Name = ""
    software: Name = ""


class Add(TracedRequest, frozen=True, tag="add"):
    """Store a batch of entries of one ledger.

    A fenced ledger accepts recovery adds; they are answered after an fsync whatever the ledger's
    type. A bookie that does not hold the ledger asks the metadata store for it first.
    """

    ledger_id: Natural
    ledger_key: LedgerKey
    ledger_type: LedgerType
    first_entry_id: Natural
    count: Count
    lac: EntryIdOrNone
    checksum: Checksum
    is_striped: bool = False  # true: the ids are in a frame of their own
    is_recovery: bool = False
    stripe: Stripe | msgspec.UnsetType = msgspec.UNSET  # of a striped VD ledger, by its writer


class Read(TracedRequest, frozen=True, tag="read"):
    """Read entries: ``first_entry_id .. last_entry_id``, or the ids in a frame of their own.

    The answer may hold fewer entries than requested, at least one; the client requests the rest.

    A fencing read fences the ledger first, also one that the bookie does not hold, if the metadata
    store has it; every answer, "no such entry" too, comes after the fence is on stable storage.

    A checked read answers only for entries in sound blocks of the entry log, and with
    ``EntryUnreadableError`` for others: a client sends it that cannot verify the entries' digests.
    A bookie of an older release ignores the flag.
    """

    ledger_id: Natural
    ledger_key: LedgerKey
    ledger_type: LedgerType
    first_entry_id: Natural
    last_entry_id: Natural
    size_max: Natural
    is_striped: bool = False
    is_fencing: bool = False
    is_checked: bool = False


class ReadLac(TracedRequest, frozen=True, tag="read_lac"):
    """Ask for the highest LAC of a ledger that the bookie has on stable storage.

    With ``wait_ms`` the answer comes as soon as the LAC is above ``known_lac`` or the ledger is
    fenced, at the latest after that time (a long poll). ``is_fencing`` as in ``Read``; it does not
    wait.
    """

    ledger_id: Natural
    ledger_key: LedgerKey
    ledger_type: LedgerType
    known_lac: EntryIdOrNone = NO_ENTRY
    wait_ms: Natural = 0
    is_fencing: bool = False


class LacWatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One ledger whose LAC a client waits for. ``number`` is the client's own, and unique."""

    number: Natural
    ledger_id: Natural
    ledger_key: LedgerKey
    ledger_type: LedgerType
    known_lac: EntryIdOrNone


class WatchLacs(Message, frozen=True, tag="watch_lacs"):
    """Wait for the LACs of many ledgers at once, in a *session* of this connection.

    ``begun`` joins the session's watches, ``ended`` leaves them. The answer comes when watches end
    by themselves, at the latest after ``wait_ms``, or when the next request of the session comes.
    A watch ends once, with the first answer that names it: when the LAC on stable storage is above
    ``known_lac``, or the ledger is fenced. The others go on in the session's next request. A
    ledger that the bookie does not know is watched, too: its first entry may come.

    The first request of a session says so, and ends the connection's session before it. A bookie
    that has forgotten a session answers the others with ``is_lost``: none of its watches is left.

    The ids of a connection's requests ascend: one that does not is a repeated request, and changes
    nothing.
    """

    session_id: Natural
    is_first: bool = False
    begun: Annotated[list[LacWatch], Meta(max_length=WATCH_COUNT_MAX)] = []
    ended: Annotated[list[Natural], Meta(max_length=WATCH_END_COUNT_MAX)] = []
    wait_ms: Natural = 0


class WriteLac(TracedRequest, frozen=True, tag="write_lac"):
    """Send the LAC without an entry, while the writer is idle. Answered when it is durable.

    A bookie that does not hold the ledger knows it from then on, if the metadata store has it;
    fenced ledgers take it, too.
    """

    ledger_id: Natural
    ledger_key: LedgerKey
    ledger_type: LedgerType
    lac: EntryIdOrNone


class Sync(TracedRequest, frozen=True, tag="sync"):
    """Answer once everything of this ledger received before is on stable storage."""

    ledger_id: Natural
    ledger_key: LedgerKey
    lac: EntryIdOrNone
    stripe: Stripe | msgspec.UnsetType = msgspec.UNSET  # as in ``Add``; the answer is for it


class GetLedgerInfo(Message, frozen=True, tag="ledger_info"):
    """Request the list of entries of a ledger that a bookie holds, from ``first_entry_id`` on.

    With ``is_at_once`` the bookie does not wait for an fsync, and runs none for the answer: that
    is for people who watch, because a loss of power may take what such an answer names.
    """

    ledger_id: Natural
    first_entry_id: Natural = 0
    is_at_once: bool = False
    stripe: Stripe | msgspec.UnsetType = msgspec.UNSET  # ``last_add_synced`` is for it


class GetBookieInfo(Message, frozen=True, tag="bookie_info"):
    """Request information about the bookie itself."""


CompactionKinds: TypeAlias = Annotated[list[Literal["minor", "major"]], Meta(max_length=2)]


class CollectGarbage(Message, frozen=True, tag="gc"):
    """Start a round of garbage collection, or request its progress. Answered at once."""

    is_round_wanted: bool = True
    compaction: Literal["", "minor", "major"] = ""  # to follow in that round, due or not
    suspend: CompactionKinds = []  # until they are resumed, or the bookie restarts
    resume: CompactionKinds = []


class Scrub(Message, frozen=True, tag="scrub"):
    """Start a pass that checks all files for damage, or request its progress. Answered at once."""

    is_pass_wanted: bool = True


class Ping(Message, frozen=True, tag="ping"):
    """Check that the bookie responds."""


PartSizes: TypeAlias = Annotated[
    list[Annotated[list[Natural], Meta(max_length=PART_FRAME_COUNT_MAX)]],
    Meta(max_length=PART_COUNT_MAX),
]
"""Bytes of each frame of each part."""

PartRequest: TypeAlias = Add | Read | ReadLac | WriteLac | Sync | GetLedgerInfo
"""Requests of which several fit into one message, of different ledgers or the same."""


class Bundle(Message, frozen=True, tag="bundle"):
    """Several requests in one message, each with its own request id, and answered by itself.

    They count, are carried out and are refused as if each had arrived alone, in this order.
    ``incarnation`` applies to all; the message's own ``request_id`` is 0, and no answer has it.
    """

    parts: Annotated[list[PartRequest], Meta(min_length=1, max_length=PART_COUNT_MAX)]
    sizes: PartSizes


Request: TypeAlias = (
    Hello
    | Add
    | Read
    | ReadLac
    | WatchLacs
    | WriteLac
    | Sync
    | GetLedgerInfo
    | GetBookieInfo
    | CollectGarbage
    | Scrub
    | Ping
)


# ------------------------------------------------------------------ answers


class HelloAnswer(Message, frozen=True, tag="hello_ok"):
    """The connection is open. Limits in bytes."""

    version: Natural
    instance_id: Name
    bookie_id: Name
    credit_size: Natural  # request bytes that may be in flight on this connection
    entry_size_max: Natural  # payload
    is_readonly: bool = False


class AddAnswer(Message, frozen=True, tag="add_ok"):
    """The batch is stored as the ledger's type promises."""

    last_add_synced: EntryIdOrNone = NO_ENTRY


class ReadAnswer(Message, frozen=True, tag="read_ok"):
    """The first ``count`` of the requested entries."""

    count: Count
    lac: EntryIdOrNone = NO_ENTRY


class LacAnswer(Message, frozen=True, tag="lac_ok"):
    """A LAC, the highest one on stable storage; after a fence, the highest one known."""

    lac: EntryIdOrNone


class WatchRefusal(msgspec.Struct, frozen=True, array_like=True):
    """A watch that ended with an error; ``code`` and ``fields`` as in ``Refused``."""

    number: Natural
    code: Natural
    fields: list[Any] = []


class LacsRisen(Message, frozen=True, tag="lacs_ok"):
    """The watches of a session that have ended: numbers with LACs, and with errors."""

    is_lost: bool = False
    risen: Annotated[list[tuple[Natural, EntryIdOrNone]], Meta(max_length=RISEN_COUNT_MAX)] = []
    refused: Annotated[list[WatchRefusal], Meta(max_length=WATCH_REFUSED_COUNT_MAX)] = []


class SyncAnswer(Message, frozen=True, tag="sync_ok"):
    """The bookie's sync cursor after the fsync."""

    last_add_synced: EntryIdOrNone


class LedgerInfo(Message, frozen=True, tag="ledger_info_ok"):
    """The entries of a ledger that a bookie holds."""

    is_known: bool
    is_fenced: bool = False
    lac: EntryIdOrNone = NO_ENTRY
    last_entry_id: EntryIdOrNone = NO_ENTRY
    last_add_synced: EntryIdOrNone = NO_ENTRY
    ranges: list[tuple[Natural, Natural]] = []  # first and last ids held, ascending
    next_entry_id: Natural | None = None  # not None: ask again from here for more ranges
    is_in_limbo: bool = False  # entries that are not named may have been here, and be lost
    own_log: Natural | None = None  # id of the entry log that has this ledger only, if one is open


class BookieInfo(Message, frozen=True, tag="bookie_info_ok"):
    """A bookie about itself. Sizes in bytes, times in milliseconds."""

    bookie_id: Name
    instance_id: Name
    software: Name
    is_readonly: bool
    uptime_ms: Natural
    ledger_count: Natural
    connection_count: Natural
    add_batch_count: Natural
    add_entry_count: Natural
    add_size: Natural
    read_entry_count: Natural
    read_size: Natural
    journal_write_size: Natural
    journal_sync_count: Natural
    journal_position: Name
    last_log_mark: Name
    checkpoint_count: Natural
    refused_message_count: Natural
    free_size: Natural  # on the disk of the ledger directory
    rss_size: Natural
    cpu_ms: Natural
    disk_write_size: Natural
    entry_log_count: Natural = 0
    entry_log_size: Natural = 0  # of those written no more, as the last round of gc left them
    dead_size: Natural = 0  # bytes of deleted ledgers in them
    damaged_log_count: Natural = 0  # of them: kept, as they cannot be understood
    gc_round_count: Natural = 0
    gc_ledger_count: Natural = 0  # dropped
    gc_log_count: Natural = 0  # removed
    gc_freed_size: Natural = 0
    minor_win_log_count: Natural = 0  # entry logs that minor compaction would take
    minor_win_size: Natural = 0  # bytes of entries that would go
    major_win_log_count: Natural = 0
    major_win_size: Natural = 0
    compacted_log_count: Natural = 0  # since the start
    compacted_size: Natural = 0  # that this freed
    compaction_copied_size: Natural = 0
    journal_free_size: Natural = 0  # on the disk of the journal directory
    has_reserve: bool = True  # what is held back for a full disk is there
    scrub_pass_count: Natural = 0  # passes that ended since the start
    scrub_ended_ms: Natural = 0  # wall clock, of the last one; 0 is none
    is_scrubbing: bool = False  # what follows is of the pass under way, or of the last one
    scrub_share: Annotated[float, Meta(ge=0, le=1)] = 0.0  # of the pass under way that is done
    scrub_read_size: Natural = 0
    scrub_file_count: Natural = 0  # damaged files
    scrub_ledger_count: Natural = 0  # ledgers with damaged entries
    scrub_entry_count: Natural = 0  # damaged entries
    scrub_unreported_count: Natural = 0  # ledgers that still have to be reported for repair
    limbo: Name = ""  # why ledgers are in limbo; empty: none is
    out_of_service: Name = ""  # directories that failed; cut where there are too many
    limbo_ledger_count: Natural | None = None  # of them; None: not known yet
    is_checkpointing: bool = False
    total_size: Natural = 0  # of the disk that free_size is of; 0: the bookie does not say


class GarbageStatus(Message, frozen=True, tag="gc_ok"):
    """Progress of garbage collection; counts and sizes are of the last round that ended."""

    awaited_round: Natural  # has seen, once it has ended, what was deleted before the request
    ended_round: Natural  # the last one that ended; 0 is none
    local_count: Natural = 0  # ledgers of which the bookie held anything
    listed_count: Natural = 0  # ledgers in the metadata
    candidate_count: Natural = 0  # local ones that were not listed
    dropped_count: Natural = 0
    log_count: Natural = 0  # entry logs removed
    freed_size: Natural = 0  # their bytes
    dead_size: Natural = 0  # bytes of deleted ledgers in the logs that are left
    gave_up: Annotated[str, Meta(max_length=4096)] = ""  # why the round dropped nothing
    compacted_log_count: Natural = 0  # entry logs, copied as far as they live, and removed
    compacted_size: Natural = 0  # bytes that this freed
    compaction_gave_up: Annotated[str, Meta(max_length=4096)] = ""  # why it did less than it might
    suspended: CompactionKinds = []  # kinds of compaction, after what the request changed


class ScrubStatus(Message, frozen=True, tag="scrub_ok"):
    """Progress of the current pass, or result of the last one; ``begun_pass`` is its number."""

    awaited_pass: Natural  # reads everything that was there before the request
    begun_pass: Natural  # the last one that began; 0 is none
    ended_pass: Natural  # the last one that ended; 0 is none
    share: Annotated[float, Meta(ge=0, le=1)] = 0.0  # of the pass under way that is done
    read_size: Natural = 0
    file_count: Natural = 0  # damaged
    ledger_count: Natural = 0  # with damaged entries
    entry_count: Natural = 0  # damaged
    unconfirmed_count: Natural = 0  # places that changed whenever they were looked at
    unreported_count: Natural = 0  # ledgers that the metadata store does not know of yet
    files: list[tuple[Name, Natural, Natural | None, Name]] = []  # path, offset, ledger, reason
    ranges: list[tuple[Natural, Natural, EntryIdOrNone]] = []  # ledger, first and last; -1: unknown


class Pong(Message, frozen=True, tag="pong"):
    """The bookie responds."""


class Refused(Message, frozen=True, tag="error"):
    """The request failed; ``code`` and ``fields`` rebuild the error (``zbk.errors.from_wire``)."""

    code: Natural
    fields: list[Any] = []


PartAnswer: TypeAlias = AddAnswer | ReadAnswer | LacAnswer | SyncAnswer | Refused


class AnswerBundle(Message, frozen=True, tag="bundle_ok"):
    """Several answers in one message: of one bundle, of several, or of single requests."""

    parts: Annotated[list[PartAnswer], Meta(min_length=1, max_length=PART_COUNT_MAX)]
    sizes: PartSizes


Answer: TypeAlias = (
    HelloAnswer
    | AddAnswer
    | ReadAnswer
    | LacAnswer
    | LacsRisen
    | SyncAnswer
    | LedgerInfo
    | BookieInfo
    | GarbageStatus
    | ScrubStatus
    | Pong
    | Refused
)
