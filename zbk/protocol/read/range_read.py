"""The read of one chunk of entries of one fragment, whatever its replicas answer.

As few bookies are asked as hold the chunk: one when E = Qw; in a striped ledger the ids are spread
over slots. Each entry is verified. An entry that does not arrive, or does not pass, is requested
from the next replica of its write set:

    partial answer        the rest is requested again, first from the same slot
    damaged entry         the entries before it are kept; it is requested elsewhere, and so are, by
                          preference, the entries after it
    NoSuchEntry, damage   of one entry, named by the error, else the first one: as above
    UnknownLedgerState    likewise; a bookie that may have lost an entry has not denied it
    any other error,      all ids of the request are requested elsewhere
    time-out

A slot that failed gets a *strike*. Of the replicas not tried yet, the one with the fewest strikes
is asked, then the one that comes first in ``slot_order``. Each failure excludes at least one
replica of one entry, so a read always ends.

A slot that does not answer for ``speculative_ms`` gets a strike, too, and the next replica is asked
as well (*speculation*). The two race: the first valid answer wins, the other one is ignored. This
repeats until every replica was asked; a slow replica is never excluded. In a striped ledger no
other slot may hold all ids of the slow request: then it is given up, its ids are requested
elsewhere, and its slot is asked again only if that fails. A slot that answers is never raced: the
ids that its answer lacks are requested elsewhere at once.

Entries are delivered in order, each as soon as all before it are. When no replica of an entry is
left, the read fails after the delivery of all entries before it: with the first real error, or with
NoSuchEntry if every replica denied the entry.

Source: BookKeeper's ``PendingReadOp``, ``BatchedReadOp`` and
``DefaultSpeculativeRequestExecutionPolicy``.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import msgspec

from zbk.errors import (
    DamageError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.read_batch import ReadBatch, decode_entries, merge
from zbk.protocol.entry.rounds import ids_in_rounds
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.read_race import Race, Segment, is_absence

# ------------------------------------------------------------------ events


class ReadStarted(msgspec.Struct, frozen=True):
    """Begin."""


class ReadAnswered(msgspec.Struct, frozen=True):
    """The answer to one ``SendRead``.

    Either entries, back to back from the first id requested, perhaps not all of them; or an error:
    the bookie refused, did not answer in time, or its connection was lost.
    """

    slot: int
    read_id: int
    body: bytes | ZbkError


class ReadTicked(msgspec.Struct, frozen=True):
    """Time has passed. Needed at ``speculate_at_ms``; harmless before."""


Event: TypeAlias = ReadStarted | ReadAnswered | ReadTicked


# ------------------------------------------------------------------ effects


class SendRead(msgspec.Struct, frozen=True):
    """Ask the bookie of a slot for entries. Answer: ReadAnswered with the same ``read_id``."""

    slot: int
    entry_ids: Sequence[int]  # ascending; a range on a ledger that is not striped
    read_id: int
    is_checked: bool = False  # the bookie verifies the blocks of its entry log first


class Delivered(msgspec.Struct, frozen=True):
    """The next entries, in order. Nothing follows the last ones."""

    batch: ReadBatch
    is_last: bool


class ReadFailed(msgspec.Struct, frozen=True):
    """The entry after those delivered cannot be read. Nothing follows."""

    error: ZbkError


Effect: TypeAlias = SendRead | Delivered | ReadFailed


class RangeRead:
    """One read of the entries ``first .. last``, which lie in one fragment.

    ``slot_order`` names every slot once, preferred ones first. With ``only_slot``, only replicas in
    that slot are read: in a striped ledger, only the ids that the slot holds; if it holds none,
    ``is_over`` is true from the start. ``speculative_ms`` 0: no speculation. With ``entry_ids``,
    some of ``first .. last``, only these are read, and ``slot_order`` may leave out slots: each id
    has another one in its write set.

    Invariants, checked in ``_check``:
      * a read that is not over waits for an answer;
      * each request belongs to one race, which knows it; a race asks each slot once;
      * verified entries that are not delivered come after a missing entry.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        first: int,
        last: int,
        *,
        digest: DigestFunction,
        slot_order: Sequence[int] | None = None,
        only_slot: int | None = None,
        entry_ids: Sequence[int] | None = None,
        speculative_ms: int = 0,
    ) -> None:
        assert 0 <= first <= last, "a chunk has at least one entry"
        self._ledger_id = metadata.ledger_id
        self._quorum = quorum = metadata.quorum
        self._digest_type = metadata.digest_type
        self._digest = digest
        if entry_ids is not None:
            self._order = tuple(slot_order or range(quorum.ensemble_size))
            self._entry_ids: Sequence[int] = entry_ids
        elif only_slot is None:
            self._order = tuple(slot_order or range(quorum.ensemble_size))
            self._entry_ids = range(first, last + 1)
            assert len(set(self._order)) == quorum.ensemble_size, "every slot, once"
        else:
            self._order = (only_slot,)
            self._entry_ids = quorum.entry_ids(only_slot, first, last)
        self._is_spread = quorum.is_striped and only_slot is None
        self._position = 0  # ids delivered
        self._ahead: list[ReadBatch] = []  # verified, not delivered
        self._requests: dict[int, tuple[int, Race]] = {}
        self._next_read_id = 0
        self._strikes = [0] * quorum.ensemble_size
        self._failure: tuple[int, ZbkError] | None = None  # the lowest id that cannot be read
        self._is_over = not self._entry_ids
        self._speculative_ms = speculative_ms
        self._now_ms = 0

    @property
    def is_over(self) -> bool:
        """True when everything was delivered, or the read has failed."""
        return self._is_over

    @property
    def speculate_at_ms(self) -> int | None:
        """When ``ReadTicked`` is needed; ``None``: never."""
        due_ms = [race.speculate_at_ms for _, race in self._requests.values()]
        return min((at_ms for at_ms in due_ms if at_ms is not None), default=None)

    def strike_count(self, slot: int) -> int:
        """Return the number of failures and slow answers of a slot."""
        return self._strikes[slot]

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. An answer to no request is ignored."""
        self._now_ms = now_ms
        if self._is_over:
            return []
        effects: list[Effect] = []
        match event:
            case ReadStarted():
                effects += self._ask(Segment(self._entry_ids))
            case ReadAnswered(slot, read_id, body):
                race = self._close_request(slot, read_id)
                if race is None:
                    return []
                if isinstance(body, ZbkError):
                    effects += self._on_error(slot, race, body)
                else:
                    effects += self._on_body(slot, race, body)
            case ReadTicked():
                effects += self._on_ticked()
            case _:
                assert_never(event)
        effects += self._deliver()
        self._check()
        return effects

    # ------------------------------------------------------------------ events

    def _on_body(self, slot: int, race: Race, body: bytes) -> list[Effect]:
        segment = race.segment
        batch, is_all = decode_entries(
            body, segment.entry_ids, self._ledger_id, self._digest_type, self._digest
        )
        if len(batch):
            self._end_race(race)
            self._ahead.append(batch)
        rest = segment.entry_ids[len(batch) :]
        if not rest:
            return []
        race.segment = segment.rest(rest)
        if is_all and len(batch):
            return self._ask(race.segment)
        return self._miss(slot, race, 0, DigestMismatchError(self._ledger_id, rest[0]))

    def _on_error(self, slot: int, race: Race, error: ZbkError) -> list[Effect]:
        ids = race.segment.entry_ids
        if isinstance(error, NoSuchEntryError | DamageError | UnknownLedgerStateError):
            return self._miss(slot, race, _index_of(error, ids), error)
        self._strikes[slot] += 1
        race.segment = race.segment.after(ids, slot, error)
        if race.read_ids:  # another slot was asked for the same ids
            return []
        return self._ask(race.segment)

    def _on_ticked(self) -> list[Effect]:
        effects: list[Effect] = []
        for race in dict.fromkeys(race for _, race in self._requests.values()):
            if race.speculate_at_ms is not None and self._now_ms >= race.speculate_at_ms:
                race.speculate_at_ms = None
                effects += self._speculate(race)
        return effects

    def _close_request(self, slot: int, read_id: int) -> Race | None:
        asked, race = self._requests.get(read_id, (slot, None))
        if race is None or asked != slot:
            return None
        del self._requests[read_id]
        race.read_ids.remove(read_id)
        return race

    def _end_race(self, race: Race) -> None:
        """Drop the other requests for these ids."""
        for read_id in race.read_ids:
            del self._requests[read_id]
        race.read_ids.clear()

    def _miss(self, slot: int, race: Race, index: int, error: ZbkError) -> list[Effect]:
        """Exclude the slot for one entry; request the other ids again."""
        self._end_race(race)
        self._strikes[slot] += 1
        segment, ids = race.segment, race.segment.entry_ids
        effects = self._ask(segment.rest(ids[:index]))
        effects += self._ask(segment.after(ids[index : index + 1], slot, error))
        return effects + self._ask(segment.rest(ids[index + 1 :]))

    # ------------------------------------------------------------------ requests

    def _ask(self, segment: Segment) -> list[Effect]:
        ids = segment.entry_ids
        if not ids or (self._failure is not None and ids[0] > self._failure[0]):
            return []  # entries after one that cannot be read are not wanted
        effects: list[Effect] = []
        for slot, chosen in self._share(ids, segment.tried).items():
            if slot is None:
                self._fail(segment.rest(chosen))
            else:
                effects.append(self._send(slot, Race(segment.rest(chosen))))
        return effects

    def _speculate(self, race: Race) -> list[Effect]:
        """Ask the next replicas for the ids of a slow request."""
        segment = race.segment
        shares = self._share(segment.entry_ids, segment.tried | race.asked)
        if None in shares:  # every replica was asked
            return []
        for read_id in race.read_ids:
            self._strikes[self._requests[read_id][0]] += 1
        if len(shares) == 1:
            return [self._send(slot, race) for slot in shares if slot is not None]
        self._end_race(race)
        return [
            self._send(slot, Race(segment.rest(chosen), race.asked))
            for slot, chosen in shares.items()
            if slot is not None
        ]

    def _share(self, ids: Sequence[int], excluded: int) -> dict[int | None, Sequence[int]]:
        """Divide ids by the slot to ask next; under ``None`` those with no slot left."""
        if not self._is_spread:
            return {self._choose(self._order, excluded): ids}
        size = self._quorum.ensemble_size
        is_row = isinstance(ids, range)
        firsts = ids[:size] if is_row else ids  # of each residue the first, or all
        residues = dict.fromkeys(entry_id % size for entry_id in firsts)
        choice = {r: self._choose(self._write_set(r), excluded) for r in residues}
        shares: dict[int | None, Sequence[int]] = {}
        for slot in dict.fromkeys(choice.values()):
            share = array("q", (one for one in firsts if choice[one % size] == slot))
            shares[slot] = ids_in_rounds(share, size, ids[-1] + 1) if is_row else share
        return shares

    def _write_set(self, residue: int) -> list[int]:
        members = self._quorum.write_set(residue)
        return [slot for slot in self._order if slot in members]

    def _choose(self, candidates: Sequence[int], tried: int) -> int | None:
        left = [slot for slot in candidates if not tried >> slot & 1]
        return min(left, key=self._strikes.__getitem__) if left else None

    def _send(self, slot: int, race: Race) -> SendRead:
        read_id = self._next_read_id
        self._next_read_id += 1
        self._requests[read_id] = (slot, race)
        race.read_ids.append(read_id)
        race.asked |= 1 << slot
        if self._speculative_ms:
            race.speculate_at_ms = self._now_ms + self._speculative_ms
        return SendRead(slot, race.segment.entry_ids, read_id)

    def _fail(self, segment: Segment) -> None:
        entry_id, error = segment.entry_ids[0], segment.error
        assert error is not None, "a replica was tried"
        if is_absence(error):
            error = NoSuchEntryError(self._ledger_id, entry_id)
        if self._failure is None or entry_id < self._failure[0]:
            self._failure = (entry_id, error)

    # ------------------------------------------------------------------ delivery

    def _deliver(self) -> list[Effect]:
        ready = self._take_ready()
        self._position += sum(map(len, ready))
        is_last = self._position == len(self._entry_ids)
        effects: list[Effect] = [Delivered(merge(ready), is_last)] if ready else []
        if is_last:
            self._is_over = True
        elif self._failure is not None and self._failure[0] == self._entry_ids[self._position]:
            self._is_over = True
            effects.append(ReadFailed(self._failure[1]))
        return effects

    def _take_ready(self) -> list[ReadBatch]:
        """Remove and return what is verified before the first entry that is missing.

        An entry that is not verified is asked for, or comes after one that cannot be read.
        """
        missing_ids = [race.segment.entry_ids[0] for _, race in self._requests.values()]
        if self._failure is not None:
            missing_ids.append(self._failure[0])
        ahead, self._ahead = self._ahead, []
        if not missing_ids:
            return ahead
        end, ready = min(missing_ids), []
        for batch in ahead:
            cut = bisect_left(batch.entry_ids, end)
            if cut:
                ready.append(batch.part(0, cut))
            if cut < len(batch):
                self._ahead.append(batch.part(cut, len(batch)))
        return ready

    def _check(self) -> None:
        if self._is_over:
            return
        assert self._requests, "an answer is awaited"
        for read_id, (slot, race) in self._requests.items():
            assert read_id in race.read_ids, "a race knows its requests"
            assert race.asked >> slot & 1, "a race knows its slots"
            assert not race.segment.tried >> slot & 1, "a failed slot is not asked again"
        next_id = self._entry_ids[self._position]
        firsts = (batch.first_entry_id for batch in self._ahead)
        assert all(first > next_id for first in firsts), "the next entry is delivered"


def _index_of(error: ZbkError, entry_ids: Sequence[int]) -> int:
    """Return the index of the entry that an error names; the first one if it names none."""
    named = (NoSuchEntryError, EntryUnreadableError, DigestMismatchError)
    entry_id = error.entry_id if isinstance(error, named) else None
    return entry_ids.index(entry_id) if entry_id in entry_ids else 0
