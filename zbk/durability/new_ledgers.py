"""Which ledgers a bookie takes in: those that the metadata store has, under their key and type.

A bookie keeps the first key that it is shown for a ledger. If it took that from anybody, a client
could fence or fill ids that no ledger has yet, and the ledgers made under these ids later would
find their places taken. So a request that makes a ledger known (an add, an explicit LAC, a fence)
waits while the metadata store is asked; other ledgers' requests go on.

    held     the bookie has the ledger: nothing is asked
    waiting  the first such request of a ledger, and everything that comes for that ledger after it,
             in the order in which it came
    found    the store has the ledger: what waits goes on, each request with the right key and type
    absent   it has not, which a read that lags behind cannot say: refused, and nothing is stored.
             A request that came after the question was asked is asked for again: its ledger may
             have been made meanwhile
    unknown  the store gave no answer: refused as retriable, and nothing is stored

A writer creates the metadata before it sends anything, so a ledger of which "absent" is said was
deleted, or never was.

Limits: ``WAITING_COUNT_MAX`` requests and ``WAITING_SIZE_MAX`` bytes wait; beyond them a request is
refused with ``BusyError``. One batch of ledgers is asked for at a time, ``LOOKUP_COUNT_MAX`` at
most; those that arrive meanwhile are the next one.

Invariants, checked in ``_check``:
  * a ledger that is to be asked for has requests that wait;
  * whatever waits is asked for: now, or in a later batch.

Decision: metadata of format 1 have no key: such a ledger takes the first one that it is shown.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from zbk.errors import BusyError, UnauthorizedError, UnsupportedLedgerError, ZbkError
from zbk.protocol.entry.digest import is_same_secret
from zbk.protocol.entry.words import LedgerType

WAITING_COUNT_MAX: Final = 16_384
WAITING_SIZE_MAX: Final = 64 * 1024 * 1024
LOOKUP_COUNT_MAX: Final = 128
"""Ledgers in one batch: it takes some tens of milliseconds."""

T = TypeVar("T")


class KnownLedger(msgspec.Struct, frozen=True):
    """What the metadata store says of a ledger that it has."""

    ledger_key: bytes  # empty: not kept
    ledger_type: LedgerType


Finding: TypeAlias = KnownLedger | ZbkError
"""What came of looking for a ledger; an error refuses its requests."""


def check_claim(ledger_id: int, ledger_key: bytes, ledger_type: LedgerType, found: Finding) -> None:
    """Accept a request that makes a ledger known.

    Raises:
        NoSuchLedgerError: there is no such ledger.
        MetadataUnavailableError: the store cannot be asked.
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
    """Requests of one ledger that wait no longer, in order, and what was found."""

    ledger_id: int
    found: Finding
    requests: Sequence[T]


class WaitingRoom(Generic[T]):
    """The requests that wait, by ledger, and which ledgers are asked for."""

    def __init__(
        self, count_max: int = WAITING_COUNT_MAX, size_max: int = WAITING_SIZE_MAX
    ) -> None:
        self._count_max = count_max
        self._size_max = size_max
        self._waiting: dict[int, list[tuple[T, int]]] = {}
        self._to_ask: dict[int, None] = {}  # in the order in which they came
        self._asked: dict[int, int] = {}  # under way: how many requests waited when it began
        self._count = 0
        self._size = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes of the requests that wait."""
        return self._size

    def has(self, ledger_id: int) -> bool:
        """Return whether requests of a ledger wait."""
        return ledger_id in self._waiting

    def put(self, ledger_id: int, request: T, size: int) -> None:
        """Add a request, behind those of the same ledger; ``size`` in bytes.

        Raises:
            BusyError: too much waits.
        """
        if self._count == self._count_max or self._size + size > self._size_max:
            raise BusyError(
                f"{self._count} requests of {len(self._waiting)} ledgers that are new at this "
                "bookie wait for the metadata store"
            )
        if ledger_id not in self._waiting:
            self._waiting[ledger_id] = []
            self._to_ask[ledger_id] = None
        self._waiting[ledger_id].append((request, size))
        self._count += 1
        self._size += size
        self._check()

    def next_batch(self) -> Sequence[int]:
        """Return the ledgers to ask for now; none while a batch is under way."""
        if self._asked:
            return ()
        batch = [*islice(self._to_ask, LOOKUP_COUNT_MAX)]
        for ledger_id in batch:
            del self._to_ask[ledger_id]
        self._asked = {ledger_id: len(self._waiting[ledger_id]) for ledger_id in batch}
        self._check()
        return batch

    def answered(self, findings: Mapping[int, Finding]) -> Sequence[Released[T]]:
        """End the batch; return what waited for it, ledger by ledger."""
        assert findings.keys() == self._asked.keys(), "the batch that is under way is answered"
        asked, self._asked = self._asked, {}
        released = []
        for ledger_id, found in findings.items():
            left_count = len(self._waiting.get(ledger_id, ()))
            count = left_count if isinstance(found, KnownLedger) else asked[ledger_id]
            if count:
                released.append(Released(ledger_id, found, self._take(ledger_id, count)))
            if count < left_count:  # came later than the question: the answer may be no more true
                self._to_ask[ledger_id] = None
            else:
                self._to_ask.pop(ledger_id, None)
        self._check()
        return released

    def take_all(self) -> Sequence[T]:
        """Return everything that waits; a batch that is under way releases none of it."""
        taken = [
            request
            for ledger_id, waiting in list(self._waiting.items())
            for request in self._take(ledger_id, len(waiting))
        ]
        self._to_ask = {}
        self._asked = dict.fromkeys(self._asked, 0)
        self._check()
        return taken

    def _take(self, ledger_id: int, count: int) -> list[T]:
        waiting = self._waiting.pop(ledger_id)
        if waiting[count:]:
            self._waiting[ledger_id] = waiting[count:]
        self._count -= count
        self._size -= sum(size for _request, size in waiting[:count])
        return [request for request, _size in waiting[:count]]

    def _check(self) -> None:
        assert self._to_ask.keys() <= self._waiting.keys(), "a ledger is asked for since it waits"
        assert self._count >= len(self._waiting), "each ledger has requests that wait"
        assert bool(self._size >= 0), "a request is taken with its bytes"
