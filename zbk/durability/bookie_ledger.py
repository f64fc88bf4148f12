"""What a bookie admits for one ledger, and what it reports of it.

Decisions only: the storage actor asks here, then writes. It owns the object, so that checking the
fence and taking the add in are one step: no add slips in behind a fence.

    key      the first one seen is kept, before the first entry; any other is refused. It is the
             one that the metadata have (``new_ledgers``)
    type     fixed by the first add; another one is refused
    fence    NONE -> PENDING -> DURABLE. From PENDING on ordinary adds are refused; the fence is
             answered only when DURABLE. A fence is for ever: no way leads back.
    LAC      the highest one seen, and the highest one that a start after a loss of power would
             find again, the *durable LAC*: only that one is told to readers, so that what was
             once readable stays readable
    cursor   what is synced, on ledgers whose level has a sync cursor

A *ticket* is the number of a group of journal records; groups reach stable storage in the order of
their tickets, so one number, the highest ticket that is synced, says it of all.

Decision: an explicit LAC is taken on a fenced ledger, too, as in BookKeeper. Whatever a writer
says is confirmed was acknowledged by an ack quorum, so no recovery ends below it; only the writer
can say it, as it takes the ledger's key.

Source: BookKeeper's ``LedgerDescriptorImpl`` and ``HandleFactoryImpl``; "The BookKeeper protocol",
section Closing a ledger as a reader; for the cursor the relaxed-durability proposal.
"""

from collections import deque
from enum import Enum

from zbk.durability.level import AcknowledgesAfter, DurabilityLevel, level_of
from zbk.durability.sync_cursor import SyncCursor
from zbk.errors import LedgerFencedError, UnauthorizedError, UnsupportedLedgerError
from zbk.protocol.entry.digest import is_same_secret
from zbk.protocol.entry.words import NO_ENTRY, LedgerType


class _Fence(Enum):
    """How far a fence has come."""

    NONE = "none"
    PENDING = "pending"
    DURABLE = "durable"


class BookieLedger:
    """One ledger at one bookie.

    The keyword arguments are what stable storage says of a ledger that the bookie knows already;
    without them the ledger is new here. ``ledger_key`` and ``ledger_type`` come together.

    Invariants, checked in ``_check``:
      * key and type are known together, and never change;
      * there is a cursor exactly when the type's level has one;
      * the cursor's ``last_add_synced`` is never below the LAC;
      * the durable LAC, the recorded ones in their order, and the LAC ascend.

    A bookie has one for each open ledger, and looks at another one for each add: it is small, and
    what nearly all adds look at lies in few places of memory.
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
        self._cursor: SyncCursor | None = None
        self._fence = _Fence.DURABLE if is_fenced else _Fence.NONE
        self._lac = lac
        self._durable_lac = lac
        self._recorded_lac = lac  # the last one; if above the durable one, synced with its ticket
        self._recorded_ticket = 0
        self._earlier: deque[tuple[int, int]] | None = None  # (ticket, LAC) ahead of it, unsynced
        if ledger_key is not None:
            assert ledger_type is not None, "key and type are recorded together"
            self._learn(ledger_key, ledger_type, last_add_synced)
        self._check()

    # ------------------------------------------------------------------ what it knows

    @property
    def ledger_id(self) -> int:
        """The ledger."""
        return self._ledger_id

    @property
    def ledger_key(self) -> bytes | None:
        """The key that every request has to show; ``None`` before the first add or fence."""
        return self._key

    @property
    def ledger_type(self) -> LedgerType | None:
        """The ledger's type; ``None`` before the first add or fence."""
        return self._type

    @property
    def is_fenced(self) -> bool:
        """True when ordinary adds are refused, though the fence may not be durable yet."""
        return self._fence is not _Fence.NONE

    @property
    def lac(self) -> int:
        """The highest LAC seen, durable or not: sound, but not for readers; -1 is none."""
        return self._lac

    @property
    def recorded_lac(self) -> int:
        """The highest LAC that is durable, or will be when its ticket is synced; -1 is none."""
        return self._recorded_lac

    def durable_lac(self, synced_ticket: int) -> int:
        """Return the highest LAC that a loss of power leaves; -1 is none. It never falls."""
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
        """What add and sync answers carry; -1 is none, and always so on ledgers without cursor.

        Not evidence that the bookie holds these entries (``SyncCursor``).
        """
        return NO_ENTRY if self._cursor is None else self._cursor.last_add_synced

    # ------------------------------------------------------------------ requests

    def check(self, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Accept a request that knows the ledger.

        Raises:
            UnauthorizedError: the key is another one.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check_key(ledger_key)
        self._check_type(ledger_type)

    def check_key(self, ledger_key: bytes) -> None:
        """Accept a request that shows the right key, or any key while none is known.

        Raises:
            UnauthorizedError: the key is another one.
        """
        if self._key is not None and not is_same_secret(self._key, ledger_key):
            raise UnauthorizedError(self._ledger_id)

    def admit_add(self, ledger_key: bytes, ledger_type: LedgerType, *, is_recovery: bool) -> bool:
        """Accept an add; return whether a key record must be written ahead of its entries.

        True comes once, with the first add or fence: the caller must see to it that the record
        is in the journal before anything else of this ledger.

        Raises:
            UnauthorizedError: the key is another one.
            UnsupportedLedgerError: the ledger is of another type here.
            LedgerFencedError: the ledger is fenced, and this is no recovery add.
        """
        self.check(ledger_key, ledger_type)
        if self.is_fenced and not is_recovery:
            raise LedgerFencedError(self._ledger_id)
        return self._learn_if_new(ledger_key, ledger_type)

    def admit_lac(self, ledger_key: bytes, ledger_type: LedgerType) -> bool:
        """Accept an explicit LAC; return whether a key record must be written, as ``admit_add``.

        Raises:
            UnauthorizedError: the key is another one.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check(ledger_key, ledger_type)
        return self._learn_if_new(ledger_key, ledger_type)

    def admit_sync(self, ledger_key: bytes) -> None:
        """Accept the question for the sync cursor.

        The cursor of a fenced ledger is not told. Recoveries write entries back, and one of them
        may have closed the ledger below entries that another one wrote.

        Raises:
            UnauthorizedError: the key is another one.
            LedgerFencedError: the ledger is fenced.
        """
        self.check_key(ledger_key)
        if self.is_fenced:
            raise LedgerFencedError(self._ledger_id)

    def acknowledges_after(self, *, is_recovery: bool) -> AcknowledgesAfter:
        """Return what must be done before an admitted add is answered.

        A recovery add is always synced: recovery makes a ledger's end final, whatever its level.
        """
        assert self._level is not None, "the add was admitted"
        return "sync" if is_recovery else self._level.acknowledges_after

    def fence(self, ledger_key: bytes, ledger_type: LedgerType) -> tuple[bool, bool]:
        """Accept a fence; return whether a key record, and a fence record, must be written.

        From now on ordinary adds are refused. Answer the fence only when ``is_fence_durable``:
        when no fence record is asked for, one may still be on its way.

        Raises:
            UnauthorizedError: the key is another one; the ledger is not fenced.
            UnsupportedLedgerError: the ledger is of another type here.
        """
        self.check(ledger_key, ledger_type)
        needs_key_record = self._learn_if_new(ledger_key, ledger_type)
        needs_fence_record = self._fence is _Fence.NONE
        if needs_fence_record:
            self._fence = _Fence.PENDING
        self._check()
        return needs_key_record, needs_fence_record

    @property
    def is_fence_durable(self) -> bool:
        """True when a fence may be answered."""
        return self._fence is _Fence.DURABLE

    def fence_synced(self) -> None:
        """Note that the fence record is on stable storage."""
        assert self._fence is not _Fence.NONE, "a fence is accepted before it is durable"
        self._fence = _Fence.DURABLE

    # ------------------------------------------------------------------ news

    def added(self, lac: int) -> None:
        """Note the LAC that came with an admitted add, or an explicit LAC.

        The message must have passed its checksum.
        """
        if lac > self._lac:
            self._lac = lac
            if self._cursor is not None:
                self._cursor.raise_floor(lac)
            self._check()

    def lac_recorded(self, lac: int, ticket: int, synced_ticket: int) -> None:
        """Note a LAC that is on its way to stable storage: in an entry's header, or by itself.

        The entry has to be the last one that the bookie holds: its header is what a start reads.
        """
        assert ticket > synced_ticket, "a ticket is synced after it was filled"
        if lac <= self.durable_lac(synced_ticket):  # which forgets what has become durable
            return
        if self._recorded_lac > self._durable_lac:
            if lac <= self._recorded_lac:
                return
            if self._recorded_ticket != ticket:
                self._earlier = self._earlier or deque()
                self._earlier.append((self._recorded_ticket, self._recorded_lac))
        self._recorded_ticket, self._recorded_lac = ticket, lac
        self.added(lac)

    def synced(self, first: int, last: int) -> None:
        """Note that the entries ``first .. last`` are on stable storage here, for any reason."""
        if self._cursor is not None:
            self._cursor.add(first, last)

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
