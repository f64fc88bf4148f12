"""The tail of a ledger that is being written: how far it may be read, and when it ends.

While the reader lacks confirmed entries, no bookie is polled. When it has all of them, every bookie
of the last ensemble gets a *long poll*: a request for its LAC that it answers as soon as it knows a
higher one. Any answer counts at once, because every LAC is confirmed; all bookies are polled,
because any of them may lag. The LAC never decreases, and never exceeds the end of a closed ledger.

A watch delivers the metadata, which show new ensembles and the end. They are also read in these
cases, at most once in ``METADATA_PAUSE_MS``, and at least once in ``METADATA_INTERVAL_MS``:

    a bookie fails              it may have been replaced
    a poll is answered early    without a higher LAC: the ledger is fenced and being recovered
    entries cannot be read      they may have been moved

A bookie that failed, or answered early, is polled again after a pause that doubles from
``PAUSE_MIN_MS`` to ``PAUSE_MAX_MS``; the others are polled meanwhile. A bookie that does not have
the ledger yet cannot wait for its first entry, so it is polled each ``NEW_PAUSE_MS``. The tail
fails after an outage of ``outage_ms``: every bookie of the last ensemble fails, or confirmed
entries cannot be read. It fails at once when the ledger is deleted, or the password is wrong. It
ends when the ledger is closed and the reader has all of it.

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
    """The reader has every entry before ``next_entry_id`` and wants more."""

    next_entry_id: int


class PollAnswered(msgspec.Struct, frozen=True):
    """The answer to one ``PollLac``: the LAC of the bookie, or an error.

    The bookie refused the poll, was not reached, or did not answer in time.
    """

    poll_id: int
    lac: int | ZbkError


class MetadataSeen(msgspec.Struct, frozen=True):
    """The ledger's metadata, of any age. ``None``: the ledger is deleted."""

    metadata: LedgerMetadata | None
    version: int = 0


class EntriesUnread(msgspec.Struct, frozen=True):
    """Confirmed entries could not be read."""

    error: ZbkError


class TailTicked(msgspec.Struct, frozen=True):
    """Time has passed. Needed at ``due_ms``; harmless before."""


Event: TypeAlias = EntriesWanted | PollAnswered | MetadataSeen | EntriesUnread | TailTicked


# ------------------------------------------------------------------ effects


class PollLac(msgspec.Struct, frozen=True):
    """Ask a bookie for its LAC, within ``wait_ms``. Answer: PollAnswered."""

    poll_id: int
    bookie_id: str
    known_lac: int
    wait_ms: int


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the ledger's metadata. Answer: MetadataSeen, or none."""


class EntriesConfirmed(msgspec.Struct, frozen=True):
    """Entries up to ``lac`` may be read, at least the wanted one."""

    lac: int


class TailEnded(msgspec.Struct, frozen=True):
    """The ledger is closed, and the reader has all of it. Nothing follows."""


class TailFailed(msgspec.Struct, frozen=True):
    """The ledger cannot be followed. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = PollLac | ReadMetadata | EntriesConfirmed | TailEnded | TailFailed


class TailLimits(msgspec.Struct, frozen=True):
    """The time limits of a tail."""

    wait_ms: int = 5_000  # of a long poll
    outage_ms: int = 60_000  # of an outage, before the tail fails


class _Poll(msgspec.Struct, frozen=True):
    """A request under way."""

    bookie_id: str
    known_lac: int
    sent_ms: int


class TailCore:
    """One reader that follows one ledger.

    Invariants, checked in ``_check``:
      * a tail that waits has, for each bookie of the last ensemble, a poll under way or a time to
        poll it again;
      * polls are sent only while the tail waits, and at most one for each bookie is under way;
      * the LAC never decreases.
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
        self._pause_ms: dict[str, int] = {}  # by bookie: its current or last pause
        self._retry_at_ms: dict[str, int] = {}  # by bookie: when its pause ends
        self._errors: dict[str, ZbkError] = {}  # by bookie: of its last poll
        self._read_error: ZbkError | None = None
        self._read_pause_ms = 0
        self._read_at_ms: int | None = None  # when to retry a failed read of entries
        self._good_ms = 0  # the last success, or the beginning of the wait
        self._metadata_at_ms = 0  # when to read the metadata in any case
        self._metadata_from_ms = 0  # not before this
        self._learn(metadata)

    @property
    def lac(self) -> int:
        """How far the ledger may be read. Never decreases."""
        return self._lac

    @property
    def metadata(self) -> LedgerMetadata:
        """The latest metadata of the ledger."""
        return self._metadata

    @property
    def due_ms(self) -> int | None:
        """When ``TailTicked`` is needed; ``None``: never."""
        if self._is_over:
            return None
        if self._read_at_ms is not None:
            return self._read_at_ms
        if not self._is_waiting:
            return None
        return min([self._metadata_at_ms, self._outage_at_ms(), *self._retry_at_ms.values()])

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. After the end, events are ignored."""
        if self._is_over:
            return []
        match event:
            case EntriesWanted():
                effects = self._on_wanted(event.next_entry_id, now_ms)
            case PollAnswered():
                effects = self._on_answer(event, now_ms)
            case MetadataSeen():
                effects = self._on_metadata(event)
            case EntriesUnread():
                effects = self._on_unread(event.error, now_ms)
            case TailTicked():
                effects = self._on_ticked(now_ms)
            case _:
                assert_never(event)
        effects += self._proceed(now_ms)
        self._check()
        return effects

    # ------------------------------------------------------------------ events

    def _on_wanted(self, next_entry_id: int, now_ms: int) -> list[Effect]:
        assert self._read_at_ms is None, "a failed read is retried first"
        if next_entry_id > self._next_id:
            self._read_error = None
        self._next_id = next_entry_id
        if not self._is_waiting:
            self._wait(now_ms)
            if self._read_error is None:
                self._good_ms = now_ms
        return []

    def _on_answer(self, event: PollAnswered, now_ms: int) -> list[Effect]:
        poll = self._polls.pop(event.poll_id, None)
        if poll is None:
            return []
        if isinstance(event.lac, ZbkError):
            return self._on_error(poll, event.lac, now_ms)
        return self._on_lac(poll, event.lac, now_ms)

    def _on_lac(self, poll: _Poll, lac: int, now_ms: int) -> list[Effect]:
        is_higher = lac > self._lac
        if not self._metadata.is_closed:
            self._lac = max(self._lac, lac)
        self._good_ms = now_ms
        self._errors.pop(poll.bookie_id, None)
        is_early = now_ms - poll.sent_ms < self._limits.wait_ms // 2
        if is_higher or not is_early or poll.known_lac < self._lac:
            self._pause_ms.pop(poll.bookie_id, None)
            return []
        self._pause(poll.bookie_id, now_ms)
        return self._read_metadata(now_ms)

    def _on_error(self, poll: _Poll, error: ZbkError, now_ms: int) -> list[Effect]:
        if isinstance(error, UnauthorizedError):  # the same key goes to every bookie
            return self._fail(error)
        if isinstance(error, NoSuchLedgerError | NoSuchEntryError):  # it has received no entry yet
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
        # a bookie that lacks a confirmed entry was replaced in metadata that are not known yet
        is_moved = isinstance(error, NoSuchEntryError) and not self._metadata.is_closed
        if not (error.is_retriable or is_moved):
            return self._fail(error)
        if self._read_error is None:  # the first since a successful read
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
        # the answer of a replaced bookie would be true, but is not needed
        self._polls = {i: poll for i, poll in self._polls.items() if poll.bookie_id in members}

    def _proceed(self, now_ms: int) -> list[Effect]:
        """Return the event that the reader waits for, or poll the bookies."""
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
        """Return when an outage lasts too long, if there is one."""
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
        assert self._lac >= self._checked_lac, "the LAC never decreases"
        self._checked_lac = self._lac
        if self._is_over or not self._is_waiting:
            return
        polled = [poll.bookie_id for poll in self._polls.values()]
        assert len(polled) == len(set(polled)), "one poll for each bookie"
        for bookie_id in self._metadata.last_fragment.bookies:
            assert bookie_id in polled or bookie_id in self._retry_at_ms, "no bookie is forgotten"


def _longer(pause_ms: int) -> int:
    return min(PAUSE_MAX_MS, max(PAUSE_MIN_MS, 2 * pause_ms))
