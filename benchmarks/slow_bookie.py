"""``python -m benchmarks.slow_bookie``: ``zbk bookie run`` on a disk whose fsyncs take longer.

For experiments and tests with a slow bookie: not a command of ``zbk``.
"""

import sys
from typing import Any

import click

from benchmarks.slow_disk import SlowFiles
from zbk.auditor.bookie_process import run_bookie
from zbk.cli.config_options import server_options, start_server
from zbk.cli.options import duration_option
from zbk.config import BookieConfig

BOOKIE_COUNT = 3
SLOW_BOOKIE = 2
"""The number of the slow bookie if only one is slow."""


def slow_programs(slow_bookie_ms: int, slow_disks_ms: int) -> dict[int, tuple[str, ...]]:
    """Return the programs of the bookies whose fsyncs take longer, as ``LocalCluster`` takes them.

    >>> slow_programs(40, 0)
    {2: ('-m', 'benchmarks.slow_bookie', '--sync-delay', '40ms')}
    >>> sorted(slow_programs(0, 50))
    [0, 1, 2]
    """
    numbers = [SLOW_BOOKIE] if slow_bookie_ms else range(BOOKIE_COUNT)
    delay_ms = slow_bookie_ms or slow_disks_ms
    program = ("-m", "benchmarks.slow_bookie", "--sync-delay", f"{delay_ms}ms")
    return dict.fromkeys(numbers, program) if delay_ms else {}


@click.command()
@server_options(BookieConfig)
@duration_option(
    "--sync-delay", "sync_delay_ms", help_text="The additional time of each fsync.", required=True
)
def run(
    sync_delay_ms: int,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Serve until SIGTERM."""
    files = SlowFiles(sync_delay_ms / 1000)
    config = start_server(BookieConfig, options).config
    sys.exit(run_bookie(config, on_ready=lambda _registration: None, files=files))


if __name__ == "__main__":
    run()
