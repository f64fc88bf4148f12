"""How often changes are looked for."""

from zbk.metadata.stores.poll_pace import QUIET_AFTER_MS, PollPace


def test_looks_are_frequent_after_a_change_and_seldom_after_a_quiet_time() -> None:
    pace = PollPace(busy_ms=50, quiet_ms=400)
    assert pace.pause_ms(0) == 400, "nothing has changed yet"

    pace.changed(1_000)

    assert pace.pause_ms(1_000) == 50
    assert pace.pause_ms(1_000 + QUIET_AFTER_MS - 1) == 50
    assert pace.pause_ms(1_000 + QUIET_AFTER_MS) == 400


def test_each_change_begins_the_time_anew() -> None:
    pace = PollPace(busy_ms=50, quiet_ms=400)

    for now_ms in range(0, 10 * QUIET_AFTER_MS, QUIET_AFTER_MS // 2):
        pace.changed(now_ms)
        assert pace.pause_ms(now_ms + QUIET_AFTER_MS // 2) == 50
