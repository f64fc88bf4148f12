"""The ends of acknowledged batches, with the ledger's length there.

The LAC may lag behind what is acknowledged (on VD ledgers), and a ledger is closed at its LAC with
its exact length there. So for each acknowledged batch beyond the LAC its last id and the ledger's
length are kept. The LAC is only ever moved to such an end, or stays where it is: between two ends
the length is not known, and a lower LAC is always true as well.
"""

from bisect import bisect_right
from operator import itemgetter
from typing import Final

from zbk.protocol.entry.words import NO_ENTRY

_ID: Final = itemgetter(0)


class BatchEnds:
    """The ends of acknowledged batches from the LAC on.

    ``lac`` is the highest end up to which everything is durable (-1 is none; it never goes down),
    ``length`` the bytes of payload up to and with it, ``beyond`` the last id, the length, and the
    time of sending of each acknowledged batch beyond it. Others only read them.

    Invariant, checked in ``_check``: ends and lengths beyond the LAC grow strictly in ids, and
    never shrink in length.
    """

    __slots__ = (
        "beyond",
        "lac",
        "length",
    )

    def __init__(self) -> None:
        self.beyond: list[tuple[int, int, int]] = []  # an empty deque takes 600 bytes
        self.lac = NO_ENTRY
        self.length = 0

    @property
    def unsynced(self) -> tuple[int, int] | None:
        """Bytes of payload beyond the LAC, and when the first of them were sent; ``None``: none.

        Any thread may read it, and may see the state of a moment ago.
        """
        length, first, last = self.length, self.beyond[:1], self.beyond[-1:]
        return (last[0][1] - length, first[0][2]) if first and last else None

    def acked(self, last_entry_id: int, length: int, sent_ms: int) -> None:
        """Record the next acknowledged batch, which ends with this id and length of the ledger."""
        before_id, before_length, _ = (
            self.beyond[-1] if self.beyond else (self.lac, self.length, sent_ms)
        )
        assert last_entry_id > before_id, "batches are acknowledged in order"
        assert length >= before_length, "a ledger only gets longer"
        self.beyond.append((last_entry_id, length, sent_ms))

    def advance(self, durable_id: int) -> bool:
        """Move the LAC to the last end not after ``durable_id``; return whether it moved."""
        beyond = self.beyond
        if not beyond or beyond[0][0] > durable_id:
            return False
        count = bisect_right(beyond, durable_id, key=_ID)
        self.lac, self.length, _ = beyond[count - 1]
        del beyond[:count]
        return True
