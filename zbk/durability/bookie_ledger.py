"""The state of one ledger at a bookie: which requests it admits, and how far it is durable.

Decisions only: the storage actor asks this object, then writes. The actor owns the object, so the
check of the fence and the admission of an add are one step: no add is admitted after a fence.

    key      the first key is kept, before the first entry; any other key is refused. It is the key
             in the metadata (``new_ledgers``)
    type     fixed by the first add; any other type is refused
    fence    what it refuses, and when it is answered, is in ``fence``
    LAC      the highest LAC seen; and the highest one that a start after a loss of power would
             find, the *durable LAC*. Readers get only the durable LAC, so that an entry that was
             readable once stays readable
    cursor   the synced entries, on ledgers whose level has a sync cursor
    stripe   of a striped ledger, the slot that the bookie has, as the last request said. The cursor
             counts only what is due at that slot

A *ticket* is the number of a group of journal records. Groups reach stable storage in the order of
their tickets, so the highest synced ticket describes all of them.

Source: BookKeeper's ``LedgerDescriptorImpl`` and ``HandleFactoryImpl``; for the cursor the
relaxed-durability proposal.
"""

from collections import deque

from zbk.durability.fence import Fence
from zbk.durability.level import AcknowledgesAfter, DurabilityLevel, level_of
from zbk.durability.striped_cursor import StripedCursor
from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.synced_run import SyncedRun
from zbk.errors import LedgerFencedError, UnauthorizedError, UnsupportedLedgerError
from zbk.protocol.entry.digest import is_same_secret
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe


class BookieLedger:
    """One ledger at one bookie.

    The keyword arguments are the state on stable storage of a ledger that the bookie already has;
    without them the ledger is new here. ``ledger_key`` and ``ledger_type`` are given together.

    Invariants, checked in ``_check``:
      * key and type are known together and never change;
      * there is a cursor exactly if the type's level has one;
      * the cursor's ``last_add_synced`` is never below the LAC;
      * the durable LAC, the recorded ones in their order, and the LAC ascend.

    A bookie has one object for each open ledger, and each add may use another one. So it is small,
    and the fields that nearly all adds read lie close together in memory.
    """

    __slots__ = (
        "_cursor",
        "_durable_lac",
        "_earlier",
        "_fence",
        "_key",
        "_lac",
        "_ledger_id",
        "_level",
        "_recorded_lac",
        "_recorded_ticket",
        "_type",
    )

    def __init__(
        self,
        ledger_id: int,
        *,
        ledger_key: bytes | None = None,
        ledger_type: LedgerType | None = None,
        is_fenced: bool = False,
        lac: int = NO_ENTRY,
        last_add_synced: int = NO_ENTRY,
    ) -> None:
        self._ledger_id = ledger_id
        self._key: bytes | None = None
        self._type: LedgerType | None = None
        self._level: DurabilityLevel | None = None
        self._cursor: SyncCursor | StripedCursor | None = None
        self._fence = Fence.DURABLE if is_fenced else Fence.NONE
        self._lac = lac
        self._durable_lac = lac
        self._recorded_lac = lac  # the last one; if above the durable LAC, synced with its ticket
        self._recorded_ticket = 0
        self._earlier: deque[tuple[int, int]] | None = None  # (ticket, LAC) before it, not synced
        if ledger_key is not None:
            assert ledger_type is not None, "key and type are recorded together"
            self._learn(ledger_key, ledger_type, last_add_synced)
        self._check()

    # ------------------------------------------------------------------ state

    @property
    def ledger_id(self) -> int:
        """The id of the ledger."""
        return self._ledger_id

    @property
    def ledger_key(self) -> bytes | None:
        """The key that every request must show; ``None`` before the first add or fence."""
        return self._key

    @property
    def ledger_type(self) -> LedgerType | None:
        """The ledger's type; ``None`` before the first add or fence."""
        return self._type

    @property
    def is_fenced(self) -> bool:
        """True when ordinary adds are refused. The fence may not be durable yet."""
        return self._fence.is_set

    @property
    def lac(self) -> int:
        """The highest LAC seen, durable or not: correct, but not for readers; -1 is none."""
        return self._lac

    @property
    def recorded_lac(self) -> int:
        """The highest LAC that is durable or will be when its ticket is synced; -1 is none."""
        return self._recorded_lac

    def durable_lac(self, synced_ticket: int) -> int:
        """Return the highest LAC that survives a loss of power; -1 is none. It never falls."""
        if self._recorded_ticket <= synced_ticket:
            self._durable_lac = self._recorded_lac
            self._earlier = None
        elif self._earlier is not None:
            while self._earlier and self._earlier[0][0] <= synced_ticket:
                self._durable_lac = self._earlier.popleft()[1]
            self._earlier = self._earlier or None
        return self._durable_lac

    @property
    def last_add_synced(self) -> int:
        """The LAS in answers to adds and syncs; -1 is none, also on ledgers without a cursor.

        It is not evidence that the bookie holds these entries (``SyncCursor``).
        """
        return NO_ENTRY if self._cursor is None else self._cursor.last_add_synced

    @property
    def has_cursor(self) -> bool:
        """True when the type is known, and is not PD."""
        return self._cursor is not None

    @property
    def stripe(self) -> Stripe | None:
        """The entries that the cursor counts; ``None``: all, or there is no cursor."""
        return self._cursor.stripe if isinstance(self._cursor, StripedCursor) else None

    def last_add_synced_of(self, stripe: Stripe | None) -> int:
        """Return the LAS for a request with this stripe.

        The LAC is right for every stripe.
        """
        return self.last_add_synced if self.stripe == stripe else self._lac

    @property
    def cursor_floor(self) -> int:
        """The start of a cursor after a restart, in whatever slot the bookie then is."""
        return self.last_add_synced_of(None)

    # ------------------------------------------------------------------ requests

    def check(self, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Check the key and the type of a request.

        Raises:
            UnauthorizedError: the key is wrong.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check_key(ledger_key)
        if self._type is not ledger_type:
            self._check_type(ledger_type)

    def check_key(self, ledger_key: bytes) -> None:
        """Check the key of a request. Every key is right while none is known.

        Raises:
            UnauthorizedError: the key is wrong.
        """
        if self._key is not None and not is_same_secret(self._key, ledger_key):
            raise UnauthorizedError(self._ledger_id)

    def check_fence(self, *, is_recovery: bool) -> None:
        """Check that the fence admits an add.

        Raises:
            LedgerFencedError: the ledger is fenced, and this is not a recovery add.
        """
        if not self._fence.admits_add(is_recovery=is_recovery):
            raise LedgerFencedError(self._ledger_id)

    def admit_add(self, ledger_key: bytes, ledger_type: LedgerType, *, is_recovery: bool) -> bool:
        """Admit an add; return whether a key record must be written before its entries.

        True is returned once, for the first add or fence. The caller must write the key record to
        the journal before any other record of this ledger.

        Raises:
            UnauthorizedError: the key is wrong.
            UnsupportedLedgerError: the ledger is of another type here.
            LedgerFencedError: the ledger is fenced, and this is not a recovery add.
        """
        self.check(ledger_key, ledger_type)
        self.check_fence(is_recovery=is_recovery)
        return self._key is None and self._learn_if_new(ledger_key, ledger_type)

    def admit_lac(self, ledger_key: bytes, ledger_type: LedgerType) -> bool:
        """Admit an explicit LAC; return whether a key record must be written, as ``admit_add``.

        Raises:
            UnauthorizedError: the key is wrong.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check(ledger_key, ledger_type)
        return self._learn_if_new(ledger_key, ledger_type)

    def admit_sync(self, ledger_key: bytes) -> None:
        """Admit a request for the sync cursor.

        Raises:
            UnauthorizedError: the key is wrong.
            LedgerFencedError: the ledger is fenced.
        """
        self.check_key(ledger_key)
        if not self._fence.admits_sync:
            raise LedgerFencedError(self._ledger_id)

    def acknowledges_after(self, *, is_recovery: bool) -> AcknowledgesAfter:
        """Return the step after which an admitted add is answered.

        A recovery add is always synced, because a recovery makes a ledger's end final at every
        level.
        """
        assert self._level is not None, "the add was admitted"
        return "sync" if is_recovery else self._level.acknowledges_after

    def is_journaled(self, *, is_recovery: bool) -> bool:
        """Return whether an admitted add goes to the journal. Recovery adds do at every level."""
        assert self._level is not None, "the add was admitted"
        return is_recovery or self._level.is_journaled

    def is_rest_covered(self, *, is_recovery: bool) -> bool:
        """Return whether the sync of an admitted add covers what was here of its batch before.

        It does if both have one way to stable storage. A recovery add of a ledger that bypasses the
        journal goes through the journal, and the rest may be in an entry log, whose own sync counts
        it.
        """
        assert self._level is not None, "the add was admitted"
        return self.is_journaled(is_recovery=is_recovery) == self._level.is_journaled

    def fence(self, ledger_key: bytes, ledger_type: LedgerType) -> tuple[bool, bool]:
        """Admit a fence; return whether a key record, and a fence record, must be written.

        From now on ordinary adds are refused. Answer the fence only when ``is_fence_durable``: if
        no fence record is needed, an earlier one may still be on its way to stable storage.

        Raises:
            UnauthorizedError: the key is wrong; the ledger is not fenced.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check(ledger_key, ledger_type)
        needs_key_record = self._learn_if_new(ledger_key, ledger_type)
        needs_fence_record = not self._fence.is_set
        self._fence = self._fence.begun()
        self._check()
        return needs_key_record, needs_fence_record

    @property
    def is_fence_durable(self) -> bool:
        """True when a fence can be answered."""
        return self._fence.is_durable

    def fence_synced(self) -> None:
        """Record that the fence record is on stable storage."""
        self._fence = self._fence.synced()

    # ------------------------------------------------------------------ events

    def added(self, lac: int) -> None:
        """Record the LAC of an admitted add, or an explicit LAC.

        The message must have passed its checksum.
        """
        if lac > self._lac:
            self._lac = lac
            if self._cursor is not None:
                self._cursor.raise_floor(lac)
            self._check()

    def lac_recorded(self, lac: int, ticket: int, synced_ticket: int) -> None:
        """Record a LAC on its way to stable storage, in an entry's header or in its own record.

        The entry must be the last one that the bookie holds, because a start reads that header.
        """
        assert ticket > synced_ticket, "a ticket is synced after it was filled"
        if lac <= self.durable_lac(synced_ticket):  # drops what has become durable
            return
        if self._recorded_lac > self._durable_lac:
            if lac <= self._recorded_lac:
                return
            if self._recorded_ticket != ticket:
                self._earlier = self._earlier or deque()
                self._earlier.append((self._recorded_ticket, self._recorded_lac))
        self._recorded_ticket, self._recorded_lac = ticket, lac
        self.added(lac)

    def follow(self, stripe: Stripe, last_add_synced: int) -> None:
        """Begin a cursor for another stripe: the bookie was told that it has this slot.

        All that is due there up to ``last_add_synced`` is on stable storage here, or confirmed.
        What the former cursor counted for another slot says nothing of this one.
        """
        if self._cursor is not None:
            self._cursor = StripedCursor(stripe, max(last_add_synced, self._lac))
            self._check()

    def synced(self, run: SyncedRun) -> None:
        """Record that a run of entries is on stable storage here, for any reason.

        A run of one stripe does not count for another one: other entries are due there.
        """
        if self._cursor is not None and run.stripe in {None, self.stripe}:
            self._cursor.add(run.first, run.last)

    # ------------------------------------------------------------------ private

    def _check_type(self, ledger_type: LedgerType) -> None:
        if self._type is not None and self._type is not ledger_type:
            raise UnsupportedLedgerError(
                f"ledger {self._ledger_id} is of type {self._type} at this bookie, "
                f"the request says {ledger_type}"
            )

    def _learn_if_new(self, ledger_key: bytes, ledger_type: LedgerType) -> bool:
        if self._key is not None:
            return False
        self._learn(ledger_key, ledger_type, NO_ENTRY)
        self._check()
        return True

    def _learn(self, ledger_key: bytes, ledger_type: LedgerType, last_add_synced: int) -> None:
        self._key = ledger_key
        self._type = ledger_type
        self._level = level_of(ledger_type)
        self._cursor = self._level.new_sync_cursor(max(last_add_synced, self._lac))

    def _check(self) -> None:
        assert (self._key is None) == (self._type is None) == (self._level is None)
        if self._level is not None:
            assert (self._cursor is not None) == self._level.has_sync_cursor
        if self._cursor is not None:
            assert self._cursor.last_add_synced >= self._lac, "a LAC raises the floor"
        assert self._durable_lac <= self.recorded_lac <= self._lac, "what is durable was seen"
