"""One heap of deadlines against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.client.deadlines import Deadlines

ITEMS = st.sampled_from("abcde")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), ITEMS, st.one_of(st.none(), st.integers(0, 60))),
        st.tuples(st.just("correct"), st.just(""), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_dictionary_of_deadlines(steps: list[tuple[str, str, int | None]]) -> None:
    deadlines = Deadlines[str]()
    wanted: dict[str, int] = {}
    now_ms = 0
    for kind, item, number in steps:
        if kind == "put":
            deadlines.put(item, None if number is None else now_ms + number)
            wanted.pop(item, None)
            if number is not None:
                wanted[item] = now_ms + number
        elif kind == "correct":
            assert deadlines.correct() == deadlines.next_ms
        else:
            now_ms += number or 0
            due = {one for one, due_ms in wanted.items() if due_ms <= now_ms}
            assert set(deadlines.take_due(now_ms)) == due
            wanted = {one: due_ms for one, due_ms in wanted.items() if one not in due}
        assert len(deadlines) == len(wanted)
        if wanted:
            assert deadlines.next_ms is not None
            assert deadlines.next_ms <= min(wanted.values()), "nothing is due before it is looked"


def test_a_deadline_that_moves_away_again_and_again_takes_no_memory() -> None:
    deadlines = Deadlines[str]()
    for number in range(10_000):
        deadlines.put("a", 100 + number)
    assert len(deadlines._heap) == 1


def test_the_next_time_of_one_that_moved_is_found_before_its_earlier_one_has_come() -> None:
    deadlines = Deadlines[str]()
    deadlines.put("a", 20)
    deadlines.put("b", 80)
    deadlines.put("a", 100)
    assert deadlines.next_ms == 20

    assert deadlines.correct() == 80
    deadlines.put("b", None)
    assert deadlines.correct() == 100
    deadlines.put("a", None)
    assert deadlines.correct() is None
    assert deadlines.take_due(200) == []


def test_a_few_are_corrected_in_a_call() -> None:
    deadlines = Deadlines[int]()
    for item in range(100):
        deadlines.put(item, item)
    for item in range(100):
        deadlines.put(item, 1_000 + item)

    first_ms = deadlines.correct()
    assert first_ms is not None
    assert 0 < first_ms < 10
    while (next_ms := deadlines.correct()) != first_ms:
        first_ms = next_ms
    assert first_ms == 1_000
    assert deadlines.take_due(2_000) == [*range(100)]


def test_an_item_that_is_due_is_taken_once() -> None:
    deadlines = Deadlines[str]()
    deadlines.put("a", 50)
    deadlines.put("a", 20)

    assert deadlines.take_due(30) == ["a"]
    assert deadlines.take_due(60) == []
    assert deadlines.next_ms is None
