"""The second step of a recovery: read every entry after the LAC, up to the end.

Every read fences, and goes to the last ensemble as it was when the recovery began, even if entries
are written back to other bookies. The answer of a bookie about an entry is one of three:

    positive   the entry with a correct digest: one is enough to keep it
    negative   ``NoSuchEntryError``: the bookie lacks the entry and is fenced, so it never gets it
    neither    all others: damage, unreadable, unknown state, time-out, lost connection, and
               ``NoSuchLedgerError``, because a bookie that answers so is not fenced

The ledger ends at the first entry without a positive and with Qw - Qa + 1 negatives: it cannot have
an ack quorum, now or later. When neither is possible any more, the search is *stuck*: the recovery
fails and the ledger stays as it is; it is never closed short.

Reads ask for runs of entries. At first each entry is requested from one bookie only, a fenced one
(the search is *calm*). After the first answer that is not positive, or is late, all members of the
write set are asked for the entries that are not found yet. A bookie is not asked for entries after
one that it lacks before another bookie has returned that one; it has one read at a time.

Entries read ahead beyond the end are dropped.

Source: BookKeeper's ``PendingReadOp`` of recovery reads, ``LedgerRecoveryOp``.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

import msgspec

from zbk.errors import (
    DamageError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    ZbkError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.read_batch import decode_entries
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.recovery.events import RecoveryLimits, SendRead
from zbk.protocol.recovery.retries import SlotRetries


class _Asked(msgspec.Struct, frozen=True):
    """One read under way."""

    slot: int
    entry_ids: Sequence[int]
    sent_ms: int


class RecoveryReads:
    """The search for entries from ``first`` on.

    ``fenced_slots``, at least one of each write set, are asked first.

    Invariants, checked in ``check``:
      * a slot has at most one read under way;
      * found entries are at or after the next entry, which is neither taken nor the end.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        first: int,
        fenced_slots: Iterable[int],
        digest: DigestFunction,
        limits: RecoveryLimits,
    ) -> None:
        self.next_id = first  # the first entry that is neither taken nor the end
        self.read_count = 0
        self._metadata = metadata
        self._quorum = quorum = metadata.quorum
        self._bookies = metadata.last_fragment.bookies
        self._digest = digest
        self._is_checked = metadata.digest_type is DigestType.NONE
        self._limits = limits
        self._found: dict[int, bytes] = {}
        self._found_size = 0
        self._negatives: dict[int, set[int]] = {}  # slots by entry
        self._damages: dict[int, dict[int, ZbkError]] = {}  # by entry, by slot
        self._useless: list[set[int]] = [set() for _ in self._bookies]  # both, by slot
        self._retries = SlotRetries(quorum.ensemble_size, limits)
        self._asked: dict[int, _Asked] = {}
        self._busy: set[int] = set()  # slots with a read under way
        fenced = set(fenced_slots)
        residues = range(quorum.ensemble_size) if quorum.is_striped else (0,)
        self._leaders = [  # of each write set that occurs
            next(slot for slot in quorum.write_set(residue) if slot in fenced)
            for residue in residues
        ]
        self._is_calm = True
        self._is_at_end = False

    @property
    def is_at_end(self) -> bool:
        """True when every entry of the ledger was found."""
        return self._is_at_end

    @property
    def found_size(self) -> int:
        """The bytes of entries found and not taken."""
        return self._found_size

    @property
    def is_stuck(self) -> bool:
        """True when no bookie is left that could confirm or deny the next entry."""
        if self._is_at_end or self.next_id in self._found:
            return False
        return all(
            self._retries.is_given_up(slot) or self.next_id in self._useless[slot]
            for slot in self._quorum.write_set(self.next_id)
        )

    def why_stuck(self) -> str:
        """Return the answers about the next entry, as part of an error text."""
        entry_id = self.next_id
        members = self._quorum.write_set(entry_id)
        negatives = self._negatives.get(entry_id, set())
        damages = self._damages.get(entry_id, {})
        texts = [f"slot {slot}: it lacks the entry" for slot in sorted(negatives)]
        texts += [f"slot {slot}: {error}" for slot, error in sorted(damages.items())]
        others = [s for s in members if s not in negatives and s not in damages]
        texts += [self._retries.text(others)] if others else []
        return (
            f"entry {entry_id} cannot be read, and {self._no_count_min} bookies must deny it "
            f"before it is left out; {'; '.join(texts)}"
        )

    # ------------------------------------------------------------------ asking

    def ask(self, now_ms: int, count_max: int) -> list[SendRead]:
        """Return the reads to send now, of entries less than ``count_max`` ahead."""
        if self._is_at_end:
            return []
        patience_ms = self._limits.patience_ms
        if any(now_ms - asked.sent_ms >= patience_ms for asked in self._asked.values()):
            self._is_calm = False
        reads = []
        for slot, bookie_id in enumerate(self._bookies):
            if slot in self._busy or not self._retries.is_ready(slot, now_ms):
                continue
            entry_ids = self._wanted(slot, min(count_max, self._limits.window_count))
            if entry_ids:
                self._asked[self.read_count] = _Asked(slot, entry_ids, now_ms)
                self._busy.add(slot)
                reads.append(SendRead(self.read_count, bookie_id, entry_ids, self._is_checked))
                self.read_count += 1
        return reads

    def _wanted(self, slot: int, count_max: int) -> Sequence[int]:
        stop = self.next_id + count_max
        if self._quorum.is_striped:
            return array("q", self._wanted_of_stripe(slot, stop))
        if self._is_calm and slot not in self._leaders:
            return range(0)
        first = next(e for e in count(self.next_id) if e not in self._found)
        obstacles = chain(self._found, self._useless[slot])  # a row ends there
        return range(first, min((e for e in obstacles if first <= e < stop), default=stop))

    def _wanted_of_stripe(self, slot: int, stop: int) -> Iterator[int]:
        useless, found = self._useless[slot], self._found
        leaders = self._leaders if self._is_calm else [slot]
        for entry_id in self._quorum.entry_ids(slot, self.next_id, stop - 1):
            if entry_id in useless:
                return  # another bookie has to return it first
            if leaders[entry_id % len(leaders)] == slot and entry_id not in found:
                yield entry_id

    # ------------------------------------------------------------------ answers

    def answered(self, read_id: int, body: bytes) -> None:
        """Record entries."""
        slot, entry_ids = self._end_read(read_id)
        self._retries.heard(slot)
        metadata = self._metadata
        batch, is_all = decode_entries(
            body, entry_ids, metadata.ledger_id, metadata.digest_type, self._digest
        )
        start = 0
        for entry_id, size in zip(batch.entry_ids, batch.sizes, strict=True):
            stop = start + size
            if entry_id >= self.next_id and entry_id not in self._found:
                self._found[entry_id] = body[start:stop]
                self._found_size += size
            start = stop
        if len(batch) < len(entry_ids) and not (is_all and len(batch)):
            entry_id = entry_ids[len(batch)]
            self._damaged(slot, entry_id, DigestMismatchError(metadata.ledger_id, entry_id))

    def failed(self, read_id: int, error: ZbkError, now_ms: int) -> None:
        """Record an error."""
        slot, entry_ids = self._end_read(read_id)
        self._is_calm = False
        match error:
            case NoSuchEntryError() if error.entry_id in entry_ids:
                self._retries.heard(slot)
                self._said_no(slot, error.entry_id)
            case DamageError():
                self._retries.heard(slot)
                self._damaged(slot, _named_id(error, entry_ids), error)
            case _:
                self._retries.failed(slot, error, now_ms)

    def _said_no(self, slot: int, entry_id: int) -> None:
        if entry_id >= self.next_id:  # else another bookie had it
            self._negatives.setdefault(entry_id, set()).add(slot)
            self._useless[slot].add(entry_id)

    def _damaged(self, slot: int, entry_id: int, error: ZbkError) -> None:
        self._is_calm = False
        if entry_id >= self.next_id:
            self._damages.setdefault(entry_id, {})[slot] = error
            self._useless[slot].add(entry_id)

    def _end_read(self, read_id: int) -> tuple[int, Sequence[int]]:
        asked = self._asked.pop(read_id)
        self._busy.discard(asked.slot)
        return asked.slot, asked.entry_ids

    # ------------------------------------------------------------------ results

    def take(self) -> list[bytes]:
        """Return the next found entries, in order; then look for the end."""
        taken = []
        while not self._is_at_end:
            entry = self._found.pop(self.next_id, None)
            if entry is None:
                negatives = self._negatives.get(self.next_id, ())
                self._is_at_end = len(negatives) >= self._no_count_min
                break
            taken.append(entry)
            self._found_size -= len(entry)
            for slot in (
                *self._negatives.pop(self.next_id, ()),
                *self._damages.pop(self.next_id, ()),
            ):
                self._useless[slot].discard(self.next_id)
            self.next_id += 1
        return taken

    @property
    def _no_count_min(self) -> int:
        return self._quorum.write_size - self._quorum.ack_size + 1

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._asked) == len(self._busy)
        assert self.next_id not in self._found or self._is_at_end
        assert all(entry_id >= self.next_id for entry_id in self._found)
        assert self._found_size >= 0


def _named_id(error: ZbkError, entry_ids: Sequence[int]) -> int:
    """Return the requested entry that an error names; the first one if it names none."""
    if isinstance(error, EntryUnreadableError | DigestMismatchError):
        return error.entry_id if error.entry_id in entry_ids else entry_ids[0]
    return entry_ids[0]
