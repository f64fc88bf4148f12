"""From payloads to the batches that go to the slots.

Each entry is encoded once. When every slot holds every entry (E = Qw) there is one batch object
for all of them; on a striped ledger each slot gets a batch of the entries that it holds.
"""

from collections.abc import Sequence

import msgspec

from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry import encode_entries, entry_size
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """One batch, as it is sent to the slots."""

    parts: tuple[EntryBatch | None, ...]  # by slot; None: the slot holds none of these entries
    size: int  # bytes of all different parts
    length: int  # the ledger's length after the last entry


class BatchEncoder:
    """Encodes the entries of one ledger."""

    __slots__ = (
        "_digest",
        "_digest_type",
        "_quorum",
        "ledger_id",
        "overhead_size",
    )

    def __init__(
        self, ledger_id: int, quorum: Quorum, digest_type: DigestType, digest: DigestFunction
    ) -> None:
        self.ledger_id = ledger_id
        self._quorum = quorum
        self._digest_type = digest_type
        self._digest = digest
        self.overhead_size = entry_size(0, digest_type)  # bytes that encoding adds to a payload

    def encode(self, first: int, lac: int, length: int, payloads: Sequence[bytes]) -> Encoded:
        """Return the batch of entries from ``first`` on; ``length`` is the ledger's before it."""
        entry_ids = range(first, first + len(payloads))
        body, sizes = encode_entries(
            self.ledger_id, entry_ids, lac, length, payloads, self._digest_type, self._digest
        )
        batch = EntryBatch.of(self.ledger_id, entry_ids, sizes, body)
        length += len(body) - len(sizes) * self.overhead_size
        if self._quorum.is_striped:
            parts = tuple(self._part(batch, slot) for slot in range(self._quorum.ensemble_size))
            return Encoded(parts, sum(part.size for part in parts if part is not None), length)
        return Encoded((batch,) * self._quorum.ensemble_size, batch.size, length)

    def _part(self, batch: EntryBatch, slot: int) -> EntryBatch | None:
        held = self._quorum.entry_ids(slot, batch.first_entry_id, batch.last_entry_id)
        return batch.only(held) if held else None
