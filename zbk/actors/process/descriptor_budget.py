"""The use of a bookie's file descriptors: its own files first, then connections.

A bookie without a descriptor for a file of its own can neither add to a new ledger nor end a
checkpoint. So it counts what it needs at most, and admits connections with the rest
(``zbk.transport.connections``). With a small limit it keeps fewer index files and entry logs open
and admits fewer connections; with a limit that is too small it does not start.

Pure. Source: the limits of descriptors in Redis (``adjustOpenFilesLimit``) and HAProxy.
"""

from typing import Final

import msgspec

from zbk.config import BookieConfig
from zbk.errors import TooFewDescriptorsError
from zbk.transport.connections import ConnectionLimits

PROCESS_COUNT: Final = 128
"""Those of the process: standard streams, ZeroMQ, the metadata store, connections to peers."""

JOURNAL_COUNT: Final = 8
"""Those of a journal: the current segment, the next one, those that wait for a sync."""

DIRECTORY_COUNT: Final = 16
"""Those of a ledger directory, without entry logs: lock, flush, compaction, scrub, new logs."""

OWN_LOG_FACTOR: Final = 2
"""Own logs that are open or wait for a sync, for each that may be open."""

OWN_LOG_SHARE: Final = 4
"""With few descriptors own logs get this part (one in four) of those that are left."""

OWN_LOG_COUNT_MIN: Final = 2

LEFT_LOG_COUNT_MAX: Final = 256
"""Full entry logs that wait for a checkpoint."""

LOBBY_SHARE: Final = 8
LOBBY_COUNT_MAX: Final = 256
BACKLOG_MAX: Final = 128
OPEN_FILES_SHARE: Final = 3
OPEN_FILES_MIN: Final = 8
CONNECTION_COUNT_MIN: Final = 16

_STEP: Final = 64


class DescriptorBudget(msgspec.Struct, frozen=True):
    """The shares of the descriptors."""

    limit: int  # of the process
    own_count: int  # of its own files, without ``open_files_max``
    own_log_count_max: int  # of ledgers with entry logs of their own; part of ``own_count``
    open_files_max: int  # entry logs and index files kept open for reading
    backlog: int  # connections that the kernel holds until they are accepted
    connections: ConnectionLimits

    def reduced(self, config: BookieConfig) -> str:
        """Return which configured limits the descriptors reduce; empty: none."""
        greeted_max, open_files_max = self.connections.greeted_max, self.open_files_max
        has_own_logs = config.entry_log_per_ledger != "never"
        is_log_reduced = has_own_logs and self.own_log_count_max < config.own_log_count_max
        is_reduced = greeted_max < config.connection_count_max or is_log_reduced
        if not is_reduced and open_files_max >= config.open_files_max:
            return ""
        told = (
            f"of {self.limit} file descriptors, {greeted_max} are for clients "
            f"(connection_count_max is {config.connection_count_max}) and {open_files_max} for "
            f"reading index files and entry logs (open_files_max is {config.open_files_max})"
        )
        if is_log_reduced:
            told += (
                f"; {self.own_log_count_max} ledgers of a directory may have their own entry log "
                f"(own_log_count_max is {config.own_log_count_max})"
            )
        return told


def plan_descriptors(limit: int, config: BookieConfig) -> DescriptorBudget:
    """Return the use of ``limit`` descriptors.

    Raises:
        TooFewDescriptorsError: they are not enough for this configuration.
    """
    budget = _plan(limit, config)
    connection_count_min = min(CONNECTION_COUNT_MIN, config.connection_count_max)
    if budget.connections.greeted_max < connection_count_min:
        needed = limit
        while _plan(needed, config).connections.greeted_max < connection_count_min:
            needed += _STEP
        raise TooFewDescriptorsError(limit, needed)
    return budget


def _plan(limit: int, config: BookieConfig) -> DescriptorBudget:
    directory_count = max(1, len(config.ledger_dirs))
    left_log_count = 2 + config.checkpoint_journal_size // config.entry_log_size_max
    own_count = (
        PROCESS_COUNT
        + JOURNAL_COUNT * max(1, len(config.journal_dirs))
        + directory_count * DIRECTORY_COUNT
        + min(LEFT_LOG_COUNT_MAX, left_log_count)
    )
    lobby_max = min(LOBBY_COUNT_MAX, limit // LOBBY_SHARE)
    backlog = min(BACKLOG_MAX, limit // LOBBY_SHARE)
    rest = limit - own_count - lobby_max - backlog
    own_log_count = 0
    if config.entry_log_per_ledger != "never":
        room = rest // (OWN_LOG_SHARE * OWN_LOG_FACTOR * directory_count)
        own_log_count = min(config.own_log_count_max, max(OWN_LOG_COUNT_MIN, room))
        own_log_descriptor_count = directory_count * OWN_LOG_FACTOR * own_log_count
        own_count += own_log_descriptor_count
        rest -= own_log_descriptor_count
    open_files_max = min(config.open_files_max, max(OPEN_FILES_MIN, rest // OPEN_FILES_SHARE))
    return DescriptorBudget(
        limit=limit,
        own_count=own_count,
        own_log_count_max=own_log_count,
        open_files_max=open_files_max,
        backlog=backlog,
        connections=ConnectionLimits(
            greeted_max=min(config.connection_count_max, max(0, rest - open_files_max)),
            lobby_max=lobby_max,
            handshake_ms=config.handshake_ms,
        ),
    )
