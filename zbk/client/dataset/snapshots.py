"""Versions of a data set as readers see them: a version with its schema and its ledgers.

Any thread; every function blocks.
"""

from typing import Final

import msgspec

from zbk.client.dataset.ledgers import DataSetLedgers
from zbk.errors import CorruptRecordError, NoSuchLedgerError
from zbk.metadata.records.datasets import DataSetStore
from zbk.protocol.dataset.dataset import DataSet, Version
from zbk.protocol.dataset.manifest import DataLedger, schema_hash

READ_ATTEMPT_COUNT_MAX: Final = 8


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a data set, with everything that a reader needs."""

    name: str
    version: Version
    schema: bytes
    ledgers: tuple[DataLedger, ...]


def read_snapshot(
    store: DataSetStore, ledgers: DataSetLedgers, name: str, version: int | None = None
) -> Snapshot:
    """Return a version, by default the last one.

    Raises:
        NoSuchDataSetError, NoSuchVersionError: there is no such data set or version.
        UnauthorizedError: the ledgers have another password.
        CorruptRecordError: a manifest is damaged, or was deleted by hand.
    """
    for _ in range(READ_ATTEMPT_COUNT_MAX):
        data_set = store.read(name)[0]
        try:
            return _snapshot(ledgers, data_set, data_set.version(version))
        except NoSuchLedgerError:
            continue  # the version was dropped meanwhile: the next read reports that
    raise manifest_is_gone(name)


def manifest_is_gone(name: str) -> CorruptRecordError:
    """Return the error for a version whose manifest was deleted by hand."""
    return CorruptRecordError(
        f"data set {name!r}", 0, "a manifest is gone that one of its versions lists"
    )


def _snapshot(ledgers: DataSetLedgers, data_set: DataSet, version: Version) -> Snapshot:
    manifests = [ledgers.read_manifest(one, data_set.data_set_id) for one in version.manifests]
    listed = tuple(ledger for one in manifests for ledger in one.ledgers)
    schema = manifests[-1].schema
    if len(listed) != version.ledger_count or schema_hash(schema) != version.schema_hash:
        raise CorruptRecordError(
            f"data set {data_set.name!r}, version {version.version}",
            0,
            f"its manifests list {len(listed)} ledgers, or another schema than it has",
        )
    return Snapshot(name=data_set.name, version=version, schema=schema, ledgers=listed)
