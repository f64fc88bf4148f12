"""The state of each ledger for a rebuild of the index, and its sources.

    headers   of the old index files, and of the flush file, which may be newer
    journal   the remaining records: the key of a ledger is its first record, so an unbroken journal
              with the key record has every later fence and LAC
    others    the cluster's metadata, asked last, through a function

A ledger with neither header nor journal may have been fenced. So it is fenced from now on: a writer
that is still alive uses another bookie, while a forgotten fence would let two writers continue.
"""

from collections.abc import Callable

import msgspec

from zbk.errors import CorruptRecordError, InvalidOptionError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.flush_file import HEADER_PAGE, FlushFile
from zbk.storage.index.index_file import IndexReader, LedgerIndex, decode_header, ledger_ids
from zbk.storage.journal.record import (
    DecodedRecord,
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, JournalPosition, segment_ids
from zbk.storage.journal.segment_reader import SegmentReader
from zbk.system.files import FileSystem


class LedgerSecret(msgspec.Struct, frozen=True):
    """The key and type of a ledger."""

    ledger_key: bytes
    ledger_type: LedgerType


AskOthers = Callable[[int], LedgerSecret | None]
"""From a ledger id to its secret; ``None``: the ledger was deleted. Raises ``ZbkError``."""


def ask_nobody(ledger_id: int) -> LedgerSecret | None:
    """Fail, because there are no metadata to ask.

    Raises:
        InvalidOptionError: always.
    """
    raise InvalidOptionError("metadata", "", f"they have the key of ledger {ledger_id}")


class KnownLedgers:
    """The known ledgers. All sources are read once, before the entries."""

    def __init__(self, ask_others: AskOthers) -> None:
        self._ask_others = ask_others
        self._headers: dict[int, LedgerIndex] = {}
        self._journaled: dict[int, LedgerIndex] = {}  # with a key record
        self._replayed_ids: set[int] = (
            set()
        )  # of these, those that a start replays from their first record
        self._is_journal_whole = True
        self.has_lost_headers = False
        self.named_ids: set[int] = set()  # in files and journal
        self.fenced_ids: set[int] = set()  # because their fences are not known

    def read_flush_file(self, files: FileSystem, directory: str) -> None:
        """Record the headers of a flush that a crash interrupted."""
        for ledger_id, parts in FlushFile(files, directory).read():
            self.named_ids.add(ledger_id)
            for part in parts:
                if part.page_no == HEADER_PAGE:
                    header = decode_header(bytes(part.data), ledger_id, "flush file")
                    self._headers[ledger_id] = header

    def read_index(self, files: FileSystem, root: str, reader: IndexReader) -> None:
        """Record the headers of index files; those of the flush file are in them by now."""
        for ledger_id in ledger_ids(files, root):
            self.named_ids.add(ledger_id)
            try:
                header = reader.read_header(ledger_id)
            except CorruptRecordError:
                self.has_lost_headers = True
                continue
            assert header is not None, "the file was listed, and no other thread is at work"
            self._headers[ledger_id] = header

    def read_journal(
        self, files: FileSystem, directory: str, owner: bytes, mark: JournalPosition
    ) -> None:
        """Record every whole record of a journal; a start replays those after ``mark``.

        Raises:
            CookieMismatchError: the journal is another bookie's.
        """
        before: DecodedRecord | None = None
        for segment_id in segment_ids(files, directory):
            with SegmentReader(files, directory, segment_id, owner) as reader:
                offset = SEGMENT_HEADER_SIZE
                while (decoded := reader.next_record(offset)) is not None:
                    if before is not None and not _is_next(before, decoded):
                        self._is_journal_whole = False
                    self._take(decoded.record, is_replayed=decoded.sequence > mark.sequence)
                    before, offset = decoded, decoded.end_offset

    def miss_a_journal(self) -> None:
        """Record that a journal is missing, which may have had fences."""
        self._is_journal_whole = False

    def header_of(self, ledger_id: int) -> LedgerIndex | None:
        """Return the header of a ledger in the old index."""
        return self._headers.get(ledger_id)

    def is_told_whole(self, ledger_id: int) -> bool:
        """Return whether the old index, or the replay of a start, has every entry of a ledger."""
        return ledger_id in self._headers or ledger_id in self._replayed_ids

    def is_replayed(self, ledger_id: int) -> bool:
        """Return whether no index has a ledger, and a start replays it from its first record."""
        return ledger_id in self._replayed_ids and ledger_id not in self._headers

    def new_header(self, ledger_id: int) -> LedgerIndex | None:
        """Return a new header, without pages; ``None`` for a deleted ledger.

        Raises:
            ZbkError: the ledger's key is not known.
        """
        told = self._headers.get(ledger_id) or self._journaled.get(ledger_id)
        if told is not None:
            header = LedgerIndex(ledger_id, told.ledger_key, told.ledger_type)
            header.is_fenced = told.is_fenced
            header.explicit_lac = told.explicit_lac
            header.last_add_synced = told.last_add_synced
            if ledger_id in self._headers or self._is_journal_whole:
                return header
        else:
            secret = self._ask_others(ledger_id)
            if secret is None:
                return None
            header = LedgerIndex(ledger_id, secret.ledger_key, secret.ledger_type)
        header.is_fenced = True
        self.fenced_ids.add(ledger_id)
        return header

    def _take(self, record: JournalRecord, *, is_replayed: bool) -> None:
        if isinstance(record, SyncedRecord):
            return
        ledger_id = (
            record.batch.ledger_id if isinstance(record, EntriesRecord) else record.ledger_id
        )
        self.named_ids.add(ledger_id)
        if isinstance(record, LedgerKeyRecord):
            header = LedgerIndex(ledger_id, record.ledger_key, record.ledger_type)
            self._journaled.setdefault(ledger_id, header)
            if is_replayed:
                self._replayed_ids.add(ledger_id)
        told = self._journaled.get(ledger_id)
        if told is not None and isinstance(record, FenceRecord):
            told.is_fenced = True
        if told is not None and isinstance(record, ExplicitLacRecord):
            told.explicit_lac = max(told.explicit_lac, record.lac)


def _is_next(before: DecodedRecord, decoded: DecodedRecord) -> bool:
    return decoded.sequence == before.sequence + 1 and decoded.previous == before.checksum
