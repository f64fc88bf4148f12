"""The compared read: entries whose digest cannot be verified, read for a copy.

A digest of type MAC is verified with the ledger's password, and one of type NONE not at all. But
the bytes of an entry are the same in all its replicas, so each entry is read from two of them. If
they agree, it is delivered. If not, the next replica is read, until two agree.

If no two agree, the bookies are asked once more, to return only *sound* replicas: a bookie verifies
a replica by the checksum of its block in the entry log. If one sound replica is left, it is
delivered. If two sound replicas differ, or a replica could not be read, the read fails there: no
copy is better than a wrong one. A lone source is asked for sound replicas at once. Damage near an
entry, in its block, makes its replica unsound, too: therefore replicas are compared first.

A bookie in limbo that lacks an entry has no replica to compare: two of them would wait for each
other for ever, each for entries of a third one. But an entry that no bookie returns is not lost
then: the one in limbo may have had it.

Events and effects are those of ``read.range_read``. Slower than that: one object for each entry.

Invariants, checked in ``_check``:
  * a read that is not over waits for an answer;
  * settled entries that are not delivered come after one that is not settled.
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
from zbk.protocol.read.read_race import proves_loss

_CODE_OFFSET = 5  # of the digest's code in an entry's header


class _Votes:
    """The answers about one entry."""

    __slots__ = ("asked", "checked", "copies", "refusals")

    def __init__(self) -> None:
        self.asked: list[int] = []  # slots
        self.checked: set[int] = set()  # those of them that return only sound replicas
        self.copies: dict[int, bytes] = {}  # by slot
        self.refusals: dict[int, ZbkError] = {}

    @property
    def is_heard(self) -> bool:
        return len(self.copies) + len(self.refusals) == len(self.asked)

    @property
    def may_have(self) -> list[ZbkError]:
        """The errors of replicas that may exist; those of bookies in limbo do not count."""
        unsure = [error for error in self.refusals.values() if not proves_loss(error)]
        return [one for one in unsure if not isinstance(one, UnknownLedgerStateError)]

    def take_unchecked(self) -> list[int]:
        """Remove the copies that are not known to be sound; return their slots."""
        slots = [slot for slot in self.copies if slot not in self.checked]
        for slot in slots:
            del self.copies[slot]
        return slots

    def agreed(self) -> bytes | None:
        """Return the bytes of two replicas that agree."""
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
        """Handle one event; return the effects. An answer to no request is ignored."""
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
        if rest and (start < len(body) or not count):  # the next bytes are not the next entry
            mismatch = DigestMismatchError(self._ledger_id, rest[0])
            self._votes[rest[0]].refusals[slot] = mismatch
            count, rest = count + 1, rest[1:]
        if rest:
            effects.append(self._send(slot, rest, is_checked=request.is_checked))
        return effects + self._settle(ids[:count])

    def _end_of(self, body: bytes, start: int, entry_id: int) -> int | None:
        """Return the end of the entry at ``start``, if it is this one and whole."""
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
        """Settle the entries with enough answers; read further replicas of the others."""
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
        """Return the slots to ask for an entry next, and whether only for sound replicas."""
        slots = self._next_sources(entry_id, votes)
        is_checked = not votes.asked and len(slots) == 1
        if slots:
            slots = slots[: 1 if votes.asked else 2]
            votes.asked += slots
        elif not votes.may_have:  # else the read fails anyway
            slots, is_checked = votes.take_unchecked(), True
        if is_checked:
            votes.checked.update(slots)
        return slots, is_checked

    def _next_sources(self, entry_id: int, votes: _Votes) -> list[int]:
        members = self._quorum.write_set(entry_id)
        return [slot for slot in self._sources if slot in members and slot not in votes.asked]

    def _last_word(self, entry_id: int, votes: _Votes) -> bytes | ZbkError:
        """Return the outcome of an entry without two replicas that agree."""
        may_have = votes.may_have
        if len(votes.copies) == 1 and not may_have:
            return next(iter(votes.copies.values()))
        if may_have:
            return may_have[0]
        if votes.copies:
            why = "its replicas differ, and only the password can verify them"
            return EntryUnreadableError(self._ledger_id, entry_id, why)
        unsure = [error for error in votes.refusals.values() if not proves_loss(error)]
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

    # ------------------------------------------------------------------ delivery

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
        assert self._requests, "an answer is awaited"
        assert self._entry_ids[self._position] not in self._settled, "the next entry is delivered"
