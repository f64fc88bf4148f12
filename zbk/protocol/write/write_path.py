"""The way of entries through a writer: queued, pushed, acked, durable.

    AppendQueue      appends that wait for a place in a batch
    BatchEncoder     payloads become batches
    WriteWindow      batches in memory, and who has to answer them
    MissingEntries   what bookies will not get from this writer, though it is acknowledged
    AckTracker       which of them an ack quorum has acknowledged, in order
    LacPolicy        what of that is durable; the ledger's level knows
    BatchEnds        the LAC, on ends of batches, with the ledger's length there

It knows nothing of errors, syncs or the end of the ledger: ``WriterCore`` does.

While the ensemble is being changed it is *held*: entries are pushed, and acks and sync cursors
recorded, but nothing is acknowledged and the LAC stays. Then acks and cursors of replaced slots are
void, and it is released.
"""

from collections.abc import Collection, Iterable, Sequence

from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.ack_tracker import AckTracker
from zbk.protocol.write.append_queue import AppendQueue
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.batch_ends import BatchEnds
from zbk.protocol.write.events import Acked, AckedTicket, Effect, SendAdd, Ticket
from zbk.protocol.write.lac_policy import LacPolicy
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.missing_entries import MissingEntries
from zbk.protocol.write.moved_batches import MovedBatches
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.unsynced_total import UnsyncedPart
from zbk.protocol.write.write_window import Missed, WriteBatch, WriteWindow


class WritePath:
    """Entries from ``Append`` to ``Acked`` and beyond.

    ``waiting`` are the appends that wait for room in the window, ``unacked`` the batches that no
    ack quorum has acknowledged, and ``beyond`` the ends of acknowledged batches beyond the LAC.
    Others only read them.

    Invariants, checked in ``check``:
      * LAC <= last acked <= last pushed <= last appended;
      * the newest batch in the window that is not acked is the last one pushed.
    """

    __slots__ = (
        "_encoder", "_ends", "_length", "_limits", "_policy", "_pushed_lac", "_queue",
        "_slots", "_tracker", "_unsynced_part", "_window", "beyond", "is_held", "missing",
        "moved", "unacked", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        quorum: Quorum,
        policy: LacPolicy,
        encoder: BatchEncoder,
        limits: WriterLimits,
        slots: WriterSlots,
        unsynced_part: UnsyncedPart | None,
    ) -> None:
        """``unsynced_part``: as ``WriteWindow``."""
        self._policy = policy
        self._encoder = encoder
        self._slots = slots  # their owner takes them up and down, and replaces bookies
        self._limits = limits
        self._unsynced_part = unsynced_part
        size_max, count_max = limits.of_batch(quorum)
        self._queue = AppendQueue(
            entry_overhead_size=encoder.overhead_size, size_max=size_max, count_max=count_max
        )
        self._window = WriteWindow(quorum.ensemble_size, limits, unsynced_part)
        self._tracker = AckTracker(quorum)
        self._ends = BatchEnds()
        self.waiting = self._queue.waiting
        self.unacked = self._window.unacked
        self.beyond = self._ends.beyond
        self.is_held = False  # the ensemble is being changed
        self.missing = MissingEntries()
        self.moved = MovedBatches(quorum, self._window)
        self._length = 0  # bytes of payload pushed
        self._pushed_lac = NO_ENTRY

    # ------------------------------------------------------------------ where it stands

    @property
    def last_appended_id(self) -> int:
        """The highest id given out: the LAP. Its entry may be queued still."""
        return self._queue.last_entry_id

    @property
    def last_pushed_id(self) -> int:
        """The highest id that went into a batch."""
        return self._tracker.last_pushed_id

    @property
    def last_acked_id(self) -> int:
        """The last entry acknowledged, in order."""
        return self._tracker.last_acked_id

    @property
    def lac(self) -> int:
        """Everything up to this id is durable on an ack quorum."""
        return self._ends.lac

    @property
    def pushed_lac(self) -> int:
        """The LAC that the last entry carries: bookies heard it."""
        return self._pushed_lac

    @property
    def length(self) -> int:
        """Bytes of payload up to and with the LAC."""
        return self._ends.length

    @property
    def backlog_size(self) -> int:
        """Bytes of the batches in memory that some bookie, or an ack quorum, has not answered."""
        return self._window.backlog_size

    @property
    def kept_size(self) -> int:
        """Bytes of all batches in memory."""
        return self._window.size

    @property
    def unsynced_size(self) -> int:
        """Bytes of the acknowledged batches beyond the LAC; they are kept until it covers them."""
        return self._window.unsynced_size

    @property
    def unsynced_batch_count(self) -> int:
        """Acknowledged batches beyond the LAC."""
        return len(self.beyond)

    @property
    def unsynced(self) -> tuple[int, int] | None:
        """Bytes acknowledged and not durable, and when the first were sent. Any thread."""
        return self._ends.unsynced

    @property
    def unsynced_share(self) -> float:
        """How much of its limits the writer uses with acknowledged batches beyond the LAC."""
        limits = self._limits
        size_share = self._window.unsynced_size / limits.unsynced_size_max
        return max(size_share, len(self.beyond) / limits.unsynced_batch_count_max)

    @property
    def unsynced_pressure(self) -> float:
        """``unsynced_share``, or the share that all writers together use of theirs."""
        part = self._unsynced_part
        if part is None or not self.beyond:
            return 0.0  # it keeps nothing that a sync could free
        return max(self.unsynced_share, part.share_of_total)

    @property
    def is_tail_in_doubt(self) -> bool:
        """True when bookies may have more than was acknowledged; after ``drain``, for good."""
        return self.last_pushed_id > self.last_acked_id

    @property
    def is_flushed(self) -> bool:
        """True when everything appended is acknowledged."""
        return not (self.waiting or self.unacked)

    @property
    def is_held_up(self) -> bool:
        """True while appends wait for room in the window."""
        return bool(self.waiting)

    @property
    def is_answered(self) -> bool:
        """True when, besides, every live slot has answered everything."""
        return not self.waiting and self._window.is_answered

    @property
    def is_awaited_by_newcomers(self) -> bool:
        """True when a bookie that is being connected, and has not failed, is owed something."""
        newcomers = set(self._slots.down).difference(self._slots.failed)
        return any(map(self._window.is_owed, newcomers))

    def laggard(self, now_ms: int, slow_ms: int) -> int | None:
        """Return the slot, if there is one, that alone holds up appends for ``slow_ms``."""
        return self._window.laggard(now_ms, slow_ms) if self.waiting else None

    def is_reachable(self, down: Collection[int]) -> bool:
        """Return whether what is pending can reach an ack quorum without these slots."""
        return self._tracker.is_reachable(down)

    # ------------------------------------------------------------------ forward

    def append(self, appends: Sequence[tuple[Ticket, Sequence[bytes]]]) -> None:
        """Queue appends."""
        self._queue.add(appends)

    def send_batches(self, live: Collection[int], now_ms: int) -> list[Effect]:
        """Form batches of what is queued while the window has room."""
        effects: list[Effect] = []
        while self.waiting and self._has_room:
            taken = self._queue.take()
            if taken.payloads:
                first = self._push(taken.payloads, taken.tickets, now_ms)
                effects += self._send(live, first)
                for slot in self._slots.down:
                    self._window.owe(slot, first)
            elif self.unacked:
                self.unacked[-1].tickets += taken.tickets
            else:
                effects.append(Acked(taken.tickets))
        return effects

    @property
    def _has_room(self) -> bool:
        part = self._unsynced_part
        if part is not None and self._has_to_sync_first(part):
            return False
        return not self._window.batches or self._window.has_room

    def _has_to_sync_first(self, part: UnsyncedPart) -> bool:
        """Return whether batches have to become durable before more are sent."""
        volatile_size = self._window.volatile_size
        return (
            volatile_size >= self._limits.unsynced_size_max
            or len(self.beyond) >= self._limits.unsynced_batch_count_max
            or (volatile_size > 0 and part.share_of_total >= 1)
        )

    def resend(self, slot: int, now_ms: int, *, is_revoked: bool) -> list[Effect]:
        """Send a slot that came up all that it is owed; with what it acked if that is revoked."""
        if is_revoked:
            self._revoke(slot)
        owed = self._window.up(slot, now_ms)
        return [effect for first in owed for effect in self._send([slot], first)]

    def answered_until(self, slot: int, last_entry_id: int) -> int:
        """Return the entry up to which a live slot has answered all, at most the stated one."""
        return self._window.answered_until(slot, last_entry_id)

    def resend_hole(self, slot: int, first: int, last: int) -> list[Effect]:
        """Send a live slot once more what it acked from ``first`` to ``last`` and is kept."""
        kept = self._window.unsynced_between(slot, first, last)
        return [effect for first_id in kept for effect in self._send([slot], first_id)]

    def _revoke(self, slot: int) -> None:
        """Owe a slot again what it acked and may have lost: all that is not durable."""
        self._window.owe_unsynced(slot)
        for ids in self._tracker.revoke(slot):
            self._window.owe(slot, ids.start)

    def is_awaited(self, slot: int, part_first: int) -> bool:
        """Return whether a slot has to answer the batch that begins, for it, with this entry."""
        return self._window.is_awaited(slot, part_first)

    def answered(self, slot: int, part_first: int) -> list[Effect] | None:
        """Record a slot's ack of a batch; return the appends that it completed, if any.

        ``None``: no entry was acknowledged by it.
        """
        batch = self._window.answered(slot, part_first)
        if batch is None:
            return None
        confirmed = self._tracker.ack(slot, batch.entry_ids.start)
        return self._confirmed(confirmed) if confirmed else None

    def synced(self, slot: int, incarnation: int, last_add_synced: int) -> None:
        """Record what a bookie has synced; -1 says only that it is in this life now."""
        self._policy.on_synced(slot, incarnation, last_add_synced)
        if self.beyond:
            self._advance()

    # ------------------------------------------------------------------ another ensemble

    def hold(self) -> None:
        """Acknowledge nothing, and leave the LAC, until ``release``, or the end of the writer."""
        self._tracker.hold()
        self.is_held = True

    def adopt(self, durable_id: int) -> list[Effect]:
        """Record, while held, that the metadata say that all up to this id is durable.

        Return the appends that are acknowledged by it. An ack quorum of the ensemble before the
        change has the entries.
        """
        assert self.is_held, "the LAC of others comes with a new fragment"
        effects = self._confirmed(self._tracker.confirm_until(durable_id))
        self._move_lac(durable_id)
        return effects

    def replaced(self, slot: int, old: str, first_entry_id: int) -> None:
        """Forget what a slot was sent and what it acked: there is another bookie now.

        The ``old`` one will not get what it has not answered of its fragment; the new one is owed
        all that is not durable. Its fragment begins with ``first_entry_id``.
        """
        confirmed_id = max(self.lac, first_entry_id - 1)  # the end of a batch, or inside one
        for ids in self._window.replaced(slot):
            self.missing.add(old, ids.start, min(ids.stop - 1, confirmed_id))
        self._tracker.revoke(slot)
        self._policy.on_replaced(slot, confirmed_id)
        # what others let the fragment begin with, this writer does not have any more
        self.missing.add(self._slots.bookie(slot), first_entry_id, self.lac)

    def release(self) -> list[Effect]:
        """Continue; return the appends that are acknowledged by it, if any."""
        self.is_held = False
        effects = self._confirmed(self._tracker.release())
        self._advance()
        return effects

    # ------------------------------------------------------------------ back

    def lost(self, slot: int) -> None:
        """Record that a slot will answer nothing of what it got: it is owed that."""
        self._window.lost(slot)

    def shrink(self) -> None:
        """Return memory that an idle writer does not need."""
        self._window.shrink()

    def missing_of_closed(self, last_entry_id: int) -> dict[str, tuple[Span, ...]]:
        """Return what is to be reported of a ledger that ends here: nothing more is sent."""
        self._miss(self._window.missed())
        return self.missing.unreported(last_entry_id)

    def missing_of_fragments(self, first_entry_id: int) -> dict[str, tuple[Span, ...]]:
        """Return what is to be reported of the fragments before the one that starts there.

        Nothing of a bookie that is down and whose slot is still its own: others find it if it is
        lost, and only them a worker gives the time that a writer needs to leave it.
        """
        down = {self._slots.bookie(slot) for slot in self._slots.down}
        return self.missing.unreported(first_entry_id - 1, leave_out=down)

    def drain(self) -> list[Ticket]:
        """Forget everything; return the tickets of what is not acknowledged, in order.

        What was acknowledged, and bookies have not answered, is missing there.
        """
        self._miss(self._window.missed())
        tickets = [t for batch in self._window.drain() for t, _first, _count in batch.tickets]
        return tickets + self._queue.drain()

    def check(self) -> None:
        """Assert the invariants."""
        tracker, unacked = self._tracker, self.unacked
        last_pushed_id = tracker.last_pushed_id
        assert self._ends.lac <= tracker.last_acked_id <= last_pushed_id < self._queue.count
        assert not unacked or unacked[-1].entry_ids[-1] == last_pushed_id

    # ------------------------------------------------------------------ private

    def _push(self, payloads: Sequence[bytes], tickets: list[AckedTicket], now_ms: int) -> int:
        while self._window.late and self._window.is_full:
            self._miss(self._window.give_up())
        entry_ids = self._tracker.push(len(payloads))
        self._pushed_lac = self._ends.lac
        encoded = self._encoder.encode(entry_ids.start, self._pushed_lac, self._length, payloads)
        self._length = encoded.length
        self._window.add(WriteBatch(entry_ids, encoded, tickets, now_ms))
        return entry_ids.start

    def _send(self, slots: Collection[int], first_entry_id: int) -> list[SendAdd]:
        lac = min(self._ends.lac, first_entry_id - 1)  # it may be acknowledged, and sent late
        epochs = self._slots.epochs
        return [
            SendAdd(slot, part, lac, epochs[slot])
            for slot, part in self._window.sent(slots, first_entry_id)
        ]

    def _miss(self, missed: Iterable[Missed]) -> None:
        for slot, ids in missed:
            self.missing.add(self._slots.bookie(slot), ids.start, ids.stop - 1)

    def _confirmed(self, confirmed: range) -> list[Effect]:
        if not confirmed:
            return []
        last_id = confirmed.stop - 1
        tickets: list[AckedTicket] = []
        for acked in self._window.acked_until(last_id):
            tickets += acked.tickets
            acked.tickets = []  # a late bookie keeps the batch, and nothing of who appended
            self._ends.acked(acked.entry_ids[-1], acked.encoded.length, acked.pushed_ms)
        self._policy.on_acked(last_id)
        # bookies may have synced what is not acknowledged yet: it has no end to move to so far
        self._advance()
        return [Acked(tickets)] if tickets else []

    def _advance(self) -> None:
        if not self.is_held:
            self._move_lac(self._policy.lac)

    def _move_lac(self, durable_id: int) -> None:
        if self._ends.advance(durable_id) and self._window.unsynced:
            self._window.durable_until(self._ends.lac)
