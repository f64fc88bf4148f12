"""The batches that a writer keeps in memory, and who still has to answer them.

A batch is kept while it is not acknowledged by an ack quorum, and then while some live slot has
not answered it. There is a limit for the first, the *window*, and a larger one for both together,
the *backlog*: a bookie that is slower than the ack quorum, by the time of an fsync or so, holds
nothing up, and one that stays behind does, before its queue grows until it fails. A slot that is
down holds nothing back; when it comes up again it gets the batches that are not acknowledged.

A *laggard* is a slot that alone leaves no room: it has not answered a batch for long, and
every other slot has answered all that is half as old.
"""

from collections import deque

from zbk.protocol.batch_encoder import Encoded
from zbk.protocol.entry_batch import EntryBatch
from zbk.protocol.writer_events import AckedTicket, WriterLimits


class WriteBatch:
    """One batch in the window."""

    __slots__ = ("awaited_count", "encoded", "entry_ids", "is_acked", "pushed_ms", "tickets")

    def __init__(
        self, entry_ids: range, encoded: Encoded, tickets: list[AckedTicket], pushed_ms: int
    ) -> None:
        self.entry_ids = entry_ids
        self.pushed_ms = pushed_ms
        self.encoded = encoded
        self.tickets = tickets  # appends that are done with this batch
        self.awaited_count = 0  # live slots that got it and have not answered
        self.is_acked = False


class WriteWindow:
    """Batches by first id, and for each slot those that it has not answered.

    Invariants, checked in ``_check``:
      * ``size`` is the sum over the batches kept, and ``unacked`` are the newest of them;
      * ``unacked_size`` is the sum over these;
      * a batch is kept exactly while it is not acked or awaited by some slot.
    """

    def __init__(self, slot_count: int, limits: WriterLimits) -> None:
        self._size_max = limits.window_size
        self._count_max = limits.window_count
        self._backlog_size_max = max(limits.backlog_size, limits.window_size)
        self._backlog_count_max = max(limits.backlog_count, limits.window_count)
        self._size = 0
        self._unacked_size = 0
        self._batches: dict[int, WriteBatch] = {}
        self._unacked: deque[WriteBatch] = deque()
        self._outstanding: list[dict[int, WriteBatch]] = [{} for _ in range(slot_count)]
        self._up_ms = [0] * slot_count  # what was pushed before it waits since then

    def __len__(self) -> int:
        """Return the number of batches kept."""
        return len(self._batches)

    @property
    def size(self) -> int:
        """Bytes of the batches kept."""
        return self._size

    @property
    def has_room(self) -> bool:
        """True when one more batch may be sent."""
        return (
            self._unacked_size < self._size_max
            and len(self._unacked) < self._count_max
            and self._size < self._backlog_size_max
            and len(self._batches) < self._backlog_count_max
        )

    @property
    def newest_unacked(self) -> WriteBatch | None:
        """The last batch that is not acknowledged."""
        return self._unacked[-1] if self._unacked else None

    def add(self, batch: WriteBatch) -> None:
        """Keep a new batch."""
        self._batches[batch.entry_ids.start] = batch
        self._unacked.append(batch)
        self._size += batch.encoded.size
        self._unacked_size += batch.encoded.size

    def sent(self, slot: int, first: int) -> EntryBatch | None:
        """Note that the batch from entry ``first`` on goes to a slot; return the slot's part."""
        batch = self._batches[first]
        part = batch.encoded.parts[slot]
        if part is not None:
            assert part.first_entry_id not in self._outstanding[slot], "sent and not answered yet"
            self._outstanding[slot][part.first_entry_id] = batch
            batch.awaited_count += 1
        return part

    def up(self, slot: int, now_ms: int) -> None:
        """Note that a slot came up: only from now on can it answer."""
        self._up_ms[slot] = now_ms

    def laggard(self, now_ms: int, slow_ms: int) -> int | None:
        """Return the slot that alone has left no room for ``slow_ms``, if there is one."""
        if self.has_room:
            return None
        waits_ms = [self._waited_ms(slot, now_ms) for slot in range(len(self._outstanding))]
        slowest_ms = max(waits_ms)
        quick_count = sum(2 * waited_ms < slow_ms for waited_ms in waits_ms)
        is_alone = slowest_ms >= slow_ms and quick_count == len(waits_ms) - 1
        return waits_ms.index(slowest_ms) if is_alone else None

    def is_awaited(self, slot: int, part_first: int) -> bool:
        """Tell whether a slot has to answer the batch that begins, for it, with ``part_first``."""
        return part_first in self._outstanding[slot]

    def answered(self, slot: int, part_first: int) -> WriteBatch | None:
        """Note a slot's answer; return the batch, or ``None`` for late news."""
        batch = self._outstanding[slot].pop(part_first, None)
        if batch is not None:
            self._drop_awaited(batch)
        return batch

    def lost(self, slot: int) -> None:
        """Note that a slot will answer nothing of what it got."""
        for batch in self._outstanding[slot].values():
            self._drop_awaited(batch)
        self._outstanding[slot].clear()
        self._check()

    def acked_until(self, last_entry_id: int) -> list[WriteBatch]:
        """Note that everything up to ``last_entry_id`` is acknowledged; return its batches."""
        acked = []
        while self._unacked and self._unacked[0].entry_ids.stop <= last_entry_id + 1:
            batch = self._unacked.popleft()
            batch.is_acked = True
            self._unacked_size -= batch.encoded.size
            if not batch.awaited_count:
                self._forget(batch)
            acked.append(batch)
        self._check()
        return acked

    def drain(self) -> list[WriteBatch]:
        """Forget everything; return the batches that were not acknowledged."""
        unacked = list(self._unacked)
        self._unacked.clear()
        self._batches.clear()
        self._size = self._unacked_size = 0
        for outstanding in self._outstanding:
            outstanding.clear()
        return unacked

    def _waited_ms(self, slot: int, now_ms: int) -> int:
        oldest = next(iter(self._outstanding[slot].values()), None)
        return 0 if oldest is None else now_ms - max(oldest.pushed_ms, self._up_ms[slot])

    def _drop_awaited(self, batch: WriteBatch) -> None:
        batch.awaited_count -= 1
        if batch.is_acked and not batch.awaited_count:
            self._forget(batch)

    def _forget(self, batch: WriteBatch) -> None:
        del self._batches[batch.entry_ids.start]
        self._size -= batch.encoded.size

    def _check(self) -> None:
        assert len(self._unacked) <= len(self._batches)
        assert 0 <= self._unacked_size <= self._size
        if not self._unacked:
            assert self._unacked_size == 0, "an empty window takes no memory"
        if not self._batches:
            assert self._size == 0, "an empty window takes no memory"
            assert not any(self._outstanding), "nothing kept, nothing awaited"
