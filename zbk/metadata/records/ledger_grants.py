"""Changes of the grants of ledgers, and the news of them for bookies.

One step of the store changes the metadata of the ledger and the record of changes. So a bookie that
has read the news reads the new grants, too.

Any thread may call; calls block. The callback of the watch runs in the store's callback thread and
must neither block nor call the store.
"""

from collections.abc import Callable, Sequence
from typing import Final

from zbk.metadata.paths import ACCESS_CHANGES
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.one_record import OneRecord
from zbk.metadata.stores.store import MetadataStore, Watch
from zbk.protocol.ledger.access import Grants
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.access_table import AccessChanges

WATCH_NAME: Final = "the changes of grants"


class LedgerGrants:
    """The grants of the ledgers in ``store``."""

    def __init__(self, store: MetadataStore) -> None:
        self._ledgers = LedgerStore(store)
        self._changes = OneRecord(store, ACCESS_CHANGES, WATCH_NAME, AccessChanges())

    def change(self, ledger_id: int, change: Callable[[LedgerMetadata], Grants]) -> LedgerMetadata:
        """Change the grants of a ledger; return its metadata then.

        ``change`` receives the metadata and returns the grants. It is called again when another
        client was faster. Its errors go to the caller.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            MetadataConflictError: other clients were faster, many times in a row.
            MetadataUnavailableError: they may or may not have been changed.
        """

        def changed(current: LedgerMetadata) -> LedgerMetadata | None:
            grants = change(current)
            same = grants == current.known_access.grants
            return None if same else current.with_grants(grants)

        metadata, _version = self._ledgers.update(
            ledger_id,
            changed,
            beside=lambda wanted: [
                self._changes.change_beside(lambda now: now.with_change(wanted.ledger_id))
            ],
        )
        return metadata

    def watch(self, callback: Callable[[Sequence[int] | None], None]) -> Watch:
        """Call back after each change with the ledgers whose grants changed; ``None``: any may.

        The first call comes now, with ``None``.
        """
        seen: int | None = None

        def on_changes(found: AccessChanges) -> None:
            nonlocal seen
            changed = found.since(seen)
            seen = found.count
            callback(changed)

        return self._changes.watch(on_changes)
