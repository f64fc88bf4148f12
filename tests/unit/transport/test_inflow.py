"""Which connections have sent more than they may."""

from zbk.transport.inflow import (
    GROWTH_SIZE,
    LARGE_COST,
    LOBBY_SIZE_MAX,
    PATIENCE_COUNT,
    SIGN_RATE,
    SLACK_SIZE,
    TOTAL_COST_MAX,
    UNFINISHED_MS,
    Inflow,
    InflowLimits,
    InflowTotal,
)

LIMITS = InflowLimits(credit_size=8 << 20, message_size_max=4 << 20)
LONGEST = LIMITS.message_size_max + SLACK_SIZE


def greeted(now_ms: int = 1) -> Inflow:
    inflow = Inflow()
    inflow.begin(300, now_ms)
    return inflow


def look(inflow: Inflow, sent_size: int, now_ms: int = 1, *, is_drained: bool = True) -> str | None:
    return inflow.look(300 + sent_size, now_ms, LIMITS, is_drained=is_drained)


def test_ahead_of_a_hello_little_may_come() -> None:
    inflow = Inflow()
    assert inflow.look(LOBBY_SIZE_MAX, 5, LIMITS, is_drained=True) is None
    assert "no HELLO" in str(inflow.look(LOBBY_SIZE_MAX + 1, 5, LIMITS, is_drained=True))


def test_a_message_that_is_not_finished_ends_its_connection_when_it_is_too_long() -> None:
    inflow = greeted()
    assert look(inflow, LONGEST) is None
    assert look(inflow, LONGEST) is None, "the longest that is allowed"
    assert "does not finish" in str(look(inflow, LONGEST + 1))


def test_what_is_received_meanwhile_is_no_unfinished_message() -> None:
    inflow = greeted()
    for number in range(10):
        assert look(inflow, (number + 1) * LONGEST + 1) is None
        inflow.deliver(LONGEST)


def test_what_waits_to_be_received_is_no_unfinished_message() -> None:
    inflow = greeted()
    for _ in range(5):
        assert look(inflow, LONGEST + 1, is_drained=False) is None


def test_a_short_message_has_its_time() -> None:
    inflow = greeted()
    size = LOBBY_SIZE_MAX + 1_000 + SIGN_RATE * UNFINISHED_MS // 1_000
    for now_ms in (1, 2, UNFINISHED_MS):
        assert look(inflow, size, now_ms) is None
    assert "does not finish" in str(look(inflow, size, UNFINISHED_MS + 2))


def test_a_peer_that_keeps_to_its_credit_may_send_all_of_it_and_not_more() -> None:
    inflow = greeted()
    whole = LIMITS.credit_size + LONGEST
    assert look(inflow, whole, is_drained=False) is None
    assert "credit" in str(look(inflow, whole + 1, is_drained=False))


def test_signs_of_life_do_not_add_up() -> None:
    inflow = greeted()
    day_ms = 86_400_000
    for day in range(1, 30):
        assert look(inflow, day * 500_000, day * day_ms) is None
        assert inflow.backlog_size == 0


def test_small_messages_cost_more_than_their_bytes() -> None:
    small, large = greeted(), greeted()
    for _ in range(10):
        small.deliver(20)
        large.deliver(20_000)
    look(small, 1_000_200)
    look(large, 1_200_000)
    assert small.cost > 10 * large.cost


def test_when_all_together_send_too_much_the_largest_goes_after_a_while() -> None:
    total = InflowTotal()
    inflows = [greeted() for _ in range(8)]
    for number, one in enumerate(inflows):
        one.backlog_size = TOTAL_COST_MAX // 8 + number
    for _ in range(PATIENCE_COUNT - 1):
        assert total.too_large(inflows) is None
    assert total.too_large(inflows) is inflows[-1]


def test_a_short_crowd_costs_nobody_the_connection() -> None:
    total, inflow = InflowTotal(), greeted()
    for _ in range(10):
        inflow.backlog_size = TOTAL_COST_MAX + 1
        assert total.too_large([inflow]) is None
        inflow.backlog_size = TOTAL_COST_MAX
        assert total.too_large([inflow]) is None


def test_what_ended_connections_leave_counts_until_it_was_received() -> None:
    total, gone, small = InflowTotal(), greeted(), greeted()
    gone.backlog_size = TOTAL_COST_MAX
    small.backlog_size = LARGE_COST
    total.ended(gone)
    assert total.is_gate_shut
    for _ in range(PATIENCE_COUNT):
        assert total.too_large([small]) is None, "it is not the one"

    total.drained()
    assert not total.is_gate_shut


def test_a_process_that_grows_is_looked_at_once_for_each_step() -> None:
    total = InflowTotal()

    assert total.has_grown(GROWTH_SIZE), "as it is at first"
    assert not total.has_grown(2 * GROWTH_SIZE - 1)
    assert total.has_grown(2 * GROWTH_SIZE)
    assert not total.has_grown(2 * GROWTH_SIZE)
