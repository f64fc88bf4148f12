"""The current step, and a growing count, on standard error; only in a terminal.

Lines that are printed meanwhile stand above it: see ``zbk.cli.streams.above_progress``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zbk.cli.output import is_progress_shown
from zbk.cli.streams import shown_as_progress


@contextmanager
def telling(unit: str = "entries") -> Iterator[Callable[[str, int], None]]:
    """Show the current step and a count; show nothing if standard error is not a terminal."""
    if not is_progress_shown():
        yield lambda _what, _count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    def tell(what: str, count: int) -> None:
        progress.update(task, description=f"{what}: {count:,} {unit}".rstrip())

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        shown_as_progress(progress),
    ):
        task = progress.add_task("starting", total=None)
        yield tell


@contextmanager
def saying() -> Iterator[Callable[[str], None]]:
    """Show the current step without a count; show nothing if standard error is not a terminal."""
    if not is_progress_shown():
        yield lambda _what: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status, shown_as_progress(status):
        yield status.update
