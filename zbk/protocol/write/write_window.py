"""The batches that a writer keeps in memory, and which slots still lack them.

A batch is kept while it is not acknowledged by an ack quorum, and then while some slot has not
answered it. Where a restart of a bookie can take what it acknowledged, a batch is also kept until
it is durable: then it is *unsynced*, and any slot can be owed it again. A live slot was sent the
batch, which is *outstanding* there; a slot that is down is *owed* it, and gets it when it comes up:
the same bookie again, or another one in its place.

There is a limit for the batches that are not acknowledged, the *window*, and a larger one, the
*backlog*, for all but those that are kept only because they are unsynced (``WritePath`` limits
these). A bookie that is slower than the ack quorum, by the time of an fsync or so, holds nothing
up, and one that stays behind does, before its queue grows until it fails. A slot that is down holds
nothing up: where the backlog has no room left, the oldest durable batches that only such slots lack
are *given up*, and are missing on their bookies from then on.

The ids of a striped batch's parts name it: an answer is matched by the first id that its slot was
sent. The slot's epoch tells the answers of a replaced bookie from those of its successor.

A *laggard* is a slot that alone leaves no room: it has not answered a batch for long, and
every other slot has answered all that is half as old.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

import msgspec

from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.write.batch_encoder import Encoded
from zbk.protocol.write.events import AckedTicket
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.unsynced_total import UnsyncedPart

Missed: TypeAlias = tuple[int, range]
"""A slot, and the ids of a batch that its bookie will not get."""


def _last_id(batch: "WriteBatch") -> int:
    return batch.entry_ids[-1]


class WriteBatch(msgspec.Struct, eq=False, gc=False):
    """One batch in the window."""

    entry_ids: range
    encoded: Encoded
    tickets: list[AckedTicket]  # appends that are done with this batch
    pushed_ms: int
    awaited_count: int = 0  # live slots that got it and have not answered
    owed_count: int = 0  # slots that are down and have not answered it
    is_acked: bool = False
    is_durable: bool = False


class WriteWindow:
    """Batches by first id, and for each slot those that it has not answered.

    ``batches`` are all that are kept; ``unacked`` those that no ack quorum has acknowledged, and
    ``unsynced`` those before them that are acked and not durable, both in order; ``late`` those
    that are durable and only owed. Others only read them.

    Invariants, checked in ``_check``:
      * ``unacked`` are the newest of the batches kept;
      * ``unacked_size`` is the sum over these, ``unsynced_size`` that over ``unsynced``;
      * a batch is kept exactly while it is not acked, or not durable, or awaited by, or owed to,
        some slot;
      * ``late_size`` is the sum over ``late``, ``quiet_size`` that over the unsynced batches that
        no slot has to answer;
      * no slot has batches outstanding and is owed others.
    """

    __slots__ = (
        "_backlog_count_max", "_backlog_size_max", "_count_max", "_late_size",
        "_outstanding", "_owed", "_quiet_count", "_quiet_size", "_size", "_size_max",
        "_unacked_size", "_unsynced_part", "_up_ms", "batches", "late", "unacked", "unsynced",
        "unsynced_size",
    )  # fmt: skip

    def __init__(
        self, slot_count: int, limits: WriterLimits, unsynced_part: UnsyncedPart | None
    ) -> None:
        """``unsynced_part`` counts what is not durable; ``None``: what is acked is durable."""
        self._unsynced_part = unsynced_part
        self._size_max = limits.window_size
        self._count_max = limits.window_count
        self._backlog_size_max = max(limits.backlog_size, limits.window_size)
        self._backlog_count_max = max(limits.backlog_count, limits.window_count)
        self._size = 0
        self._unacked_size = 0
        self.batches: dict[int, WriteBatch] = {}
        self.unacked: list[WriteBatch] = []  # few: an empty deque takes 600 bytes
        self.unsynced: list[WriteBatch] = []
        self.unsynced_size = 0  # bytes
        self._quiet_size = self._quiet_count = 0  # of the unsynced that no live slot has to answer
        self.late: dict[int, WriteBatch] = {}  # durable, and no live slot has to answer them
        self._late_size = 0
        self._outstanding: list[dict[int, WriteBatch]] = [{} for _ in range(slot_count)]
        self._owed: list[dict[int, WriteBatch]] = [{} for _ in range(slot_count)]
        self._up_ms = [0] * slot_count  # what was pushed before it waits since then

    @property
    def size(self) -> int:
        """Bytes of all batches kept."""
        return self._size

    @property
    def backlog_size(self) -> int:
        """Bytes of the batches that some slot has not answered, or no ack quorum has."""
        return self._size - self._quiet_size

    @property
    def volatile_size(self) -> int:
        """Bytes of the batches that are not acked, or not durable."""
        return self.unsynced_size + self._unacked_size

    @property
    def is_answered(self) -> bool:
        """True when all is acked and every live slot has answered everything."""
        return not self.unacked and not any(self._outstanding)

    @property
    def has_room(self) -> bool:
        """True when one more batch may be sent, if what is late is given up for it."""
        return (
            self._unacked_size < self._size_max
            and len(self.unacked) < self._count_max
            and self.backlog_size - self._late_size < self._backlog_size_max
            and self._backlog_count - len(self.late) < self._backlog_count_max
        )

    @property
    def is_full(self) -> bool:
        """True when something must be given up before one more batch is kept."""
        return bool(self.late) and (
            self.backlog_size >= self._backlog_size_max
            or self._backlog_count >= self._backlog_count_max
        )

    @property
    def _backlog_count(self) -> int:
        return len(self.batches) - self._quiet_count

    def add(self, batch: WriteBatch) -> None:
        """Keep a new batch."""
        self.batches[batch.entry_ids.start] = batch
        self.unacked.append(batch)
        self._size += batch.encoded.size
        self._unacked_size += batch.encoded.size
        if self._unsynced_part is not None:
            self._unsynced_part.size += batch.encoded.size

    def sent(self, slots: Iterable[int], first: int) -> list[tuple[int, EntryBatch]]:
        """Record that the batch from entry ``first`` on goes to slots; return the part of each."""
        batch = self.batches[first]
        sent = []
        for slot in slots:
            part = batch.encoded.parts[slot]
            if part is not None:
                outstanding, part_first = self._outstanding[slot], part.entry_ids[0]
                assert part_first not in outstanding, "sent and not answered yet"
                outstanding[part_first] = batch
                sent.append((slot, part))
        if sent and batch.is_acked and not batch.awaited_count:
            self._unrest(batch)
        batch.awaited_count += len(sent)
        return sent

    def owe(self, slot: int, first: int) -> None:
        """Record that a slot that is down lacks its part of the batch from entry ``first`` on."""
        batch = self.batches[first]
        part = batch.encoded.parts[slot]
        if part is not None and part.first_entry_id not in self._owed[slot]:
            self._owed[slot][part.first_entry_id] = batch
            batch.owed_count += 1

    def is_owed(self, slot: int) -> bool:
        """Return whether a slot that is down lacks anything that is kept."""
        return bool(self._owed[slot])

    def up(self, slot: int, now_ms: int) -> list[int]:
        """Record that a slot came up; return the first ids of the batches it is owed, in order.

        Only from now on can it answer. Each of them is to be ``sent`` now.
        """
        self._up_ms[slot] = now_ms
        owed = sorted(self._owed[slot].items())
        self._owed[slot].clear()
        for _part_first, batch in owed:
            batch.owed_count -= 1
        return [batch.entry_ids.start for _part_first, batch in owed]

    def give_up(self) -> list[Missed]:
        """Forget the oldest batch that only slots that are down lack; return which slots."""
        first = next(iter(self.late))
        missed = list(self.lacking(self.late[first]))
        for slot, _entry_ids in missed:
            self._settle(slot, self.late[first])
        return missed

    def replaced(self, slot: int) -> list[range]:
        """Record that there is another bookie; return the ids of what the old one did not answer.

        The new one is down, and is owed every batch that is not durable.
        """
        self.lost(slot)
        owed = list(self._owed[slot].values())
        for batch in owed:
            self._settle(slot, batch)
        self.owe_unsynced(slot)
        for batch in self.unacked:
            self.owe(slot, batch.entry_ids.start)
        return [batch.entry_ids for batch in owed]

    def owe_unsynced(self, slot: int) -> None:
        """Record that a slot that is down lacks every batch that is acked and not durable."""
        for batch in self.unsynced:
            self.owe(slot, batch.entry_ids.start)

    def answered_until(self, slot: int, last_entry_id: int) -> int:
        """Return the entry up to which a live slot has answered all, at most the stated one."""
        first = min(self._outstanding[slot], default=last_entry_id + 1)
        return min(first - 1, last_entry_id)

    def unsynced_between(self, slot: int, first: int, last: int) -> list[int]:
        """Return the first ids of the unsynced batches with entries of a slot in a range."""
        return [
            batch.entry_ids.start
            for batch in self.unsynced
            if (part := batch.encoded.parts[slot]) is not None
            and part.last_entry_id >= first
            and part.first_entry_id <= last
        ]

    def lacking(self, batch: WriteBatch) -> Iterator[Missed]:
        """Yield the slots, live or not, that have not answered their part of a kept batch."""
        for slot, part in enumerate(batch.encoded.parts):
            if part is not None and (
                part.first_entry_id in self._owed[slot]
                or part.first_entry_id in self._outstanding[slot]
            ):
                yield slot, batch.entry_ids

    def holders(self, batch: WriteBatch, slots: Collection[int]) -> set[int]:
        """Return those of some slots that have answered their part of a kept batch."""
        return set(slots).difference(slot for slot, _entry_ids in self.lacking(batch))

    def unsynced_lacked_by(self, slots: Collection[int]) -> list[WriteBatch]:
        """Return the unsynced batches that any of these slots has not answered, in order."""
        waiting = [one for slot in slots for one in (self._outstanding[slot], self._owed[slot])]
        lacked = {one.entry_ids.start: one for batches in waiting for one in batches.values()}
        found = [lacked[first] for first in sorted(lacked)]
        return [batch for batch in found if batch.is_acked and not batch.is_durable]

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
        """Return whether a slot has to answer the batch whose part begins with ``part_first``."""
        return part_first in self._outstanding[slot]

    def answered(self, slot: int, part_first: int) -> WriteBatch | None:
        """Record a slot's answer; return the batch, or ``None`` for late news."""
        batch = self._outstanding[slot].pop(part_first, None)
        if batch is not None:
            batch.awaited_count -= 1
            if batch.is_acked and not batch.awaited_count:
                self._rest(batch)
        return batch

    def lost(self, slot: int) -> None:
        """Record that a slot will answer nothing of what it got: it is owed that."""
        for batch in self._outstanding[slot].values():
            self.owe(slot, batch.entry_ids.start)
            batch.awaited_count -= 1
            if batch.is_acked and not batch.awaited_count:
                self._rest(batch)
        self._outstanding[slot].clear()
        self._check()

    def acked_until(self, last_entry_id: int) -> list[WriteBatch]:
        """Record that everything up to ``last_entry_id`` is acknowledged; return its batches."""
        acked = []
        while self.unacked and self.unacked[0].entry_ids.stop <= last_entry_id + 1:
            batch = self.unacked.pop(0)
            batch.is_acked = True
            self._unacked_size -= batch.encoded.size
            if self._unsynced_part is None:
                batch.is_durable = True
            else:
                self.unsynced.append(batch)
                self.unsynced_size += batch.encoded.size
            if not batch.awaited_count:
                self._rest(batch)
            acked.append(batch)
        self._check()
        return acked

    def durable_until(self, last_entry_id: int) -> None:
        """Record that everything up to ``last_entry_id`` is durable."""
        count = bisect_right(self.unsynced, last_entry_id, key=_last_id)
        part = self._unsynced_part
        assert part is not None, "what is unsynced is counted"
        for batch in self.unsynced[:count]:
            if not batch.awaited_count:
                self._unrest(batch)
            batch.is_durable = True
            self.unsynced_size -= batch.encoded.size
            part.size -= batch.encoded.size
            if not batch.awaited_count:
                self._rest(batch)
        del self.unsynced[:count]
        self._check()

    def shrink(self) -> None:
        """Return the memory of what is empty: a dictionary keeps it after its last item."""
        if not self.batches:
            for emptied in (self.batches, *self._outstanding, *self._owed):
                emptied.clear()

    def missed(self) -> Iterator[Missed]:
        """Yield what slots, live or not, have not answered of the acked batches."""
        for batch in self.batches.values():
            if batch.is_acked:
                yield from self.lacking(batch)

    def drain(self) -> list[WriteBatch]:
        """Forget everything; return the batches that were not acknowledged."""
        unacked = list(self.unacked)
        self.unacked.clear()
        self.batches.clear()
        self.late.clear()
        if self._unsynced_part is not None:
            self._unsynced_part.size -= self.volatile_size
        self.unsynced.clear()
        self._size = self._unacked_size = self._late_size = 0
        self.unsynced_size = self._quiet_size = self._quiet_count = 0
        for waiting in (*self._outstanding, *self._owed):
            waiting.clear()
        return unacked

    def _waited_ms(self, slot: int, now_ms: int) -> int:
        oldest = next(iter(self._outstanding[slot].values()), None)
        return 0 if oldest is None else now_ms - max(oldest.pushed_ms, self._up_ms[slot])

    def _rest(self, batch: WriteBatch) -> None:
        """Keep an acked batch that no live slot has to answer only if it may be needed."""
        first, size = batch.entry_ids.start, batch.encoded.size
        if not batch.is_durable:
            self._quiet_size += size
            self._quiet_count += 1
        elif batch.owed_count:
            self.late[first] = batch
            self._late_size += size
        else:
            del self.batches[first]
            self._size -= size

    def _unrest(self, batch: WriteBatch) -> None:
        """Undo what ``_rest`` did with a batch that it kept."""
        size = batch.encoded.size
        if not batch.is_durable:
            self._quiet_size -= size
            self._quiet_count -= 1
        elif self.late.pop(batch.entry_ids.start, None) is not None:
            self._late_size -= size

    def _settle(self, slot: int, batch: WriteBatch) -> None:
        """Owe a slot nothing more of a batch."""
        part = batch.encoded.parts[slot]
        assert part is not None, "a slot is owed what it holds"
        del self._owed[slot][part.first_entry_id]
        if batch.owed_count == 1 and batch.is_acked and not batch.awaited_count:
            self._unrest(batch)
            batch.owed_count = 0
            self._rest(batch)
        else:
            batch.owed_count -= 1

    def _check(self) -> None:
        assert len(self.unacked) <= len(self.batches)
        assert 0 <= self._unacked_size <= self._size
        assert 0 <= self._late_size <= self._size - self._unacked_size - self.unsynced_size
        assert 0 <= self._quiet_size <= self.unsynced_size
        assert len(self.late) <= len(self.batches) - len(self.unacked) - len(self.unsynced)
        if not self.late:
            assert self._late_size == 0, "nothing late takes no memory"
        if not self.unacked:
            assert self._unacked_size == 0, "an empty window takes no memory"
        if not self.batches:
            assert self._size == 0, "an empty window takes no memory"
            assert not any(self._outstanding), "nothing kept, nothing awaited"
            assert not any(self._owed), "nothing kept, nothing owed"
