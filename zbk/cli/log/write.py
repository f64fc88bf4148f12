"""The commands of ``zbk log`` that change something."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.framing import check_framing, framing_options, open_input, payload_batches
from zbk.cli.log.options import log_argument, parse_position
from zbk.cli.options import (
    ledger_keywords,
    ledger_options,
    metadata_option,
    output_option,
    size_option,
)
from zbk.cli.output import Format, note, print_object
from zbk.cli.progress import telling
from zbk.cli.session import Session
from zbk.cli.signals import end_like_ctrl_c
from zbk.cli.streams import is_terminal

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zbk.client.log.log import Log
    from zbk.cluster.load import Loaded
    from zbk.protocol.log.position import LogRange

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command(
    "append",
    cls=ZbkCommand,
    examples=[
        ("zbk log append orders orders.txt", "a line an entry"),
        ("tail -n 99 x | zbk log append orders", "from a pipe"),
        ("zbk log append images a.png --whole", "the file as one entry"),
    ],
)
@log_argument
@click.argument("file_name", metavar="[FILE]", default="-")
@framing_options
@size_option(
    "--roll-size", help_text="Continue in a new ledger after SIZE bytes. [default: 256MiB]"
)
@click.option("--no-create", is_flag=True, help="Fail if there is no such log.")
@ledger_options
@metadata_option
@output_option
@click.pass_obj
def append(
    session: Session,
    /,
    *,
    name: str,
    file_name: str,
    lines: bool,
    chunk_size: int | None,
    whole: bool,
    roll_size: int | None,
    no_create: bool,
    metadata: str | None,
    output: Format,
    **options: Any,  # noqa: ANN401 - those of `ledger_options`
) -> None:
    """Write a file or a pipe to a log's end.

    Takes the log over from whoever owned it; makes it, if there is none. FILE is standard input
    where it is missing or `-`. The options of ledgers are for those that this command makes.
    """
    check_framing(lines=lines, chunk_size=chunk_size, whole=whole)
    end_like_ctrl_c()
    keywords = ledger_keywords(options)
    if roll_size is not None:
        keywords["roll_size"] = roll_size
    with ExitStack() as stack:
        source = open_input(stack, file_name)
        client = stack.enter_context(session.open_client(metadata))
        log = stack.enter_context(client.open_log(name, create=not no_create, **keywords))
        appender = _Appender(log)
        loaded = _fill(appender, payload_batches(source, chunk_size, is_whole=whole))
    shown = {
        "log": name,
        "entry_count": loaded.entry_count,
        "payload_size": loaded.payload_size,
        "first": appender.first,
        "last": appender.last,
        "seconds": round(loaded.seconds, 3),
    }
    print_object(shown, output)


@click.command(
    "truncate",
    cls=ZbkCommand,
    examples=[
        ("zbk log truncate orders 12:0", "the ledgers before ledger 12 go; asks first"),
        ("zbk log truncate orders 12:0 --yes", "in a script"),
    ],
)
@log_argument
@click.argument("position", metavar="POSITION")
@yes_option
@metadata_option
@output_option
@click.pass_obj
def truncate(
    session: Session, name: str, position: str, yes: bool, metadata: str | None, output: Format
) -> None:
    """Delete a log's oldest ledgers.

    Those that lie before POSITION (LEDGER:ENTRY) as a whole. The last ledger stays, and so does
    one that is still written.
    """
    begin_at = parse_position(position)
    _check_can_ask(is_sure=yes)
    with session.open_client(metadata) as client:
        ledger_ids = client.get_log_metadata(name).ledger_ids
        if begin_at.ledger_id in ledger_ids and not yes:
            count = ledger_ids.index(begin_at.ledger_id)
            if not _is_confirmed(
                f"Delete the first {count} of {len(ledger_ids)} ledgers of {name}?"
            ):
                return
        count = client.truncate_log(name, begin_at)
        begin = client.get_log_metadata(name).begin
    shown = {"log": name, "deleted_ledger_count": count, "begin": None if not begin else str(begin)}
    print_object(shown, output)


@click.command(
    "delete",
    cls=ZbkCommand,
    examples=[
        ("zbk log delete orders", "asks first"),
        ("zbk log delete orders --yes", "in a script"),
    ],
)
@log_argument
@yes_option
@metadata_option
@output_option
@click.pass_obj
def delete(session: Session, name: str, yes: bool, metadata: str | None, output: Format) -> None:
    """Delete a log and its ledgers for good."""
    _check_can_ask(is_sure=yes)
    with session.open_client(metadata) as client:
        if not yes:
            count = len(client.get_log_metadata(name).ledger_ids)
            if not _is_confirmed(f"Delete log {name} ({count} ledgers)?"):
                return
        deleted_count = client.delete_log(name)
    print_object({"log": name, "deleted_ledger_count": deleted_count, "is_deleted": True}, output)


# ------------------------------------------------------------------ private


def _check_can_ask(*, is_sure: bool) -> None:
    if not is_sure and not _can_ask():
        raise click.UsageError("There is no terminal to ask in: give --yes.")


def _can_ask() -> bool:
    return is_terminal(sys.stdin)


def _is_confirmed(question: str) -> bool:
    if click.confirm(question, err=True):
        return True
    note("zbk: nothing was deleted")
    return False


class _Appender:
    """A log as something to load into; remembers where the entries went."""

    def __init__(self, log: "Log") -> None:
        self.log = log
        self.first: str | None = None
        self.last: str | None = None

    def append_many(
        self, payloads: Iterable[bytes], *, timeout: float | None = None
    ) -> "Future[range]":
        """Append a batch; return a future of its ids in their ledger."""
        from concurrent.futures import Future

        found: Future[range] = Future()

        def resolve(done: "Future[LogRange]") -> None:
            error = done.exception()
            if error is not None:
                found.set_exception(error)
                return
            positions = done.result()
            if positions:
                self.first = self.first or str(positions[0])
                self.last = str(positions[-1])
            found.set_result(positions.entry_ids)

        self.log.append_many(payloads, timeout=timeout).add_done_callback(resolve)
        return found


def _fill(appender: _Appender, batches: Iterable[list[bytes]]) -> "Loaded":
    """Load; after a failure say what is in the log."""
    from zbk.cluster.load import load

    try:
        with telling() as on_progress:
            return load(appender, batches, on_progress=lambda count: on_progress("appended", count))
    except BaseException:
        if appender.last is not None:
            note(f"zbk: entries up to {appender.last} are in log {appender.log.name}")
        raise
