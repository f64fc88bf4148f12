"""The sync of an open VD ledger by somebody who is not its writer.

Every bookie of the ensemble is asked to fsync and to say its sync cursor; the LAC follows from the
cursors (``SyncedLac``). A LAC that grew is told to the bookies, which lifts the cursor of one with
a hole over that hole, so everybody is asked once more: until the LAC rests.

    heard      answered with a cursor, or said that it has no such ledger: nothing is synced there
    not heard  everything else

With fewer than Qa heard it is not known how far the ledger is durable, and the sync fails. While a
writer goes on, the LAC may grow for ever: after ``ROUND_COUNT_MAX`` rounds the sync ends with what
is durable then.

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
    """Begin."""


class SlotSynced(msgspec.Struct, frozen=True):
    """A bookie has fsynced, and told its cursor."""

    slot: int
    incarnation: int
    last_add_synced: int


class SlotNotSynced(msgspec.Struct, frozen=True):
    """A bookie refused to sync, or did not answer."""

    slot: int
    error: ZbkError


class LacTold(msgspec.Struct, frozen=True):
    """A bookie knows the LAC, or did not answer: it hears it later."""

    slot: int


Event: TypeAlias = SyncStarted | SlotSynced | SlotNotSynced | LacTold


class AskSync(msgspec.Struct, frozen=True):
    """Ask every bookie to fsync. Answer it with one ``SlotSynced`` or ``SlotNotSynced`` each."""

    lac: int


class TellLac(msgspec.Struct, frozen=True):
    """Send every bookie the LAC. Answer it with one ``LacTold`` each."""

    lac: int


class OutsideSyncDone(msgspec.Struct, frozen=True):
    """Everything up to the LAC is durable on an ack quorum. Nothing follows."""

    lac: int


class OutsideSyncFailed(msgspec.Struct, frozen=True):
    """Too few bookies were heard. Nothing follows."""

    error: CannotAdvanceError


Effect: TypeAlias = AskSync | TellLac | OutsideSyncDone | OutsideSyncFailed


class OutsideSync:
    """One sync. Rounds of asking and telling, each with every slot.

    ``floor`` is what is durable anyway: the entry before the first one of the last fragment, whose
    bookies are asked. One that came with that fragment may know nothing of the ledger yet.
    """

    def __init__(self, ledger_id: int, quorum: Quorum, floor: int = NO_ENTRY) -> None:
        self._ledger_id = ledger_id
        self._floor = floor
        self._quorum = quorum
        self._synced = SyncedLac(quorum)
        self._lac_before = self._lac  # at the beginning of the round
        self._awaited: set[int] = set()
        self._failures: dict[int, ZbkError] = {}
        self._round_count = 0
        self._is_over = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. What comes after the end is late news."""
        del now_ms  # every machine has the same door; time-outs come as events
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
