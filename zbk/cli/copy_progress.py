"""A progress bar for copies: entries done and total, bytes a second, remaining time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from zbk.cli.output import is_progress_shown
from zbk.cli.streams import shown_as_progress


class CopyGauge(Protocol):
    """Receives the progress of copies."""

    def copied(self, entry_count: int, size: int) -> None:
        """Add entries and bytes that were copied."""


class _Silent:
    def copied(self, entry_count: int, size: int) -> None:
        """Show nothing."""


@contextmanager
def copying(what: str, entry_count: int) -> Iterator[CopyGauge]:
    """Show a bar of ``entry_count`` entries; show nothing if standard error is not a terminal."""
    if not is_progress_shown():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from zbk.system.clock import monotonic_s

    class _Bar:
        def __init__(self, progress: Progress) -> None:
            self._progress = progress
            self._task = progress.add_task(what, total=entry_count, rate="")
            self._start_s = monotonic_s()
            self._size = 0

        def copied(self, entry_count: int, size: int) -> None:
            self._size += size
            rate = self._size / max(0.001, monotonic_s() - self._start_s) / 1e6
            self._progress.update(self._task, advance=entry_count, rate=f"{rate:.1f} MB/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        shown_as_progress(progress),
    ):
        yield _Bar(progress)
