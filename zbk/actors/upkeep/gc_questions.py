"""The questions of garbage collection to the metadata store: next id, list of ledgers, ledgers.

Each answer says in which session of the store it was given. If the store does not answer, or
belongs to another cluster, the question raises an error and the round ends. Blocks in the store;
runs in the gc actor's thread.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from zbk.errors import CookieMismatchError, MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.session_number import SessionNumber
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.upkeep.gc import Counter, Finding, Findings, ListPiece
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

LIST_COUNT: Final = 1_000
"""Ledgers in one piece of the list."""


class GcQuestions:
    """The metadata store as one bookie's garbage collection sees it."""

    def __init__(self, store: MetadataStore, cluster_id: str) -> None:
        self._store = store
        self._ledgers = LedgerStore(store)
        self._session = SessionNumber(store)
        self._cluster_id = cluster_id
        self._listing: Iterator[int] = iter(())
        self._listing_session: int | None = None  # in which the listing began

    def close(self) -> None:
        """Stop watching the session."""
        self._session.close()

    def counter(self) -> Counter:
        """Read the next ledger id.

        Raises:
            CookieMismatchError: the metadata store belongs to another cluster.
            MetadataUnavailableError: the metadata store does not answer.
        """
        session = self._session.now()
        found_id = instance_id(self._store)
        if found_id != self._cluster_id:
            raise CookieMismatchError(f"the metadata store belongs to another cluster, {found_id}")
        found = self._ledgers.counter()
        return Counter(
            found.next_ledger_id,
            self._session.since(session),
            is_emptied=found.is_emptied is True,
        )

    def list(self) -> ListPiece:
        """Begin the list of all ledgers and return its first piece; errors as in ``list_more``."""
        self._listing_session = self._session.now()
        self._listing = self._ledgers.list()
        return self.list_more()

    def list_more(self) -> ListPiece:
        """Return the next piece of the list.

        Raises:
            MetadataUnavailableError: the rest could not be read.
            CorruptRecordError: a name in the list is not a ledger's.
        """
        some = [*islice(self._listing, LIST_COUNT)]
        is_last = len(some) < LIST_COUNT
        return ListPiece(some, is_last, self._session.since(self._listing_session))

    def ledgers(self, ledger_ids: Sequence[int]) -> Findings:
        """Look for each ledger by its own node.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        session = self._session.now()
        findings = {}
        for ledger_id in ledger_ids:
            try:
                self._ledgers.read(ledger_id, is_fresh=True)
                findings[ledger_id] = Finding.PRESENT
            except NoSuchLedgerError:
                findings[ledger_id] = Finding.ABSENT
            except MetadataUnavailableError:  # the other ledgers would wait for the store, too
                raise
            except ZbkError as error:
                LOG.info(
                    "gc.ledger_kept",
                    "ledger %(ledger_id)d is kept: %(error)s",
                    ledger_id=ledger_id,
                    error=error,
                )
                findings[ledger_id] = Finding.UNKNOWN
        return Findings(findings, self._session.since(session))
