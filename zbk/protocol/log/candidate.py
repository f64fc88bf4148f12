"""The fate of a new ledger that was written to a log's list, according to a later read of the list.

    the ledger is the last one           LAST       it was added
    it is listed, others follow          OVERTAKEN  it was added; another owner has the log now
    the version of the write             UNLISTED   not added, or not yet
    an older version                     UNKNOWN    the store shows an older state
    newer, the same last ledger          UNLISTED   the list was only truncated
    newer, another last ledger           ORPHAN     another owner has the log now
    another log of this name             ORPHAN

An UNLISTED ledger may be written again, on the list that was read: the last ledger is still the
owner's. An orphan is in no list, and never will be. After a *conflict* the write certainly changed
nothing, and the version of the write is an older one.
"""

from enum import Enum
from typing import TypeAlias

from zbk.protocol.log.metadata import LogMetadata

VersionedLog: TypeAlias = tuple[LogMetadata, int]
"""A list of ledgers, and its version in the metadata store."""


class Place(Enum):
    """The fate of a candidate; the table in the module's docstring."""

    LAST = "last"
    OVERTAKEN = "overtaken"
    ORPHAN = "orphan"
    UNLISTED = "unlisted"
    UNKNOWN = "unknown"


def place_of(
    ledger_id: int, found: VersionedLog, base: VersionedLog, *, is_conflict: bool
) -> Place:
    """Return the fate of a ledger that was written to the end of ``base``."""
    (log, version), (base_log, base_version) = found, base
    if log.log_id != base_log.log_id:
        return Place.ORPHAN
    if ledger_id in log.ledger_ids:
        return Place.LAST if log.last_ledger_id == ledger_id else Place.OVERTAKEN
    if version < base_version or (version == base_version and is_conflict):
        return Place.UNKNOWN
    if log.last_ledger_id != base_log.last_ledger_id:
        return Place.ORPHAN
    return Place.UNLISTED
