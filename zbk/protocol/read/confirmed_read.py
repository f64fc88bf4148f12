"""How far a ledger is confirmed, asked by a reader that has metadata of some age.

The bookies of the last ensemble that the reader knows are asked (``read.lac_read``), and at
the same time the metadata store is. What each of them says counts when it comes:

    the metadata name another last ensemble   its bookies are asked, too
    the ledger is closed                      its end is the answer
    the LAC is found                          it is the answer, once the metadata have come, or have
                                              not for ``METADATA_WAIT_MS``
    too few bookies answer                    an error, once the metadata have come: others may have
                                              taken their places

So a metadata store that does not answer costs one wait, and keeps nobody from reading on. A LAC of
an ensemble that was replaced is true, and may be old. After a look without an answer of the store
the next ones do not wait for it at all, until it answers again.

Decision: BookKeeper's readers hold a watch on the metadata and never wait. Here the answer of a
healthy store is waited for, so that what happened before the call, an end or a new ensemble, is
seen by the call.

Source: BookKeeper's ``ReadOnlyLedgerHandle`` and ``ReadLastConfirmedOp``.
"""

from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.errors import MetadataUnavailableError, NotEnoughBookiesError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read import lac_read

METADATA_WAIT_MS: Final = 500


class ConfirmedReadStarted(msgspec.Struct, frozen=True):
    """Begin. ``is_store_silent``: the last look had no answer of the metadata store."""

    is_store_silent: bool


class LacAnswered(msgspec.Struct, frozen=True):
    """A bookie told the highest LAC that it knows."""

    round_id: int
    slot: int
    lac: int


class LacRefused(msgspec.Struct, frozen=True):
    """A bookie refused, was not reached, did not answer in time, or sent garbage."""

    round_id: int
    slot: int
    error: ZbkError


class MetadataRead(msgspec.Struct, frozen=True):
    """The metadata store answered, or did not in time."""

    outcome: LedgerMetadata | ZbkError


class ConfirmedReadTicked(msgspec.Struct, frozen=True):
    """Time has passed. It counts at ``due_ms``."""


class TimeIsOver(msgspec.Struct, frozen=True):
    """The caller waits no longer; ``error`` says so."""

    error: ZbkError


Event: TypeAlias = (
    ConfirmedReadStarted
    | LacAnswered
    | LacRefused
    | MetadataRead
    | ConfirmedReadTicked
    | TimeIsOver
)


class AskLac(msgspec.Struct, frozen=True):
    """Ask a bookie for its LAC. Answer it with one event of the same round and slot."""

    round_id: int
    slot: int
    bookie_id: str


class Confirmed(msgspec.Struct, frozen=True):
    """The ledger is confirmed up to ``lac``, at least. Nothing follows."""

    lac: int


class ConfirmedReadFailed(msgspec.Struct, frozen=True):
    """It could not be found out. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = AskLac | Confirmed | ConfirmedReadFailed


class ConfirmedRead:
    """One look at how far a ledger is confirmed. ``floor`` is what this reader knew before."""

    def __init__(self, metadata: LedgerMetadata, floor: int) -> None:
        assert not metadata.is_closed, "the end of a closed ledger is known"
        self._metadata = metadata
        self._lac = floor
        self._round_id = -1
        self._read: lac_read.LacRead
        self._is_found = False  # the LAC, of the last ensemble that is known
        self._failure: ZbkError | None = None  # why it is not
        self._is_metadata_awaited = True
        self._is_store_silent = True
        self._wait_until_ms = 0
        self._is_over = False

    @property
    def metadata(self) -> LedgerMetadata:
        """The newest metadata that it knows."""
        return self._metadata

    @property
    def due_ms(self) -> int | None:
        """When to send ``ConfirmedReadTicked``; ``None`` while time makes no difference."""
        return self._wait_until_ms if self._is_found and not self._is_over else None

    @property
    def is_store_silent(self) -> bool:
        """True unless the metadata store has answered this look: for the next one."""
        return self._is_store_silent

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. What comes after the end is late news."""
        if self._is_over:
            return []
        match event:
            case ConfirmedReadStarted():
                self._wait_until_ms = now_ms + (0 if event.is_store_silent else METADATA_WAIT_MS)
                effects = self._ask(now_ms)
            case LacAnswered():
                answer = lac_read.LacAnswered(event.slot, event.lac)
                effects = self._on_answer(event.round_id, answer, now_ms)
            case LacRefused():
                refusal = lac_read.LacRefused(event.slot, event.error)
                effects = self._on_answer(event.round_id, refusal, now_ms)
            case MetadataRead():
                effects = self._on_metadata(event.outcome, now_ms)
            case ConfirmedReadTicked():
                effects = self._conclude(now_ms)
            case TimeIsOver():
                effects = self._on_time_over(event.error)
            case _:
                assert_never(event)
        return effects

    # ------------------------------------------------------------------ private

    def _ask(self, now_ms: int) -> list[Effect]:
        """Ask the bookies of the last ensemble."""
        fragment = self._metadata.last_fragment
        self._round_id += 1
        self._is_found, self._failure = False, None
        self._lac = max(self._lac, fragment.first_entry_id - 1)
        self._read = lac_read.LacRead(self._metadata.quorum, self._lac)
        self._read.handle(lac_read.LacReadStarted(), now_ms)
        return [
            AskLac(self._round_id, slot, bookie_id)
            for slot, bookie_id in enumerate(fragment.bookies)
        ]

    def _on_answer(
        self, round_id: int, answer: lac_read.LacAnswered | lac_read.LacRefused, now_ms: int
    ) -> list[Effect]:
        if round_id != self._round_id:  # of a bookie that was replaced: true, and not needed
            return []
        for effect in self._read.handle(answer, now_ms):
            match effect:
                case lac_read.LacFound():
                    self._lac, self._is_found = effect.lac, True
                case lac_read.LacReadFailed():
                    self._failure = effect.error
                case lac_read.SendReadLac():
                    raise AssertionError("all were asked at the beginning")
        return self._conclude(now_ms)

    def _on_metadata(self, outcome: LedgerMetadata | ZbkError, now_ms: int) -> list[Effect]:
        self._is_metadata_awaited = False
        self._is_store_silent = isinstance(outcome, MetadataUnavailableError)
        match outcome:
            case LedgerMetadata():
                if is_older(outcome, self._metadata):
                    return self._conclude(now_ms)
                before, self._metadata = self._metadata, outcome
                if outcome.last_entry_id is not None:
                    return self._end(outcome.last_entry_id)
                if outcome.last_fragment != before.last_fragment:
                    return self._ask(now_ms)
                return self._conclude(now_ms)
            case MetadataUnavailableError():
                return self._conclude(now_ms)
            case _:
                return self._fail(outcome)

    def _on_time_over(self, error: ZbkError) -> list[Effect]:
        if self._is_found:
            return self._end(self._lac)
        return self._fail(self._failure or error)

    def _conclude(self, now_ms: int) -> list[Effect]:
        if self._is_found and (not self._is_metadata_awaited or now_ms >= self._wait_until_ms):
            return self._end(self._lac)
        if self._failure is None:
            return []
        if not self._is_metadata_awaited or not isinstance(self._failure, NotEnoughBookiesError):
            return self._fail(self._failure)
        return []

    def _end(self, lac: int) -> list[Effect]:
        self._is_over = True
        return [Confirmed(lac)]

    def _fail(self, error: ZbkError) -> list[Effect]:
        self._is_over = True
        return [ConfirmedReadFailed(error)]


def is_older(one: LedgerMetadata, other: LedgerMetadata) -> bool:
    """Return whether metadata that came late are from before others."""
    if one.is_closed or other.is_closed:  # a recovery may end a ledger before its last fragment
        return not one.is_closed
    return one.last_fragment.first_entry_id < other.last_fragment.first_entry_id
