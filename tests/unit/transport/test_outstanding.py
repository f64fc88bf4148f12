"""When a request is late: its clock starts when it is handed over, and with each older answer."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.wire_peers import Inbox, outgoing
from zbk.transport.events import Outgoing
from zbk.transport.outstanding import MARK_COUNT_MAX, NEVER_MS, Outstanding

TIMEOUT_MS = 100


def pending(key: object = "k", timeout_ms: int = TIMEOUT_MS) -> Outgoing:
    return outgoing(Inbox(), key, timeout_ms=timeout_ms)


@pytest.fixture
def requests() -> Outstanding:
    return Outstanding()


def late_keys(requests: Outstanding, now_ms: int) -> list[object]:
    return [one.key for one in requests.take_late(now_ms)]


def test_a_request_is_late_when_its_time_is_over_and_not_before(requests: Outstanding) -> None:
    requests.add([(1, pending())], 1_000)

    assert requests.due_ms == 1_100
    assert late_keys(requests, 1_099) == []
    assert late_keys(requests, 1_100) == ["k"]
    assert (len(requests), requests.size, requests.due_ms) == (0, 0, NEVER_MS)


def test_a_slow_bookie_that_answers_one_after_another_is_not_late(requests: Outstanding) -> None:
    for number in range(50):
        requests.add([(number, pending(number))], 0)

    for number in range(50):
        now_ms = (number + 1) * (TIMEOUT_MS - 1)
        assert late_keys(requests, now_ms) == []
        assert requests.take(number, now_ms) is not None


def test_a_bookie_that_hangs_is_late_with_everything_at_once(requests: Outstanding) -> None:
    for number in range(5):
        requests.add([(number, pending(number))], 0)
    requests.take(0, 90)

    assert late_keys(requests, 189) == []
    assert late_keys(requests, 190) == [1, 2, 3, 4]


def test_a_request_that_hangs_alone_is_late_whatever_younger_ones_do(
    requests: Outstanding,
) -> None:
    requests.add([(0, pending("stuck"))], 0)
    for number in range(1, 20):
        requests.add([(number, pending(number))], number * 5)
        requests.take(number, number * 5 + 1)

    assert late_keys(requests, 99) == []
    assert late_keys(requests, 100) == ["stuck"]


def test_an_older_answer_that_comes_later_counts_for_all_that_are_younger(
    requests: Outstanding,
) -> None:
    for number in range(4):
        requests.add([(number, pending(number))], 0)
    requests.take(2, 50)
    requests.take(1, 60)

    assert late_keys(requests, 100) == [0]
    assert late_keys(requests, 159) == []
    assert late_keys(requests, 160) == [3]


def test_a_timeout_is_no_progress(requests: Outstanding) -> None:
    requests.add([(0, pending(0, 50))], 0)
    requests.add([(1, pending(1, 100))], 0)

    assert late_keys(requests, 50) == [0]
    assert late_keys(requests, 100) == [1]


class Step(NamedTuple):
    """A request is handed over; then one may be answered."""

    before_ms: int
    answers: int | None  # which of those that are outstanding
    after_ms: int


steps = st.lists(
    st.builds(Step, st.integers(0, 40), st.none() | st.integers(0, 1_000), st.integers(0, 40)),
    max_size=2 * MARK_COUNT_MAX,
)


@settings(max_examples=50)
@given(steps)
def test_it_is_as_the_rule_says_whatever_is_answered_in_whatever_order(steps: list[Step]) -> None:
    """Against the rule, written down as it is said."""
    requests = Outstanding()
    clocks: dict[int, int] = {}
    now_ms = 0
    for number, step in enumerate(steps):
        now_ms += step.before_ms
        requests.add([(number, pending(number))], now_ms)
        clocks[number] = now_ms
        if step.answers is not None:
            now_ms += step.after_ms
            answered = sorted(clocks)[step.answers % len(clocks)]
            assert requests.take(answered, now_ms) is not None
            del clocks[answered]
            clocks |= {one: now_ms for one in clocks if one > answered}
        expected = [one for one, at_ms in clocks.items() if now_ms >= at_ms + TIMEOUT_MS]
        assert requests.due_ms <= min(clocks.values(), default=NEVER_MS) + TIMEOUT_MS
        assert late_keys(requests, now_ms) == expected
        for one in expected:
            del clocks[one]
