"""The sync of an open VD ledger by a client that is not its writer.

The client asks every bookie of the ensemble to fsync and to report its sync cursor; the LAC follows
from the cursors (``SyncedLac``). If the LAC grew, the client sends it to the bookies, which raises
the cursor of a bookie with a hole over that hole. So it asks all of them again, until the LAC does
not grow.

Before a higher LAC is sent, and before the sync fails, the client reads the metadata again. A
bookie that was replaced meanwhile may have entries of the new fragment, for example because it left
limbo with copies of them, but a recovery does not ask it. So cursors count only if the metadata are
still those that named the bookies. If they changed, the next round asks the bookies that they name
now. The writer replaces a bookie at a sync point only, so what an unchanged ensemble has synced
stays there.

    heard      the bookie reported a cursor, or has no such ledger: nothing is synced there
    not heard  every other case

If fewer than Qa bookies are heard, the durable end is unknown and the sync fails. While a writer
appends, the LAC may grow without end: after ``ROUND_COUNT_MAX`` rounds the sync ends with the
entries that are durable then.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.durability.synced_lac import SyncedLac
from zbk.errors import CannotAdvanceError, NoSuchLedgerError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata

ROUND_COUNT_MAX: Final = 16


class SyncStarted(msgspec.Struct, frozen=True):
    """Start the sync."""


class SlotSynced(msgspec.Struct, frozen=True):
    """A bookie has fsynced and reported its cursor."""

    slot: int
    incarnation: int
    last_add_synced: int


class SlotNotSynced(msgspec.Struct, frozen=True):
    """A bookie refused to sync, or did not answer."""

    slot: int
    error: ZbkError


class LacTold(msgspec.Struct, frozen=True):
    """A bookie has the LAC, or did not answer and gets it later."""

    slot: int


class MetadataRead(msgspec.Struct, frozen=True):
    """The metadata include every change that was made before they were read."""

    metadata: LedgerMetadata
    version: int


class MetadataNotRead(msgspec.Struct, frozen=True):
    """The ledger was deleted, or the metadata store did not answer."""

    error: ZbkError


Event: TypeAlias = (
    SyncStarted | SlotSynced | SlotNotSynced | LacTold | MetadataRead | MetadataNotRead
)


class AskSync(msgspec.Struct, frozen=True):
    """Ask every bookie to fsync. Each answer is a ``SlotSynced`` or a ``SlotNotSynced``."""

    lac: int


class TellLac(msgspec.Struct, frozen=True):
    """Send the LAC to every bookie. Each answer is a ``LacTold``."""

    lac: int


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the metadata, fresh. The answer is a ``MetadataRead`` or a ``MetadataNotRead``."""


class OutsideSyncDone(msgspec.Struct, frozen=True):
    """Every entry up to the LAC is durable on an ack quorum. The sync is over."""

    lac: int


class OutsideSyncFailed(msgspec.Struct, frozen=True):
    """Too few bookies were heard, or the metadata could not be read. The sync is over."""

    error: ZbkError


Effect: TypeAlias = AskSync | TellLac | ReadMetadata | OutsideSyncDone | OutsideSyncFailed


class OutsideSync:
    """One sync: rounds that ask every slot for its cursor, then send every slot the LAC.

    The entry before the first one of the last fragment is durable already. A bookie that joined
    with that fragment may not have the ledger yet.
    """

    def __init__(self, metadata: LedgerMetadata, version: int) -> None:
        self._ledger_id = metadata.ledger_id
        self._quorum = metadata.quorum
        self._awaited: set[int] = set()
        self._failures: dict[int, ZbkError] = {}
        self._round_count = 0
        self._is_over = False
        self._adopt(metadata, version)

    @property
    def bookies(self) -> Sequence[str]:
        """The bookie ids to ask, by slot."""
        return self._bookies

    def handle(  # noqa: PLR0911 - one for each event
        self, event: Event, now_ms: int
    ) -> list[Effect]:
        """Handle one event and return the effects. Events after the end are ignored."""
        del now_ms  # all machines have this signature; time-outs are events
        if self._is_over:
            return []
        match event:
            case SyncStarted():
                return self._ask()
            case SlotSynced():
                self._synced.update(event.slot, event.incarnation, event.last_add_synced)
                return self._heard(event.slot)
            case SlotNotSynced():
                if not isinstance(event.error, NoSuchLedgerError):
                    self._failures[event.slot] = event.error
                return self._heard(event.slot)
            case MetadataRead():
                return self._read(event)
            case MetadataNotRead():
                return self._fail(event.error)
            case LacTold():
                return self._told(event.slot)
            case _:
                assert_never(event)

    @property
    def _lac(self) -> int:
        return max(self._floor, self._synced.lac)

    def _adopt(self, metadata: LedgerMetadata, version: int) -> None:
        fragment = metadata.last_fragment
        self._version = version
        self._bookies = fragment.bookies
        self._floor = fragment.first_entry_id - 1
        self._synced = SyncedLac(self._quorum)
        self._lac_before = self._lac  # at the start of the round

    def _ask(self) -> list[Effect]:
        self._round_count += 1
        self._lac_before = self._lac
        self._failures.clear()
        self._awaited = set(range(self._quorum.ensemble_size))
        return [AskSync(self._lac)]

    def _heard(self, slot: int) -> list[Effect]:
        self._awaited.discard(slot)
        if self._awaited:
            return []
        if self._lac == self._lac_before and not self._is_short:
            return self._end(self._lac)
        return [ReadMetadata()]

    @property
    def _is_short(self) -> bool:
        return self._quorum.ensemble_size - len(self._failures) < self._quorum.ack_size

    def _read(self, event: MetadataRead) -> list[Effect]:
        if event.metadata.last_entry_id is not None:
            return self._end(event.metadata.last_entry_id)
        is_changed = event.version != self._version
        if is_changed and self._round_count < ROUND_COUNT_MAX:
            self._adopt(event.metadata, event.version)
            return self._ask()
        if is_changed or self._is_short:
            texts = [f"slot {slot}: {error}" for slot, error in sorted(self._failures.items())]
            reason = "; ".join(texts) or f"the metadata changed in {ROUND_COUNT_MAX} rounds"
            error = CannotAdvanceError(self._ledger_id, self._lac_before, None, reason)
            return self._fail(error)
        self._awaited = set(range(self._quorum.ensemble_size))
        return [TellLac(self._lac)]

    def _told(self, slot: int) -> list[Effect]:
        self._awaited.discard(slot)
        if self._awaited:
            return []
        return self._ask() if self._round_count < ROUND_COUNT_MAX else self._end(self._lac)

    def _end(self, lac: int) -> list[Effect]:
        self._is_over = True
        return [OutsideSyncDone(lac)]

    def _fail(self, error: ZbkError) -> list[Effect]:
        self._is_over = True
        return [OutsideSyncFailed(error)]
