"""The log sync actor: runs the fsyncs of entry logs that clients wait for.

mailbox     SyncLogs, from the storage actor, one of each ledger directory at a time
answers     LogsSynced, to the storage actor
owns        nothing: the logs belong to storage
on failure  the bookie stops: a failed fsync is final

It has a thread of its own, because a checkpoint or the preparer may hold theirs for seconds.
"""

from contextlib import suppress

import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import Sink
from zbk.actors.serve.log_syncs import LogsSynced, SyncLogs
from zbk.errors import OutOfDescriptorsError


class LogSyncActor(BookieActor):
    """Syncs."""

    def __init__(self, storage: Sink[LogsSynced], stop_bookie: StopBookie) -> None:
        super().__init__(stop_bookie)
        self._storage = storage

    def handle(self, message: SyncLogs) -> None:
        """Run one sync."""
        error = None
        try:
            message.sync.run()
        except OutOfDescriptorsError as found:
            error = found
        with suppress(pykka.ActorDeadError):  # the bookie stops
            self._storage.tell(LogsSynced(message.directory_no, error))
