"""What a process holds while a case runs: memory and descriptors, looked at from outside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from zbk.system.process import usage

INTERVAL_S: Final = 0.25


class Held(msgspec.Struct):
    """The highest and the last numbers seen."""

    rss_size_max: int = 0
    rss_size: int = 0
    file_count_max: int = 0
    thread_count_max: int = 0


def file_count(pid: int) -> int:
    """Return how many descriptors a process has; 0 if it is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def thread_count(pid: int) -> int:
    """Return how many threads a process has; 0 if it is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return 0


@contextmanager
def watching(pid: int) -> Iterator[Held]:
    """Look at a process again and again until the block ends."""
    held = Held()
    done = threading.Event()

    def look() -> None:
        held.rss_size = usage(pid).rss_size or held.rss_size
        held.rss_size_max = max(held.rss_size_max, held.rss_size)
        held.file_count_max = max(held.file_count_max, file_count(pid))
        held.thread_count_max = max(held.thread_count_max, thread_count(pid))

    def run() -> None:
        while not done.wait(INTERVAL_S):
            look()

    thread = threading.Thread(target=run, name="scale-watch", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        done.set()
        thread.join()
        look()
