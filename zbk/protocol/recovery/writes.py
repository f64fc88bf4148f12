"""The third step of a recovery, during the second: write back every entry that was found.

The same bytes are added, in order, in batches, as recovery adds: fenced bookies accept them and
answer after an fsync, whatever the ledger's type. Each batch goes to the whole write set and is
done when an ack quorum has it.

A bookie that fails is replaced, if the placement has another one: the entries from the first one
that is not done on form a fragment of their own, on the new ensemble, and are sent to the new
bookies. These fragments stay in memory until the closing compare-and-swap: another recoverer must
find every entry where it was (BOOKKEEPER-355), and if this one dies, nothing has changed. Without a
replacement the recovery continues with the bookies that it has, as long as an ack quorum can be
reached.

Decision: the LAC in the writes stays the one from which the recovery started. Entries written back
are part of the ledger only after it is closed, and another recoverer may close it at another end: a
reader that saw a higher LAC before would have read too much.

Source: BookKeeper's ``LedgerRecoveryOp``, ``ReadOnlyLedgerHandle.handleBookieFailure``.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from zbk.errors import NotEnoughBookiesError, ZbkError
from zbk.protocol.entry.entry import stored_length
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.recovery.events import ChooseReplacements, Effect, RecoveryLimits, SendWrite
from zbk.protocol.write.ack_tracker import AckTracker


class _Pending:
    """A batch that is not done, or not answered by each of its bookies."""

    __slots__ = ("awaited", "is_done", "parts", "size")

    def __init__(self, parts: tuple[EntryBatch | None, ...], size: int) -> None:
        self.parts = parts  # by slot
        self.size = size
        self.awaited: set[int] = set()  # slots
        self.is_done = False


class RecoveryWrites:
    """The write-back of entries from ``start + 1`` on.

    Invariants, checked in ``check``:
      * a batch is kept exactly while it is not done, or awaited by a slot that has not failed;
      * the fragments ascend and start after ``start``;
      * no bookie is twice in the ensemble.
    """

    def __init__(self, metadata: LedgerMetadata, start: int, limits: RecoveryLimits) -> None:
        self._ledger_id = metadata.ledger_id
        self._quorum = metadata.quorum
        self._limits = limits
        self._start = start
        self._tracker = AckTracker(metadata.quorum, start)
        self._ensemble = list(metadata.last_fragment.bookies)
        self._fragments: list[Fragment] = []
        self._batches: dict[int, _Pending] = {}  # by first entry
        self._sent: dict[int, tuple[int, int]] = {}  # slot and first entry, by write
        self._write_count = 0
        self._failed: dict[int, ZbkError] = {}  # slots that get no more writes
        self._not_replaceable: frozenset[int] = frozenset()  # failed slots without a replacement
        self._failed_bookies: set[str] = set()
        self._choosing_for: frozenset[int] = frozenset()  # slots that wait for a replacement
        self._change_count = 0
        self.size = 0  # bytes of the batches in memory
        self.last_length = 0  # the ledger's length up to the last entry pushed

    @property
    def is_done(self) -> bool:
        """True when an ack quorum has every entry pushed so far."""
        return not self._tracker.pending_count

    @property
    def last_entry_id(self) -> int:
        """The last entry pushed; ``start`` if there is none."""
        return self._tracker.last_pushed_id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments whose entries are on other bookies than in the ledger's metadata."""
        last = self.last_entry_id
        return tuple(f for f in self._fragments if f.first_entry_id <= last)

    @property
    def failure(self) -> ZbkError | None:
        """Why the entries cannot be written back, if they cannot."""
        if self._choosing_for or self._to_replace() or self._tracker.is_reachable(self._failed):
            return None
        texts = [
            f"slot {slot} ({self._ensemble[slot]}): {error}"
            for slot, error in sorted(self._failed.items())
        ]
        return NotEnoughBookiesError(
            self._quorum.ack_size,
            self._quorum.ensemble_size - len(self._failed),
            f"to write entries of ledger {self._ledger_id} back, and no other bookie is available; "
            + "; ".join(texts),
        )

    def why_not_done(self) -> str:
        """Return what is awaited, as part of an error text."""
        awaited = sorted({slot for slot, _first in self._sent.values()})
        return f"{self._tracker.pending_count} of them wait for answers of slots {awaited}"

    # ------------------------------------------------------------------ writes

    def push(self, entries: Sequence[bytes]) -> Iterator[Effect]:
        """Add the next entries, in order; yield the writes to send."""
        if entries:
            self.last_length = stored_length(entries[-1])
        for part in self._cut(entries):
            entry_ids = self._tracker.push(len(part))
            batch = EntryBatch.of(
                self._ledger_id, entry_ids, [len(entry) for entry in part], b"".join(part)
            )
            pending = self._kept(batch)
            self._batches[entry_ids.start] = pending
            self.size += pending.size
            for slot in range(self._quorum.ensemble_size):
                if slot not in self._failed:
                    yield from self._send(slot, entry_ids.start)

    def answered(self, write_id: int) -> None:
        """Record that a bookie has a batch. The answer of a replaced bookie is ignored."""
        sent = self._sent.pop(write_id, None)
        if sent is None:
            return
        slot, first = sent
        pending = self._batches[first]
        pending.awaited.discard(slot)
        confirmed = self._tracker.ack(slot, first)
        self._forget(first)
        for done_first in list(self._batches) if confirmed else ():
            if done_first in confirmed:
                self._batches[done_first].is_done = True
                self._forget(done_first)

    # ------------------------------------------------------------------ failures

    def failed(self, write_id: int, error: ZbkError) -> None:
        """Record that a write failed: the bookie gets no more of them."""
        sent = self._sent.pop(write_id, None)
        if sent is None:
            return
        slot, _first = sent
        self._failed[slot] = error
        self._failed_bookies.add(self._ensemble[slot])
        self._sent = {i: one for i, one in self._sent.items() if one[0] != slot}
        for first, pending in list(self._batches.items()):
            pending.awaited.discard(slot)
            self._forget(first)

    def choose(self) -> list[Effect]:
        """Return the request for replacements, if one is due."""
        slots = self._to_replace()
        if not slots or self._choosing_for or self.is_done:
            return []
        if self._change_count >= self._limits.change_count_max:
            self._not_replaceable |= frozenset(slots)
            return []
        self._choosing_for = frozenset(slots)
        return [ChooseReplacements(tuple(self._ensemble), slots, frozenset(self._failed_bookies))]

    def chosen(self, bookies: Mapping[int, str]) -> list[Effect]:
        """Record new bookies; return the writes to send to them."""
        asked, self._choosing_for = self._choosing_for, frozenset()
        new = {slot: bookie for slot, bookie in bookies.items() if slot in self._failed}
        for slot, bookie in new.items():
            self._ensemble[slot] = bookie
            del self._failed[slot]
        self._not_replaceable = asked & frozenset(self._failed)
        if not new:
            return []
        self._change_count += 1
        first = self._tracker.last_acked_id + 1
        if self._fragments and self._fragments[-1].first_entry_id == first:
            self._fragments.pop()
        self._fragments.append(Fragment(first, tuple(self._ensemble)))
        effects: list[Effect] = []
        for slot in new:
            for entry_ids in self._tracker.revoke(slot):
                effects += self._send(slot, entry_ids.start)
        return effects

    def _to_replace(self) -> tuple[int, ...]:
        """Return the failed slots, if a new one is among them and entries wait."""
        is_new = self._failed.keys() - self._not_replaceable
        return tuple(sorted(self._failed)) if is_new else ()

    # ------------------------------------------------------------------ private

    def _send(self, slot: int, first: int) -> list[Effect]:
        pending = self._batches[first]
        part = pending.parts[slot]
        if part is None:
            return []
        pending.awaited.add(slot)
        write_id = self._write_count
        self._write_count += 1
        self._sent[write_id] = (slot, first)
        return [SendWrite(write_id, self._ensemble[slot], part, self._start)]

    def _forget(self, first: int) -> None:
        pending = self._batches.get(first)
        if pending is not None and pending.is_done and not pending.awaited:
            self.size -= pending.size
            del self._batches[first]

    def _kept(self, batch: EntryBatch) -> _Pending:
        quorum = self._quorum
        if not quorum.is_striped:
            return _Pending((batch,) * quorum.ensemble_size, batch.size)
        first, last = batch.first_entry_id, batch.last_entry_id
        held = [quorum.entry_ids(slot, first, last) for slot in range(quorum.ensemble_size)]
        parts = tuple(batch.only(ids) if ids else None for ids in held)
        return _Pending(parts, sum(part.size for part in parts if part is not None))

    def _cut(self, entries: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """Yield the entries in batches. An entry larger than the limit is alone in its batch."""
        ends = list(accumulate(map(len, entries)))
        start = sent_size = 0
        for stop in range(1, len(entries) + 1):
            is_last = stop == len(entries)
            if (
                is_last
                or stop - start >= self._limits.batch_count_max
                or ends[stop] - sent_size > self._limits.batch_size_max
            ):
                yield entries[start:stop]
                start, sent_size = stop, ends[stop - 1]

    def check(self) -> None:
        """Assert the invariants."""
        assert all(p.awaited or not p.is_done for p in self._batches.values())
        assert self.size == sum(p.size for p in self._batches.values())
        assert not any(p.awaited & self._failed.keys() for p in self._batches.values())
        starts = [fragment.first_entry_id for fragment in self._fragments]
        assert starts == sorted(set(starts))
        assert not starts or starts[0] > self._start
        assert len(set(self._ensemble)) == len(self._ensemble)
