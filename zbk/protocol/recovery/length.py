"""The length of a ledger in which a recovery found no entry after the LAC.

Each entry holds the bytes of payload up to and including itself, so the last entry is read, which
may lie in the fragment before the last one. The lengths that bookies return with their LAC are no
source: the LAC may come from the start of the last fragment, of which they know nothing (B45). The
read also proves that the entry at the LAC exists: a LAC that is too high never closes a ledger. At
the end of the fragment before the last one, that is certain; if the writer recorded the length
there in the metadata (``length_before``), nothing is read, because the bookies of earlier fragments
may all be gone.

A read that fails at the whole write set is repeated after a rest, a bounded number of times.
"""

from zbk.errors import ZbkError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry import stored_length
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read import range_read as reader
from zbk.protocol.recovery.events import RecoveryLimits, SendRead
from zbk.protocol.recovery.retries import SlotRetries


class LengthRead:
    """The read of the last entry of a ledger, ``entry_id``, for its length.

    ``first_read_id`` is the first number for its reads: no earlier read of the recovery has it.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        entry_id: int,
        first_read_id: int,
        digest: DigestFunction,
        limits: RecoveryLimits,
    ) -> None:
        self._metadata = metadata
        self._entry_id = entry_id
        self._bookies = metadata.fragment_of(entry_id)[0].bookies
        self._digest = digest
        self._first_read_id = self._next_read_id = first_read_id
        self._sent: dict[int, tuple[int, int]] = {}  # slot and the reader's own id, by read
        self._retries = SlotRetries(1, limits)  # of the read as a whole
        self._core: reader.RangeRead | None = None
        self.length: int | None = None

    @property
    def is_hopeless(self) -> bool:
        """True when the entry cannot be read."""
        return self._retries.is_given_up(0)

    def why_hopeless(self) -> str:
        """Return why the entry cannot be read, as part of an error text."""
        return (
            f"its last entry, {self._entry_id}, has its length and cannot be read; "
            + self._retries.text([0])
        )

    def is_mine(self, read_id: int) -> bool:
        """Return whether a read belongs to this step."""
        return read_id >= self._first_read_id

    def due(self, now_ms: int) -> list[SendRead]:
        """Begin the read, unless it is under way or rests; return the requests."""
        if self._core is not None or not self._retries.is_ready(0, now_ms):
            return []
        self._core = reader.RangeRead(
            self._metadata, self._entry_id, self._entry_id, digest=self._digest
        )
        return self._handle(self._core, reader.ReadStarted(), now_ms)

    def answered(self, read_id: int, body: bytes | ZbkError, now_ms: int) -> list[SendRead]:
        """Handle an answer; return further requests."""
        slot, own_id = self._sent.pop(read_id, (0, None))
        if self._core is None or own_id is None:
            return []
        return self._handle(self._core, reader.ReadAnswered(slot, own_id, body), now_ms)

    def _handle(self, core: reader.RangeRead, event: reader.Event, now_ms: int) -> list[SendRead]:
        reads = []
        for effect in core.handle(event, now_ms):
            match effect:
                case reader.SendRead():
                    self._sent[self._next_read_id] = (effect.slot, effect.read_id)
                    bookie_id = self._bookies[effect.slot]
                    is_checked = self._metadata.digest_type is DigestType.NONE
                    ids = effect.entry_ids
                    reads.append(SendRead(self._next_read_id, bookie_id, ids, is_checked))
                    self._next_read_id += 1
                case reader.Delivered():
                    self.length = stored_length(effect.batch.encoded)
                case reader.ReadFailed():
                    self._core = None
                    self._sent.clear()
                    self._retries.failed(0, effect.error, now_ms)
        return reads
