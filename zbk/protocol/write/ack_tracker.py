"""The entries that an ack quorum has acknowledged, in order, over ranges of entries.

Words: a *range* is a run of entries that are sent together and acknowledged together. It is *acked*
by a slot when the slot's bookie has stored all entries of the range that belong to the slot;
*complete* when each of its entries was acked by an ack quorum of its write set; *confirmed* when it
and every range before it are complete. A tracker is *held* while the ensemble is being changed:
acks are recorded, but nothing is confirmed. The new fragment starts after the last confirmed entry.
An entry that is confirmed during the change, by acks of a bookie that is being replaced, would
belong to bookies that never received it.

Completeness looks at one bit mask of slots for each write set that occurs in the range: a single
one when E = Qw, at most E when the ledger is striped. So the cost is that of ranges, not entries.

Source: "The BookKeeper protocol", sections Write quorums, Ack quorums, Writing to ledgers; the
revoking of acks follows ``PendingAddOp.unsetSuccessAndSendWriteRequest``.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum

_NOTHING: Final = range(0)


class _Pending(msgspec.Struct, gc=False):
    """One range that is not confirmed."""

    entry_ids: range
    masks: tuple[int, ...]  # the write sets that occur in the range, as bits of slots
    acked: int = 0  # bits of slots
    is_complete: bool = False


class AckTracker:
    """Turn acks of ranges, which come in any order, into entries confirmed in order.

    ``last_acked_id`` is the last confirmed entry; all entries before it are confirmed, and it never
    falls. ``last_pushed_id`` is the last entry pushed. Others only read them.

    Invariants, checked in ``_check``:
      * pending ranges follow each other without a gap, from ``last_acked_id + 1`` on;
      * the first pending range is not complete, unless the tracker is held.

    >>> tracker = AckTracker(Quorum(3, 3, 2))
    >>> tracker.push(10), tracker.push(5)
    (range(0, 10), range(10, 15))
    >>> [tracker.ack(slot, first) for slot, first in ((0, 10), (1, 10), (0, 0), (1, 0))]
    [range(0, 0), range(0, 0), range(0, 0), range(0, 15)]
    """

    __slots__ = (
        "_ack_size", "_is_held", "_masks", "_pending", "last_acked_id", "last_pushed_id",
    )  # fmt: skip

    def __init__(self, quorum: Quorum, last_entry_id: int = NO_ENTRY) -> None:
        masks = [sum(1 << slot for slot in one) for one in quorum.write_sets]
        self._masks = tuple(masks) if quorum.is_striped else (masks[0],)
        self._ack_size = quorum.ack_size
        self.last_acked_id = last_entry_id
        self.last_pushed_id = last_entry_id
        self._pending: dict[int, _Pending] = {}  # by first id, in order
        self._is_held = False

    @property
    def pending_count(self) -> int:
        """Number of entries pushed and not confirmed."""
        return self.last_pushed_id - self.last_acked_id

    def push(self, count: int) -> range:
        """Open a range of the next ``count`` entries and return their ids."""
        assert count >= 1, "a range has at least one entry"
        first = self.last_pushed_id + 1
        size = len(self._masks)
        masks = (
            self._masks
            if count >= size
            else tuple(self._masks[(first + i) % size] for i in range(count))
        )
        pending = self._pending[first] = _Pending(range(first, first + count), masks)
        self.last_pushed_id += count
        return pending.entry_ids

    def ack(self, slot: int, first_entry_id: int) -> range:
        """Record one ack of the range that starts there; return the ids it confirmed, in order.

        Often it confirms nothing. A late ack changes nothing: of a confirmed range, of an unknown
        range, or from a slot that holds nothing of the range.
        """
        pending = self._pending.get(first_entry_id)
        if pending is None:
            return _NOTHING
        pending.acked |= 1 << slot
        if pending.is_complete or not self._has_quorum(pending.masks, pending.acked):
            return _NOTHING
        pending.is_complete = True
        return _NOTHING if self._is_held else self._confirm()

    def hold(self) -> None:
        """Confirm nothing until ``release``."""
        self._is_held = True

    def confirm_until(self, last_entry_id: int) -> range:
        """Confirm the ranges that end at or before an entry, whatever was acked and if held.

        Others found out that an ack quorum has them. Return the ids that this confirms, in order.
        """
        first = end = self.last_acked_id + 1
        while (head := self._pending.get(end)) is not None and head.entry_ids[-1] <= last_entry_id:
            del self._pending[end]
            end = head.entry_ids.stop
        self.last_acked_id = end - 1
        return range(first, end)

    def release(self) -> range:
        """Continue; return the ids that this confirms, in order."""
        self._is_held = False
        return self._confirm()

    def revoke(self, slot: int) -> list[range]:
        """Forget the acks of a slot; return the pending ranges to send to it again, in order.

        A range that was complete, and waited for one before it, may become incomplete.
        """
        for pending in self._pending.values():
            pending.acked &= ~(1 << slot)
            pending.is_complete = self._has_quorum(pending.masks, pending.acked)
        self._check()
        return list(self.unacked(slot))

    def unacked(self, slot: int) -> Iterator[range]:
        """Yield the pending ranges that the slot holds a part of and has not acked, in order."""
        bit = 1 << slot
        for pending in self._pending.values():
            if not pending.acked & bit and any(mask & bit for mask in pending.masks):
                yield pending.entry_ids

    def is_reachable(self, failed_slots: Collection[int]) -> bool:
        """Return whether every pending range is, or can still become, complete without these slots.

        What a failed slot has acked still counts.
        """
        failed = sum(1 << slot for slot in failed_slots)
        return all(self._has_quorum(p.masks, p.acked | ~failed) for p in self._pending.values())

    def _has_quorum(self, masks: tuple[int, ...], acked: int) -> bool:
        if len(masks) == 1:
            return (acked & masks[0]).bit_count() >= self._ack_size
        return all((acked & mask).bit_count() >= self._ack_size for mask in masks)

    def _confirm(self) -> range:
        first = end = self.last_acked_id + 1
        while (head := self._pending.get(end)) is not None and head.is_complete:
            del self._pending[end]
            end = head.entry_ids.stop
        self.last_acked_id = end - 1
        self._check()
        return range(first, end)

    def _check(self) -> None:
        if self._pending:
            head = self._pending.get(self.last_acked_id + 1)
            assert head is not None, "pending follows the acked"
            assert self._is_held or not head.is_complete, "a complete head must be confirmed"
        else:
            assert self.last_acked_id == self.last_pushed_id, "nothing pending: all is acked"
