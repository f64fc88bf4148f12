from math import inf, isnan

from zbk.auditor.repair_backlog import WINDOW_MS, RepairBacklog


def test_nothing_is_known_at_first_and_while_the_store_is_silent() -> None:
    backlog = RepairBacklog()
    assert isnan(backlog.task_count)
    backlog.seen(5, 1, now_ms=0)
    assert (backlog.task_count, backlog.unrepairable_count) == (5, 1)
    backlog.lost_sight()
    assert isnan(backlog.task_count)
    assert isnan(backlog.completion_s)


def test_the_estimate_follows_the_fall_since_the_highest_count() -> None:
    backlog = RepairBacklog()
    backlog.seen(10, 0, now_ms=0)
    assert backlog.completion_s == inf
    backlog.seen(100, 0, now_ms=5_000)
    assert backlog.completion_s == inf
    backlog.seen(50, 0, now_ms=15_000)
    assert backlog.completion_s == 10
    backlog.seen(0, 0, now_ms=25_000)
    assert backlog.completion_s == 0


def test_a_standstill_is_infinite_once_the_window_has_passed() -> None:
    backlog = RepairBacklog()
    backlog.seen(100, 0, now_ms=0)
    backlog.seen(50, 0, now_ms=10_000)
    backlog.seen(50, 0, now_ms=20_000)
    assert backlog.completion_s == 20
    backlog.seen(50, 0, now_ms=WINDOW_MS + 20_001)
    assert backlog.completion_s == inf


def test_a_later_loss_does_not_count_the_fall_of_an_earlier_one() -> None:
    backlog = RepairBacklog()
    backlog.seen(100, 0, now_ms=0)
    backlog.seen(0, 0, now_ms=1_000)
    backlog.seen(10, 0, now_ms=2_000)
    assert backlog.completion_s == inf
