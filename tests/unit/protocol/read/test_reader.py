"""RangeRead: golden stories, and an oracle over random replicas."""

import random
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import assert_never

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.golden import run_script, scripts
from tests.support.quorums import quorums
from tests.support.recovery_world import ledger
from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.range_read import (
    Delivered,
    Effect,
    Event,
    RangeRead,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    ReadTicked,
    SendRead,
)

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)


def payload(entry_id: int) -> bytes:
    return b"%d" % entry_id * (1 + entry_id % 3)


def encoded(entry_id: int) -> bytes:
    return encode_entries(
        LEDGER_ID, [entry_id], -1, 0, [payload(entry_id)], DigestType.XXH3, DIGEST
    )[0]


def damaged(entry_id: int) -> bytes:
    whole = bytearray(encoded(entry_id))
    whole[-1] ^= 1
    return bytes(whole)


def _timeout(slot: int) -> RequestTimeoutError:
    return RequestTimeoutError(f"read of ledger {LEDGER_ID} from slot {slot}", 5)


def make_read(
    quorum: Quorum,
    first: int,
    last: int,
    slot_order: Sequence[int] | None = None,
    only_slot: int | None = None,
    speculative_ms: int = 0,
) -> RangeRead:
    return RangeRead(
        ledger(quorum),
        first,
        last,
        digest=DIGEST,
        slot_order=slot_order,
        only_slot=only_slot,
        speculative_ms=speculative_ms,
    )


# ------------------------------------------------------------------ golden stories


class ReadScript:
    """The commands a golden script may use."""

    def __init__(self) -> None:
        self.read = make_read(Quorum(1, 1, 1), 0, 0)
        self.requests: dict[int, SendRead] = {}
        self.now_ms = 0

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects: list[Effect] = getattr(self, f"do_{name}")(*args)
        for effect in effects:
            if isinstance(effect, SendRead):
                self.requests[effect.read_id] = effect
        return "\n    ".join([f"{' '.join(words)}:", *map(_line, effects)])

    def do_read(self, sizes: str, first: str, last: str, *options: str) -> list[Effect]:
        ensemble, write, ack = map(int, sizes.split("/"))
        only = [int(o.removeprefix("only=s")) for o in options if o.startswith("only")]
        speculative = [int(o.removeprefix("speculate=")) for o in options if o[0] == "s"]
        self.now_ms = 0
        self.read = make_read(
            Quorum(ensemble, write, ack),
            int(first),
            int(last),
            only_slot=only[0] if only else None,
            speculative_ms=speculative[0] if speculative else 0,
        )
        return self._handle(ReadStarted())

    def do_wait(self, wait_ms: str) -> list[Effect]:
        self.now_ms += int(wait_ms)
        return self._handle(ReadTicked())

    def do_answer(self, read_id: str, *ids: str) -> list[Effect]:
        """Answer with entries; ``!3`` is entry 3 damaged, ``~`` some garbage."""
        pieces = []
        for name in ids:
            if name == "~":
                pieces.append(b"garbage" * 20)
            else:
                pieces.append(damaged(int(name[1:])) if name[0] == "!" else encoded(int(name)))
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), b"".join(pieces)))

    def do_missing(self, read_id: str, entry_id: str) -> list[Effect]:
        error = NoSuchEntryError(LEDGER_ID, int(entry_id))
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_unreadable(self, read_id: str, entry_id: str) -> list[Effect]:
        error = EntryUnreadableError(LEDGER_ID, int(entry_id), "bad sector")
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_unknown(self, read_id: str) -> list[Effect]:
        error = NoSuchLedgerError(LEDGER_ID)
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_lost(self, read_id: str) -> list[Effect]:
        error = BookieUnavailableError(f"b{self._slot(read_id)}", "connection lost")
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_timeout(self, read_id: str) -> list[Effect]:
        slot = self._slot(read_id)
        return self._handle(ReadAnswered(slot, int(read_id), _timeout(slot)))

    def _slot(self, read_id: str) -> int:
        return self.requests[int(read_id)].slot

    def _handle(self, event: Event) -> list[Effect]:
        return self.read.handle(event, self.now_ms)


def _line(effect: Effect) -> str:
    match effect:
        case SendRead():
            return f"#{effect.read_id} s{effect.slot} <- read {_ids(effect.entry_ids)}"
        case Delivered():
            end = ", the last" if effect.is_last else ""
            return f"delivered {_ids(effect.batch.entry_ids)}{end}"
        case ReadFailed():
            return f"failed: {type(effect.error).__name__}({effect.error})"
        case _:
            assert_never(effect)


def _ids(ids: Sequence[int]) -> str:
    if len(ids) > 1 and list(ids) == list(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}..{ids[-1]}"
    return ",".join(map(str, ids))


@pytest.mark.parametrize("script", scripts("reader"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, ReadScript(), rewrite=rewrite_golden)


# ------------------------------------------------------------------ an oracle

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
                return ReadAnswered(slot, read_id, _timeout(slot))
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


@given(
    quorum=quorums,
    first=st.integers(0, 10),
    count=st.integers(1, 25),
    seed=st.integers(0, 2**32),
    health=st.sampled_from([0.3, 0.6, 0.8, 0.95, 1.0]),
    is_ordered=st.booleans(),
    slowness=st.sampled_from([0.0, 0.3, 0.8]),
)
@settings(max_examples=400, deadline=None)
def test_a_read_gives_all_before_the_first_entry_without_a_good_replica(
    quorum: Quorum,
    first: int,
    count: int,
    seed: int,
    health: float,
    is_ordered: bool,
    slowness: float,
) -> None:
    ids = range(first, first + count)
    replicas = Replicas(quorum, ids, seed, health)
    order = list(range(quorum.ensemble_size))
    if not is_ordered:
        replicas.random.shuffle(order)

    delivered, end, request_count = run_read(
        make_read(quorum, ids[0], ids[-1], slot_order=order, speculative_ms=200),
        replicas,
        slowness,
    )

    outcomes = {e: [replicas.outcome(slot, e) for slot in quorum.write_set(e)] for e in ids}
    bad_ids = [e for e in ids if None not in outcomes[e]]
    good_ids = range(first, bad_ids[0] if bad_ids else first + count)
    assert delivered == [(e, payload(e)) for e in good_ids]
    asked_count_max = 2 * count * quorum.write_size + quorum.ensemble_size * (count + 1)
    assert request_count <= asked_count_max * (quorum.write_size if slowness else 1)
    if not bad_ids:
        assert isinstance(end, Delivered)
        assert end.is_last
        return
    assert isinstance(end, ReadFailed)
    real = {o for o in outcomes[bad_ids[0]] if o not in (NoSuchEntryError, NoSuchLedgerError)}
    assert type(end.error) in (real or {NoSuchEntryError})
    if not real:
        assert end.error.args == (LEDGER_ID, bad_ids[0])


@given(quorum=quorums, count=st.integers(1, 25), seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_read_of_one_slot_gives_what_that_slot_has(
    quorum: Quorum, count: int, seed: int, data: st.DataObject
) -> None:
    slot = data.draw(st.integers(0, quorum.ensemble_size - 1))
    replicas = Replicas(quorum, range(count), seed, 0.9)
    held = list(quorum.entry_ids(slot, 0, count - 1))
    read = make_read(quorum, 0, count - 1, only_slot=slot)
    if not held:
        assert read.is_over, "there is nothing to read"
        assert read.handle(ReadStarted(), 0) == []
        return

    delivered, end, _ = run_read(read, replicas)

    bad_ids = [e for e in held if replicas.outcome(slot, e) is not None]
    good_ids = [e for e in held if not bad_ids or e < bad_ids[0]]
    assert delivered == [(e, payload(e)) for e in good_ids]
    assert isinstance(end, ReadFailed) == bool(bad_ids)


# ------------------------------------------------------------------ what neither shows


def test_a_healthy_read_asks_one_bookie_once_and_delivers_at_once() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 999, slot_order=[2, 0, 1])

    assert read.handle(ReadStarted(), 0) == [SendRead(2, range(1000), 0)]
    effects = read.handle(ReadAnswered(2, 0, b"".join(map(encoded, range(1000)))), 0)

    assert [type(effect) for effect in effects] == [Delivered]
    assert read.is_over


def test_a_bookie_that_lost_a_long_run_is_not_asked_entry_by_entry() -> None:
    quorum = Quorum(3, 3, 2)
    replicas = Replicas(quorum, range(500), 1, 1.0)
    replicas.answer_counts = [1000]
    replicas.state |= {(0, entry_id): DAMAGED for entry_id in range(100, 500)}
    read = make_read(quorum, 0, 499, slot_order=[0, 1, 2])

    delivered, end, request_count = run_read(read, replicas)

    assert len(delivered) == 500
    assert isinstance(end, Delivered)
    assert request_count == 3, "the chunk, the first damaged entry, and what comes after it"


def test_late_news_of_a_read_that_is_over_changes_nothing() -> None:
    read = make_read(Quorum(1, 1, 1), 0, 0)
    read.handle(ReadStarted(), 0)
    read.handle(ReadAnswered(0, 0, encoded(0)), 0)

    assert read.handle(ReadAnswered(0, 0, encoded(0)), 0) == []
    assert read.handle(ReadAnswered(0, 0, _timeout(0)), 0) == []


def test_an_answer_from_another_slot_than_asked_is_not_taken() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 0)
    read.handle(ReadStarted(), 0)

    assert read.handle(ReadAnswered(1, 0, encoded(0)), 0) == []
    assert read.handle(ReadAnswered(0, 7, encoded(0)), 0) == []
    assert not read.is_over


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_read_fails_as_the_replica_does_that_may_still_be_read(order: tuple[int, ...]) -> None:
    """Seed 62008048: damage on one bookie ended a tail while the other one was only away."""
    errors = [
        NoSuchEntryError(LEDGER_ID, 0),
        EntryUnreadableError(LEDGER_ID, 0, "bad sector"),
        BookieUnavailableError("b2", "was lost"),
    ]
    read = make_read(Quorum(3, 3, 2), 0, 0)
    effects = read.handle(ReadStarted(), 0)

    for slot, which in enumerate(order):
        effects = read.handle(ReadAnswered(slot, slot, errors[which]), 0)

    (failed,) = effects
    assert isinstance(failed, ReadFailed)
    assert failed.error is errors[2]


# ------------------------------------------------------------------ speculation


def test_the_next_replica_is_asked_only_when_the_time_is_over() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, speculative_ms=200)
    read.handle(ReadStarted(), 1_000)

    assert read.speculate_at_ms == 1_200
    assert read.handle(ReadTicked(), 1_199) == []
    assert read.handle(ReadTicked(), 1_200) == [SendRead(1, range(10), 1)]
    assert read.speculate_at_ms == 1_400
    assert read.handle(ReadTicked(), 1_400) == [SendRead(2, range(10), 2)]
    assert read.handle(ReadTicked(), 1_600) == []
    assert read.speculate_at_ms is None, "there is nobody left to ask"


def test_without_speculation_time_makes_no_difference() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9)
    read.handle(ReadStarted(), 1_000)

    assert read.speculate_at_ms is None
    assert read.handle(ReadTicked(), 1_000_000) == []


def test_a_read_of_one_slot_is_not_speculated_on() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, only_slot=1, speculative_ms=200)
    read.handle(ReadStarted(), 0)

    assert read.handle(ReadTicked(), 200) == []


@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_valid_answer_wins_and_the_other_is_late(winner: int) -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, speculative_ms=200)
    read.handle(ReadStarted(), 0)
    read.handle(ReadTicked(), 200)
    body = b"".join(map(encoded, range(10)))

    (effect,) = read.handle(ReadAnswered(winner, winner, body), 210)

    assert isinstance(effect, Delivered)
    assert effect.is_last
    assert read.handle(ReadAnswered(1 - winner, 1 - winner, body), 220) == []


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(2, 2, 2), Quorum(4, 2, 2)], ids=str)
def test_b27_a_read_with_one_damaged_replica_completes_from_the_others(quorum: Quorum) -> None:
    """B27: the damaged answer comes while another replica is asked, and hangs nothing."""
    for seed in range(50):
        replicas = Replicas(quorum, range(40), seed, 1.0)
        damaged_slot = seed % quorum.ensemble_size
        for slot, entry_id in replicas.state:
            if slot == damaged_slot:
                replicas.state[slot, entry_id] = DAMAGED
        size = quorum.ensemble_size
        order = [(damaged_slot + i) % size for i in range(size)]
        read = make_read(quorum, 0, 39, slot_order=order, speculative_ms=200)

        delivered, end, _ = run_read(read, replicas, slowness=0.5)

        assert delivered == [(e, payload(e)) for e in range(40)]
        assert isinstance(end, Delivered)
        assert read.strike_count(damaged_slot) > 0
