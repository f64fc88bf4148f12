"""Several threads at once, whose failures fail the test."""

import threading
from collections.abc import Callable, Sequence

from tests.support.machine import patient_s

JOIN_TIMEOUT_S = patient_s(60.0)


def run_at_once(tasks: Sequence[Callable[[], None]]) -> None:
    """Run each task in a thread of its own, begun together; raise the first failure."""
    start = threading.Barrier(len(tasks))
    failures: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        start.wait(JOIN_TIMEOUT_S)
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive(), "a task hangs"
    if failures:
        raise failures[0]
