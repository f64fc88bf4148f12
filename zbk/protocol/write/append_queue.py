"""Appends that wait for a place in a batch, in order.

A batch takes from the front of the queue what fits: whole appends as long as they do, or the next
part of one that is larger than a batch. Ids follow from the order alone, so each append knows its
first id as soon as it is queued.

The queue has no limit of its own: the caller counts the bytes and waits (``WriterLimits``).
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import add, itemgetter
from typing import Final

import msgspec

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.events import AckedTicket, Ticket

_TICKET: Final = itemgetter(0)
_PAYLOADS: Final = itemgetter(1)


class Taken(msgspec.Struct, frozen=True, gc=False):
    """The content of one batch.

    ``tickets`` are the appends that complete with the acknowledgement of the batch. Without
    payloads they are empty appends, which complete when everything before them has.
    """

    payloads: list[bytes]
    tickets: list[AckedTicket]


class AppendQueue:
    """A queue of appends that is emptied batch by batch.

    ``waiting`` are those that wait, at least in part, and ``count`` is the number of entries added,
    ever. Others only read them.

    Invariants, checked in ``_check``:
      * ids are given out densely: those taken, then those queued, up to ``last_entry_id``;
      * only an append that still waits, the first one, may have been taken in part.
    """

    __slots__ = (
        "_count_max", "_offset", "_overhead_size", "_size_max", "_taken_count", "count", "waiting",
    )  # fmt: skip

    def __init__(self, *, entry_overhead_size: int, size_max: int, count_max: int) -> None:
        self._overhead_size = entry_overhead_size  # bytes that encoding adds to a payload
        self._size_max = size_max
        self._count_max = count_max
        self.waiting: list[tuple[Ticket, Sequence[bytes]]] = []  # an empty deque takes 600 bytes
        self._offset = 0  # payloads of the first append that were taken
        self._taken_count = 0  # entries taken, ever
        self.count = 0  # entries added, ever

    @property
    def last_entry_id(self) -> int:
        """The id that the last queued entry has or will get; -1 before the first."""
        return self.count + NO_ENTRY

    def add(self, appends: Sequence[tuple[Ticket, Sequence[bytes]]]) -> None:
        """Queue appends, each of some payloads."""
        self.waiting.extend(appends)
        self.count += sum(map(len, map(_PAYLOADS, appends)))

    def take(self) -> Taken:
        """Remove the content of the next batch: at least one append, or one entry of it.

        Whole appends as far as they fit; or else a part of the first one. A payload larger than
        a batch is taken alone.
        """
        waiting = self.waiting
        assert waiting, "there is something to take"
        if len(waiting) == 1 and not self._offset and len(waiting[0][1]) == 1:
            ticket, payloads = waiting.pop()  # one entry, as a quiet ledger has
            first = self._taken_count
            self._taken_count = first + 1
            return Taken([payloads[0]], [(ticket, first, 1)])
        taken = Taken([], [])
        if not self._offset:
            self._take_single(taken)
            if not taken.tickets:
                self._take_whole(taken)
        if not taken.tickets:
            taken = self._take_part()
        self._check()
        return taken

    def _take_single(self, taken: Taken) -> None:
        """Remove leading appends of one entry each: there may be thousands, so all is done in C."""
        items = self.waiting
        if len(items) == 1 or len(items[0][1]) != 1 or len(items[1][1]) != 1:
            return
        some = items[: self._count_max]
        counts = list(map(len, map(_PAYLOADS, some)))
        if counts.count(1) < len(counts):
            del some[next(at for at, count in enumerate(counts) if count != 1) :]
        payloads = list(chain.from_iterable(map(_PAYLOADS, some)))
        entry_sizes = map(add, map(len, payloads), repeat(self._overhead_size))
        fitting_count = bisect_right(list(accumulate(entry_sizes)), self._size_max)
        del some[fitting_count:]
        first = self._taken_count
        taken.payloads.extend(payloads[:fitting_count])
        ids = range(first, first + fitting_count)
        taken.tickets.extend(zip(map(_TICKET, some), ids, repeat(1), strict=False))
        self._taken_count += fitting_count
        del items[:fitting_count]

    def _take_whole(self, taken: Taken) -> None:
        items, payloads, tickets = self.waiting, taken.payloads, taken.tickets
        room_count, room_size = self._count_max, self._size_max
        first = self._taken_count
        for ticket, entries in items:
            count = len(entries)
            if count > room_count:
                break
            size = sum(map(len, entries)) + count * self._overhead_size
            room_count -= count
            room_size -= size
            if room_size < 0:
                break
            payloads += entries
            tickets.append((ticket, first, count))
            first += count
        del items[: len(tickets)]
        self._taken_count = first

    def _take_part(self) -> Taken:
        ticket, entries = self.waiting[0]
        part = entries[self._offset : self._offset + self._count_max]
        entry_sizes = map(add, map(len, part), repeat(self._overhead_size))
        fitting_count = max(1, bisect_right(list(accumulate(entry_sizes)), self._size_max))
        part = part[:fitting_count]
        self._offset += len(part)
        self._taken_count += len(part)
        if self._offset < len(entries):
            return Taken(list(part), [])
        first = self._taken_count - len(entries)
        del self.waiting[0]
        self._offset = 0
        return Taken(list(part), [(ticket, first, len(entries))])

    def drain(self) -> list[Ticket]:
        """Forget everything that waits and return its tickets."""
        tickets = [ticket for ticket, _payloads in self.waiting]
        self.waiting.clear()
        self._offset = 0
        return tickets

    def _check(self) -> None:
        waiting_count = len(self.waiting[0][1]) - self._offset if self.waiting else 0
        assert self._taken_count + waiting_count <= self.count, "ids are given out once"
        assert self.waiting or not self._offset
