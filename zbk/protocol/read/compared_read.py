"""Reading entries that nobody here can verify, to copy them: replicas are compared instead.

A digest of type MAC is verified with the ledger's password, and one of type NONE not at all. But
the bytes of an entry are the same on all its replicas, so each entry is read from two of them: if
these agree it is delivered. If not, the next replica is asked, until two agree.

Where no two agree, the bookies are asked once more, to answer only for replicas that are *sound*:
a bookie knows what it has stored by the checksum of the block in its entry log. The one that is
left is delivered. Two that are sound and differ, and a replica that could not be asked, fail the
read there: better no copy than a wrong one. A lone source is asked for what is sound at once.
Damage around an entry, in its block, makes its replica unsound as well: that is why replicas are
compared first.

A bookie in limbo that does not have an entry now has no replica to compare, whatever it had: two of
them would wait for each other for ever, each for what a third one has. What nobody has is not lost
for that: one in limbo may have had it.

Events and effects are those of ``read.range_read``. Slower than that: an object an entry.

Invariants, checked in ``_check``:
  * a read that is not over waits for an answer;
  * what is settled and not delivered lies behind an entry that is not settled.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import assert_never

from zbk.errors import (
    CorruptRecordError,
    DamageError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import DIGEST_CODE
from zbk.protocol.entry.entry import read_prefix
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.range_read import (
    Delivered,
    Effect,
    Event,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    ReadTicked,
    SendRead,
)

_CODE_OFFSET = 5  # of the digest's code in an entry's header


class _Votes:
    """What was heard of one entry."""

    __slots__ = ("asked", "checked", "copies", "refusals")

    def __init__(self) -> None:
        self.asked: list[int] = []  # slots
        self.checked: set[int] = set()  # those of them that answer only for what is sound
        self.copies: dict[int, bytes] = {}  # by slot
        self.refusals: dict[int, ZbkError] = {}

    @property
    def is_heard(self) -> bool:
        return len(self.copies) + len(self.refusals) == len(self.asked)

    @property
    def may_have(self) -> list[ZbkError]:
        """Why replicas are not known that may be there."""
        unsure = [error for error in self.refusals.values() if not _is_sure(error)]
        return [one for one in unsure if not isinstance(one, UnknownLedgerStateError)]

    def take_unchecked(self) -> list[int]:
        """Return the slots whose copies are not known to be sound, and forget these copies."""
        slots = [slot for slot in self.copies if slot not in self.checked]
        for slot in slots:
            del self.copies[slot]
        return slots

    def agreed(self) -> bytes | None:
        """Return the bytes that two replicas agree on."""
        seen: set[bytes] = set()
        for copy in self.copies.values():
            if copy in seen:
                return copy
            seen.add(copy)
        return None


class ComparedRead:
    """One read of the ascending ``entry_ids``; ``sources`` are the slots, preferred ones first."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        entry_ids: Sequence[int],
        *,
        sources: Sequence[int],
    ) -> None:
        self._ledger_id = metadata.ledger_id
        self._quorum = metadata.quorum
        self._digest_type = metadata.digest_type
        self._sources = sources
        self._entry_ids = entry_ids
        self._position = 0  # ids delivered
        self._votes: dict[int, _Votes] = {}  # by entry id, until it is settled
        self._settled: dict[int, bytes | ZbkError] = {}
        self._requests: dict[int, SendRead] = {}  # by read id
        self._next_read_id = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True when everything was delivered, or the read has failed."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. An answer to no request is late news."""
        del now_ms
        if self._is_over:
            return []
        effects: list[Effect] = []
        match event:
            case ReadStarted():
                for entry_id in self._entry_ids:
                    self._votes[entry_id] = _Votes()
                effects += self._settle(self._entry_ids)
            case ReadAnswered(slot, read_id, body):
                request = self._requests.pop(read_id, None)
                if request is None:
                    return []
                if isinstance(body, ZbkError):
                    effects += self._on_error(slot, request, body)
                else:
                    effects += self._on_body(slot, request, body)
            case ReadTicked():
                return []
            case _:
                assert_never(event)
        effects += self._deliver()
        self._check()
        return effects

    # ------------------------------------------------------------------ answers

    def _on_body(self, slot: int, request: SendRead, body: bytes) -> list[Effect]:
        ids = request.entry_ids
        start = 0
        count = 0
        for entry_id in ids:
            stop = self._end_of(body, start, entry_id)
            if stop is None:
                break
            self._votes[entry_id].copies[slot] = body[start:stop]
            start = stop
            count += 1
        effects: list[Effect] = []
        rest = ids[count:]
        if rest and (start < len(body) or not count):  # what comes next is not what was asked for
            mismatch = DigestMismatchError(self._ledger_id, rest[0])
            self._votes[rest[0]].refusals[slot] = mismatch
            count, rest = count + 1, rest[1:]
        if rest:
            effects.append(self._send(slot, rest, is_checked=request.is_checked))
        return effects + self._settle(ids[:count])

    def _end_of(self, body: bytes, start: int, entry_id: int) -> int | None:
        """Return where the entry at ``start`` ends, if it is this one and whole."""
        try:
            ledger_id, stored_id, size = read_prefix(body, start)
        except CorruptRecordError:
            return None
        is_it = (ledger_id, stored_id) == (self._ledger_id, entry_id)
        if not is_it or body[start + _CODE_OFFSET] != DIGEST_CODE[self._digest_type]:
            return None
        return start + size if start + size <= len(body) else None

    def _on_error(self, slot: int, request: SendRead, error: ZbkError) -> list[Effect]:
        refused = ids = request.entry_ids
        if isinstance(error, NoSuchEntryError | DamageError | UnknownLedgerStateError):
            named = getattr(error, "entry_id", None)
            index = ids.index(named) if named in ids else 0
            refused = ids[index : index + 1]
        for entry_id in refused:
            self._votes[entry_id].refusals[slot] = error
        rest = [entry_id for entry_id in ids if entry_id not in refused]
        effects: list[Effect] = []
        if rest:
            effects.append(self._send(slot, rest, is_checked=request.is_checked))
        return effects + self._settle(refused)

    # ------------------------------------------------------------------ votes

    def _settle(self, entry_ids: Iterable[int]) -> list[Effect]:
        """Settle the entries of which enough was heard; ask further replicas of the others."""
        to_ask: dict[tuple[int, bool], list[int]] = {}
        for entry_id in entry_ids:
            votes = self._votes.get(entry_id)
            if votes is None:
                continue
            agreed = votes.agreed()
            if agreed is not None:
                self._conclude(entry_id, agreed)
            elif votes.is_heard:
                slots, is_checked = self._next_to_ask(entry_id, votes)
                for slot in slots:
                    to_ask.setdefault((slot, is_checked), []).append(entry_id)
                if not slots:
                    self._conclude(entry_id, self._last_word(entry_id, votes))
        return [
            self._send(slot, ids, is_checked=is_checked)
            for (slot, is_checked), ids in to_ask.items()
        ]

    def _next_to_ask(self, entry_id: int, votes: _Votes) -> tuple[list[int], bool]:
        """Return whom to ask for an entry next, and whether only for a sound replica."""
        slots = self._next_sources(entry_id, votes)
        is_checked = not votes.asked and len(slots) == 1
        if slots:
            slots = slots[: 1 if votes.asked else 2]
            votes.asked += slots
        elif not votes.may_have:  # or nothing is decided anyway
            slots, is_checked = votes.take_unchecked(), True
        if is_checked:
            votes.checked.update(slots)
        return slots, is_checked

    def _next_sources(self, entry_id: int, votes: _Votes) -> list[int]:
        members = self._quorum.write_set(entry_id)
        return [slot for slot in self._sources if slot in members and slot not in votes.asked]

    def _last_word(self, entry_id: int, votes: _Votes) -> bytes | ZbkError:
        """Return what becomes of an entry that no two replicas agree on."""
        may_have = votes.may_have
        if len(votes.copies) == 1 and not may_have:
            return next(iter(votes.copies.values()))
        if may_have:
            return may_have[0]
        if votes.copies:
            why = "its replicas differ, and only its password tells which one is right"
            return EntryUnreadableError(self._ledger_id, entry_id, why)
        unsure = [error for error in votes.refusals.values() if not _is_sure(error)]
        damage = [error for error in votes.refusals.values() if isinstance(error, DamageError)]
        return next(chain(unsure, damage), NoSuchEntryError(self._ledger_id, entry_id))

    def _conclude(self, entry_id: int, outcome: bytes | ZbkError) -> None:
        self._settled[entry_id] = outcome
        del self._votes[entry_id]

    def _send(self, slot: int, entry_ids: Sequence[int], *, is_checked: bool) -> SendRead:
        read_id = self._next_read_id
        self._next_read_id += 1
        ids: Sequence[int] = array("q", entry_ids)
        if not self._quorum.is_striped and ids[-1] - ids[0] + 1 == len(ids):
            ids = range(ids[0], ids[-1] + 1)
        self._requests[read_id] = wanted = SendRead(slot, ids, read_id, is_checked)
        return wanted

    # ------------------------------------------------------------------ what to deliver

    def _deliver(self) -> list[Effect]:
        entries: list[bytes] = []
        start = self._position
        error: ZbkError | None = None
        while self._position < len(self._entry_ids) and error is None:
            outcome = self._settled.pop(self._entry_ids[self._position], None)
            if outcome is None:
                break
            if isinstance(outcome, bytes):
                entries.append(outcome)
                self._position += 1
            else:
                error = outcome
        is_last = self._position == len(self._entry_ids)
        self._is_over = is_last or error is not None
        effects: list[Effect] = []
        if entries:
            ids = self._entry_ids[start : self._position]
            bounds = list(accumulate(map(len, entries), initial=0))
            body = b"".join(entries)
            batch = ReadBatch(self._ledger_id, ids, self._digest_type, body, bounds)
            effects.append(Delivered(batch, is_last))
        if error is not None:
            effects.append(ReadFailed(error))
        return effects

    def _check(self) -> None:
        if self._is_over:
            return
        assert self._requests, "a read that goes on waits for somebody"
        assert self._entry_ids[self._position] not in self._settled, "what comes next is delivered"


def _is_sure(error: ZbkError) -> bool:
    """Return whether a bookie surely has no good replica, rather than cannot be asked."""
    return isinstance(error, NoSuchEntryError | NoSuchLedgerError | DamageError)
