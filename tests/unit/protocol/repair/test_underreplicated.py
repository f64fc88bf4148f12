"""How reports become one task, and which missing entries it names."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.values import encode
from zbk.protocol.entry.spans import Span, covering, merged
from zbk.protocol.repair.repair_effects import RepairResult
from zbk.protocol.repair.repair_task import ATTEMPT_COUNT_MAX, OutcomeKind, outcome_of
from zbk.protocol.repair.underreplicated import (
    RANGES_COUNT_ALL_MAX,
    RANGES_COUNT_MAX,
    UNDERREPLICATED_FORMAT_VERSION,
    MissingReason,
    UnderreplicatedLedger,
)

NOT_WRITTEN = MissingReason.NOT_WRITTEN
spans = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 12)).map(lambda one: (one[0], one[0] + one[1])),
    max_size=40,
)


def ids_in(found: list[Span] | tuple[Span, ...]) -> set[int]:
    return {entry_id for first, last in found for entry_id in range(first, last + 1)}


def reported(ranges: dict[str, list[Span]]) -> UnderreplicatedLedger:
    return UnderreplicatedLedger.reported(7, ranges, NOT_WRITTEN, 1, ranges)


def test_reports_merge_their_ranges() -> None:
    task = reported({"b1": [(5, 9)], "b2": [(0, 0)]})

    task = task.merged(["b1"], NOT_WRITTEN, 2, {"b1": [(0, 1), (10, 12), (20, 20)]})

    assert task.ranges == {"b1": ((0, 1), (5, 12), (20, 20)), "b2": ((0, 0),)}


def test_a_report_without_ranges_keeps_those_that_are_known() -> None:
    task = reported({"b1": [(5, 9)]}).merged(["b1", "b2"], MissingReason.LOST, 2)

    assert task.ranges == {"b1": ((5, 9),)}


def test_missing_entries_that_are_not_noted_yet_are_news() -> None:
    task = reported({"b1": [(5, 9)]})

    assert not task.is_news(["b1"], NOT_WRITTEN)
    assert not task.is_news(["b1"], NOT_WRITTEN, {"b1": [(6, 7), (9, 9)]})
    assert task.is_news(["b1"], NOT_WRITTEN, {"b1": [(9, 10)]})


def test_only_news_makes_failures_count_from_the_beginning() -> None:
    task = reported({"b1": [(5, 9)]}).with_failure("b2 did not answer")

    assert task.merged(["b1"], NOT_WRITTEN, 2, {"b1": [(6, 7)]}).failure_count == 1
    assert task.merged(["b1"], NOT_WRITTEN, 2, {"b1": [(6, 10)]}).failure_count == 0
    assert task.merged(["b1"], MissingReason.LOST, 2).failure_count == 0
    assert task.merged(["b2"], NOT_WRITTEN, 2).failure_count == 0


def test_attempts_end_though_each_check_of_the_auditor_reports_the_same_bookie() -> None:
    lost = RepairResult(uncovered="it is not closed", away=frozenset({"b1"}))
    task = UnderreplicatedLedger.reported(7, ["b1"], MissingReason.LOST, 1)

    for _ in range(ATTEMPT_COUNT_MAX - 1):
        assert outcome_of(task, lost).kind is OutcomeKind.POSTPONED
        task = task.with_failure("it is not closed").merged(["b1"], MissingReason.LOST, 2)

    assert outcome_of(task, lost).kind is OutcomeKind.UNREPAIRABLE


def test_one_bookie_keeps_a_bounded_number_of_ranges() -> None:
    odd = [(entry_id, entry_id) for entry_id in range(1, 10_000, 2)]

    task = reported({"b1": odd})

    kept = task.ranges["b1"]
    assert len(kept) == RANGES_COUNT_MAX
    assert ids_in(odd) <= ids_in(kept)
    assert not task.is_news(["b1"], NOT_WRITTEN, {"b1": odd}), "the same again is no news"


def test_a_ledger_of_very_many_bookies_still_fits_into_a_node() -> None:
    high = [(2**40 - 2 * n, 2**40 - 2 * n) for n in range(100, 0, -1)]

    task = reported({f"bookie-with-a-long-name-{n:06}": high for n in range(4_000)})

    assert sum(map(len, task.ranges.values())) <= RANGES_COUNT_ALL_MAX
    assert len(encode(task)) < VALUE_SIZE_MAX


def test_only_a_task_that_an_older_worker_cannot_understand_has_the_new_version() -> None:
    old = UnderreplicatedLedger.reported(7, ["b1"], MissingReason.CHECKED, 1, {"b1": [(1, 2)]})

    assert old.format_version == 1
    assert old.merged(["b1"], NOT_WRITTEN, 2).format_version == UNDERREPLICATED_FORMAT_VERSION


@given(spans)
def test_merged_spans_have_the_same_ids_and_do_not_touch(found: list[Span]) -> None:
    result = merged(found)

    assert ids_in(result) == ids_in(found)
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(result))


@given(spans, st.integers(1, 9))
def test_covering_spans_are_few_and_leave_the_widest_gaps(found: list[Span], count: int) -> None:
    exact, result = merged(found), covering(found, count)

    assert len(result) <= count
    assert ids_in(found) <= ids_in(result)
    assert merged(result) == list(result)
    if len(exact) > count:
        gaps = sorted((b[0] - a[1] - 1 for a, b in itertools.pairwise(exact)))
        assert len(ids_in(result)) - len(ids_in(found)) == sum(gaps[: len(exact) - count])
