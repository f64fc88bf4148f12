"""Following a ledger that is being written: how far may be read, whom to ask, when it is over.

What the reader has is compared with what is confirmed. While there is more, nothing is asked; when
the reader has it all, every bookie of the last ensemble gets a *long poll*: a request for its LAC
that it answers as soon as it knows of a higher one. Any answer counts at once, for a LAC that one
bookie was told is confirmed; all are asked because any of them may hang behind. The LAC never goes
down, and never above the end of a closed ledger.

Metadata come as news (a watch) and tell of new ensembles and of the end. They are also asked for
when something looks as if news were missing, at most each ``METADATA_PAUSE_MS``, and each
``METADATA_INTERVAL_MS`` in any case:

    a bookie fails              it may have been replaced
    a poll is answered early    without a higher LAC: the ledger is fenced, somebody recovers it
    entries cannot be read     they may have been moved

A bookie that failed, or answered early, is polled again after a pause that doubles from
``PAUSE_MIN_MS`` to ``PAUSE_MAX_MS``; the others go on meanwhile. One that has not heard of the
ledger yet cannot wait for its first entry, so it is asked each ``NEW_PAUSE_MS``. The tail fails
when nothing good came of the cluster for ``outage_ms``: every bookie of the last ensemble fails, or
entries that are confirmed cannot be read. It fails at once when the ledger is deleted, and when
the password is wrong. It ends when the ledger is closed and the reader has all of it.

Source: BookKeeper's ``ReadLastConfirmedAndEntryOp``, ``LedgerHandle.asyncReadLastConfirmed``,
``ReadOnlyLedgerHandle.onChanged``.
"""

from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.errors import (
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.ledger.metadata import LedgerMetadata

PAUSE_MIN_MS: Final = 20
PAUSE_MAX_MS: Final = 1_000
NEW_PAUSE_MS: Final = 100
METADATA_PAUSE_MS: Final = 200
METADATA_INTERVAL_MS: Final = 30_000

# ------------------------------------------------------------------ events


class EntriesWanted(msgspec.Struct, frozen=True):
    """The reader has everything before ``next_entry_id`` and wants to go on."""

    next_entry_id: int


class LacTold(msgspec.Struct, frozen=True):
    """A bookie answered a poll."""

    poll_id: int
    lac: int


class PollRefused(msgspec.Struct, frozen=True):
    """A bookie refused a poll, was not reached, or did not answer in time."""

    poll_id: int
    error: ZbkError


class MetadataSeen(msgspec.Struct, frozen=True):
    """The ledger's metadata, of any age. ``None``: the ledger is deleted."""

    metadata: LedgerMetadata | None
    version: int = 0


class EntriesUnread(msgspec.Struct, frozen=True):
    """Entries that are confirmed could not be read."""

    error: ZbkError


class TailTicked(msgspec.Struct, frozen=True):
    """Time has passed. It counts at ``due_ms``; sooner it does no harm."""


Event: TypeAlias = EntriesWanted | LacTold | PollRefused | MetadataSeen | EntriesUnread | TailTicked


# ------------------------------------------------------------------ effects


class PollLac(msgspec.Struct, frozen=True):
    """Ask a bookie for its LAC; it may take ``wait_ms`` to answer. Answer it with one event."""

    poll_id: int
    bookie_id: str
    known_lac: int
    wait_ms: int


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the ledger's metadata. Answer it with ``MetadataSeen``, or not at all."""


class EntriesConfirmed(msgspec.Struct, frozen=True):
    """Entries up to ``lac`` may be read: at least the one that was wanted."""

    lac: int


class TailEnded(msgspec.Struct, frozen=True):
    """The ledger is closed, and the reader has all of it. Nothing follows."""


class TailFailed(msgspec.Struct, frozen=True):
    """The ledger cannot be followed. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = PollLac | ReadMetadata | EntriesConfirmed | TailEnded | TailFailed


class TailLimits(msgspec.Struct, frozen=True):
    """How long things take."""

    wait_ms: int = 5_000  # of a long poll
    outage_ms: int = 60_000  # how long nothing good may come of the cluster


class _Poll(msgspec.Struct, frozen=True):
    """A request on its way."""

    bookie_id: str
    known_lac: int
    sent_ms: int


class TailCore:
    """One reader that follows one ledger.

    Invariants, checked in ``_check``:
      * a tail that waits has, of each bookie of the last ensemble, a poll on its way or a time to
        poll it again;
      * polls are sent only while the tail waits, and at most one a bookie is on its way;
      * the LAC never goes down.
    """

    def __init__(
        self, metadata: LedgerMetadata, version: int, lac: int, limits: TailLimits | None = None
    ) -> None:
        self._metadata = metadata
        self._version = version
        self._limits = limits or TailLimits()
        self._lac = lac
        self._checked_lac = lac
        self._next_id = 0
        self._is_waiting = False
        self._is_over = False
        self._polls: dict[int, _Poll] = {}
        self._next_poll_id = 0
        self._pause_ms: dict[str, int] = {}  # by bookie: the pause that it is in, or was in last
        self._retry_at_ms: dict[str, int] = {}  # by bookie: when its pause ends
        self._errors: dict[str, ZbkError] = {}  # by bookie: of its last poll
        self._read_error: ZbkError | None = None
        self._read_pause_ms = 0
        self._read_at_ms: int | None = None  # when to try again what could not be read
        self._good_ms = 0  # when something good last came, or the wait began
        self._metadata_at_ms = 0  # when to read the metadata in any case
        self._metadata_from_ms = 0  # not sooner than this
        self._learn(metadata)

    @property
    def lac(self) -> int:
        """How far the ledger may be read. Never goes down."""
        return self._lac

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata, the latest that were seen."""
        return self._metadata

    @property
    def due_ms(self) -> int | None:
        """When to send ``TailTicked``; ``None`` while time makes no difference."""
        if self._is_over:
            return None
        if self._read_at_ms is not None:
            return self._read_at_ms
        if not self._is_waiting:
            return None
        return min([self._metadata_at_ms, self._outage_at_ms(), *self._retry_at_ms.values()])

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. Late news changes nothing."""
        if self._is_over:
            return []
        match event:
            case EntriesWanted():
                effects = self._on_wanted(event.next_entry_id, now_ms)
            case LacTold():
                effects = self._on_told(event.poll_id, event.lac, now_ms)
            case PollRefused():
                effects = self._on_refused(event.poll_id, event.error, now_ms)
            case MetadataSeen():
                effects = self._on_metadata(event)
            case EntriesUnread():
                effects = self._on_unread(event.error, now_ms)
            case TailTicked():
                effects = self._on_ticked(now_ms)
            case _:
                assert_never(event)
        effects += self._go_on(now_ms)
        self._check()
        return effects

    # ------------------------------------------------------------------ events

    def _on_wanted(self, next_entry_id: int, now_ms: int) -> list[Effect]:
        assert self._read_at_ms is None, "what could not be read is tried again first"
        if next_entry_id > self._next_id:
            self._read_error = None
        self._next_id = next_entry_id
        if not self._is_waiting:
            self._wait(now_ms)
            if self._read_error is None:
                self._good_ms = now_ms
        return []

    def _on_told(self, poll_id: int, lac: int, now_ms: int) -> list[Effect]:
        poll = self._polls.pop(poll_id, None)
        if poll is None:
            return []
        is_news = lac > self._lac
        if not self._metadata.is_closed:
            self._lac = max(self._lac, lac)
        self._good_ms = now_ms
        self._errors.pop(poll.bookie_id, None)
        is_early = now_ms - poll.sent_ms < self._limits.wait_ms // 2
        if is_news or not is_early or poll.known_lac < self._lac:
            self._pause_ms.pop(poll.bookie_id, None)
            return []
        self._pause(poll.bookie_id, now_ms)
        return self._read_metadata(now_ms)

    def _on_refused(self, poll_id: int, error: ZbkError, now_ms: int) -> list[Effect]:
        poll = self._polls.pop(poll_id, None)
        if poll is None:
            return []
        if isinstance(error, UnauthorizedError):  # the same key goes to every bookie
            return self._fail(error)
        if isinstance(error, NoSuchLedgerError | NoSuchEntryError):  # nothing came to it yet
            self._good_ms = now_ms
            self._errors.pop(poll.bookie_id, None)
            self._pause_ms.pop(poll.bookie_id, None)
            self._retry_at_ms[poll.bookie_id] = now_ms + NEW_PAUSE_MS
            return []
        self._errors[poll.bookie_id] = error
        self._pause(poll.bookie_id, now_ms)
        return self._read_metadata(now_ms)

    def _on_metadata(self, event: MetadataSeen) -> list[Effect]:
        if event.metadata is None:
            return self._fail(NoSuchLedgerError(self._metadata.ledger_id))
        if event.version >= self._version:
            self._version = event.version
            self._learn(event.metadata)
        return []

    def _on_unread(self, error: ZbkError, now_ms: int) -> list[Effect]:
        if not error.is_retriable:
            return self._fail(error)
        if self._read_error is None:  # the first since something was read
            self._good_ms = now_ms
            self._read_pause_ms = 0
        self._read_error = error
        self._read_pause_ms = _longer(self._read_pause_ms)
        self._read_at_ms = now_ms + self._read_pause_ms
        return self._read_metadata(now_ms)

    def _on_ticked(self, now_ms: int) -> list[Effect]:
        if self._read_at_ms is not None and now_ms >= self._read_at_ms:
            self._read_at_ms = None
            self._wait(now_ms)
        if not self._is_waiting:
            return []
        if now_ms >= self._outage_at_ms():
            return self._fail(self._outage())
        for bookie_id in [b for b, at_ms in self._retry_at_ms.items() if now_ms >= at_ms]:
            del self._retry_at_ms[bookie_id]
        return self._read_metadata(now_ms) if now_ms >= self._metadata_at_ms else []

    # ------------------------------------------------------------------ private

    def _wait(self, now_ms: int) -> None:
        self._is_waiting = True
        self._metadata_at_ms = now_ms + METADATA_INTERVAL_MS

    def _learn(self, metadata: LedgerMetadata) -> None:
        self._metadata = metadata
        if metadata.last_entry_id is not None:
            confirmed = metadata.last_entry_id
        else:
            confirmed = metadata.last_fragment.first_entry_id - 1
        self._lac = max(self._lac, confirmed)
        members = set(metadata.last_fragment.bookies)
        self._pause_ms = {b: pause for b, pause in self._pause_ms.items() if b in members}
        self._retry_at_ms = {b: at for b, at in self._retry_at_ms.items() if b in members}
        self._errors = {b: error for b, error in self._errors.items() if b in members}
        # an answer of a bookie that was replaced would still be true; it is not worth waiting for
        self._polls = {i: poll for i, poll in self._polls.items() if poll.bookie_id in members}

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Return to the reader what it waits for, or see to it that somebody will."""
        if self._is_over or not self._is_waiting:
            return []
        end = self._metadata.last_entry_id
        if end is not None and self._next_id > end:
            self._is_over = True
            return [TailEnded()]
        if self._next_id <= self._lac:
            self._is_waiting = False
            return [EntriesConfirmed(self._lac)]
        polled = {poll.bookie_id for poll in self._polls.values()}
        return [
            self._poll(bookie_id, now_ms)
            for bookie_id in self._metadata.last_fragment.bookies
            if bookie_id not in polled and bookie_id not in self._retry_at_ms
        ]

    def _poll(self, bookie_id: str, now_ms: int) -> PollLac:
        poll_id = self._next_poll_id
        self._next_poll_id += 1
        self._polls[poll_id] = _Poll(bookie_id, self._lac, now_ms)
        return PollLac(poll_id, bookie_id, self._lac, self._limits.wait_ms)

    def _pause(self, bookie_id: str, now_ms: int) -> None:
        pause_ms = _longer(self._pause_ms.get(bookie_id, 0))
        self._pause_ms[bookie_id] = pause_ms
        self._retry_at_ms[bookie_id] = now_ms + pause_ms

    def _read_metadata(self, now_ms: int) -> list[Effect]:
        if now_ms < self._metadata_from_ms:
            return []
        self._metadata_from_ms = now_ms + METADATA_PAUSE_MS
        self._metadata_at_ms = now_ms + METADATA_INTERVAL_MS
        return [ReadMetadata()]

    def _outage_at_ms(self) -> int:
        """When to give up, if nothing good comes until then."""
        is_bad = self._read_error is not None or (len(self._errors) == self._metadata.ensemble_size)
        return self._good_ms + self._limits.outage_ms if is_bad else 2**63 - 1

    def _outage(self) -> ZbkError:
        if self._read_error is not None:
            return self._read_error
        texts = "; ".join(f"{b}: {error}" for b, error in sorted(self._errors.items()))
        reason = f"to follow ledger {self._metadata.ledger_id}; {texts}"
        return NotEnoughBookiesError(1, 0, reason)

    def _fail(self, error: ZbkError) -> list[Effect]:
        self._is_over = True
        return [TailFailed(error)]

    def _check(self) -> None:
        assert self._lac >= self._checked_lac, "the LAC never goes down"
        self._checked_lac = self._lac
        if self._is_over or not self._is_waiting:
            return
        polled = [poll.bookie_id for poll in self._polls.values()]
        assert len(polled) == len(set(polled)), "one poll a bookie"
        for bookie_id in self._metadata.last_fragment.bookies:
            assert bookie_id in polled or bookie_id in self._retry_at_ms, "nobody is forgotten"


def _longer(pause_ms: int) -> int:
    return min(PAUSE_MAX_MS, max(PAUSE_MIN_MS, 2 * pause_ms))
