"""The preparer actor: does early what adds would wait for later.

mailbox     PrepareDue, from the ticker, and from storage when an entry log has grown by some MiB
answers     none
owns        nothing: the segments belong to the journals, the entry logs to storage
on failure  the bookie stops

It makes the next segments of the journals. And it syncs entry logs some MiB at a time: otherwise a
checkpoint finds a gigabyte of them in the page cache, and delays the fsyncs of the journal that
adds wait for. So would 32 MiB at a time: their fsync takes tens of milliseconds.

It has a thread of its own, beside the checkpoint actor: a checkpoint of many ledgers takes seconds,
in which the journal fills segments.

Source: etcd's ``filePipeline``; BookKeeper's ``flushEntrylogBytes`` (BOOKKEEPER-968).
"""

from contextlib import suppress

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.space_gate import SpaceGate
from zbk.errors import NoSpaceError
from zbk.storage.bookie_storage import BookieStorage


class PrepareDue(msgspec.Struct, frozen=True):
    """Check whether there is anything to prepare."""


class PreparerActor(BookieActor):
    """Makes segments unless the disk is full, and syncs entry logs."""

    def __init__(
        self, storage: BookieStorage, *, space: SpaceGate, stop_bookie: StopBookie
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._space = space

    def handle(self, message: PrepareDue) -> None:
        """Prepare what is due."""
        del message
        if not self._space.is_readonly:
            with suppress(NoSpaceError):  # the journal makes the segment when it needs it
                for journal in self._storage.journals:
                    journal.prepare_next()
        self._storage.sync_logs_ahead()
