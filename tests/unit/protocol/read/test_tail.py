"""TailCore: golden stories, and a ledger whose bookies tell what they like, when they like."""

import random
from pathlib import Path
from typing import assert_never

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.golden import run_script, scripts
from tests.support.ledgers import metadata_maker
from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.tail import (
    Effect,
    EntriesConfirmed,
    EntriesUnread,
    EntriesWanted,
    Event,
    MetadataSeen,
    PollAnswered,
    PollLac,
    ReadMetadata,
    TailCore,
    TailEnded,
    TailFailed,
    TailLimits,
    TailTicked,
)

LIMITS = TailLimits(wait_ms=5_000, outage_ms=60_000)
OPEN = metadata_maker()(7)

ERRORS: dict[str, ZbkError] = {
    "lost": BookieUnavailableError("b", "connection lost"),
    "timeout": RequestTimeoutError("poll", 5.0),
    "unknown": NoSuchLedgerError(7),
    "unauthorized": UnauthorizedError(7),
    "damaged": DigestMismatchError(7, 3),
}


class TailScript:
    """The commands a golden script may use. Polls are answered by their number."""

    def __init__(self) -> None:
        self.do_open("-1")

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects: list[Effect] = getattr(self, f"do_{name}")(*args)
        return "\n    ".join([f"{' '.join(words)}:", *map(_line, effects)])

    def do_open(self, lac: str) -> list[Effect]:
        self.now_ms = 0
        self.metadata = OPEN
        self.version = 0
        self.tail = TailCore(OPEN, 0, int(lac), LIMITS)
        return []

    def do_want(self, entry_id: str) -> list[Effect]:
        return self._handle(EntriesWanted(int(entry_id)))

    def do_told(self, poll_id: str, lac: str) -> list[Effect]:
        return self._handle(PollAnswered(int(poll_id), int(lac)))

    def do_refused(self, poll_id: str, error: str) -> list[Effect]:
        return self._handle(PollAnswered(int(poll_id), ERRORS[error]))

    def do_unread(self, error: str) -> list[Effect]:
        return self._handle(EntriesUnread(ERRORS[error]))

    def do_wait(self, wait_ms: str) -> list[Effect]:
        """Pass time, and tick whenever it is due."""
        end_ms = self.now_ms + int(wait_ms)
        effects: list[Effect] = []
        while (due_ms := self.tail.due_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            effects += self._handle(TailTicked())
        self.now_ms = end_ms
        return effects

    def do_recovering(self) -> list[Effect]:
        return self._see(self.metadata.with_recovery())

    def do_closed(self, last: str) -> list[Effect]:
        return self._see(self.metadata.with_closed(int(last), 0))

    def do_ensemble(self, first: str, *bookies: str) -> list[Effect]:
        return self._see(self.metadata.with_new_fragment(int(first), bookies))

    def do_stale(self) -> list[Effect]:
        return self._handle(MetadataSeen(OPEN, 0))

    def do_deleted(self) -> list[Effect]:
        return self._handle(MetadataSeen(None))

    def _see(self, metadata: LedgerMetadata) -> list[Effect]:
        self.metadata = metadata
        self.version += 1
        return self._handle(MetadataSeen(metadata, self.version))

    def _handle(self, event: Event) -> list[Effect]:
        return self.tail.handle(event, self.now_ms)


def _line(effect: Effect) -> str:
    match effect:
        case PollLac():
            return f"#{effect.poll_id} {effect.bookie_id} <- lac above {effect.known_lac}?"
        case ReadMetadata():
            return "read the metadata"
        case EntriesConfirmed():
            return f"confirmed up to {effect.lac}"
        case TailEnded():
            return "the end"
        case TailFailed():
            return f"failed: {type(effect.error).__name__}({effect.error})"
        case _:
            assert_never(effect)


@pytest.mark.parametrize("script", scripts("tail"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, TailScript(), rewrite=rewrite_golden)


# ------------------------------------------------------------------ any story


class World:
    """A ledger that is written, changes its bookies, is recovered and closed; and its tail.

    Bookies know any LAC up to the true one; polls are answered late, early, or not at all.
    """

    def __init__(self, seed: int, health: float) -> None:
        self.random = random.Random(seed)
        self.health = health
        self.now_ms = 0
        self.lac = -1
        self.metadata = OPEN
        self.version = 0
        self.told: list[LedgerMetadata] = [OPEN]
        self.polls: list[PollLac] = []
        self.tail = TailCore(OPEN, 0, -1, TailLimits(wait_ms=5_000, outage_ms=10**9))
        self.confirmed = -1
        self.next_id = 0
        self.is_ended = False
        self.wants = True

    def step(self) -> None:
        action = self.random.choice(
            [self.write, self.answer, self.answer, self.tick, self.want, self.want, self.change,
             self.see, self.lose]
        )  # fmt: skip
        action()

    def write(self) -> None:
        if self.metadata.state is LedgerState.OPEN:
            self.lac += self.random.randrange(3)

    def change(self) -> None:
        metadata = self.metadata
        match metadata.state, self.random.randrange(10):
            case LedgerState.OPEN, 0:
                metadata = metadata.with_recovery()
            case LedgerState.OPEN, 1:
                metadata = metadata.with_closed(self.lac, 0)
            case LedgerState.OPEN, _:
                if self.lac + 1 > metadata.last_fragment.first_entry_id:
                    names = self.random.sample([f"b{n}" for n in range(6)], 3)
                    metadata = metadata.with_new_fragment(self.lac + 1, tuple(names))
            case LedgerState.IN_RECOVERY, 0:
                self.lac += self.random.randrange(3)  # it finds more than was told
                metadata = metadata.with_closed(self.lac, 0)
            case _:
                return
        self.metadata = metadata
        self.version += 1
        self.told.append(metadata)

    def see(self) -> None:
        index = self.random.randrange(len(self.told))
        self.handle(MetadataSeen(self.told[index], index))

    def answer(self) -> None:
        if self.polls:
            poll = self.polls.pop(self.random.randrange(len(self.polls)))
            if self.random.random() < self.health:
                self.handle(PollAnswered(poll.poll_id, self.random.randint(-1, self.lac)))
            else:
                self.handle(PollAnswered(poll.poll_id, ERRORS["lost"]))

    def lose(self) -> None:
        if self.random.random() < 0.1 and self.confirmed >= self.next_id:
            self.handle(EntriesUnread(ERRORS["lost"]))
            self.confirmed = self.next_id - 1

    def tick(self) -> None:
        self.now_ms += self.random.randrange(400)
        self.handle(TailTicked())

    def want(self) -> None:
        if self.wants or self.next_id <= self.confirmed:
            self.wants = False
            self.next_id = max(self.next_id, self.confirmed + 1)
            self.handle(EntriesWanted(self.next_id))

    def handle(self, event: Event) -> None:
        if self.is_ended:
            assert self.tail.handle(event, self.now_ms) == []
            return
        for effect in self.tail.handle(event, self.now_ms):
            match effect:
                case PollLac():
                    assert effect.known_lac < self.next_id, "nothing is asked while there is more"
                    self.polls.append(effect)
                case ReadMetadata():
                    continue
                case EntriesConfirmed():
                    assert self.next_id <= effect.lac <= self.lac, "only what is confirmed"
                    self.confirmed = effect.lac
                case TailEnded():
                    assert self.metadata.is_closed
                    assert self.next_id == self.metadata.last_entry_id + 1  # type: ignore[operator]  # closed
                    self.is_ended = True
                case TailFailed():
                    raise AssertionError(f"nothing failed for good: {effect.error}")

    def settle(self) -> None:
        """Close the ledger, let everybody be well, and see the tail come to its end."""
        if not self.metadata.is_closed:
            self.metadata = self.metadata.with_closed(self.lac, 0)
            self.told.append(self.metadata)
        self.handle(MetadataSeen(self.told[-1], len(self.told) - 1))
        for _ in range(20):
            self.tick()
            self.want()


@given(seed=st.integers(0, 2**32), health=st.sampled_from([0.2, 0.8, 1.0]))
@settings(max_examples=300, deadline=None)
def test_a_tail_gives_what_is_confirmed_and_ends_at_the_end(seed: int, health: float) -> None:
    world = World(seed, health)
    for _ in range(120):
        world.step()

    world.settle()

    assert world.is_ended


# ------------------------------------------------------------------ what neither shows


def waiting_tail(lac: int = -1) -> TailCore:
    tail = TailCore(OPEN, 0, lac, LIMITS)
    tail.handle(EntriesWanted(lac + 1), 0)
    return tail


def test_a_tail_that_nobody_reads_asks_nothing() -> None:
    tail = TailCore(OPEN, 0, 5, LIMITS)

    assert tail.handle(EntriesWanted(0), 0) == [EntriesConfirmed(5)]
    assert tail.due_ms is None
    assert tail.handle(TailTicked(), 100_000) == []


def test_all_bookies_failing_is_an_error_only_after_a_while() -> None:
    tail = waiting_tail()
    polls = list(range(3))
    now_ms = 0
    effects: list[Effect] = []
    while not any(isinstance(effect, TailFailed) for effect in effects):
        effects = []
        for poll_id in polls:
            effects += tail.handle(PollAnswered(poll_id, ERRORS["lost"]), now_ms)
        due_ms = tail.due_ms
        assert due_ms is not None
        now_ms = due_ms
        effects += tail.handle(TailTicked(), now_ms)
        polls = [effect.poll_id for effect in effects if isinstance(effect, PollLac)]

    assert now_ms == LIMITS.outage_ms
    failure = effects[-1]
    assert isinstance(failure, TailFailed)
    assert isinstance(failure.error, NotEnoughBookiesError)
    assert "b3: bookie b: connection lost" in str(failure.error)


def test_one_bookie_that_answers_keeps_a_tail_alive() -> None:
    tail = waiting_tail()
    tail.handle(PollAnswered(0, ERRORS["lost"]), 0)
    tail.handle(PollAnswered(1, ERRORS["lost"]), 0)

    tail.handle(TailTicked(), LIMITS.outage_ms)

    assert tail.handle(PollAnswered(2, 0), LIMITS.outage_ms + 1) == [EntriesConfirmed(0)]


def test_metadata_are_not_read_more_often_than_allowed() -> None:
    tail = waiting_tail()

    first = tail.handle(PollAnswered(0, ERRORS["lost"]), 10)
    second = tail.handle(PollAnswered(1, ERRORS["lost"]), 11)

    assert ReadMetadata() in first
    assert ReadMetadata() not in second


def test_a_read_that_fails_for_long_ends_the_tail_with_its_own_error() -> None:
    tail = TailCore(OPEN, 0, 5, LIMITS)
    tail.handle(EntriesWanted(0), 0)
    now_ms = 0
    effects: list[Effect] = []
    while not any(isinstance(effect, TailFailed) for effect in effects):
        tail.handle(EntriesUnread(ERRORS["timeout"]), now_ms)
        assert tail.due_ms is not None
        now_ms = tail.due_ms
        effects = tail.handle(TailTicked(), now_ms)

    assert LIMITS.outage_ms <= now_ms <= LIMITS.outage_ms + 2_000
    assert effects == [TailFailed(ERRORS["timeout"])]


def test_a_confirmed_entry_that_moved_is_read_again_while_the_ledger_is_open() -> None:
    """Old metadata name bookies that were replaced before they received it."""
    missing = NoSuchEntryError(7, 3)
    tail = TailCore(OPEN, 0, 5, LIMITS)
    tail.handle(EntriesWanted(0), 0)

    assert tail.handle(EntriesUnread(missing), 0) == [ReadMetadata()]
    assert tail.due_ms is not None
    assert tail.handle(TailTicked(), tail.due_ms) == [EntriesConfirmed(5)]

    tail.handle(MetadataSeen(OPEN.with_closed(5, 60), 1), 1_000)
    assert tail.handle(EntriesUnread(missing), 1_000) == [TailFailed(missing)]


def test_a_confirmed_entry_that_is_missing_for_long_ends_the_tail() -> None:
    missing = NoSuchEntryError(7, 3)
    tail = TailCore(OPEN, 0, 5, LIMITS)
    tail.handle(EntriesWanted(0), 0)
    now_ms = 0
    effects: list[Effect] = []
    while not any(isinstance(effect, TailFailed) for effect in effects):
        tail.handle(EntriesUnread(missing), now_ms)
        assert tail.due_ms is not None
        now_ms = tail.due_ms
        effects = tail.handle(TailTicked(), now_ms)

    assert LIMITS.outage_ms <= now_ms <= LIMITS.outage_ms + 2_000
    assert effects == [TailFailed(missing)]
