"""``zbk up``: a cluster on this machine that runs until Ctrl-C."""

import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zbk.cli.admin_options import up_options
from zbk.cli.command import command
from zbk.cli.options import duration_option, integer_option, output_option
from zbk.cli.output import Format, note, print_json
from zbk.cluster import BOOKIE_COUNT_MAX

if TYPE_CHECKING:
    from zbk.cluster.local import LocalCluster
    from zbk.cluster.local_keys import LocalKeys
    from zbk.config import SecurityConfig
    from zbk.errors import BookieError

CONSOLE_LOG: Final = "console.log"
"""The log of this process, of which the console is a part, in the folder of the cluster."""

LOOK_INTERVAL_S: Final = 0.5
BOOKIES_SHOWN: Final = 4

SESSION_TIMEOUT_MS: Final = 10_000
"""As in production: the cluster must keep its sessions while the machine is busy."""


def default_data_dir() -> Path:
    """Return the default folder of the cluster: ``$XDG_DATA_HOME/zbk/local``."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "zbk" / "local"


@command(
    "up",
    ("zbk up", "three bookies; commands in other terminals find them"),
    ("zbk up --zookeeper --data /data/zk-cluster", "metadata in a real ZooKeeper"),
    ("zbk up --bookies 4", "one more than a ledger needs, for copies after a loss"),
)
@integer_option(
    "--bookies",
    "bookie_count",
    metavar="N",
    high=BOOKIE_COUNT_MAX,
    default=3,
    help_text="Number of bookies.",
)
@click.option(
    "--data",
    "data_dir",
    metavar="DIR",
    envvar="ZBK_DATA",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the cluster; an existing cluster is started again. "
    "[default: ~/.local/share/zbk/local]",
)
@click.option("--zookeeper", is_flag=True, help="Start a real ZooKeeper for the metadata.")
@click.option(
    "--metadata",
    metavar="URI",
    envvar="ZBK_METADATA",
    show_envvar=True,
    help="Use this metadata store instead of starting one.",
)
@click.option(
    "--autorecovery/--no-autorecovery",
    default=True,
    help="Repair the ledgers of dead bookies, as `zbk autorecovery run`.  [default: autorecovery]",
)
@duration_option(
    "--start-timeout",
    "start_timeout_ms",
    default="30s",
    help_text="Time that the bookies have to start; a long journal takes longer.",
)
@click.option(
    "--http",
    metavar="HOST:PORT|auto|off",
    default="auto",
    show_default=True,
    help="Address of metrics and health of bookie 0; the other processes have the next ports. "
    "auto: any free ports of 127.0.0.1.",
)
@click.option(
    "--console",
    metavar="HOST:PORT|auto|off",
    default="auto",
    show_default=True,
    help="Address of the web console. auto: port 8710 of 127.0.0.1, or any free one.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Make keys for bookies, autorecovery, console and a client, and require encryption.",
)
@up_options
@output_option
def up(
    *,
    bookie_count: int,
    data_dir: Path | None,
    zookeeper: bool,
    metadata: str | None,
    autorecovery: bool,
    start_timeout_ms: int,
    http: str,
    console: str,
    allow_actions: bool,
    token_file: Path | None,
    secure: bool,
    output: Format,
) -> None:
    """Run a cluster on this machine until Ctrl-C.

    Each bookie is a process, and so is autorecovery, which copies the entries of a dead bookie to
    others. All listen on loopback only. While the cluster runs, other commands use it without
    --metadata.

    With --secure the bookies require keys, as they should on a network. The keys are in the folder
    of the cluster; the output says how a client uses its own.

    A bookie that ends is not restarted; the command that restarts it is printed. `zbk up` ends when
    no bookie runs any more.
    """
    from zbk.admin.access import read_token
    from zbk.cli.logs import log_to_file
    from zbk.cli.signals import end_like_ctrl_c
    from zbk.cluster.local import LocalCluster
    from zbk.cluster.local_keys import LocalKeys
    from zbk.config import SecurityConfig
    from zbk.config.http_address import OFF
    from zbk.errors import InvalidOptionError
    from zbk.system.clock import monotonic_s
    from zbk.system.context import write_context

    if console == http == OFF and (allow_actions or token_file):
        raise InvalidOptionError("console", console, "actions and the admin API need an address")
    if token_file:
        read_token(token_file)  # refuses a wrong one before anything is started
        token_file = token_file.absolute()
    flags = [
        *(["--allow-actions"] if allow_actions else []),
        *(["--http-token-file", str(token_file)] if token_file else []),
    ]
    folder = data_dir or default_data_dir()
    keys = LocalKeys(folder) if secure else None
    has_own_zookeeper = keys is not None and zookeeper and not metadata
    variables = keys.use_metadata_user() if keys is not None and has_own_zookeeper else {}
    end_like_ctrl_c()
    started_s = monotonic_s()
    if metadata and zookeeper:
        note(f"zbk: no ZooKeeper is started: the metadata are in {metadata}")
    try:
        with (
            LocalCluster(
                folder,
                bookie_count=bookie_count,
                use_zookeeper=zookeeper and not metadata,
                metadata=metadata,
                start_timeout_s=start_timeout_ms / 1000,
                bookie_options={"session_timeout_ms": SESSION_TIMEOUT_MS}
                | ({} if http == "auto" else {"http": http}),
                bookie_flags=[*([] if http == OFF else flags), *_key_flags(keys, "bookie")],
            ) as cluster,
            _as_context(cluster) as is_context,
        ):
            log_to_file(cluster.folder / CONSOLE_LOG)
            if keys is not None:
                if has_own_zookeeper:
                    keys.close_tree(cluster.metadata_uri)
                keys.admit(cluster.metadata_uri)
                variables["ZBK_KEY"] = keys.path("client")
            if autorecovery:
                options = {"session_timeout_ms": SESSION_TIMEOUT_MS}
                cluster.start_autorecovery(options, _key_flags(keys, "autorecovery"))
            security = SecurityConfig(key=keys.path("console") if keys else "")
            with _console(
                cluster,
                console,
                allow_actions=allow_actions,
                token_file=token_file,
                security=security,
            ) as url:
                if is_context:
                    write_context(cluster.metadata_uri, str(cluster.folder), os.getpid(), url)
                seconds = monotonic_s() - started_s
                _show(
                    cluster,
                    seconds,
                    output,
                    is_context=is_context,
                    console=url,
                    variables=variables,
                )
                _stay(cluster)
    except KeyboardInterrupt:
        note("zbk: stopped")


def _key_flags(keys: "LocalKeys | None", name: str) -> list[str]:
    return [] if keys is None else ["--key", keys.path(name)]


@contextmanager
def _as_context(cluster: "LocalCluster") -> Iterator[bool]:
    """Make this cluster the context, unless it is that of another running ``zbk up``."""
    from zbk.errors import InvalidOptionError
    from zbk.system.context import clear_context, find_context, write_context

    try:
        found = find_context()
    except InvalidOptionError:  # broken
        found = None
    if found is not None and not found.is_stale:
        yield False
        return
    try:
        write_context(cluster.metadata_uri, str(cluster.folder), os.getpid())
    except OSError as error:
        note(f"zbk: other commands need --metadata to find this cluster: {error}")
        yield False
        return
    try:
        yield True
    finally:
        clear_context()


@contextmanager
def _console(
    cluster: "LocalCluster",
    http: str,
    *,
    allow_actions: bool,
    token_file: Path | None,
    security: "SecurityConfig",
) -> Iterator[str]:
    """Serve the web console of the cluster; yield its URL, or "" if it is off."""
    from zbk.config.http_address import OFF
    from zbk.console.console import running_console

    if http == OFF:
        yield ""
        return
    with running_console(
        cluster.metadata_uri,
        http,
        allow_actions=allow_actions,
        token_file=token_file,
        bookie_token_file=token_file,
        security=security,
    ) as url:
        yield url


def _show(
    cluster: "LocalCluster",
    seconds: float,
    output: Format,
    *,
    is_context: bool,
    console: str,
    variables: dict[str, str],
) -> None:
    import zbk

    bookies = cluster.bookies
    beside = cluster.autorecovery
    if output == "json":
        print_json(
            {
                "metadata": cluster.metadata_uri,
                "data_dir": str(cluster.folder),
                "is_context": is_context,
                "bookies": [
                    {
                        "index": b.index,
                        "bookie_id": b.bookie_id,
                        "address": b.address,
                        "pid": b.pid,
                        "http": b.http,
                    }
                    for b in bookies
                ],
                "autorecovery": None if beside is None else {"pid": beside.pid},
                "console": console,
                "key": variables.get("ZBK_KEY", ""),
                "environment": variables,
            }
        )
        return
    click.echo(f"zbk {zbk.__version__}, a cluster in {cluster.folder}")
    click.echo(f"  metadata  {cluster.metadata_uri}")
    for bookie in bookies[:BOOKIES_SHOWN]:
        click.echo(
            f"  bookie {bookie.index}  {bookie.address}  pid {bookie.pid}  {bookie.bookie_id}"
            f"  {bookie.http}".rstrip()
        )
    if len(bookies) > BOOKIES_SHOWN:
        click.echo(f"  and {len(bookies) - BOOKIES_SHOWN} more: zbk bookie ls")
    if beside is not None:
        click.echo(f"  autorecovery  pid {beside.pid}: zbk autorecovery status")
    click.echo(f"READY in {seconds:.1f} s. Ctrl-C stops it. Next, in another terminal:")
    if not is_context:
        click.echo(
            f"  export ZBK_METADATA={cluster.metadata_uri}  # another cluster is the default"
        )
    for name, value in variables.items():
        click.echo(f"  export {name}={value}")
    if variables:
        click.echo("  zbk principal ls             whose keys the bookies accept")
    if console:
        click.echo(f"  {console:<28} the web console, in a browser")
    click.echo("  zbk ledger append FILE       a new ledger, one entry per line")
    click.echo("  zbk ledger cat ID --lines    read it back")


def _stay(cluster: "LocalCluster") -> None:
    """Report each bookie that ends or returns, until none runs, of ours or by hand.

    Raises:
        BookieError: every bookie has ended.
    """
    from zbk.errors import BookieError, UnavailableError

    ended: set[int] = set()
    by_hand: set[int] = set()
    try:
        while True:
            cluster.rotate_logs()
            _tell_of_autorecovery(cluster)
            deaths = cluster.deaths()
            running = None
            if deaths:
                with suppress(UnavailableError):  # not known: continue
                    running = cluster.running_ids()
            for index in deaths.keys() - ended:
                _tell_of_end(cluster, index, deaths[index], running)
                ended.add(index)
            if running is not None:
                by_hand = _tell_of_restarts(cluster, ended, by_hand, running)
                if not running:
                    raise BookieError("every bookie has ended")
            threading.Event().wait(LOOK_INTERVAL_S)
    except KeyboardInterrupt:
        for index in sorted(by_hand):
            note(f"zbk: bookie {index}, started by hand, still runs")
        raise


def _tell_of_end(
    cluster: "LocalCluster", index: int, error: "BookieError", running: set[str] | None
) -> None:
    note(f"zbk: {error}")
    note(f"zbk: to restart it: {shlex.join(cluster.command_by_hand(index))}")
    if running is not None:
        note(f"zbk: the cluster continues with {len(running)} of {len(cluster.bookies)} bookies")


def _tell_of_restarts(
    cluster: "LocalCluster", ended: set[int], before: set[int], running: set[str]
) -> set[int]:
    """Return which of the bookies that ended run again, and report the changes."""
    by_hand = {one.index for one in cluster.bookies if one.bookie_id in running} & ended
    for index in sorted(by_hand - before):
        note(f"zbk: bookie {index} runs again, started by hand")
    for index in sorted(before - by_hand):
        note(f"zbk: bookie {index}, started by hand, has ended")
    return by_hand


def _tell_of_autorecovery(cluster: "LocalCluster") -> None:
    """Report the end of autorecovery, once."""
    beside = cluster.autorecovery
    if beside is None or beside.exit_code is None:
        return
    note(f"zbk: {beside.death()}")
    note("zbk: the cluster continues without it; to restart it: zbk autorecovery run")
    cluster.stop_autorecovery()
