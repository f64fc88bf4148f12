"""The ahead actor: does early what adds would have to wait for later.

mailbox     AheadDue, from the ticker
answers     nobody
owns        nothing: what it makes and syncs is the journals' and the entry logs'
on failure  the bookie stops

It makes the journal's next segments. And it brings entry logs to the disk some MiB at a time:
a checkpoint would find a gigabyte of them in the page cache, and the journal's fsyncs, which adds
wait for, would stand behind that.

Beside the checkpoint, in a thread of its own: one of many ledgers takes seconds, in which the
journal fills segments.

Source: etcd's ``filePipeline``; BookKeeper's ``flushEntrylogBytes`` (BOOKKEEPER-968).
"""

from contextlib import suppress

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.space_gate import SpaceGate
from zbk.errors import NoSpaceError
from zbk.storage.bookie_storage import BookieStorage


class AheadDue(msgspec.Struct, frozen=True):
    """Look whether there is anything to do."""


class AheadActor(BookieActor):
    """Makes segments, unless the disk is full, and syncs entry logs."""

    def __init__(
        self, storage: BookieStorage, *, space: SpaceGate, stop_bookie: StopBookie
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._space = space

    def handle(self, message: AheadDue) -> None:
        """Do what is due."""
        del message
        if not self._space.is_readonly:
            with suppress(NoSpaceError):  # there will be another way when it is needed
                self._storage.journals.prepare_next()
        self._storage.sync_logs_ahead()
