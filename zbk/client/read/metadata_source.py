"""The metadata of one ledger, from the store: read at once, read later, or watched.

The client's metadata actors do the later reads, so that tails and looks do not wait for the store.
"""

from collections.abc import Callable
from contextlib import suppress

import pykka

from zbk.client.cluster.metadata_actor import MetadataActors, MetadataTask
from zbk.errors import ZbkError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import Watch
from zbk.protocol.ledger.metadata import LedgerMetadata


class MetadataSource:
    """The metadata of the ledger ``ledger_id``. Any thread."""

    def __init__(self, ledgers: LedgerStore, actors: MetadataActors, ledger_id: int) -> None:
        self._ledgers = ledgers
        self._actors = actors
        self._ledger_id = ledger_id

    def read(self) -> LedgerMetadata:
        """Return the present metadata.

        Raises:
            NoSuchLedgerError: the ledger was deleted.
            MetadataUnavailableError: the store does not answer.
        """
        return self._ledgers.read(self._ledger_id, is_fresh=True)[0]

    def read_later(
        self,
        callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None],
        *,
        is_fresh: bool = False,
    ) -> None:
        """Call back, in a metadata actor, with metadata and version or an error.

        ``is_fresh`` as in ``MetadataStore.get``. After the client was closed nothing comes.
        """
        ledger_id = self._ledger_id
        task = MetadataTask(lambda: self._ledgers.read(ledger_id, is_fresh=is_fresh), callback)
        with suppress(pykka.ActorDeadError):
            self._actors.tell(ledger_id, task)

    def watch(self, callback: Callable[[tuple[LedgerMetadata, int] | None], None]) -> Watch:
        """Call back with metadata and version, now and after each change; ``None``: deleted.

        The callback runs in a thread of the store.
        """
        return self._ledgers.watch(self._ledger_id, callback)
