"""The confirmed read: how far a ledger is confirmed, for a reader whose metadata may be old.

The bookies of the last known ensemble are asked for the LAC (``read.lac_read``), and the metadata
store is asked at the same time. Each answer counts when it arrives:

    the metadata name another last ensemble   its bookies are asked, too
    the ledger is closed                      its end is the answer
    the LAC is found                          it is the answer, after the metadata arrived, or after
                                              ``METADATA_WAIT_MS`` without them
    too few bookies answer                    an error, after the metadata arrived: the bookies may
                                              have been replaced

A metadata store that does not answer therefore costs one wait, but does not prevent reads. A LAC of
an ensemble that was replaced is true, but may be old. After a look without an answer of the store,
further looks do not wait for it until it answers again.

Decision: BookKeeper's readers hold a watch on the metadata and never wait. Here a call waits for a
healthy store, so that it sees every end and every new ensemble from before the call.

Source: BookKeeper's ``ReadOnlyLedgerHandle`` and ``ReadLastConfirmedOp``.
"""

from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.errors import MetadataUnavailableError, NotEnoughBookiesError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.lac_read import LacRead

METADATA_WAIT_MS: Final = 500


class ConfirmedReadStarted(msgspec.Struct, frozen=True):
    """Begin. ``is_store_silent``: the metadata store did not answer the last look."""

    is_store_silent: bool


class LacAnswered(msgspec.Struct, frozen=True):
    """The answer to one ``AskLac``: the LAC of the bookie, or an error."""

    round_id: int
    slot: int
    lac: int | ZbkError


class MetadataRead(msgspec.Struct, frozen=True):
    """The metadata, or the error of the metadata store."""

    outcome: LedgerMetadata | ZbkError


class ConfirmedReadTicked(msgspec.Struct, frozen=True):
    """Time has passed. Needed at ``due_ms``."""


class TimeIsOver(msgspec.Struct, frozen=True):
    """The caller's deadline has passed; ``error`` names it."""

    error: ZbkError


Event: TypeAlias = (
    ConfirmedReadStarted | LacAnswered | MetadataRead | ConfirmedReadTicked | TimeIsOver
)


class AskLac(msgspec.Struct, frozen=True):
    """Ask a bookie for its LAC. Answer: LacAnswered with the same round and slot."""

    round_id: int
    slot: int
    bookie_id: str


class Confirmed(msgspec.Struct, frozen=True):
    """The ledger is confirmed up to ``lac``, at least. Nothing follows."""

    lac: int


class ConfirmedReadFailed(msgspec.Struct, frozen=True):
    """The look failed. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = AskLac | Confirmed | ConfirmedReadFailed


class ConfirmedRead:
    """One look at how far a ledger is confirmed. ``floor``: the LAC that the reader knew before."""

    def __init__(self, metadata: LedgerMetadata, floor: int) -> None:
        assert not metadata.is_closed, "the end of a closed ledger is known"
        self._metadata = metadata
        self._lac = floor
        self._round_id = -1
        self._read = LacRead(metadata.quorum, floor)  # at the last known ensemble
        self._is_metadata_awaited = True
        self._is_store_silent = True
        self._wait_until_ms = 0
        self._is_over = False

    @property
    def metadata(self) -> LedgerMetadata:
        """The newest metadata so far."""
        return self._metadata

    @property
    def due_ms(self) -> int | None:
        """When ``ConfirmedReadTicked`` is needed; ``None``: never."""
        return self._wait_until_ms if self._read.is_found and not self._is_over else None

    @property
    def is_store_silent(self) -> bool:
        """True unless the metadata store has answered this look. The next look needs it."""
        return self._is_store_silent

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. After the end, events are ignored."""
        if self._is_over:
            return []
        match event:
            case ConfirmedReadStarted():
                self._wait_until_ms = now_ms + (0 if event.is_store_silent else METADATA_WAIT_MS)
                effects = self._ask()
            case LacAnswered():
                effects = self._on_answer(event, now_ms)
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

    def _ask(self) -> list[Effect]:
        """Ask the bookies of the last ensemble."""
        fragment = self._metadata.last_fragment
        self._round_id += 1
        self._lac = max(self._lac, fragment.first_entry_id - 1)
        self._read = LacRead(self._metadata.quorum, self._lac)
        return [
            AskLac(self._round_id, slot, bookie_id)
            for slot, bookie_id in enumerate(fragment.bookies)
        ]

    def _on_answer(self, event: LacAnswered, now_ms: int) -> list[Effect]:
        if event.round_id != self._round_id:  # of an earlier ensemble: true, but not needed
            return []
        self._read.answered(event.slot, event.lac)
        if self._read.is_found:
            self._lac = self._read.lac
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
                    return self._ask()
                return self._conclude(now_ms)
            case MetadataUnavailableError():
                return self._conclude(now_ms)
            case _:
                return self._fail(outcome)

    def _on_time_over(self, error: ZbkError) -> list[Effect]:
        if self._read.is_found:
            return self._end(self._lac)
        return self._fail(self._read.error or error)

    def _conclude(self, now_ms: int) -> list[Effect]:
        if self._read.is_found and (not self._is_metadata_awaited or now_ms >= self._wait_until_ms):
            return self._end(self._lac)
        if self._read.error is None:
            return []
        if not self._is_metadata_awaited or not isinstance(self._read.error, NotEnoughBookiesError):
            return self._fail(self._read.error)
        return []

    def _end(self, lac: int) -> list[Effect]:
        self._is_over = True
        return [Confirmed(lac)]

    def _fail(self, error: ZbkError) -> list[Effect]:
        self._is_over = True
        return [ConfirmedReadFailed(error)]


def is_older(one: LedgerMetadata, other: LedgerMetadata) -> bool:
    """Return whether the first metadata are older than the others."""
    if one.is_closed or other.is_closed:  # a recovery may end a ledger before its last fragment
        return not one.is_closed
    return one.last_fragment.first_entry_id < other.last_fragment.first_entry_id
