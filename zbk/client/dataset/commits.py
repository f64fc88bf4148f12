"""The commit of a load: checks its ledgers, writes a manifest, and makes a version of it.

The rule is ``DataSet.committed`` in ``zbk.protocol.dataset.dataset``. Any thread; blocks.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from zbk.client.dataset.garbage import DataSetGarbage
from zbk.client.dataset.ledgers import DataSetLedgers, LoadTicket
from zbk.client.dataset.snapshots import Snapshot, read_snapshot
from zbk.errors import (
    DataSetConflictError,
    LoadAbortedError,
    MetadataConflictError,
    NoSuchDataSetError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.metadata.paths import data_set_path
from zbk.metadata.records.datasets import DataSetStore
from zbk.protocol.dataset.dataset import Contents, DataSet, LoadKind, LoadState
from zbk.protocol.dataset.manifest import DataLedger, schema_hash

MERGE_ATTEMPT_COUNT_MAX: Final = 16


class LoadCommitter:
    """The commits of a client. ``password_check`` tells data set ids from their password."""

    def __init__(
        self,
        store: DataSetStore,
        ledgers: DataSetLedgers,
        garbage: DataSetGarbage,
        now_ms: Callable[[], int],
        password_check: Callable[[str], str],
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._garbage = garbage
        self._now_ms = now_ms
        self._password_check = password_check

    def commit(
        self, ticket: LoadTicket, schema: bytes, ledgers: Sequence[DataLedger], who: str
    ) -> DataSet:
        """Make a load visible as one version; return the data set. As ``DataSets.commit``."""
        done = self._committed(ticket)
        if done is not None:
            return done
        try:
            self._ledgers.check(ticket, ledgers)
            for _ in range(MERGE_ATTEMPT_COUNT_MAX):
                done = self._try(ticket, schema, ledgers, who, self._to_merge(ticket))
                if done is not None:
                    return done
        except NoSuchLedgerError:
            # an abort deletes the ledgers of its load, the manifest too: report the abort
            self._committed(ticket)
            raise
        raise MetadataConflictError(
            data_set_path(ticket.name),
            f"other loads were faster, {MERGE_ATTEMPT_COUNT_MAX} times in a row",
        )

    def _committed(self, ticket: LoadTicket) -> DataSet | None:
        return self._store.committed(
            ticket.name, ticket.data_set_id, ticket.load_id, ticket.base_version
        )

    def _to_merge(self, ticket: LoadTicket) -> Snapshot | None:
        """Return the last version if the load's manifest must list its ledgers, too."""
        if ticket.kind is not LoadKind.APPEND:
            return None
        data_set, _version = self._store.read_same(ticket.name, ticket.data_set_id)
        if not data_set.needs_merge:
            return None
        return read_snapshot(self._store, self._ledgers, ticket.name)

    def _try(
        self,
        ticket: LoadTicket,
        schema: bytes,
        ledgers: Sequence[DataLedger],
        who: str,
        merged: Snapshot | None,
    ) -> DataSet | None:
        """Write a manifest and commit it; return ``None`` if another manifest is needed.

        A manifest that no version lists is deleted, unless the outcome is unknown.
        """
        listed = [*(merged.ledgers if merged else ()), *ledgers]
        contents = Contents(
            manifest=self._ledgers.write_manifest(ticket, schema, listed),
            schema_hash=schema_hash(schema),
            password_check=self._password_check(ticket.data_set_id),
            ledger_count=len(ledgers),
            row_count=sum(ledger.row_count for ledger in ledgers),
            size=sum(ledger.size for ledger in ledgers),
            who=who,
        )
        try:
            done = self._store.commit(
                ticket.name,
                ticket.data_set_id,
                ticket.load_id,
                ticket.base_version,
                contents,
                self._now_ms(),
                merged.version if merged else None,
            )
        except (LoadAbortedError, DataSetConflictError, NoSuchDataSetError):
            self._ledgers.discard(contents.manifest)
            raise
        if done is None:
            self._ledgers.discard(contents.manifest)
            return None
        data_set, load = done
        if load is not None and load.manifest != contents.manifest:  # an earlier attempt succeeded
            self._ledgers.discard(contents.manifest)
        if load is not None and load.state is LoadState.ABORTED:  # another load has its batch
            with suppress(ZbkError):  # ``collect`` deletes the rest
                self._garbage.sweep(ticket.name, load)
        return data_set
