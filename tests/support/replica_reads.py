"""Reads of a range against replicas that are good, missing or damaged, at bookies of any mood."""

import random
from collections.abc import Sequence

from tests.support.recovery_world import DIGEST, LEDGER_ID, ledger, payload
from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.range_read import (
    Delivered,
    Effect,
    Event,
    RangeRead,
    ReadAnswered,
    ReadStarted,
    ReadTicked,
    SendRead,
)


def encoded(entry_id: int) -> bytes:
    """Return an entry as its writer encodes it, if it were the first of its ledger."""
    return encode_entries(
        LEDGER_ID, [entry_id], -1, 0, [payload(entry_id)], DigestType.XXH3, DIGEST
    )[0]


def damaged(entry_id: int) -> bytes:
    """Return such an entry with a flipped bit."""
    whole = bytearray(encoded(entry_id))
    whole[-1] ^= 1
    return bytes(whole)


def timeout(slot: int) -> RequestTimeoutError:
    """Return the error of a bookie that did not answer."""
    return RequestTimeoutError(f"read of ledger {LEDGER_ID} from slot {slot}", 5)


def make_read(
    quorum: Quorum,
    first: int,
    last: int,
    slot_order: Sequence[int] | None = None,
    only_slot: int | None = None,
    speculative_ms: int = 0,
) -> RangeRead:
    """Return a read of an open ledger with this quorum, not yet started."""
    return RangeRead(
        ledger(quorum),
        first,
        last,
        digest=DIGEST,
        slot_order=slot_order,
        only_slot=only_slot,
        speculative_ms=speculative_ms,
    )


GOOD, MISSING, DAMAGED, UNREADABLE = "good", "missing", "damaged", "unreadable"
SERVES, IS_SLOW, IS_DOWN, IS_NEW, IS_MAD = "serves", "slow", "down", "new", "mad"


class Replicas:
    """What each slot has of each entry, and how its bookie behaves; draws come from a seed."""

    def __init__(self, quorum: Quorum, ids: range, seed: int, health: float) -> None:
        self.random = random.Random(seed)
        self.quorum = quorum
        self.answer_counts = [1, 3, 1000]  # entries that fit into one answer
        bad_states = [MISSING, DAMAGED, UNREADABLE]
        self.state = {
            (slot, entry_id): GOOD
            if self.random.random() < health
            else self.random.choice(bad_states)
            for slot in range(quorum.ensemble_size)
            for entry_id in ids
            if quorum.holds(slot, entry_id)
        }
        moods = [IS_SLOW, IS_DOWN, IS_NEW, IS_MAD]
        self.mood = [
            SERVES if self.random.random() < health else self.random.choice(moods)
            for _ in range(quorum.ensemble_size)
        ]

    def outcome(self, slot: int, entry_id: int) -> type[ZbkError] | None:
        """Return the error that an attempt at this replica ends with, ``None`` if it is good."""
        by_mood = {
            IS_SLOW: RequestTimeoutError,
            IS_DOWN: BookieUnavailableError,
            IS_NEW: NoSuchLedgerError,
            IS_MAD: DigestMismatchError,
        }
        by_state = {
            MISSING: NoSuchEntryError,
            DAMAGED: DigestMismatchError,
            UNREADABLE: EntryUnreadableError,
        }
        return by_mood.get(self.mood[slot]) or by_state.get(self.state[slot, entry_id])

    def answer(self, request: SendRead) -> Event:
        """Answer as the bookie would."""
        slot, read_id = request.slot, request.read_id
        match self.mood[slot]:
            case "slow":
                return ReadAnswered(slot, read_id, timeout(slot))
            case "down":
                return ReadAnswered(slot, read_id, BookieUnavailableError(f"b{slot}", "is down"))
            case "new":
                return ReadAnswered(slot, read_id, NoSuchLedgerError(LEDGER_ID))
            case "mad":
                return ReadAnswered(
                    slot, read_id, self.random.randbytes(self.random.randrange(300))
                )
            case _:
                return self._serve(request)

    def _serve(self, request: SendRead) -> Event:
        slot, read_id = request.slot, request.read_id
        body = b""
        count_max = self.random.choice(self.answer_counts)
        for entry_id in request.entry_ids[:count_max]:
            state = self.state[slot, entry_id]
            if state in (MISSING, UNREADABLE):
                if body and self.random.random() < 0.5:
                    break  # a partial answer; it will be asked for the rest
                return ReadAnswered(slot, read_id, self._refusal(state, entry_id))
            body += encoded(entry_id) if state == GOOD else damaged(entry_id)
        return ReadAnswered(slot, read_id, body)

    def _refusal(self, state: str, entry_id: int) -> ZbkError:
        if state == MISSING:
            return NoSuchEntryError(LEDGER_ID, entry_id)
        return EntryUnreadableError(LEDGER_ID, entry_id, "bad sector")


def run_read(
    read: RangeRead, replicas: Replicas, slowness: float = 0.0
) -> tuple[list[tuple[int, bytes]], Effect, int]:
    """Answer everything in random order; return what came, the last effect, and the requests.

    ``slowness`` is how likely a moment passes with no answer, long enough for a speculation.
    """
    now_ms = 0
    chance = replicas.random
    waiting: list[Event] = []
    delivered: list[tuple[int, bytes]] = []
    effects = read.handle(ReadStarted(), 0)
    request_count = 0
    last: Effect | None = None
    while True:
        for effect in effects:
            last = effect
            if isinstance(effect, SendRead):
                assert effect.entry_ids, "something is asked for"
                assert all(replicas.quorum.holds(effect.slot, e) for e in effect.entry_ids)
                request_count += 1
                waiting.append(replicas.answer(effect))
            elif isinstance(effect, Delivered):
                assert len(effect.batch), "something is delivered"
                delivered += zip(effect.batch.entry_ids, effect.batch, strict=True)
        if not waiting:
            break
        if read.speculate_at_ms is not None and chance.random() < slowness:
            now_ms = read.speculate_at_ms
            effects = read.handle(ReadTicked(), now_ms)
            continue
        event = waiting.pop(chance.randrange(len(waiting)))
        assert isinstance(event, ReadAnswered)
        if isinstance(event.body, RequestTimeoutError) and chance.random() < 0.5:
            late = ReadAnswered(event.slot, event.read_id, b"late news")
            waiting.append(late)
        effects = read.handle(event, now_ms)
    assert last is not None
    assert read.is_over
    return delivered, last, request_count
