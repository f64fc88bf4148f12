"""``zbk console``: the web console of a cluster, until Ctrl-C."""

from pathlib import Path

import click

from zbk.cli.admin_options import bookie_token_option, console_options
from zbk.cli.command import command
from zbk.cli.config_file import config_option, own_security, read_tables
from zbk.cli.config_options import log_options, start_log
from zbk.cli.options import cluster_options, output_option
from zbk.cli.output import Format, note, print_json


@command(
    "console",
    ("zbk console", "of the running `zbk up`, or of ZBK_METADATA"),
    ("zbk console --metadata zk://zk1:2181/zbk --http 127.0.0.1:8710", "at this address"),
    ("zbk console --allow-actions", "with recover, delete, gc, scrub, read-only"),
)
@click.option(
    "--http",
    metavar="HOST:PORT|auto",
    default="auto",
    show_default=True,
    help="Address of the console. auto: port 8710 of 127.0.0.1, or any free one.",
)
@console_options
@bookie_token_option
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Another name under which browsers reach the console, such as that of a proxy.",
)
@log_options
@config_option
@cluster_options
@output_option
def console(
    *,
    http: str,
    allow_actions: bool,
    token_file: Path | None,
    bookie_token_file: Path | None,
    hosts: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
    config_file: Path | None,
    metadata: str | None,
    output: Format,
) -> None:
    """Serve web pages about a cluster until Ctrl-C.

    Bookies, ledgers, durability, recovery, latencies, events, configuration. The console reads the
    metadata store and the bookies; it changes nothing without --allow-actions. The pages have no
    login: to serve them beyond this machine, put a proxy with authentication before the console.

    The same address serves the admin API, below /api/v1, and /metrics, /livez, /readyz and /version
    of the console itself.
    """
    from zbk.cli.signals import end_like_ctrl_c
    from zbk.cli.store import cluster_address
    from zbk.console.console import running_console
    from zbk.system.waking_event import WakingEvent

    address = cluster_address(metadata)
    tables = read_tables(config_file)
    start_log({"level": log_level, "format": log_format}, tables)
    end_like_ctrl_c()
    try:
        with running_console(
            address,
            http,
            allow_actions=allow_actions,
            token_file=token_file,
            bookie_token_file=bookie_token_file,
            hosts=hosts,
            tables=tables,
            tables_source=str(config_file or ""),
            security=own_security(config_file),
        ) as url:
            if output == "json":
                print_json({"url": url})
            else:
                click.echo(f"console  {url}")
            WakingEvent().wait()
    except KeyboardInterrupt:
        note("zbk: stopped")
