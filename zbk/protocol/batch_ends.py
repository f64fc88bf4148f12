"""Where acknowledged batches end, and how long the ledger is there.

The LAC may lag behind what is acknowledged (on VD ledgers), and a ledger is closed at its LAC with
its exact length there. So for each acknowledged batch beyond the LAC its last id and the ledger's
length are kept. The LAC is only ever moved to such an end, or stays where it is: between two ends
the length is not known, and a lower LAC is always true as well.
"""

from collections import deque

from zbk.protocol.words import NO_ENTRY


class BatchEnds:
    """The ends of acknowledged batches from the LAC on.

    Invariant, checked in ``_check``: ends and lengths beyond the LAC grow strictly in ids, and
    never shrink in length.
    """

    def __init__(self) -> None:
        self._beyond: deque[tuple[int, int]] = deque()
        self._lac = NO_ENTRY
        self._length = 0

    def __len__(self) -> int:
        """Return the number of acknowledged batches beyond the LAC."""
        return len(self._beyond)

    @property
    def lac(self) -> int:
        """The highest end up to which everything is durable; -1 is none. Never goes down."""
        return self._lac

    @property
    def length(self) -> int:
        """Bytes of payload up to and with the LAC."""
        return self._length

    def acked(self, last_entry_id: int, length: int) -> None:
        """Note the next acknowledged batch: its last id, and the ledger's length behind it."""
        before_id, before_length = self._beyond[-1] if self._beyond else (self._lac, self._length)
        assert last_entry_id > before_id, "batches are acknowledged in order"
        assert length >= before_length, "a ledger only gets longer"
        self._beyond.append((last_entry_id, length))

    def advance(self, durable_id: int) -> bool:
        """Move the LAC to the last end that is not after ``durable_id``; tell whether it moved."""
        before = self._lac
        while self._beyond and self._beyond[0][0] <= durable_id:
            self._lac, self._length = self._beyond.popleft()
        return self._lac > before
