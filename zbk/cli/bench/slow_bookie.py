"""``python -m zbk.cli.bench.slow_bookie``: ``zbk bookie run`` with a disk whose fsyncs take longer.

For benchmarks and tests of one slow bookie among others: no command of ``zbk``.
"""

import sys
from typing import Any

import click

from zbk.cli.config_options import config_options, server_config
from zbk.cli.logs import log_to_stderr
from zbk.cli.options import parse_duration_option
from zbk.cli.parent import stop_with_parent
from zbk.config import BookieConfig


@click.command()
@config_options(BookieConfig)
@click.option(
    "--sync-delay",
    "sync_delay_ms",
    metavar="DURATION",
    required=True,
    callback=parse_duration_option,
    help="How much longer each fsync takes.",
)
@click.option("--stop-with-parent", "is_parent_watched", is_flag=True, help="Stop with stdin.")
def run(
    sync_delay_ms: int,
    is_parent_watched: bool,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Serve until SIGTERM."""
    from zbk.auditor.bookie_process import run_bookie
    from zbk.bench.slow_disk import SlowFiles

    log_to_stderr("text", "info")
    if is_parent_watched:
        stop_with_parent()
    files = SlowFiles(sync_delay_ms / 1000)
    config = server_config(BookieConfig, options)
    sys.exit(run_bookie(config, on_ready=lambda _registration: None, files=files))


if __name__ == "__main__":
    run()
