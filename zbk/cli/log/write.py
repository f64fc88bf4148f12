"""The commands of ``zbk log`` that change something."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.confirmation import check_can_ask, is_confirmed, yes_option
from zbk.cli.framing import framing_options, load_with_progress, open_payloads
from zbk.cli.log.position import parse_position
from zbk.cli.options import (
    cluster_options,
    ledger_keywords,
    ledger_options,
    name_argument,
    output_option,
    size_option,
)
from zbk.cli.output import Format, note, print_object
from zbk.cli.session import Session
from zbk.cli.signals import end_like_ctrl_c

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zbk.client.log.log import Log
    from zbk.protocol.log.position import LogRange


@command(
    "append",
    ("zbk log append orders orders.txt", "one entry per line"),
    ("tail -n 99 x | zbk log append orders", "from a pipe"),
    ("zbk log append images a.png --whole", "the file as one entry"),
)
@name_argument
@click.argument("file_name", metavar="[FILE]", default="-")
@framing_options
@size_option(
    "--roll-size", help_text="Continue in a new ledger after SIZE bytes. [default: 256MiB]"
)
@click.option("--no-create", is_flag=True, help="Fail if the log does not exist.")
@ledger_options
@cluster_options
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
    is_whole: bool,
    roll_size: int | None,
    no_create: bool,
    metadata: str | None,
    output: Format,
    **options: Any,  # noqa: ANN401 - those of `ledger_options`
) -> None:
    """Write a file or a pipe to a log's end.

    Takes the log over from its owner, or creates it. FILE is standard input if it is missing or
    `-`. The options of ledgers are for the ledgers that this command creates.
    """
    end_like_ctrl_c()
    keywords = ledger_keywords(options)
    if roll_size is not None:
        keywords["roll_size"] = roll_size
    with ExitStack() as stack:
        batches = open_payloads(
            stack, file_name, lines=lines, chunk_size=chunk_size, is_whole=is_whole
        )
        client = stack.enter_context(session.open_client(metadata))
        log = stack.enter_context(client.open_log(name, create=not no_create, **keywords))
        appender = _Appender(log)
        try:
            loaded = load_with_progress(appender, batches)
        except BaseException:
            if appender.last is not None:
                note(f"zbk: entries up to {appender.last} are in log {name}")
            raise
    shown = {
        "log": name,
        "entry_count": loaded.entry_count,
        "payload_size": loaded.payload_size,
        "first": appender.first,
        "last": appender.last,
        "seconds": round(loaded.seconds, 3),
    }
    print_object(shown, output)


@command(
    "truncate",
    ("zbk log truncate orders 12:0", "the ledgers before ledger 12; asks for confirmation"),
    ("zbk log truncate orders 12:0 --yes", "in a script"),
)
@name_argument
@click.argument("position", metavar="POSITION")
@yes_option
@cluster_options
@output_option
@click.pass_obj
def truncate(
    session: Session, name: str, position: str, yes: bool, metadata: str | None, output: Format
) -> None:
    """Delete a log's oldest ledgers.

    Deletes the ledgers that lie before POSITION (LEDGER:ENTRY) as a whole, but never the last
    ledger, nor one that is still written.
    """
    begin_at = parse_position(position)
    check_can_ask(yes=yes)
    with session.open_client(metadata) as client:
        ledger_ids = client.get_log_metadata(name).ledger_ids
        if begin_at.ledger_id in ledger_ids:
            count = ledger_ids.index(begin_at.ledger_id)
            question = f"Delete the first {count} of {len(ledger_ids)} ledgers of {name}?"
            if not is_confirmed(question, yes=yes):
                return
        count = client.truncate_log(name, begin_at)
        begin = client.get_log_metadata(name).begin
    shown = {"log": name, "deleted_ledger_count": count, "begin": None if not begin else str(begin)}
    print_object(shown, output)


@command(
    "delete",
    ("zbk log delete orders", "asks for confirmation"),
    ("zbk log delete orders --yes", "in a script"),
)
@name_argument
@yes_option
@cluster_options
@output_option
@click.pass_obj
def delete(session: Session, name: str, yes: bool, metadata: str | None, output: Format) -> None:
    """Delete a log and its ledgers for good."""
    check_can_ask(yes=yes)
    with session.open_client(metadata) as client:
        if not yes:
            count = len(client.get_log_metadata(name).ledger_ids)
            if not is_confirmed(f"Delete log {name} ({count} ledgers)?", yes=yes):
                return
        deleted_count = client.delete_log(name)
    print_object({"log": name, "deleted_ledger_count": deleted_count, "is_deleted": True}, output)


# ------------------------------------------------------------------ private


class _Appender:
    """A log to load into; keeps the first and the last position that were acknowledged."""

    def __init__(self, log: "Log") -> None:
        self._log = log
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

        self._log.append_many(payloads, timeout=timeout).add_done_callback(resolve)
        return found
