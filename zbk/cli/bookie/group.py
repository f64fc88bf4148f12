"""``zbk bookie``: create and run one bookie, list and inspect all of them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.admin_options import AdminApi, admin_options
from zbk.cli.command import command, commands_of, group
from zbk.cli.config_options import (
    autorecovery_sources,
    config_options,
    option_sources,
    server_config,
    server_options,
    start_bookie,
    take_security,
)
from zbk.cli.options import bookie_id_argument, cluster_options, output_option
from zbk.cli.output import Format, print_object, print_rows, readable, time_text
from zbk.cli.session import Session
from zbk.config import BookieConfig

if TYPE_CHECKING:
    from zbk.actors.process.bookie import Bookie
    from zbk.metadata.values import BookieRegistration


AUDIT_OPTIONS: Final = ("audit_log", "audit_file_size_max", "audit_file_count")

LS_COLUMNS: Final = (
    "bookie_id", "address", "state", "security", "incarnation", "rack", "http", "started",
    "version",
)  # fmt: skip


@command(
    "init",
    (
        "zbk bookie init --metadata zk://zk1:2181/zbk --journal-dir /j --ledger-dir /l",
        "once, before the first `zbk bookie run`",
    ),
)
@config_options(BookieConfig)
@output_option
def init(output: Format, **options: Any) -> None:  # noqa: ANN401 - fields of BookieConfig
    """Create a bookie: id, cookie, directories.

    Prints the id, which belongs to the directories and not to the address. Each option may also
    come from the environment: --journal-dir from ZBK_BOOKIE_JOURNAL_DIR.
    """
    config = server_config(BookieConfig, options)
    from zbk.actors.process.bookie_process import init_bookie

    bookie_id = init_bookie(config)
    if output == "json":
        print_object({"bookie_id": bookie_id}, output)
    else:
        click.echo(bookie_id)


@command(
    "run",
    ("zbk bookie run --config /etc/zbk/bookie.toml", "as a service"),
    ("zbk bookie run ... --log-format json", "log lines for programs"),
)
@server_options(BookieConfig, ("key", "security", "secure_listen", "insecure", *AUDIT_OPTIONS))
@click.option(
    "--wiped-on-purpose",
    is_flag=True,
    help="Start after a deliberate loss of the data; peers give the entries back.",
)
@click.option(
    "--autorecovery",
    is_flag=True,
    help="Also audit and repair in this process, as `zbk autorecovery run` does.",
)
@admin_options
def run(
    wiped_on_purpose: bool,
    autorecovery: bool,
    allow_actions: bool,
    token_file: Path | None,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    SIGHUP re-reads the configuration: it applies the log level and what else needs no restart, and
    logs the names of the other options that have changed; those of --autorecovery are in the table
    [autorecovery] and in variables.
    READY is logged when the bookie accepts clients. Each option may also come from the environment:
    --journal-dir from ZBK_BOOKIE_JOURNAL_DIR. If the cluster knows that the bookie has served and
    its directories do not show it, a line names the missing data, and the exit code is 7. Such a
    bookie starts only with --wiped-on-purpose, and denies no entry of a ledger until it has checked
    the ledger against its peers.
    """
    from zbk.admin.cluster import Cluster
    from zbk.auditor.bookie_process import run_bookie

    security = take_security(options)
    running, beside = start_bookie(options, has_autorecovery=autorecovery)
    config = running.config
    sources = option_sources(BookieConfig, options)
    if beside is not None:
        sources |= autorecovery_sources(options)
    cluster = Cluster(config.metadata, running=running, option_sources=sources, security=security)
    cluster.autorecovery = beside
    cluster.read_options = lambda: server_config(BookieConfig, options)
    admin = AdminApi(cluster, config.http, has_actions=allow_actions, token_file=token_file)

    def on_started(started: "Bookie") -> None:
        running.begin(started.config, started.change_options)
        cluster.own_bookie = started
        cluster.audit_counts = started.audit_counts

    def on_ready(registration: "BookieRegistration") -> None:
        cluster.bookie_id = registration.bookie_id
        _log_ready(registration)

    try:
        code = run_bookie(
            config,
            on_ready=on_ready,
            on_started=on_started,
            is_wiped_on_purpose=wiped_on_purpose,
            autorecovery=beside,
            more_routes=admin.routes,
            security=security,
        )
    finally:
        cluster.close()
    sys.exit(code)


@command("ls", ("zbk bookie ls", "for people"), ("zbk bookie ls -o json", "one object per line"))
@cluster_options
@output_option
@click.pass_obj
def ls(session: Session, metadata: str | None, output: Format) -> None:
    """List the registered bookies."""
    with session.open_client(metadata) as client:
        print_rows(map(_row, client.list_bookies()), LS_COLUMNS, output)


@command("show", ("zbk bookie show ID", "counts, sizes and marks, as the bookie reports them"))
@bookie_id_argument
@cluster_options
@output_option
@click.pass_obj
def show(session: Session, bookie_id: str, metadata: str | None, output: Format) -> None:
    """Show the state that a bookie reports.

    In JSON, sizes are bytes, durations are milliseconds, and scrub_ended_ms counts from 1970.
    """
    import msgspec

    with session.open_client(metadata) as client:
        info = client.bookie_info(bookie_id)
    shown = msgspec.structs.asdict(info)
    del shown["request_id"]
    print_object(shown if output == "json" else readable(shown), output)


@group(
    "bookie",
    commands_of(
        "zbk.cli.bookie",
        {
            "init": ("group:init", "Create a bookie: id, cookie, directories."),
            "run": ("group:run", "Serve until SIGTERM or Ctrl-C."),
            "ls": ("group:ls", "List the registered bookies."),
            "show": ("group:show", "Show the state that a bookie reports."),
            "gc": ("gc:gc", "Ask a running bookie to drop deleted ledgers."),
            "compaction": (
                "compaction:compaction",
                "Suspend compaction at a running bookie, or resume it.",
            ),
            "test": ("self_test:self_test", "Write to a running bookie, and read it back."),
            "scrub": ("scrub:scrub", "Ask running bookies to look for damage on their disks."),
            "unsynced": ("unsynced:unsynced", "List the ledgers with the most un-synced entries."),
            "readonly": ("readonly:readonly", "Switch a bookie to read-only, or back."),
            "recover": ("recover:recover", "Copy a bookie's entries to other bookies."),
            "decommission": (
                "recover:decommission",
                "Remove a stopped bookie from service, for good.",
            ),
            "cookie": ("cookie:cookie", "Show and repair the cookies that identify a bookie."),
            "sanity": ("offline:sanity", "Check the files of a stopped bookie."),
            "rebuild-index": ("offline:rebuild_index", "Make the index of a stopped bookie anew."),
            "retire-dir": (
                "directory:retire_dir",
                "Retire one of several directories of a stopped bookie.",
            ),
            "renew-dir": (
                "directory:renew_dir",
                "Bring a directory of a stopped bookie back into service, empty.",
            ),
            "expand-storage": (
                "directory:expand_storage",
                "Add new, empty directories to a stopped bookie.",
            ),
            "format": ("offline:format_", "Remove all data of a stopped bookie."),
        },
    ),
    ("zbk bookie ls", "their states"),
    ("zbk bookie run --help", "all options"),
)
def bookie() -> None:
    """Create, run and inspect bookies."""


# ------------------------------------------------------------------ private


def _log_ready(registration: "BookieRegistration") -> None:
    from zbk.system.event_log import EventLog

    EventLog("zbk.bookie").info(
        "bookie.ready",
        "READY bookie %(bookie_id)s at %(address)s, incarnation %(incarnation)d, metrics %(http)s",
        bookie_id=registration.bookie_id,
        address=registration.address,
        incarnation=registration.incarnation,
        http=registration.http or "off",
    )


def _row(found: "BookieRegistration") -> dict[str, Any]:
    return {
        "bookie_id": found.bookie_id,
        "address": found.address,
        "state": "read-only" if found.is_readonly else "writable",
        "security": found.security,
        "incarnation": found.incarnation,
        "rack": found.rack,
        "http": found.http or "",
        "started": time_text(found.started_ms),
        "version": found.version,
    }
