"""GarbageRound: golden stories."""

from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from zbk.protocol.upkeep.gc import (
    CANDIDATE_COUNT_MAX,
    DROP_COUNT_MAX,
    READ_COUNT_MAX,
    GarbageRound,
)
from zbk.protocol.upkeep.gc_events import (
    CounterRead,
    DropLedgers,
    Effect,
    EndRound,
    Event,
    Finding,
    LedgersDropped,
    LedgersListed,
    LedgersRead,
    ListLedgers,
    MetadataFailed,
    ReadCounter,
    ReadMetadata,
    RoundBegun,
    TimePassed,
    Wait,
)


class GarbageScript:
    """The commands a golden script may use. The pause between two looks is 1000 ms."""

    def __init__(self) -> None:
        self.do_local()

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects = getattr(self, f"do_{name.replace('-', '_')}")(*args)
        return "\n    ".join([f"{' '.join(words)}:", *map(_line, effects)])

    def do_local(self, *ids: str) -> list[Effect]:
        """Start with a bookie that has these ledgers, and session 1."""
        self.round = GarbageRound(confirm_delay_ms=1000)
        self.local = [int(one) for one in ids]
        self.session: int | None = 1
        self.now_ms = 0
        return []

    def do_begin(self) -> list[Effect]:
        """Begin."""
        return self._say(RoundBegun(self.local))

    def do_session(self, number: str) -> list[Effect]:
        """Have the next answers come from another session, or from one in doubt: ``none``."""
        self.session = None if number == "none" else int(number)
        return []

    def do_counter(self, next_ledger_id: str, *note: str) -> list[Effect]:
        """Answer with the counter; ``emptied``: and with the note that no ledger is left."""
        is_emptied = note == ("emptied",)
        return self._say(CounterRead(int(next_ledger_id), self.session, is_emptied=is_emptied))

    def do_listed(self, *ids: str) -> list[Effect]:
        """Answer with a piece of the list."""
        return self._say(LedgersListed([*map(int, ids)], is_last=False, session=self.session))

    def do_list_ends(self) -> list[Effect]:
        """Answer that this was the list."""
        return self._say(LedgersListed([], is_last=True, session=self.session))

    def do_read(self, *findings: str) -> list[Effect]:
        """Answer for each ledger: ``7=absent``."""
        pairs = [one.split("=") for one in findings]
        found = {int(ledger_id): Finding(text) for ledger_id, text in pairs}
        return self._say(LedgersRead(found, self.session))

    def do_fails(self, *words: str) -> list[Effect]:
        """Answer with an error."""
        return self._say(MetadataFailed(" ".join(words)))

    def do_wait(self, until_ms: str) -> list[Effect]:
        """Let it be that time."""
        self.now_ms = int(until_ms)
        return self._say(TimePassed())

    def do_dropped(self, count: str) -> list[Effect]:
        """Answer that so many are gone."""
        return self._say(LedgersDropped(int(count)))

    def _say(self, event: Event) -> list[Effect]:
        return self.round.handle(event, self.now_ms)


def _line(effect: Effect) -> str:
    match effect:
        case ReadCounter():
            return "counter?"
        case ListLedgers():
            return "list?"
        case ReadMetadata(ledger_ids):
            return f"read {_ids(ledger_ids)}?"
        case Wait(until_ms):
            return f"wait until {until_ms}"
        case DropLedgers(ledger_ids):
            return f"drop {_ids(ledger_ids)}"
        case EndRound(result):
            return (
                f"end: {result.local_count} local, {result.listed_count} listed, "
                f"{result.candidate_count} candidates, {result.dropped_count} dropped, "
                f"{result.kept_count} kept" + (f"; {result.gave_up}" if result.gave_up else "")
            )
        case _:
            assert_never(effect)


def _ids(ledger_ids: object) -> str:
    assert isinstance(ledger_ids, tuple)
    return " ".join(map(str, ledger_ids))


@pytest.mark.parametrize("path", scripts("gc"), ids=lambda path: path.stem)
def test_golden(path: Path, rewrite_golden: bool) -> None:
    """B32: what a round of garbage collection believes, and what not."""
    run_script(path, GarbageScript(), rewrite=rewrite_golden)


def _only(effects: list[Effect]) -> Effect:
    (effect,) = effects
    return effect


def test_questions_and_drops_come_in_pieces() -> None:
    garbage = GarbageRound(0)
    ids = range(300)
    garbage.handle(RoundBegun(ids), 0)
    garbage.handle(CounterRead(1_000, 1), 0)
    garbage.handle(LedgersListed([900], is_last=False, session=1), 0)
    effect = _only(garbage.handle(LedgersListed([], is_last=True, session=1), 0))
    for look in range(2):
        asked: list[int] = []
        while isinstance(effect, ReadMetadata):
            assert len(effect.ledger_ids) <= READ_COUNT_MAX
            asked += effect.ledger_ids
            findings = dict.fromkeys(effect.ledger_ids, Finding.ABSENT)
            effect = _only(garbage.handle(LedgersRead(findings, 1), 0))
        assert asked == list(ids)
        if look == 0:
            assert effect == Wait(0)
            assert garbage.handle(TimePassed(), 0) == [ReadCounter()]
            effect = _only(garbage.handle(CounterRead(1_000, 1), 0))
    dropped: list[int] = []
    while isinstance(effect, DropLedgers):
        assert len(effect.ledger_ids) <= DROP_COUNT_MAX
        dropped += effect.ledger_ids
        effect = _only(garbage.handle(LedgersDropped(len(effect.ledger_ids)), 0))
    assert dropped == list(ids)
    assert isinstance(effect, EndRound)
    assert effect.result.dropped_count == 300


def test_more_candidates_than_fit_in_a_round_wait_for_the_next() -> None:
    garbage = GarbageRound(0)
    garbage.handle(RoundBegun(range(CANDIDATE_COUNT_MAX + 5)), 0)
    garbage.handle(CounterRead(CANDIDATE_COUNT_MAX + 9, 1), 0)
    garbage.handle(LedgersListed([CANDIDATE_COUNT_MAX + 8], is_last=True, session=1), 0)

    effect = _only(garbage.handle(MetadataFailed("over"), 0))

    assert isinstance(effect, EndRound)
    assert effect.result.candidate_count == CANDIDATE_COUNT_MAX
    assert garbage.handle(TimePassed(), 0) == []
