"""What goes on, and a count that grows, on standard error; in a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zbk.cli.output import is_progress_shown


@contextmanager
def telling(unit: str = "entries") -> Iterator[Callable[[str, int], None]]:
    """Show what goes on and how much is done; nothing where standard error is no terminal."""
    if not is_progress_shown():
        yield lambda _what, _count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn(f"{{task.description}}: {{task.completed:,}} {unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda what, count: progress.update(task, description=what, completed=count)


@contextmanager
def saying() -> Iterator[Callable[[str], None]]:
    """Show what goes on, without a count; nothing where standard error is no terminal."""
    if not is_progress_shown():
        yield lambda _what: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update
