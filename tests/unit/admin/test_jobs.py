"""Jobs of the admin API: one at a time, known by name, bounded, and stopped at the end."""

import threading
from collections.abc import Iterator

import pytest

from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.admin.jobs import ENDED_COUNT_MAX, WAITING_COUNT_MAX, JobProgress, Jobs, Work
from zbk.errors import BusyError, InvalidOptionError, UnavailableError


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


def until_stopped(_progress: JobProgress, is_stopped: threading.Event) -> bool:
    assert is_stopped.wait(30)
    return False


def at_once(_progress: JobProgress, _is_stopped: threading.Event) -> bool:
    return True


def failing(error: Exception) -> Work:
    def work(_progress: JobProgress, _is_stopped: threading.Event) -> bool:
        raise error

    return work


def states(jobs: Jobs) -> list[str]:
    return [one.state for one in jobs.list()]


def test_jobs_run_one_after_the_other_and_keep_their_progress(jobs: Jobs) -> None:
    order: list[int] = []

    def work(number: int) -> Work:
        def run(progress: JobProgress, _is_stopped: threading.Event) -> bool:
            order.append(number)
            progress.ledger_count = number
            return True

        return run

    for number in range(5):
        jobs.begin(f"job {number}", {}, work(number))
    wait_until(lambda: states(jobs) == ["done"] * 5)
    assert order == [0, 1, 2, 3, 4]
    assert [one.progress.ledger_count for one in jobs.list()] == order
    assert all(one.ended_ms is not None for one in jobs.list())


def test_a_second_request_gets_the_job_that_runs(jobs: Jobs) -> None:
    first = jobs.begin("recover b-1", {"to": ""}, until_stopped)
    assert jobs.begin("recover b-1", {"to": ""}, until_stopped) is first
    with pytest.raises(InvalidOptionError, match="other options"):
        jobs.begin("recover b-1", {"to": "b-2"}, until_stopped)
    jobs.stop(first.job_id)
    wait_until(lambda: first.state == "stopped")
    again = jobs.begin("recover b-1", {"to": "b-2"}, until_stopped)
    assert again.job_id == first.job_id + 1


def test_a_request_after_a_stop_gets_a_new_job(jobs: Jobs) -> None:
    """The stopped one runs on for a moment, and ends without the work that is asked for."""
    is_ending = threading.Event()

    def slow_to_stop(_progress: JobProgress, is_stopped: threading.Event) -> bool:
        assert is_stopped.wait(30)
        assert is_ending.wait(30)
        return False

    first = jobs.begin("decommission b-1", {}, slow_to_stop)
    wait_until(lambda: first.state == "running")
    jobs.stop(first.job_id)

    again = jobs.begin("decommission b-1", {"give_up_count": 3}, at_once)

    is_ending.set()
    wait_until(lambda: states(jobs) == ["stopped", "done"])
    assert again is not first


def test_an_error_fails_its_job_alone(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    jobs.begin("busy", {}, failing(BusyError("too much")))
    jobs.begin("bug", {}, failing(ZeroDivisionError("a secret")))
    jobs.begin("fine", {}, at_once)
    wait_until(lambda: states(jobs) == ["failed", "failed", "done"])
    assert [one.error for one in jobs.list()] == ["too much", "an error of zbk: see its log", ""]
    assert "ZeroDivisionError" in caplog.text


def test_a_job_that_waits_is_stopped_at_once(jobs: Jobs) -> None:
    first = jobs.begin("first", {}, until_stopped)
    second = jobs.begin("second", {}, failing(AssertionError("it may not run")))
    assert jobs.stop(second.job_id).state == "stopped"
    jobs.stop(first.job_id)
    wait_until(lambda: states(jobs) == ["stopped", "stopped"])
    assert jobs.stop(first.job_id).state == "stopped"
    with pytest.raises(InvalidOptionError, match="no such job"):
        jobs.stop(77)


def test_a_job_that_ends_before_it_sees_the_stop_is_done(jobs: Jobs) -> None:
    """A bookie whose cookie is deleted may not look as if its decommissioning were unfinished."""
    is_begun = threading.Event()

    def work(_progress: JobProgress, is_stopped: threading.Event) -> bool:
        is_begun.set()
        return is_stopped.wait(30)

    job = jobs.begin("too late to stop", {}, work)
    assert is_begun.wait(30)
    jobs.stop(job.job_id)
    wait_until(lambda: job.ended_ms is not None)
    assert job.state == "done"


def test_the_queue_and_the_memory_are_bounded(jobs: Jobs) -> None:
    for number in range(ENDED_COUNT_MAX + 3):
        jobs.begin(f"short {number}", {}, at_once)
        wait_until(lambda: "waiting" not in states(jobs) and "running" not in states(jobs))
    assert len(jobs.list()) == ENDED_COUNT_MAX
    for number in range(WAITING_COUNT_MAX + 1):
        jobs.begin(f"long {number}", {}, until_stopped)
    with pytest.raises(BusyError):
        jobs.begin("one more", {}, until_stopped)


def test_close_stops_all_jobs_and_the_thread() -> None:
    new = NewThreads()
    jobs = Jobs()
    for number in range(3):
        jobs.begin(f"long {number}", {}, until_stopped)
    jobs.close()
    assert states(jobs) == ["stopped"] * 3
    assert new.names("zbk-admin") == []
    with pytest.raises(UnavailableError):
        jobs.begin("late", {}, until_stopped)
