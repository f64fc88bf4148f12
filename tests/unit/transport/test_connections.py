"""Which connections are let in, and which have to end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.transport.connections import SHORT_MS, ConnectionLimits, ConnectionTable

LIMITS = ConnectionLimits(greeted_max=3, lobby_max=4, handshake_ms=100)


def table_with(*fds: int, limits: ConnectionLimits = LIMITS) -> ConnectionTable:
    table = ConnectionTable(limits)
    for fd in fds:
        table.accepted(fd, cookie=fd + 1_000, now_ms=0)
    return table


def late_fds(table: ConnectionTable, now_ms: int = 0) -> list[int]:
    return [one.fd for one in table.take_late(now_ms)]


def test_a_connection_is_late_when_its_time_is_over_and_only_once() -> None:
    table = table_with(5)

    assert late_fds(table, 99) == []
    assert late_fds(table, 100) == [5]
    assert late_fds(table, 200) == []
    assert table.open_count == 1, "until it is told of that it has ended"
    assert table.ended_count == 1


def test_one_that_has_said_hello_is_never_late() -> None:
    table = table_with(5)

    assert table.greet(5)

    assert late_fds(table, 1_000_000) == []


def test_of_one_too_many_in_the_lobby_the_longest_there_ends() -> None:
    table = table_with(1, 2, 3, 4)
    table.greet(1)
    assert late_fds(table) == []

    table.accepted(5, 0, 0)
    table.accepted(6, 0, 0)

    assert late_fds(table) == [2]


def test_a_hello_too_many_is_refused_until_another_connection_ends() -> None:
    table = table_with(1, 2, 3, 4)
    assert [table.greet(fd) for fd in (1, 2, 3, 4)] == [True, True, True, False]
    assert table.greet(1), "the same one again"

    table.ended(2)

    assert table.greet(4)


def test_a_number_that_is_used_again_is_another_connection() -> None:
    table = table_with(1)
    table.greet(1)

    table.accepted(1, 77, 50)

    assert table.greeted_count == 0
    (late,) = table.take_late(150)
    assert late.cookie == 77


def test_the_gate_is_shut_while_there_is_no_room_and_not_for_every_single_one() -> None:
    table = table_with(1, 2, 3, 4, 5, 6)
    assert not table.turn_gate(0)
    table.accepted(7, 0, 0)
    assert table.turn_gate(0)

    table.ended(7)
    assert table.turn_gate(0), "it does not flap"
    table.ended(6)
    assert not table.turn_gate(0)


def test_without_descriptors_half_of_the_lobby_ends_and_the_gate_is_shut_for_a_moment() -> None:
    table = table_with(1, 2, 3)

    table.no_descriptor(10)

    assert late_fds(table, 10) == [1, 2]
    assert table.turn_gate(10)
    assert not table.turn_gate(10 + SHORT_MS)


def test_a_connection_that_has_to_end_is_told_so_once() -> None:
    table = table_with(1)
    table.greet(1)

    first = table.end(1)

    assert first is not None
    assert first.cookie == 1_001
    assert table.end(1) is None
    assert table.end(9) is None


class Flood(RuleBasedStateMachine):
    """Connections that come, greet and end in any order, beside a plain twin."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ConnectionTable(LIMITS)
        self.now_ms = 0
        self.greeted: set[int] = set()
        self.open: set[int] = set()

    @rule(fd=st.integers(1, 12))
    def accept(self, fd: int) -> None:
        self.table.accepted(fd, fd, self.now_ms)
        self.open.add(fd)
        self.greeted.discard(fd)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        fd = data.draw(st.sampled_from(sorted(self.open)))
        self.table.ended(fd)
        self.open.discard(fd)
        self.greeted.discard(fd)

    @rule(fd=st.integers(1, 12))
    def greet(self, fd: int) -> None:
        has_room = len(self.greeted) < LIMITS.greeted_max
        is_in = self.table.greet(fd)
        assert is_in == (has_room or fd in self.greeted or fd not in self.open)
        if is_in and fd in self.open:
            self.greeted.add(fd)

    @rule(pause_ms=st.integers(0, 150))
    def look(self, pause_ms: int) -> None:
        self.now_ms += pause_ms
        late = {one.fd for one in self.table.take_late(self.now_ms)}
        assert late <= self.open - self.greeted, "who has said HELLO does not end"
        assert self.table.lobby_count <= LIMITS.lobby_max

    @invariant()
    def the_counts_are_right(self) -> None:
        assert self.table.open_count == len(self.open)
        assert self.table.greeted_count == len(self.greeted)


TestFlood = Flood.TestCase
TestFlood.settings = settings(max_examples=40, stateful_step_count=30)
