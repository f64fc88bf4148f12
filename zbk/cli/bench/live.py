"""The progress of a load in one line on standard error, updated once a second; in a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zbk.cli.output import is_progress_shown, rate_text, size_text

if TYPE_CHECKING:
    from zbk.bench.samples import Sample


@contextmanager
def live_line(*, is_wanted: bool) -> "Iterator[Callable[[Sample], None] | None]":
    """Yield a function that shows a sample; ``None`` if none is wanted, or there is no terminal."""
    if not is_wanted or not is_progress_shown():
        yield None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # drawn once per sample, not by a clock: showing must not be the load
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield lambda sample: live.update(
            Text(line_of(sample), no_wrap=True, overflow="ellipsis"), refresh=True
        )


def line_of(sample: "Sample") -> str:
    """Return a sample as one line for people."""
    return (
        f"{sample.at_s:.0f} s  {sample.entry_count:,} entries  "
        f"{rate_text(sample.entries_per_s)}  {sample.payload_mb_per_s:.1f} MB/s  "
        f"p50 {sample.latency_p50_ms:.2f} ms  p99 {sample.latency_p99_ms:.2f} ms  "
        f"bookies {size_text(sample.bookie_rss_size_max)}"
    )
