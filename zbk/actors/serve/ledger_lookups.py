"""The lookup actor: asks the metadata store for ledgers that are new at the bookie.

mailbox     LookUp, from the storage actor, one at a time
answers     the storage actor, with ``LookedUp``
owns        nothing
on failure  the bookie stops; a metadata store that does not answer is an answer

What the answers mean stands in ``zbk.durability.new_ledgers``. A ledger that is there costs one
read. A read may lag behind what another client was told, so "no such ledger" is never believed
unless it is fresh: the counter says of ids at or above it that no ledger has had them yet, once for
a whole batch; others are read again.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.durability.new_ledgers import Finding, KnownLedger
from zbk.errors import MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.metadata.records.ledgers import LedgerStore

NOT_READ: Final = -1


class LookUp(msgspec.Struct, frozen=True):
    """Ask for these ledgers."""

    ledger_ids: Sequence[int]


class LookedUp(msgspec.Struct, frozen=True):
    """To the storage actor: the result of a ``LookUp``, for each of its ledgers."""

    findings: dict[int, Finding]


class LedgerLookup:
    """Asks. Blocks in the store; any thread, one at a time."""

    def __init__(self, ledgers: LedgerStore) -> None:
        self._ledgers = ledgers
        self._next_ledger_id = NOT_READ  # within one batch

    def find(self, ledger_ids: Sequence[int]) -> dict[int, Finding]:
        """Return what the store says of each ledger."""
        findings: dict[int, Finding] = {}
        self._next_ledger_id = NOT_READ
        failure: ZbkError | None = None
        for ledger_id in ledger_ids:
            try:
                findings[ledger_id] = failure or self._find(ledger_id)
            except MetadataUnavailableError as error:  # nor will it answer for the others
                findings[ledger_id] = failure = error
            except ZbkError as error:
                findings[ledger_id] = error
        return findings

    def _find(self, ledger_id: int) -> KnownLedger:
        if self._next_ledger_id == NOT_READ:
            try:
                return self._read(ledger_id, is_fresh=False)
            except NoSuchLedgerError:  # or this follower of the store lacks it yet
                self._next_ledger_id = self._ledgers.next_ledger_id(is_fresh=True)
        if ledger_id >= self._next_ledger_id:
            raise NoSuchLedgerError(ledger_id)
        return self._read(ledger_id, is_fresh=True)

    def _read(self, ledger_id: int, *, is_fresh: bool) -> KnownLedger:
        metadata, _version = self._ledgers.read(ledger_id, is_fresh=is_fresh)
        return KnownLedger(metadata.ledger_key, metadata.ledger_type, metadata.known_access)


class LookupActor(BookieActor):
    """Asks, in its own thread."""

    def __init__(
        self,
        ledgers: LedgerStore,
        tell_storage: Callable[[LookedUp], None],
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._lookup = LedgerLookup(ledgers)
        self._tell_storage = tell_storage

    def handle(self, message: LookUp) -> None:
        """Ask, and hand the answer on."""
        self._tell_storage(LookedUp(self._lookup.find(message.ledger_ids)))
