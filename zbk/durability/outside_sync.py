"""The sync of an open VD ledger by a client that is not its writer.

The client asks every bookie of the ensemble to fsync and to report its sync cursor; the LAC follows
from the cursors (``SyncedLac``). If the LAC grew, the client sends it to the bookies, which raises
the cursor of a bookie with a hole over that hole. So it asks all of them again, until the LAC does
not grow.

    heard      the bookie reported a cursor, or has no such ledger: nothing is synced there
    not heard  every other case

If fewer than Qa bookies are heard, the durable end is unknown and the sync fails. While a writer
appends, the LAC may grow without end: after ``ROUND_COUNT_MAX`` rounds the sync ends with the
entries that are durable then.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.durability.synced_lac import SyncedLac
from zbk.errors import CannotAdvanceError, NoSuchLedgerError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum

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


Event: TypeAlias = SyncStarted | SlotSynced | SlotNotSynced | LacTold


class AskSync(msgspec.Struct, frozen=True):
    """Ask every bookie to fsync. Each answer is a ``SlotSynced`` or a ``SlotNotSynced``."""

    lac: int


class TellLac(msgspec.Struct, frozen=True):
    """Send the LAC to every bookie. Each answer is a ``LacTold``."""

    lac: int


class OutsideSyncDone(msgspec.Struct, frozen=True):
    """Every entry up to the LAC is durable on an ack quorum. The sync is over."""

    lac: int


class OutsideSyncFailed(msgspec.Struct, frozen=True):
    """Too few bookies were heard. The sync is over."""

    error: CannotAdvanceError


Effect: TypeAlias = AskSync | TellLac | OutsideSyncDone | OutsideSyncFailed


class OutsideSync:
    """One sync: rounds that ask every slot for its cursor, then send every slot the LAC.

    ``floor`` is durable already: the entry before the first one of the last fragment, whose bookies
    are asked. A bookie that joined with that fragment may not have the ledger yet.
    """

    def __init__(self, ledger_id: int, quorum: Quorum, floor: int = NO_ENTRY) -> None:
        self._ledger_id = ledger_id
        self._floor = floor
        self._quorum = quorum
        self._synced = SyncedLac(quorum)
        self._lac_before = self._lac  # at the start of the round
        self._awaited: set[int] = set()
        self._failures: dict[int, ZbkError] = {}
        self._round_count = 0
        self._is_over = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
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
            case LacTold():
                return self._told(event.slot)
            case _:
                assert_never(event)

    @property
    def _lac(self) -> int:
        return max(self._floor, self._synced.lac)

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
        lac = self._lac
        if self._quorum.ensemble_size - len(self._failures) < self._quorum.ack_size:
            self._is_over = True
            texts = [f"slot {slot}: {error}" for slot, error in sorted(self._failures.items())]
            error = CannotAdvanceError(self._ledger_id, lac, None, "; ".join(texts))
            return [OutsideSyncFailed(error)]
        if lac == self._lac_before:
            return self._end(lac)
        self._awaited = set(range(self._quorum.ensemble_size))
        return [TellLac(lac)]

    def _told(self, slot: int) -> list[Effect]:
        self._awaited.discard(slot)
        if self._awaited:
            return []
        return self._ask() if self._round_count < ROUND_COUNT_MAX else self._end(self._lac)

    def _end(self, lac: int) -> list[Effect]:
        self._is_over = True
        return [OutsideSyncDone(lac)]
