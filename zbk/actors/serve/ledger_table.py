"""The ledgers that a bookie works with, each as the rules see it.

A ``BookieLedger`` is made from storage when a request needs it. Above ``LEDGER_COUNT_MAX`` the
table evicts ledgers, the idlest first, whose records are all on stable storage: they can be made
again. A ledger with a record that is not synced stays, because a fence, a LAC and a sync cursor
that are made from storage count as durable. So does one with entries that only an entry log has, or
is to have at the end of the turn.

A ledger has one slot. With two, a fence in one of them would not stop adds through the other.

Owned by the storage actor.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from zbk.actors.serve.sync_queue import SyncProgress
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import level_of
from zbk.errors import (
    CorruptRecordError,
    EntryUnreadableError,
    NoSuchLedgerError,
    OutOfDescriptorsError,
)
from zbk.protocol.entry.entry import stored_lac
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.index.due_entries import due_until
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.journal.record import LedgerKeyRecord
from zbk.storage.stored_ledger import StoredLedger
from zbk.system.event_log import EventLog
from zbk.wire.messages import Read, ReadLac

LOG = EventLog(__name__)

LEDGER_COUNT_MAX: Final = 50_000
NARROW_STRIPE_SIZE: Final = 32
"""Entries of a round in a slot, up to which so many ids are looked at for a stripe; of wider
stripes fewer, as each residue is looked at by itself."""


class LedgerSlot:
    """One ledger in the table."""

    __slots__ = (
        "is_adding",
        "is_log_unsynced",
        "is_look_cut",
        "is_recovered",
        "is_stored",
        "journal_no",
        "key_record",
        "last_entry_id",
        "ledger",
        "ledger_id",
        "stored",
        "ticket",
    )

    def __init__(
        self,
        ledger_id: int,
        ledger: BookieLedger,
        stored: StoredLedger,
        last_entry_id: int,
        *,
        is_stored: bool,
        journal_no: int,
    ) -> None:
        self.is_recovered = False  # a recovery has added entries, since it is in memory
        self.ledger_id = ledger_id
        self.ledger = ledger
        self.stored = stored
        self.last_entry_id = last_entry_id  # highest id stored here
        self.is_stored = is_stored  # storage has its key and type
        self.is_adding = False  # this turn stores entries of it that no journal has
        self.is_log_unsynced = False  # an entry log has entries of it that nothing else has
        self.is_look_cut = False  # its cursor may count more than was looked at
        self.journal_no = journal_no  # that its records go to
        self.key_record: LedgerKeyRecord | None = None  # to journal before anything else of it
        self.ticket = 0  # of that journal, the last one with anything of this ledger in it


class LedgerTable:
    """Ledgers by id, bounded."""

    def __init__(
        self,
        storage: BookieStorage,
        progresses: Sequence[SyncProgress],
        count_max: int = LEDGER_COUNT_MAX,
    ) -> None:
        self._storage = storage
        self._progresses = progresses  # of each journal
        self._count_max = count_max
        self._slots: OrderedDict[int, LedgerSlot] = OrderedDict()
        self._moved: dict[int, LedgerSlot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, ledger_id: int) -> LedgerSlot | None:
        """Return a ledger that this bookie has, or ``None``."""
        slot = self._slots.get(ledger_id)
        if slot is None:
            return self._load(ledger_id)
        if 2 * len(self._slots) > self._count_max:  # nothing is forgotten for a long time yet
            self._slots.move_to_end(ledger_id)
        return slot

    def check_not_deleted(self, ledger_id: int) -> None:
        """Accept a ledger that was not deleted.

        Raises:
            NoSuchLedgerError: it was deleted from the cluster.
        """
        if self._storage.is_deleted(ledger_id):
            raise NoSuchLedgerError(ledger_id)

    def known(self, request: Read | ReadLac) -> LedgerSlot:
        """Return a ledger that this bookie has, after a check of key and type.

        Raises:
            NoSuchLedgerError: the bookie does not have it, and never had.
            UnknownLedgerStateError: the bookie does not have it, but may have had it.
            UnauthorizedError, UnsupportedLedgerError: key or type are others.
        """
        slot = self.find(request.ledger_id)
        if slot is None:
            self.check_miss(request.ledger_id, request.ledger_type)
            raise NoSuchLedgerError(request.ledger_id)
        slot.ledger.check(request.ledger_key, request.ledger_type)
        return slot

    def check_miss(self, ledger_id: int, ledger_type: LedgerType) -> None:
        """Accept "no" as the answer about a ledger of which nothing was lost.

        Raises:
            UnknownLedgerStateError: something may have been lost; the answer is neither yes nor no.
        """
        limbo = self._storage.limbo
        is_unknown = limbo.limbo.is_miss_unknown(ledger_id, ledger_type)
        if is_unknown and not self._storage.is_deleted(ledger_id):
            raise limbo.unknown(ledger_id)

    def check_fence_known(self, ledger_id: int) -> None:
        """Accept a ledger whose fence was not lost.

        No reader has received a higher LAC of it than the one here.

        Raises:
            UnknownLedgerStateError: a fence may have been lost.
        """
        limbo = self._storage.limbo
        if limbo.limbo.may_lack_fence(ledger_id):
            raise limbo.unknown(ledger_id)

    def new(self, ledger_id: int) -> LedgerSlot:
        """Return a ledger that this bookie does not have yet; it starts empty."""
        ledger = BookieLedger(ledger_id)
        stored = self._storage.homes.place(ledger_id)
        return self._keep(self._slot(ledger, stored, NO_ENTRY, is_stored=False))

    def cursor_moved(self, slot: LedgerSlot) -> None:
        """Record that more of a ledger is on stable storage than storage knows."""
        self._moved[slot.ledger_id] = slot

    def keep_cursors(self) -> None:
        """Hand the sync cursors that moved to storage."""
        moved, self._moved = self._moved, {}
        for slot in moved.values():
            if self._storage.is_deleted(slot.ledger_id):
                continue  # its entries were on their way to stable storage when it was forgotten
            try:
                slot.stored.index.set_last_add_synced(slot.ledger.cursor_floor)
            except (OutOfDescriptorsError, CorruptRecordError):
                self._moved[slot.ledger_id] = slot  # storage has a floor: it may rise later

    def store_key(self, slot: LedgerSlot) -> None:
        """Store a new ledger's key and type. ``slot.key_record`` is to be journaled."""
        key, kind = slot.ledger.ledger_key, slot.ledger.ledger_type
        assert key is not None, "the ledger was admitted"
        assert kind is not None, "key and type are known together"
        slot.stored.home.cache.set_ledger_key(slot.ledger_id, key, kind)
        slot.is_stored = True
        slot.key_record = LedgerKeyRecord(slot.ledger_id, key, kind)

    def forget(self, ledger_id: int) -> None:
        """Forget a ledger that was deleted, whatever is on its way."""
        self._moved.pop(ledger_id, None)
        self._slots.pop(ledger_id, None)

    def drop_if_new(self, slot: LedgerSlot) -> None:
        """Forget a ledger whose very first request was refused."""
        if not slot.is_stored:
            self._slots.pop(slot.ledger_id, None)

    def _load(self, ledger_id: int) -> LedgerSlot | None:
        if self._storage.is_deleted(ledger_id):
            return None
        info = self._storage.homes.info(ledger_id)
        if info is None:
            return None
        stored = self._storage.homes.ledger(ledger_id)
        ledger = BookieLedger(
            ledger_id,
            ledger_key=info.ledger_key,
            ledger_type=info.ledger_type,
            is_fenced=info.is_fenced,
            lac=max(info.explicit_lac, _last_lac(stored, info.last_entry_id)),
            last_add_synced=_durable_until(stored, info),
        )
        slot = self._slot(ledger, stored, info.last_entry_id, is_stored=True)
        if info.is_bare and not level_of(info.ledger_type).is_journaled:  # it may still be due
            slot.key_record = LedgerKeyRecord(ledger_id, info.ledger_key, info.ledger_type)
        return self._keep(slot)

    def _slot(
        self, ledger: BookieLedger, stored: StoredLedger, last_entry_id: int, *, is_stored: bool
    ) -> LedgerSlot:
        ledger_id = stored.index.ledger_id
        journal_no = self._storage.journals.of(ledger_id)
        return LedgerSlot(
            ledger_id, ledger, stored, last_entry_id, is_stored=is_stored, journal_no=journal_no
        )

    def _keep(self, slot: LedgerSlot) -> LedgerSlot:
        self._slots[slot.ledger_id] = slot
        if len(self._slots) > self._count_max:
            synced = [one.synced_ticket for one in self._progresses]
            for ledger_id, old in self._slots.items():
                is_bypassing = old.is_adding or old.is_log_unsynced
                is_synced = old.ticket <= synced[old.journal_no] and not is_bypassing
                if is_synced and old is not slot:
                    del self._slots[ledger_id]
                    break
        return slot


def _last_lac(stored: StoredLedger, last_entry_id: int) -> int:
    """Return the LAC in the last entry: a reader may have received it, so it must not fall."""
    if last_entry_id == NO_ENTRY:
        return NO_ENTRY
    resolved = stored.resolve(range(last_entry_id, last_entry_id + 1), 1)
    if resolved is None:
        return NO_ENTRY
    try:
        _count, body = stored.home.fetch(resolved)
    except EntryUnreadableError as error:
        LOG.warning(
            "ledger.lac_unreadable",
            "the LAC of its last entry is not known: %(error)s",
            error=error,
        )
        return NO_ENTRY
    if not stored.home.is_as_written(resolved, body):
        LOG.warning(
            "ledger.lac_damaged",
            "the LAC of its last entry is not known: ledger %(ledger_id)d entry %(entry_id)d is "
            "damaged",
            ledger_id=resolved.ledger_id,
            entry_id=last_entry_id,
        )
        return NO_ENTRY
    return stored_lac(body)


def _durable_until(stored: StoredLedger, info: LedgerInfo) -> int:
    # a ledger is loaded only when all of it is on stable storage: at the start everything
    # replayed has been synced, and later nothing is forgotten that is still on its way
    if not level_of(info.ledger_type).has_sync_cursor:
        return NO_ENTRY
    return stored.index.contiguous_until(info.last_add_synced)


def synced_until(slot: LedgerSlot, stripe: Stripe, *, is_durable: bool, narrow_count: int) -> int:
    """Return the entry up to which all that is due at a stripe is on stable storage here.

    Or the LAC. The cursor says it if it counts this stripe. If all of the ledger ``is_durable``,
    the index says it, of ``look_count`` ids after the LAC.
    """
    ledger = slot.ledger
    if ledger.stripe == stripe:
        return ledger.last_add_synced
    end_id = ledger.lac + look_count(stripe, narrow_count)
    return due_until(slot.stored.index, stripe, ledger.lac, end_id) if is_durable else ledger.lac


def look_count(stripe: Stripe, narrow_count: int) -> int:
    """Return how many ids one request looks at: ``narrow_count``, or fewer if the stripe is wide.

    >>> look_count(Stripe(5, 4, 3), 1_000), look_count(Stripe(66, 64, 63), 1_000)
    (1000, 500)
    """
    return narrow_count * NARROW_STRIPE_SIZE // max(NARROW_STRIPE_SIZE, stripe.write_size)
