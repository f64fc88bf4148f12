"""The fate of a new ledger that was to be added to a log's list, by a list that was read later.

    the ledger is the last               LAST       it was added
    it is there, others follow           OVERTAKEN  it was added; another owner has the log now
    the version that we wrote on         UNLISTED   not added, or not yet
    an older version                     UNKNOWN    the store shows an older state
    newer, the same last ledger          UNLISTED   the list was only truncated
    newer, another last ledger           ORPHAN     another owner has the log now
    another log of this name             ORPHAN

An UNLISTED ledger may be added again, on the list that was read: the last ledger is still ours. An
orphan is in no list, and never will be. After a *conflict* the write surely changed nothing, and
the version that we wrote on is an older one.
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
    """Return the fate of a ledger that was to be added to ``base``."""
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
