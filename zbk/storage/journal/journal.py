"""The journal: records appended to preallocated segments, made durable by ``sync``.

Threads:
    writer   ``append``, ``note_synced``; one thread
    syncer   ``sync``; one thread, may run while the writer appends: it promises exactly what was
             written before it was called
    others   ``prepare_next``, ``remove_before``, ``position``, ``synced_position``: any thread
    ``close`` when no other thread uses the journal

A list of records is one gathered write. After a full segment the journal begins the next one; it
never splits a list over two segments, and a list larger than a segment gets a larger segment.

Evidence of syncs: each record says up to which record the journal was on stable storage when it
was written. After a power loss this tells a tail that was never promised, and may be torn in any
way, from damage to what was promised (``zbk.storage.journal.replay``). ``note_synced`` writes the
evidence of the last sync when nothing else comes to carry it.

A full disk: an append that finds no space appends nothing. The bytes that it wrote are after the
end, where the next append overwrites them; a segment that cannot be made is removed. So the append
may be repeated (``NoSpaceError``), while a failed fsync, or any other error, is final. Without room
for a whole segment the journal makes a small one (``SMALL_SEGMENT_SIZE``): a reserve of a few MiB
is room for many thousand fences.

Names are durable before they are used, and files whole before they have their names: a segment is
made as a spare, allocated, its header written, synced, then renamed and its directory synced before
the first record goes into it. Segments before the last log mark become spares (``JournalSpares``).

Source: BookKeeper's ``Journal`` and ``JournalChannel``; hashicorp/raft-wal for the chain.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

import msgspec

from zbk.errors import NoSpaceError, OutOfDescriptorsError, StorageFailedError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    JournalRecord,
    SyncedRecord,
    encode_record,
)
from zbk.storage.journal.segment import (
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    encode_header,
    segment_ids,
    segment_path,
    segment_seed,
)
from zbk.storage.journal.spares import JournalSpares
from zbk.system.files import Buffer, File, FileSystem

SEGMENT_SIZE: Final = 64 * 1024 * 1024
"""Bytes of a segment."""

NOTE_DISTANCE: Final = 4096
"""Bytes that a disk may lose at once."""


class _Segment(msgspec.Struct, frozen=True):
    segment_id: int
    file: File
    seed: int
    size: int  # bytes reserved for it

    @property
    def half_offset(self) -> int:
        """The offset after half of the room for records."""
        return (SEGMENT_HEADER_SIZE + self.size) // 2


class SyncBegun(msgspec.Struct, frozen=True):
    """An fsync that has begun, and its promise."""

    position: JournalPosition  # all records before it
    rolled: list[File]  # segments that are full
    current: File


def _draw_nonce() -> int:
    return secrets.randbits(64)


class Journal:
    """The write side of the journal of one bookie.

    It begins a new segment, after ``start``, where replay ended; the segments before it stay
    until ``remove_before``. Every failed write or fsync ends it (``FailStop``).
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        start: JournalPosition,
        fail_stop: FailStop,
        segment_size: int = SEGMENT_SIZE,
        draw_nonce: Callable[[], int] = _draw_nonce,
    ) -> None:
        assert segment_size > SEGMENT_HEADER_SIZE, "a segment holds records"
        self._files = files
        self._directory = directory
        self._owner = owner
        self._fail_stop = fail_stop
        self._segment_size = segment_size
        self._draw_nonce = draw_nonce
        self._names_lock = Lock()  # names in the directory, and the prepared segment
        self._old_ids = segment_ids(files, directory)
        self._spares = JournalSpares(files, directory, segment_size, fail_stop)
        self._prepared: _Segment | None = None
        self._swap_lock = Lock()  # which segment is written, which ones wait to be synced
        self._rolled: list[File] = []
        self._position = start
        self._synced = start
        self._is_noted = True  # the last record has the evidence of the last sync
        self._write_size = 0
        self._torn_offset = 0  # bytes between the end and this offset may be of a failed append
        self._begin(self._take_next(0))
        self._synced = self._position

    @property
    def position(self) -> JournalPosition:
        """The place of the next record: after everything written."""
        return self._position

    @property
    def synced_position(self) -> JournalPosition:
        """Everything before it is on stable storage."""
        return self._synced

    @property
    def write_size(self) -> int:
        """Bytes of records appended since this object was made."""
        return self._write_size

    @property
    def room_size(self) -> int:
        """Bytes of records for which space is already allocated. Any thread."""
        room_size = self._segment.size - self._position.offset
        prepared = self._prepared
        if prepared is not None:
            room_size += prepared.size - SEGMENT_HEADER_SIZE
        return max(0, room_size)

    # ------------------------------------------------------------------ writer

    def append(self, records: Sequence[JournalRecord]) -> JournalPosition:
        """Write records to the page cache, in order, in one write; return the place after them.

        Raises:
            NoSpaceError: nothing was appended; the append may be repeated.
            StorageFailedError: the write failed, or anything failed before.
        """
        self._fail_stop.check()
        size = sum([record.size for record in records])
        offset = self._position.offset
        if offset + size > self._segment.size and offset > SEGMENT_HEADER_SIZE:
            self._roll(size)
            offset = self._position.offset
        segment = self._segment
        sequence, link = self._position.sequence, self._position.link
        synced_sequence = self._synced.sequence
        buffers: list[Buffer] = []
        for record in records:
            sequence += 1
            head, body, link = encode_record(
                record,
                sequence=sequence,
                synced_sequence=synced_sequence,
                previous=link,
                seed=segment.seed,
            )
            buffers.append(head)
            if body:
                buffers.append(body)
        try:
            with self._fail_stop.guard(segment.file.path, "write"):
                segment.file.pwrite(buffers, offset)
        except StorageFailedError:
            self._torn_offset = max(self._torn_offset, offset + size)
            raise
        self._position = JournalPosition(segment.segment_id, offset + size, sequence, link)
        self._write_size += size
        self._is_noted = False
        return self._position

    def note_synced(self) -> None:
        """Write the evidence of the last sync, unless the last record has it already.

        The writer calls it when nothing is left to write and everything is synced. It writes twice,
        the second time in a page of its own: no lost page takes records and evidence together.

        Raises:
            NoSpaceError: it was not written; try again.
            StorageFailedError: the write failed, or anything failed before.
        """
        if self._synced == self._position and not self._is_noted:
            room = NOTE_DISTANCE - (self._position.offset + RECORD_HEADER_SIZE) % NOTE_DISTANCE
            self.append([SyncedRecord(room % NOTE_DISTANCE), SyncedRecord()])
            self._is_noted = True

    # ------------------------------------------------------------------ syncer

    def sync(self) -> JournalPosition:
        """Put all written records on stable storage; return the place reached.

        Raises:
            StorageFailedError: an fsync failed, or anything failed before; never repeated.
        """
        begun = self.begin_sync()
        return self._synced if begun is None else self.end_sync(begun)

    def begin_sync(self) -> SyncBegun | None:
        """Return the promise of an fsync that begins now; ``None``: everything is synced already.

        ``end_sync`` follows: together they are ``sync``, and other things may happen in between.

        Raises:
            StorageFailedError: anything failed before.
        """
        self._fail_stop.check()
        position = self._position  # first: what is written from here on is not promised
        if position == self._synced:
            return None
        with self._swap_lock:
            rolled, self._rolled = self._rolled, []
            return SyncBegun(position, rolled, self._segment.file)

    def end_sync(self, begun: SyncBegun) -> JournalPosition:
        """Put the records of ``begin_sync`` on stable storage; return the place reached.

        Raises:
            StorageFailedError: an fsync failed; never repeated.
        """
        for file in begun.rolled:
            self._sync_file(file)
            file.close()
        self._sync_file(begun.current)
        self._synced = begun.position
        return begun.position

    # ------------------------------------------------------------------ any thread

    def prepare_next(self) -> None:
        """Make the file of the next segment in advance, when half of this one is written.

        Cheap when there is nothing to do; else it takes two fsyncs.

        Raises:
            NoSpaceError: there is no room for a whole one.
            StorageFailedError: it cannot be made, or anything failed before.
        """
        if self._prepared is None and self._position.offset > self._segment.half_offset:
            self._fail_stop.check()
            with self._names_lock:
                if self._prepared is None:
                    self._prepared = self._make_next(None)

    def remove_before(self, mark: JournalPosition) -> int:
        """Remove the segments before ``mark``, a durable last log mark; return their number.

        Raises:
            NoSpaceError: not all could be removed; try again.
            StorageFailedError: a file cannot be removed, or anything failed before.
        """
        self._fail_stop.check()
        assert mark.segment_id <= self._position.segment_id, "the mark is not after the end"
        with self._names_lock:
            old_ids = [one for one in self._old_ids if one < mark.segment_id]
            if not old_ids:
                return 0
            with self._fail_stop.guard(self._directory, "remove"):
                spare_count = self._spares.count_to_keep(len(old_ids))
                for segment_id in old_ids:
                    self._spares.take_in(segment_id, spare_count)
                    self._old_ids.remove(segment_id)
                self._spares.keep(spare_count)
                self._files.sync_dir(self._directory)
            return len(old_ids)

    def give_up_spares(self) -> None:
        """Remove the spares: the disk is full. Any thread.

        Raises:
            NoSpaceError: not all could be removed.
            StorageFailedError: one cannot be removed, or anything failed before.
        """
        self._fail_stop.check()
        with self._names_lock, self._fail_stop.guard(self._directory, "remove"):
            self._spares.keep(0)

    def close(self) -> None:
        """Sync, write the evidence of it, and close the files.

        Raises:
            StorageFailedError: an fsync failed. After an earlier failure nothing is synced.
        """
        try:
            if not self._fail_stop.has_failed:
                self.sync()
                with suppress(NoSpaceError):  # a start needs no evidence
                    self.note_synced()
                self.sync()
        finally:
            self._segment.file.close()
            for file in self._rolled:
                file.close()
            if self._prepared is not None:
                self._prepared.file.close()

    # ------------------------------------------------------------------ private

    def _roll(self, size: int) -> None:
        self._void_torn()
        segment = self._take_next(size)
        with self._swap_lock:
            self._rolled.append(self._segment.file)
            self._begin(segment)

    def _void_torn(self) -> None:
        """Make void the bytes of a failed append after the end of the segment.

        They continue the chain: replay would apply them, and then not find the next record.
        """
        file, offset = self._segment.file, self._position.offset
        with self._fail_stop.guard(file.path, "write"):
            if offset < self._torn_offset and offset < file.size():
                file.pwrite([bytes(RECORD_HEADER_SIZE)], offset)

    def _begin(self, segment: _Segment) -> None:
        before = self._position
        self._segment = segment
        self._torn_offset = 0
        self._position = JournalPosition(
            segment.segment_id, SEGMENT_HEADER_SIZE, before.sequence, before.link
        )

    def _take_next(self, size: int) -> _Segment:
        """Return a segment for records of this size."""
        with self._names_lock:
            segment = self._prepared or self._make_next(size)
            self._prepared = None
            self._old_ids.append(segment.segment_id)
        return segment

    def _make_next(self, size: int | None) -> _Segment:
        """Make a segment; without space for a whole one, a small one with room for ``size``."""
        segment_id = max([self._position.segment_id, *self._old_ids[-1:]]) + 1
        path = segment_path(self._directory, segment_id)
        nonce = self._draw_nonce()
        with self._fail_stop.guard(path, "create"):
            spare, file = self._spares.open(segment_id)
            try:
                segment_size = self._spares.allocate(file, size)
                header = encode_header(self._owner, segment_id, nonce, segment_size)
                file.pwrite([header], 0)
                file.sync()
                self._files.rename(spare, path)
            except OSError:
                self._files.remove(spare)  # it has no records, and takes room
                raise
            finally:
                file.close()
            file = self._files.open(path)
            try:
                self._files.sync_dir(self._directory)
            except OutOfDescriptorsError:
                file.close()  # the next attempt replaces it
                raise
        seed = segment_seed(self._owner, segment_id, nonce)
        return _Segment(segment_id, file, seed, segment_size)

    def _sync_file(self, file: File) -> None:
        with self._fail_stop.guard(file.path, "fsync"):
            file.sync()
