"""Bookies made of dictionaries, which answer reads and say what they hold."""

from itertools import pairwise

from zbk.client.cluster.requests import Requests
from zbk.errors import EntryUnreadableError, NoSuchEntryError, ZbkError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.transport.events import Reply, Sink
from zbk.wire.codec import decode_ids
from zbk.wire.messages import GetLedgerInfo, LedgerInfo, Message, Read, ReadAnswer

READ_COUNT_MAX = 7
"""Entries in one answer: reads go on."""


class FakeHolders(Requests):
    """The bookies of one closed ledger, each with all entries of its slot."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        assert metadata.last_entry_id is not None
        last = metadata.last_entry_id
        digest = digest_function(metadata.digest_type, b"", metadata.ledger_id)
        self.entries: dict[str, dict[int, bytes]] = {}
        for fragment in metadata.fragments:
            for slot, bookie_id in enumerate(fragment.bookies):
                held = self.entries.setdefault(bookie_id, {})
                for entry_id in metadata.quorum.entry_ids(slot, fragment.first_entry_id, last):
                    held[entry_id], _sizes = encode_entries(
                        metadata.ledger_id,
                        [entry_id],
                        -1,
                        0,
                        [b"payload"],
                        metadata.digest_type,
                        digest,
                    )
        self.errors: dict[str, ZbkError] = {}  # by bookie id: the answer to everything
        self.in_limbo: set[str] = set()
        self.rotten: set[tuple[str, int]] = set()  # what a bookie finds damaged if it looks
        self.range_count_max = 1_000
        self.asked: list[str] = []

    def note_asked(self, bookie_id: str) -> None:
        """Record that a bookie was asked."""
        self.asked.append(bookie_id)

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        """Answer at once."""
        del wait_ms, needs_own_try
        self.note_asked(bookie_id)
        outcome: LedgerInfo | ReadAnswer | ZbkError
        body: tuple[bytes, ...] = ()
        if bookie_id in self.errors:
            outcome = self.errors[bookie_id]
        elif isinstance(request, Read):
            outcome, body = self._read(bookie_id, request, frames)
        else:
            assert isinstance(request, GetLedgerInfo)
            outcome = self._info(bookie_id, request.first_entry_id)
        box.deliver([Reply(bookie_id, key, outcome, body)])

    def _read(
        self, bookie_id: str, request: Read, frames: tuple[bytes, ...]
    ) -> tuple[LedgerInfo | ReadAnswer | ZbkError, tuple[bytes, ...]]:
        wanted = (
            decode_ids(frames[0], 10_000)
            if request.is_striped
            else range(request.first_entry_id, request.last_entry_id + 1)
        )
        held = self.entries[bookie_id]
        found: list[bytes] = []
        for entry_id in wanted[:READ_COUNT_MAX]:
            is_rotten = request.is_checked and (bookie_id, entry_id) in self.rotten
            if is_rotten and not found:
                return EntryUnreadableError(request.ledger_id, entry_id, "its block is damaged"), ()
            if is_rotten or entry_id not in held:
                break
            found.append(held[entry_id])
        if not found:
            return NoSuchEntryError(request.ledger_id, wanted[0]), ()
        return ReadAnswer(request_id=0, count=len(found)), (b"".join(found),)

    def _info(self, bookie_id: str, first_entry_id: int) -> LedgerInfo:
        ids = sorted(one for one in self.entries[bookie_id] if one >= first_entry_id)
        cuts = [0, *(i for i, (a, b) in enumerate(pairwise(ids), 1) if b != a + 1), len(ids)]
        ranges = [(ids[a], ids[b - 1]) for a, b in pairwise(cuts) if a < b]
        left = ranges[self.range_count_max :]
        return LedgerInfo(
            request_id=0,
            is_known=True,
            ranges=ranges[: self.range_count_max],
            next_entry_id=left[0][0] if left else None,
            is_in_limbo=bookie_id in self.in_limbo,
        )
