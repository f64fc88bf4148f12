"""The ``zbk`` command: parse, call one function, print.

No command holds logic of its own. This is the one place that turns an error into one line on
standard error and an exit code; a traceback is shown only with ``ZBK_DEBUG=1``, or for a bug in
zbk. Data goes to standard output, everything else to standard error.
"""

import os
import sys
from typing import Any, NoReturn

import click

import zbk
from zbk.cli.command import LazyGroup, commands_of
from zbk.cli.session import Session
from zbk.cli.streams import STANDARD_OUTPUT, drop_output, open_streams
from zbk.errors import (
    EXIT_BOOKIE,
    EXIT_CALLER,
    EXIT_DAMAGE,
    EXIT_LOST_HISTORY,
    EXIT_NOT_DURABLE,
    EXIT_UNAVAILABLE,
    EXIT_UNHEALTHY,
    ZbkError,
    exit_code_of,
)
from zbk.system.memory import collect_rarely, use_one_arena

EXIT_INTERRUPTED = 130

COMMANDS = commands_of(
    "zbk.cli",
    {
        "demo": ("demo.demo:demo", "Show what zbk does: a story that ends by itself."),
        "up": ("up:up", "Run a cluster on this machine until Ctrl-C."),
        "ledger": ("ledger.group:ledger", "Create, write, read and inspect ledgers."),
        "log": ("log.group:log", "Append to, read and inspect logs made of ledgers."),
        "dataset": (
            "dataset.group:dataset",
            "Inspect, drop and clean up the data sets that Spark loads.",
        ),
        "console": ("console:console", "Serve web pages about a cluster until Ctrl-C."),
        "status": ("health.status:status", "Show whether a cluster is healthy, and if not, why."),
        "top": ("health.top:top", "Show what each bookie does, live."),
        "events": ("health.events:events", "Show what happened in a cluster, the oldest first."),
        "doctor": ("health.doctor:doctor", "Check this machine and its way to the cluster."),
        "debug": ("health.debug:debug", "Collect what helpers need to know of a cluster."),
        "cluster": (
            "cluster.group:cluster",
            "Create clusters with a layout of your choice, and close them to strangers.",
        ),
        "metadata": ("metadata:metadata", "Back up, move and check the metadata of a cluster."),
        "bookie": ("bookie.group:bookie", "Create, run and inspect bookies."),
        "autorecovery": ("autorecovery.group:autorecovery", "Repair the ledgers of dead bookies."),
        "key": ("key.group:key", "Make keys, with which processes prove who they are and encrypt."),
        "principal": (
            "principal.group:principal",
            "Decide whose keys the bookies of a cluster accept.",
        ),
        "namespace": (
            "namespace.group:namespace",
            "Grant rights that count for many ledgers at once, and limit those.",
        ),
        "inspect": ("inspect.group:inspect", "Print a bookie's files; change nothing."),
        "config": ("config.command:config", "Show, check and create configuration files."),
        "bench": ("bench.group:bench", "Measure writes, reads, syncs and the floor."),
        "generate": ("generate.group:generate", "Print files for shells and service managers."),
        "version": (
            "version:version",
            "Show the versions of zbk, its wire protocol and its formats.",
        ),
    },
)


EXAMPLES = [
    ("zbk demo", "see it work"),
    ("zbk up", "keep a cluster; then, in another terminal:"),
    ("zbk ledger append access.log", "write a file, one entry per line"),
    ("zbk ledger cat 0 --lines", "read it back"),
]

SECTIONS = {
    "Exit codes": [
        ("0", "done"),
        (f"{EXIT_CALLER}", "the call was wrong, or a check found a difference"),
        ("2", "usage"),
        (
            f"{EXIT_UNAVAILABLE}",
            "the cluster did not answer in time; retry",
        ),
        (f"{EXIT_DAMAGE}", "damaged data"),
        (f"{EXIT_NOT_DURABLE}", "not durable, fenced, or changed by another client first"),
        (f"{EXIT_BOOKIE}", "a bookie cannot start or continue"),
        (
            f"{EXIT_LOST_HISTORY}",
            "a bookie does not start: its directories lack data that the cluster knows of",
        ),
        (f"{EXIT_UNHEALTHY}", "a cluster or a machine has a problem"),
        (f"{EXIT_INTERRUPTED}", "interrupted"),
    ],
    "Environment": [
        ("ZBK_METADATA", "the cluster's metadata store"),
        ("ZBK_PASSWORD", "the ledger's password"),
        ("ZBK_KEY", "the private key file, see `zbk key`"),
        ("ZBK_CONFIG", "the configuration file, see `zbk config`"),
        ("ZBK_BOOKIE_...", "options of bookies, see `zbk bookie run --help`"),
        ("ZBK_CLIENT_...", "options of clients, see `zbk config show`"),
        ("ZBK_DEBUG=1", "show tracebacks"),
        ("NO_COLOR=1", "no colors"),
    ],
}


class ZbkGroup(LazyGroup):
    """The root group, which turns a ``ZbkError`` into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run a command. The CLI catches errors only here."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # fails here, not at the exit of the interpreter
            return result  # noqa: TRY300 - flushing belongs to the command
        except KeyboardInterrupt:
            click.echo("zbk: interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _leave_closed_pipe(ctx)
        except ZbkError as error:
            _show(error)
            ctx.exit(exit_code_of(type(error)))
        except OSError as error:
            _show_system_error(error)
            ctx.exit(EXIT_CALLER)


@click.group(
    cls=ZbkGroup,
    lazy=COMMANDS,
    examples=EXAMPLES,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(zbk.__version__, message="zbk %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Replicated ledgers: append-only logs on several bookies, with a chosen durability.

    A command finds its cluster through --metadata, else $ZBK_METADATA, else the running `zbk up`.
    """
    if ctx.obj is None:
        ctx.obj = Session()


def main() -> NoReturn:
    """Run the command line and end the process."""
    open_streams()
    use_one_arena()
    collect_rarely()
    if "_ZBK_COMPLETE" in os.environ:
        _complete()
    try:
        cli(prog_name="zbk")
    except OSError as error:  # of --help or --version, which click prints before it calls us
        _show_system_error(error)
        sys.exit(EXIT_CALLER)
    raise AssertionError("click ends the process")


def _complete() -> NoReturn:
    """Answer a shell that completes a command line, without waiting for threads at the end."""
    try:
        cli(prog_name="zbk")
    except SystemExit:
        sys.stdout.flush()
    finally:
        os._exit(0)


def _show(error: Exception) -> None:
    import traceback

    if os.environ.get("ZBK_DEBUG") == "1":
        traceback.print_exception(error)
    for line in (str(error), *getattr(error, "__notes__", ())):
        click.echo(f"zbk: {line}", err=True)


def _show_system_error(error: OSError) -> None:
    if error.filename == STANDARD_OUTPUT:
        drop_output()  # what is still buffered would fail again at the exit of the interpreter
    elif error.filename is None and _is_folder_gone():
        _show(NotADirectoryError("the current folder was removed: change to another one"))
        return
    _show(error)


def _is_folder_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - help does not import pathlib
    except FileNotFoundError:
        return True
    return False


def _leave_closed_pipe(ctx: click.Context) -> NoReturn:
    drop_output()  # its reader is gone: nothing to report, and nothing to flush at exit
    ctx.exit(0)
