"""How many bytes of answers are held, for one connection and for all."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.transport.answer_budget import AnswerBudget, PeerAnswers

TOTAL = 1_000


def let_in(budget: AnswerBudget, peer: PeerAnswers, size: int) -> int:
    """Admit as many requests as there is room for; return how many."""
    count = 0
    while budget.has_room(peer, size):
        budget.expect(peer, size)
        count += 1
    return count


def test_a_lone_connection_gets_its_share_and_no_more() -> None:
    budget, peer = AnswerBudget(TOTAL), PeerAnswers()

    assert let_in(budget, peer, 10) == 20
    assert budget.used_size == TOTAL // 5, "it leaves four times as much free"


def test_where_six_take_all_they_can_the_next_one_gets_as_much_as_each_of_them() -> None:
    budget = AnswerBudget(TOTAL)
    counts = [let_in(budget, PeerAnswers(), 10) for _ in range(6)]

    assert let_in(budget, PeerAnswers(), 10) >= counts[-1] - 2 > 0


def test_when_very_many_take_all_they_can_each_has_one_until_nothing_is_free() -> None:
    budget = AnswerBudget(TOTAL)
    counts = [let_in(budget, PeerAnswers(), 10) for _ in range(100)]

    assert counts[-1] == 0
    assert budget.used_size == TOTAL
    assert budget.is_pressed


def test_what_a_peer_does_not_take_counts_until_it_has_taken_it() -> None:
    budget, peer = AnswerBudget(TOTAL), PeerAnswers()
    count = let_in(budget, peer, 10)
    for _ in range(count):
        budget.arrived(peer, 10)
        budget.queue(peer, 10)
        budget.unqueue(peer, 10)
        budget.hand_over(peer, 10)
    assert not budget.has_room(peer, 10)

    assert budget.take(peer, 50)
    assert not budget.take(peer, 50), "nothing new"
    assert budget.has_room(peer, 10)
    assert budget.take(peer, 10 * count + 7), "greetings are taken, too"
    assert (peer.size, budget.used_size) == (0, 0)


def test_an_answer_larger_than_everything_is_let_in_alone() -> None:
    budget, first, second = AnswerBudget(TOTAL), PeerAnswers(), PeerAnswers()

    assert budget.has_room(first, 5 * TOTAL)
    budget.expect(first, 5 * TOTAL)
    assert not budget.has_room(second, 1)
    budget.arrived(first, 5 * TOTAL)
    assert budget.has_room(second, 1)


def test_a_peer_that_is_gone_leaves_only_what_is_still_read_for_it() -> None:
    budget, peer = AnswerBudget(TOTAL), PeerAnswers()
    budget.expect(peer, 30)
    budget.queue(peer, 20)
    budget.hand_over(peer, 10)

    budget.forget(peer)
    assert budget.used_size == 30
    budget.arrived(None, 30)
    assert budget.used_size == 0


class Answers(RuleBasedStateMachine):
    """Requests, answers and ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = AnswerBudget(TOTAL)
        self.peers = [PeerAnswers() for _ in range(4)]
        self.expected: list[tuple[int, PeerAnswers, int]] = []

    @rule(number=st.integers(0, 3), size=st.integers(1, 300))
    def ask(self, number: int, size: int) -> None:
        peer = self.peers[number]
        if self.budget.has_room(peer, size):
            self.budget.expect(peer, size)
            self.expected.append((number, peer, size))

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), is_queued=st.booleans())
    def answer(self, data: st.DataObject, *, is_queued: bool) -> None:
        number, peer, size = self.expected.pop(data.draw(st.integers(0, len(self.expected) - 1)))
        is_here = self.peers[number] is peer
        self.budget.arrived(peer if is_here else None, size)
        if is_here and is_queued:
            self.budget.queue(peer, size)
        elif is_here:
            self.budget.hand_over(peer, size)

    @rule(number=st.integers(0, 3), share=st.floats(0, 1.5))
    def take(self, number: int, share: float) -> None:
        peer = self.peers[number]
        self.budget.take(peer, peer.taken_size + int(peer.untaken_size * share))

    @rule(number=st.integers(0, 3))
    def end(self, number: int) -> None:
        self.budget.forget(self.peers[number])
        self.peers[number] = PeerAnswers()

    @invariant()
    def the_sum_is_right_and_bounded(self) -> None:
        here = sum(peer.size for peer in self.peers)
        gone = sum(size for no, peer, size in self.expected if self.peers[no] is not peer)
        assert self.budget.used_size == here + gone <= TOTAL


TestAnswers = Answers.TestCase
TestAnswers.settings = settings(max_examples=40, stateful_step_count=30)
