"""``zbk autorecovery``: run the auditor and the workers, show their state, switch them."""

import sys
from typing import Any

import click

from zbk.cli.command import command, commands_of, group
from zbk.cli.config_options import config_options, log_config, log_options, server_config
from zbk.config import AutorecoveryConfig


@command(
    "run",
    ("zbk autorecovery run --metadata zk://zk1:2181/zbk", "as a service, on any host"),
    ("zbk autorecovery run --lost-bookie-delay-ms 10min", "time for a bookie to restart"),
)
@config_options(AutorecoveryConfig)
@log_options
@click.option("--stop-with-parent", is_flag=True, hidden=True, help="Stop when stdin closes.")
def run(
    log_format: str | None,
    log_level: str | None,
    stop_with_parent: bool,
    **options: Any,  # noqa: ANN401 - fields of AutorecoveryConfig
) -> None:
    """Audit and repair until SIGTERM or Ctrl-C.

    Any number may run: one of them audits, all of them repair. READY is logged after the start.
    Each option may also come from the environment: --brake-hold-ms from
    ZBK_AUTORECOVERY_BRAKE_HOLD_MS.
    """
    log = log_config(options["config_file"], log_format, log_level)
    config = server_config(AutorecoveryConfig, options)
    from zbk.auditor.process import run_autorecovery
    from zbk.cli.logs import log_to_stderr
    from zbk.cli.parent import stop_with_parent as watch_parent

    log_to_stderr(log.format, log.level)
    if stop_with_parent:
        watch_parent()
    sys.exit(run_autorecovery(config, on_ready=_log_ready))


@group(
    "autorecovery",
    commands_of(
        "zbk.cli.autorecovery",
        {
            "run": ("group:run", "Audit and repair until SIGTERM or Ctrl-C."),
            "status": ("look:status", "Show the auditor, lost bookies and repair tasks."),
            "whoisauditor": ("look:whoisauditor", "Name the process that audits now."),
            "enable": ("switch:enable", "Enable autorecovery in the whole cluster."),
            "disable": ("switch:disable", "Disable autorecovery in the whole cluster."),
            "trigger": ("switch:trigger", "Look for lost bookies now."),
            "delay": ("switch:delay", "Set how long one lost bookie has to return."),
        },
    ),
    ("zbk autorecovery run", "on each host, or `zbk bookie run --autorecovery`"),
    ("zbk autorecovery status", "lost bookies and repair tasks"),
)
def autorecovery() -> None:
    """Repair the ledgers of dead bookies."""


# ------------------------------------------------------------------ private


def _log_ready(name: str, http: str) -> None:
    import logging

    logging.getLogger("zbk.auditor").info("READY autorecovery %s, metrics %s", name, http or "off")
