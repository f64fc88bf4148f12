"""What garbage collection asks the metadata store: the next id, the list, single ledgers.

Each answer says in which session of the store it was given. A store that does not answer, or is of
another cluster, is news like any other: the round ends. Blocks in the store; the gc actor's thread.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Final

from zbk.errors import CookieMismatchError, MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.session_number import SessionNumber
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.upkeep.gc_events import (
    CounterRead,
    Effect,
    Event,
    Finding,
    LedgersListed,
    LedgersRead,
    MetadataFailed,
)

logger = logging.getLogger("zbk.bookie")

LIST_COUNT: Final = 1_000
"""Ledgers of the list that are read in one step."""


class GcQuestions:
    """Asks."""

    def __init__(self, store: MetadataStore, cluster_id: str) -> None:
        self._store = store
        self._ledgers = LedgerStore(store)
        self._session = SessionNumber(store)
        self._cluster_id = cluster_id

    def close(self) -> None:
        """Leave the session alone."""
        self._session.close()

    def counter(self) -> Event:
        """Read the next ledger id."""
        session = self._session.now()
        try:
            found = instance_id(self._store)
            if found != self._cluster_id:
                raise CookieMismatchError(f"the metadata store is of another cluster, {found}")
            found_counter = self._ledgers.counter()
        except ZbkError as error:
            return MetadataFailed(str(error))
        return CounterRead(
            found_counter.next_ledger_id,
            self._session.since(session),
            is_emptied=found_counter.is_emptied is True,
        )

    def list(self, handle: Callable[[Event], list[Effect]]) -> Generator[bool, None, list[Effect]]:
        """Read the list piece by piece, until ``handle`` wants something else; return that."""
        session = self._session.now()
        listing = self._ledgers.list()
        while True:
            try:
                some = [*islice(listing, LIST_COUNT)]
            except ZbkError as error:
                return handle(MetadataFailed(str(error)))
            is_last = len(some) < LIST_COUNT
            effects = handle(LedgersListed(some, is_last, self._session.since(session)))
            yield True
            if effects:  # the list is over, or not wanted any more
                return effects

    def ledgers(self, ledger_ids: Sequence[int]) -> Event:
        """Look at single ledgers."""
        session = self._session.now()
        findings = {}
        for ledger_id in ledger_ids:
            try:
                self._ledgers.read(ledger_id, is_fresh=True)
                findings[ledger_id] = Finding.PRESENT
            except NoSuchLedgerError:
                findings[ledger_id] = Finding.ABSENT
            except MetadataUnavailableError as error:  # nor will it answer for the others
                return MetadataFailed(str(error))
            except ZbkError as error:
                logger.info("ledger %d is kept: %s", ledger_id, error)
                findings[ledger_id] = Finding.UNKNOWN
        return LedgersRead(findings, self._session.since(session))
