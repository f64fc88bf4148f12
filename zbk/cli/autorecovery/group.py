"""``zbk autorecovery``: run the auditor and the workers, show their state, switch them."""

import sys
from typing import TYPE_CHECKING, Any

from zbk.cli.command import command, commands_of, group
from zbk.cli.config_options import server_options, start_server, take_security
from zbk.config import AutorecoveryConfig

if TYPE_CHECKING:
    from zbk.auditor.process import Autorecovery


@command(
    "run",
    ("zbk autorecovery run --metadata zk://zk1:2181/zbk", "as a service, on any host"),
    ("zbk autorecovery run --lost-bookie-delay-ms 10min", "time for a bookie to restart"),
)
@server_options(AutorecoveryConfig, ("key", "security"))
def run(**options: Any) -> None:  # noqa: ANN401 - fields of AutorecoveryConfig, and of the log
    """Audit and repair until SIGTERM or Ctrl-C.

    SIGHUP re-reads the configuration: it applies the log level and what else needs no restart, and
    logs the names of the other options that have changed.
    Any number may run: one of them audits, all of them repair. READY is logged after the start.
    Each option may also come from the environment: --brake-hold-ms from
    ZBK_AUTORECOVERY_BRAKE_HOLD_MS.
    """
    from zbk.auditor.process import run_autorecovery

    security = take_security(options)
    running = start_server(AutorecoveryConfig, options)

    def on_started(process: "Autorecovery") -> None:
        running.begin(running.config, process.change_options)

    code = run_autorecovery(
        running.config, on_ready=_log_ready, on_started=on_started, security=security
    )
    sys.exit(code)


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
    from zbk.system.event_log import EventLog

    EventLog("zbk.auditor").info(
        "autorecovery.ready",
        "READY autorecovery %(name_in_elections)s, metrics %(http)s",
        name_in_elections=name,
        http=http or "off",
    )
