"""Rounds of garbage collection: golden stories."""

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from zbk.errors import ZbkError
from zbk.protocol.procedure import Procedure
from zbk.protocol.upkeep.gc import (
    CANDIDATE_COUNT_MAX,
    DROP_COUNT_MAX,
    READ_COUNT_MAX,
    Counter,
    DropLedgers,
    Dropped,
    Effect,
    Finding,
    Findings,
    ListLedgers,
    ListMore,
    ListPiece,
    ReadCounter,
    ReadMetadata,
    RoundResult,
    Wait,
    garbage_round,
)


class GarbageScript:
    """The commands a golden script may use. The pause between two looks is 1000 ms."""

    def __init__(self) -> None:
        self.do_local()

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        lines = getattr(self, f"do_{name.replace('-', '_')}")(*args)
        return "\n    ".join([f"{' '.join(words)}:", *lines])

    def do_local(self, *ids: str) -> list[str]:
        """Start with a bookie that has these ledgers, and session 1."""
        self.round = Procedure(garbage_round(sorted(map(int, ids)), confirm_delay_ms=1000))
        self.session: int | None = 1
        self.now_ms = 0
        return []

    def do_begin(self) -> list[str]:
        """Begin."""
        return self._lines(self.round.begin())

    def do_session(self, number: str) -> list[str]:
        """Answer from another session from now on, or from one in doubt: ``none``."""
        self.session = None if number == "none" else int(number)
        return []

    def do_counter(self, next_ledger_id: str, *note: str) -> list[str]:
        """Answer with the counter; ``emptied``: and with the note that no ledger is left."""
        is_emptied = note == ("emptied",)
        return self._answer(Counter(int(next_ledger_id), self.session, is_emptied=is_emptied))

    def do_listed(self, *ids: str) -> list[str]:
        """Answer with a piece of the list."""
        return self._answer(ListPiece([*map(int, ids)], is_last=False, session=self.session))

    def do_list_ends(self) -> list[str]:
        """Answer that this was the list."""
        return self._answer(ListPiece([], is_last=True, session=self.session))

    def do_read(self, *findings: str) -> list[str]:
        """Answer for each ledger: ``7=absent``."""
        pairs = [one.split("=") for one in findings]
        found = {int(ledger_id): Finding(text) for ledger_id, text in pairs}
        return self._answer(Findings(found, self.session))

    def do_fails(self, *words: str) -> list[str]:
        """Answer with an error."""
        return self._answer(ZbkError(" ".join(words)))

    def do_wait(self, until_ms: str) -> list[str]:
        """Pass time until then."""
        passed_ms, self.now_ms = int(until_ms) - self.now_ms, int(until_ms)
        return self._answer(passed_ms)

    def do_dropped(self, count: str) -> list[str]:
        """Answer that so many are gone."""
        return self._answer(Dropped(int(count)))

    def _answer(self, value: object) -> list[str]:
        return self._lines(self.round.answer(value))

    def _lines(self, effect: Effect | None) -> list[str]:
        if effect is None:
            return [_end(self.round.result)]
        line = _line(effect, self.now_ms)
        return [line] if line else []


def _line(effect: Effect, now_ms: int) -> str:
    match effect:
        case ReadCounter():
            return "counter?"
        case ListLedgers():
            return "list?"
        case ListMore():
            return ""  # the list goes on: no new question
        case ReadMetadata(ledger_ids):
            return f"read {_ids(ledger_ids)}?"
        case Wait(delay_ms):
            return f"wait until {now_ms + delay_ms}"
        case DropLedgers(ledger_ids):
            return f"drop {_ids(ledger_ids)}"
        case _:
            assert_never(effect)


def _end(result: RoundResult) -> str:
    return (
        f"end: {result.local_count} local, {result.listed_count} listed, "
        f"{result.candidate_count} candidates, {result.dropped_count} dropped, "
        f"{result.kept_count} kept" + (f"; {result.gave_up}" if result.gave_up else "")
    )


def _ids(ledger_ids: Sequence[int]) -> str:
    return " ".join(map(str, ledger_ids))


@pytest.mark.parametrize("path", scripts("gc"), ids=lambda path: path.stem)
def test_golden(path: Path, rewrite_golden: bool) -> None:
    """B32: what a round of garbage collection believes, and what not."""
    run_script(path, GarbageScript(), rewrite=rewrite_golden)


def test_questions_and_drops_come_in_pieces() -> None:
    ids = range(300)
    garbage = Procedure(garbage_round(ids, 0))
    garbage.begin()
    garbage.answer(Counter(1_000, 1))
    garbage.answer(ListPiece([900], is_last=False, session=1))
    effect = garbage.answer(ListPiece([], is_last=True, session=1))
    for look in range(2):
        asked: list[int] = []
        while isinstance(effect, ReadMetadata):
            assert len(effect.ledger_ids) <= READ_COUNT_MAX
            asked += effect.ledger_ids
            effect = garbage.answer(Findings(dict.fromkeys(effect.ledger_ids, Finding.ABSENT), 1))
        assert asked == list(ids)
        if look == 0:
            assert effect == Wait(0)
            assert garbage.answer(0) == ReadCounter()
            effect = garbage.answer(Counter(1_000, 1))
    dropped: list[int] = []
    while isinstance(effect, DropLedgers):
        assert len(effect.ledger_ids) <= DROP_COUNT_MAX
        dropped += effect.ledger_ids
        effect = garbage.answer(Dropped(len(effect.ledger_ids)))
    assert dropped == list(ids)
    assert effect is None
    assert garbage.result.dropped_count == 300


def test_more_candidates_than_fit_in_a_round_wait_for_the_next() -> None:
    garbage = Procedure(garbage_round(range(CANDIDATE_COUNT_MAX + 5), 0))
    garbage.begin()
    garbage.answer(Counter(CANDIDATE_COUNT_MAX + 9, 1))
    garbage.answer(ListPiece([CANDIDATE_COUNT_MAX + 8], is_last=True, session=1))

    assert garbage.answer(ZbkError("over")) is None

    assert garbage.result.candidate_count == CANDIDATE_COUNT_MAX
    assert garbage.answer(0) is None
