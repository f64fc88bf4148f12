"""Rounds of garbage collection against a store that lies, lags and fails, and a twin that knows."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from zbk.errors import ZbkError
from zbk.protocol.procedure import Procedure
from zbk.protocol.upkeep.gc import (
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

LIES = ("honest", "empty", "partial", "failing", "unsure", "restless")


class Truth:
    """The cluster's metadata as a row of changes; a follower has seen a part of the row."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.row: list[tuple[str, int]] = []
        self.next_ledger_id = 0

    def change(self) -> None:
        """Make a ledger, or delete one."""
        live = self.view(len(self.row))
        if live and self.rng.random() < 0.45:
            self.row.append(("delete", self.rng.choice(sorted(live))))
        else:
            self.row.append(("create", self.next_ledger_id))
            self.next_ledger_id += 1

    def view(self, length: int) -> set[int]:
        """Return the ledgers that are there after so many changes."""
        live: set[int] = set()
        for what, ledger_id in self.row[:length]:
            (live.add if what == "create" else live.discard)(ledger_id)
        return live

    def counter(self, length: int) -> int:
        """Return the counter after so many changes."""
        return sum(what == "create" for what, _ in self.row[:length])

    def is_emptied(self, length: int) -> bool:
        """Return whether the last of these changes left no ledger."""
        return bool(length) and not self.view(length)

    @property
    def deleted(self) -> set[int]:
        """The ledgers that are gone for good."""
        return {ledger_id for what, ledger_id in self.row if what == "delete"}


class LyingStore:
    """Answers a round's questions. In one session it never goes back in time; lists may lie."""

    def __init__(self, truth: Truth, lie: str) -> None:
        self.truth = truth
        self.lie = lie
        self.session = 0
        self.seen = 0
        self.has_told_emptied = False
        self.begin_session()

    def begin_session(self) -> None:
        """Go to another follower, which may be far behind."""
        self.session += 1
        self.seen = self.truth.rng.randrange(len(self.truth.row) + 1)

    def answer(self, effect: Effect) -> object:
        """Return the answer."""
        if isinstance(effect, ListMore):
            return self.rest
        rng, truth = self.truth.rng, self.truth
        if rng.random() < 0.4:
            truth.change()
        self.seen = rng.randint(self.seen, len(truth.row))
        session: int | None = self.session
        if self.lie == "restless" and rng.random() < 0.2:
            self.begin_session()
            session = rng.choice([None, self.session])
        if self.lie == "failing" and rng.random() < 0.15:
            return ZbkError("no answer")
        live = truth.view(self.seen)
        match effect:
            case ReadCounter():
                is_emptied = truth.is_emptied(self.seen)
                self.has_told_emptied |= is_emptied
                return Counter(truth.counter(self.seen), session, is_emptied=is_emptied)
            case ListLedgers():
                return self._list(sorted(live), session)
            case ReadMetadata(ledger_ids):
                return Findings({one: self._find(one, live) for one in ledger_ids}, session)
            case Wait(delay_ms):
                return delay_ms
            case _:
                raise AssertionError(effect)

    def _find(self, ledger_id: int, live: set[int]) -> Finding:
        if self.lie == "unsure" and self.truth.rng.random() < 0.3:
            return Finding.UNKNOWN
        return Finding.PRESENT if ledger_id in live else Finding.ABSENT

    def _list(self, live: list[int], session: int | None) -> ListPiece:
        if self.lie == "empty":
            live = []
        if self.lie == "partial":
            live = [one for one in live if self.truth.rng.random() < 0.7]
        half = len(live) // 2
        self.rest = ListPiece(live[half:], is_last=True, session=session)
        return ListPiece(live[:half], is_last=False, session=session)


def run_round(store: LyingStore, local: set[int]) -> tuple[RoundResult, set[int], bool]:
    """Return the result, what was dropped, and whether the list left out a candidate that lives."""
    garbage = Procedure(garbage_round(sorted(local), confirm_delay_ms=10))
    dropped: set[int] = set()
    was_lied_to = False
    effect = garbage.begin()
    for _ in range(1_000):
        if effect is None:
            return garbage.result, dropped, was_lied_to
        if isinstance(effect, DropLedgers):
            dropped |= {*effect.ledger_ids}
            answer: object = Dropped(len(effect.ledger_ids))
        else:
            answer = store.answer(effect)
        if isinstance(answer, Findings):
            was_lied_to |= Finding.PRESENT in answer.findings.values()
        effect = garbage.answer(answer)
    raise AssertionError("a round ends")


@given(
    seed=st.integers(0, 2**32),
    change_count=st.integers(0, 60),
    lie=st.sampled_from(LIES),
)
@settings(max_examples=400, deadline=None)
def test_no_lie_makes_a_bookie_drop_a_ledger_that_was_not_deleted(
    seed: int, change_count: int, lie: str
) -> None:
    """B32: empty, partial, failing, lagging and changing stores; ledgers made meanwhile."""
    rng = Random(seed)
    truth = Truth(rng)
    for _ in range(change_count):
        truth.change()
    local = {one for one in range(truth.next_ledger_id) if rng.random() < 0.7}
    local |= {truth.next_ledger_id + 5} if rng.random() < 0.2 else set()

    store = LyingStore(truth, lie)
    result, dropped, was_lied_to = run_round(store, local)

    assert dropped <= truth.deleted & local
    assert result.dropped_count == len(dropped)
    is_known_to_lie = lie == "empty" and not store.has_told_emptied
    if is_known_to_lie or (lie == "partial" and was_lied_to):
        assert not dropped, "nothing comes of a list that is known to lie"
    if result.gave_up:
        assert not dropped


def test_each_lie_is_told_and_an_honest_store_frees_everything() -> None:
    outcomes: dict[str, list[RoundResult]] = {lie: [] for lie in LIES}
    for seed in range(40):
        for lie in LIES:
            rng = Random(seed)
            truth = Truth(rng)
            for _ in range(60):
                truth.change()
            store = LyingStore(truth, lie)
            store.seen = len(truth.row)
            deleted_before = truth.deleted
            local = set(range(truth.next_ledger_id))
            result, dropped, _ = run_round(store, local)
            if lie != "empty" or not store.has_told_emptied:
                outcomes[lie].append(result)
            if lie == "honest":
                assert deleted_before <= dropped
    assert not any(one.gave_up for one in outcomes["honest"])
    assert len(outcomes["empty"]) > 20
    assert all("no ledger at all" in one.gave_up for one in outcomes["empty"])
    assert any("was not listed" in one.gave_up for one in outcomes["partial"])
    assert any(one.gave_up == "no answer" for one in outcomes["failing"])
    assert any(one.kept_count and one.dropped_count for one in outcomes["unsure"])
    assert any("did not last" in one.gave_up for one in outcomes["restless"])
    assert any(one.proof_count > 1 and one.dropped_count for one in outcomes["restless"])
