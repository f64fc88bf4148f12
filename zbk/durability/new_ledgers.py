"""Admission of ledgers that are new at a bookie: the metadata store must have them.

A bookie keeps the first key that it gets for a ledger. If it accepted any key, a client could fence
or fill ids that no ledger has yet, and ledgers created under these ids later would be unusable. So
a request that makes a ledger known (an add, an explicit LAC, a fence) waits for a lookup in the
metadata store; requests of other ledgers continue.

    held     the bookie has the ledger: no lookup
    waiting  the first such request of a ledger, and all later requests of that ledger, in order
    found    the store has the ledger: the waiting requests with the right key and type continue
    absent   the store does not have it, by a read that does not lag: the requests are refused, and
             nothing is stored. A request that arrived after the lookup began gets a new lookup,
             because its ledger may have been created meanwhile
    unknown  the store gave no answer: the requests are refused as retriable, nothing is stored

A writer creates the metadata before it sends a request, so an absent ledger was deleted or never
existed.

Limits: ``WAITING_COUNT_MAX`` requests and ``WAITING_SIZE_MAX`` bytes wait, of one key one half of
each; further requests are refused with ``BusyError``. One batch of at most ``LOOKUP_COUNT_MAX``
ledgers is looked up at a time; ledgers that arrive meanwhile are in a later batch, in which all
keys have the same share.

Invariants, checked in ``_check``:
  * each ledger that needs a lookup has waiting requests;
  * each ledger with waiting requests is in the present lookup or in a later one.

Decision: metadata of format 1 have no key, so such a ledger keeps the first key that it gets.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from zbk.errors import BusyError, UnauthorizedError, UnsupportedLedgerError, ZbkError
from zbk.protocol.entry.digest import is_same_secret
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.access import PLAIN, LedgerAccess

WAITING_COUNT_MAX: Final = 16_384
WAITING_SIZE_MAX: Final = 64 * 1024 * 1024
SHARE_PART: Final = 2
"""A key has one half of the room at most, so that no client takes the place of all others."""

LOOKUP_COUNT_MAX: Final = 128
"""Ledgers in one batch. Its lookup takes some tens of milliseconds."""

T = TypeVar("T")


class KnownLedger(msgspec.Struct, frozen=True):
    """Key, type and access of a ledger in the metadata store."""

    ledger_key: bytes  # empty: the metadata have none
    ledger_type: LedgerType
    access: LedgerAccess = PLAIN


Finding: TypeAlias = KnownLedger | ZbkError
"""The result of a lookup; an error refuses the ledger's requests."""


def check_claim(ledger_id: int, ledger_key: bytes, ledger_type: LedgerType, found: Finding) -> None:
    """Check a request that makes a ledger known.

    Raises:
        NoSuchLedgerError: there is no such ledger.
        MetadataUnavailableError: the store did not answer.
        UnauthorizedError: the ledger has another key.
        UnsupportedLedgerError: the ledger is of another type.
    """
    if isinstance(found, ZbkError):
        raise found
    if found.ledger_key and not is_same_secret(found.ledger_key, ledger_key):
        raise UnauthorizedError(ledger_id)
    if found.ledger_type is not ledger_type:
        raise UnsupportedLedgerError(
            f"ledger {ledger_id} is of type {found.ledger_type} in the metadata, "
            f"the request says {ledger_type}"
        )


class Released(msgspec.Struct, Generic[T], frozen=True):
    """Requests of one ledger that no longer wait, in order, and the result of the lookup."""

    ledger_id: int
    found: Finding
    requests: Sequence[T]


class _Questions:
    """The ledgers that need a lookup, by the key of the client that needs it first."""

    def __init__(self) -> None:
        self._by_key: dict[str, OrderedDict[int, None]] = {}  # whose turn is next comes first
        self._keys: dict[int, str] = {}

    def add(self, ledger_id: int, key: str) -> None:
        if ledger_id not in self._keys:
            self._keys[ledger_id] = key
            self._by_key.setdefault(key, OrderedDict())[ledger_id] = None

    def discard(self, ledger_id: int) -> None:
        key = self._keys.pop(ledger_id, None)
        if key is not None:
            del self._by_key[key][ledger_id]
            if not self._by_key[key]:
                del self._by_key[key]

    def take(self, count_max: int) -> Sequence[int]:
        """Remove and return ledgers: one of each key in turn, in order of arrival."""
        taken: list[int] = []
        turns = deque(self._by_key.items())
        while turns and len(taken) < count_max:
            key, ledgers = turns.popleft()
            taken.append(ledgers.popitem(last=False)[0])
            if ledgers:
                turns.append((key, ledgers))
        self._by_key = dict(turns)
        for ledger_id in taken:
            del self._keys[ledger_id]
        return taken

    def are_among(self, ledgers: Mapping[int, object]) -> bool:
        return self._keys.keys() <= ledgers.keys()


class _Waiting(msgspec.Struct, Generic[T], frozen=True):
    """A request that waits, its bytes, and the key in whose share it is."""

    request: T
    size: int
    key: str


class WaitingRoom(Generic[T]):
    """The waiting requests, by ledger, and the ledgers that need a lookup."""

    def __init__(
        self, count_max: int = WAITING_COUNT_MAX, size_max: int = WAITING_SIZE_MAX
    ) -> None:
        self._count_max = count_max
        self._size_max = size_max
        self._waiting: dict[int, list[_Waiting[T]]] = {}
        self._to_ask = _Questions()
        self._asked: dict[int, int] = {}  # under way: how many requests waited at its start
        self._count = 0
        self._size = 0
        self._shares: dict[str, tuple[int, int]] = {}  # requests and bytes of each key

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes of the waiting requests."""
        return self._size

    def has(self, ledger_id: int) -> bool:
        """Return whether a ledger has waiting requests."""
        return ledger_id in self._waiting

    def put(self, ledger_id: int, request: T, size: int, key: str = "") -> None:
        """Add a request, after those of the same ledger; ``size`` in bytes.

        ``key``: the share that it takes; "": of none.

        Raises:
            BusyError: too many requests or bytes wait, in all or with this key.
        """
        count, key_size = self._shares.get(key, (0, 0))
        if self._count == self._count_max or self._size + size > self._size_max:
            raise BusyError(
                f"{self._count} requests of {len(self._waiting)} ledgers that are new at this "
                "bookie wait for the metadata store"
            )
        is_over = key_size + size > self._size_max // SHARE_PART
        if key and (is_over or count >= self._count_max // SHARE_PART):
            raise BusyError(
                f"{count} requests with this key, of ledgers that are new at this bookie, wait for "
                "the metadata store: a key has one half of the room"
            )
        if ledger_id not in self._waiting:
            self._waiting[ledger_id] = []
            self._to_ask.add(ledger_id, key)
        self._waiting[ledger_id].append(_Waiting(request, size, key))
        self._add(key, 1, size)
        self._check()

    def next_batch(self) -> Sequence[int]:
        """Return the ledgers to look up now; none while a batch is under way."""
        if self._asked:
            return ()
        batch = self._to_ask.take(LOOKUP_COUNT_MAX)
        self._asked = {ledger_id: len(self._waiting[ledger_id]) for ledger_id in batch}
        self._check()
        return batch

    def answered(self, findings: Mapping[int, Finding]) -> Sequence[Released[T]]:
        """End the batch; return the requests that waited for it, ledger by ledger."""
        assert findings.keys() == self._asked.keys(), "the answer is that of the batch under way"
        asked, self._asked = self._asked, {}
        released = []
        for ledger_id, found in findings.items():
            left_count = len(self._waiting.get(ledger_id, ()))
            count = left_count if isinstance(found, KnownLedger) else asked[ledger_id]
            if count:
                released.append(Released(ledger_id, found, self._take(ledger_id, count)))
            if count < left_count:  # arrived after the lookup began: may be outdated
                self._to_ask.add(ledger_id, self._waiting[ledger_id][0].key)
            else:
                self._to_ask.discard(ledger_id)
        self._check()
        return released

    def take_all(self) -> Sequence[T]:
        """Remove and return all waiting requests; a batch under way releases none of them."""
        taken = [
            request
            for ledger_id, waiting in list(self._waiting.items())
            for request in self._take(ledger_id, len(waiting))
        ]
        self._to_ask = _Questions()
        self._asked = dict.fromkeys(self._asked, 0)
        self._check()
        return taken

    def _take(self, ledger_id: int, count: int) -> list[T]:
        waiting = self._waiting.pop(ledger_id)
        if waiting[count:]:
            self._waiting[ledger_id] = waiting[count:]
        for one in waiting[:count]:
            self._add(one.key, -1, -one.size)
        return [one.request for one in waiting[:count]]

    def _add(self, key: str, count: int, size: int) -> None:
        self._count += count
        self._size += size
        if not key:
            return
        key_count, key_size = self._shares.pop(key, (0, 0))
        if key_count + count:
            self._shares[key] = key_count + count, key_size + size

    def _check(self) -> None:
        assert self._to_ask.are_among(self._waiting), "a ledger is looked up because it waits"
        assert self._count >= len(self._waiting), "each ledger has waiting requests"
        assert bool(self._size >= 0), "a request is taken with its bytes"
