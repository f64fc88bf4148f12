"""The wrong methods about VD ledgers that ``tests.simulation.defects`` puts in."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from tests.simulation.outside_syncer import Found, SimulatedOutsideSyncer
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.outside_sync import Effect as SyncEffect
from zbk.durability.outside_sync import OutsideSync, ReadMetadata
from zbk.durability.striped_cursor import StripedCursor
from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.procedure import Steps
from zbk.protocol.write import events as ev
from zbk.protocol.write.catch_up import CatchUp
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.moved_batches import MovedBatches
from zbk.protocol.write.write_path import WritePath
from zbk.protocol.write.write_window import WriteBatch, WriteWindow

_catch_up = CatchUp.__init__


def catches_up_with_nothing(
    self: CatchUp, change: ev.ChangeEnsemble, replaced: Mapping[int, tuple[str, str]]
) -> None:
    """V2: the new bookies are owed it, as on a PD ledger."""
    _catch_up(self, msgspec.structs.replace(change, unsynced={}), replaced)


_change = EnsembleKeeper._change


def keeps_volatile_bookies(
    self: EnsembleKeeper, failed: Collection[int], now_ms: int
) -> list[ev.Effect]:
    """V3: bookies that have something that is not durable stay."""
    path = self._path
    return _change(self, failed, now_ms) if path.lac == path.last_acked_id else []


def advances_while_held(self: WritePath) -> None:
    """V5: what a bookie that is being replaced has synced counts."""
    self._move_lac(self._policy.lac)


def ignores_the_metadata(
    _self: OutsideSync, _before: int
) -> Steps[SyncEffect, tuple[LedgerMetadata, int, bool]]:
    """V7: the cursors count, whatever the metadata say."""
    metadata, version = yield ReadMetadata()
    return metadata, version, False


def read_as_it_comes(self: SimulatedOutsideSyncer, done: Callable[[Found], None]) -> None:
    """V7: a server that lags behind may answer."""
    ledgers, ledger_id = self._ledgers, self._ledger_id
    self._world.metadata.submit(self.node, lambda: ledgers.read(ledger_id), done)


def records_nothing(
    self: OutsideSync, _before: int
) -> Steps[SyncEffect, tuple[LedgerMetadata, int, bool]]:
    """V8: the metadata are read, and nothing in them holds the writer back."""
    metadata, version = yield ReadMetadata()
    return metadata, version, version != self._version


def changes_after_the_acknowledged(
    self: EnsembleKeeper, failed: Collection[int], now_ms: int
) -> list[ev.Effect]:
    """V9: as if what is acknowledged were durable."""
    if not self._changes.is_due(failed, now_ms):
        return []
    path = self._path
    change = self._changes.begin(
        {slot: self._slots.bookie(slot) for slot in sorted(failed)},
        path.last_acked_id + 1,
        now_ms,
        is_urgent=True,
        length_before=path.length,
        unsynced={},
    )
    path.hold()
    return [change]


_acked_until = WriteWindow.acked_until


def frees_at_acknowledgement(self: WriteWindow, last_entry_id: int) -> list[WriteBatch]:
    """V11: nothing is left to send to a bookie that restarts, or joins."""
    acked = _acked_until(self, last_entry_id)
    if self.unsynced:
        self.durable_until(last_entry_id)
    return acked


def resends_all_but_the_last(
    self: WritePath, slot: int, now_ms: int, *, is_revoked: bool
) -> list[ev.Effect]:
    """V12: and what was not sent is not owed."""
    if is_revoked:
        self._revoke(slot)
    owed = self._window.up(slot, now_ms)
    return [effect for first in owed[:-1] for effect in self._send([slot], first)]


def counts_over_holes(self: SyncCursor, _first: int, last: int) -> None:
    """V13: a bookie that comes back reports the last entry that it has synced."""
    self._raise_to(last)


def takes_the_next_write_set(self: SyncedLac, confirmed_id: int) -> int:
    """V14: each entry counts where the one after it is stored."""
    write_sets = self._write_sets
    self._write_sets = [*write_sets[1:], write_sets[0]]
    lac = _durable_until(self, confirmed_id)
    self._write_sets = write_sets
    return lac


_durable_until = SyncedLac._durable_until


def keeps_the_cursor_of_the_former_slot(
    self: BookieLedger, stripe: Stripe, last_add_synced: int
) -> None:
    """V15: what was synced for another slot, in another fragment, is the floor in this one."""
    _follow(self, stripe, max(last_add_synced, self.last_add_synced))


_follow = BookieLedger.follow


def counts_over_holes_of_a_stripe(self: StripedCursor, _first: int, last: int) -> None:
    """V16: the last entry that is synced stands for those that are due before it."""
    self._places.raise_floor(self.stripe.place(last + 1) - 1)


def keeps_the_lac_of_the_fragment_before(self: SyncedLac, slot: int, confirmed_id: int) -> None:
    """V17: what the former ensemble had synced meanwhile is the floor in the next fragment."""
    self._incarnations[slot] = NO_ENTRY
    self._set(slot, NO_ENTRY)
    self._lac = max(confirmed_id, self._lac)


def looks_at_no_slot(self: BookieLedger, _stripe: Stripe | None) -> int:
    """V19: an answer gives the cursor, whatever slot it is for."""
    return self.last_add_synced


_needed = MovedBatches.needed


def counts_what_the_failed_have(self: MovedBatches, _staying: Collection[int]) -> list[WriteBatch]:
    """V20: an ack quorum that a bookie belongs to that leaves is enough."""
    return _needed(self, range(self._quorum.ensemble_size))


def misses_what_is_durable(self: WriteWindow, slot: int) -> list[range]:
    """V21: the bookie that leaves lacks only batches that are known to be durable as a whole."""
    durable = [batch.entry_ids for batch in self._owed[slot].values() if batch.is_durable]
    _replaced(self, slot)
    return durable


_replaced = WriteWindow.replaced
