"""The commands of ``zbk ledger`` that change something."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from zbk.cli.audit import audited
from zbk.cli.command import command
from zbk.cli.confirmation import check_can_ask, is_confirmed, yes_option
from zbk.cli.framing import framing_options, load_with_progress, open_payloads
from zbk.cli.options import (
    NEW_LEDGER_OPTIONS,
    cluster_options,
    ledger_id_argument,
    ledger_keywords,
    ledger_options,
    output_option,
    password_option,
)
from zbk.cli.output import Format, note, print_object
from zbk.cli.session import Session
from zbk.cli.signals import end_like_ctrl_c
from zbk.errors import NotDurableError, ZbkError
from zbk.protocol.entry.spans import spans_text
from zbk.protocol.entry.words import LEDGER_ID_MAX

if TYPE_CHECKING:
    from zbk.client.write.ledger_writer import LedgerWriter
    from zbk.cluster.load import Loaded
    from zbk.protocol.ledger.metadata import LedgerMetadata

FAILED_CLOSE_S: Final = 10.0
"""Time that the close after a failed or interrupted load waits for bookies."""


@command(
    "create",
    ("zbk ledger create", "three bookies, two must answer"),
    ("zbk ledger create --type vd --meta job=nightly", "deferred durability"),
)
@ledger_options
@cluster_options
@output_option
@click.pass_obj
def create(
    session: Session,
    /,
    metadata: str | None,
    output: Format,
    **options: Any,  # noqa: ANN401 - those of `ledger_options`
) -> None:
    """Reserve a ledger; print its id.

    It stays open and empty until `zbk ledger append ID` fills it. Only one process ever can.
    """
    with session.open_client(metadata) as client:
        ledger_id = client.reserve_ledger(**ledger_keywords(options))
    if output == "json":
        print_object({"ledger_id": ledger_id}, output)
    else:
        click.echo(ledger_id)


@command(
    "append",
    ("zbk ledger append access.log", "a new ledger, one entry per line"),
    ("tail -n 99 x | zbk ledger append --type vd", "from a pipe"),
    ("zbk ledger append 7 data.bin --chunk 64KiB", "into the reserved ledger 7"),
)
@click.argument("arguments", metavar="[ID] [FILE]", nargs=-1)
@framing_options
@click.option(
    "--keep-open", is_flag=True, help="Leave it open, for `sync`; it takes no more entries."
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Close it even without entries that were acknowledged and are not durable.",
)
@ledger_options
@cluster_options
@output_option
@click.pass_context
def append(
    ctx: click.Context,
    /,
    *,
    arguments: tuple[str, ...],
    lines: bool,
    chunk_size: int | None,
    is_whole: bool,
    keep_open: bool,
    accept_loss: bool,
    metadata: str | None,
    output: Format,
    **options: Any,  # noqa: ANN401 - those of `ledger_options`
) -> None:
    """Write a file or a pipe into a ledger.

    Without ID a ledger is created, with the options below. ID is a ledger that `zbk ledger create`
    reserved; its options are fixed. The ledger is closed at the end. FILE is standard input if it
    is missing or `-`; a file whose name is a number is given as ./42.

    `under_replicated` is shown if bookies lack entries that were acknowledged: they did not answer.

    A VD ledger with acknowledged entries that are not durable stays open, and the exit code is 5:
    `zbk ledger recover ID` closes it when its bookies are back. --accept-loss drops such entries.
    """
    if keep_open and accept_loss:
        raise click.UsageError("--keep-open and --accept-loss exclude each other.")
    end_like_ctrl_c()
    ledger_id, file_name = _split(arguments)
    _refuse_fixed(ctx, ledger_id)
    with ExitStack() as stack:
        batches = open_payloads(
            stack, file_name, lines=lines, chunk_size=chunk_size, is_whole=is_whole
        )
        client = stack.enter_context(ctx.obj.open_client(metadata))
        if ledger_id is None:
            writer = client.create_ledger(**ledger_keywords(options))
        else:
            writer = client.open_for_append(ledger_id, options["password"])
        loaded, last_entry_id = _fill(writer, batches, keep_open=keep_open, accept_loss=accept_loss)
    shown = {
        "ledger_id": writer.ledger_id,
        "entry_count": loaded.entry_count,
        "payload_size": loaded.payload_size,
        "last_entry_id": last_entry_id,
        "state": "OPEN" if keep_open else "CLOSED",
        "seconds": round(loaded.seconds, 3),
    }
    missing = {} if keep_open else writer.under_replicated
    if missing:
        shown["under_replicated"] = missing if output == "json" else ", ".join(missing)
    print_object(shown, output)
    for bookie_id, spans in missing.items():
        note(f"zbk: bookie {bookie_id} did not take entries {spans_text(spans)}")
    if missing:
        note(
            "zbk: an ack quorum has them; autorecovery makes the other copies "
            "(`zbk ledger underreplicated` lists the ledgers that still lack some)"
        )


@command("sync", ("zbk ledger sync 7", "print the last durable entry id of ledger 7"))
@ledger_id_argument
@password_option
@cluster_options
@output_option
@click.pass_obj
def sync(
    session: Session, ledger_id: int, password: bytes, metadata: str | None, output: Format
) -> None:
    """Make an open ledger's entries durable.

    Asks its bookies to fsync; prints the last entry id that is durable on an ack quorum, -1 for
    none.
    """
    with session.open_client(metadata) as client:
        last_durable_id = client.sync_ledger(ledger_id, password)
    print_object({"ledger_id": ledger_id, "last_durable_id": last_durable_id}, output)


@command("close", ("zbk ledger close 7", "ledger 7 is reserved and not needed"))
@ledger_id_argument
@password_option
@cluster_options
@output_option
@click.pass_obj
def close(
    session: Session, ledger_id: int, password: bytes, metadata: str | None, output: Format
) -> None:
    """Close a reserved ledger, empty.

    For a ledger that `zbk ledger create` reserved and that never had a writer. A ledger with a
    writer is closed by this writer, or by `zbk ledger recover` if the writer is gone.
    """
    from zbk.cli.ledger.missing import task_shown

    with session.open_client(metadata) as client:
        client.close_reserved_ledger(ledger_id, password)
        task = client.get_underreplicated(ledger_id)
    closed = {"ledger_id": ledger_id, "last_entry_id": -1, "state": "CLOSED"}
    print_object(closed | task_shown(task, output), output)


@command(
    "delete",
    ("zbk ledger delete 7", "asks for confirmation"),
    ("zbk ledger delete 7 --yes", "in a script"),
)
@ledger_id_argument
@yes_option
@cluster_options
@output_option
@click.pass_obj
def delete(
    session: Session, ledger_id: int, yes: bool, metadata: str | None, output: Format
) -> None:
    """Delete a ledger for good.

    Its metadata are deleted at once, its entries when the bookies next collect garbage.

    Before it asks, it warns of a ledger of a log or of a data set, whose readers need it.
    """
    check_can_ask(yes=yes)
    with session.open_client(metadata) as client:
        if not yes:
            found = client.get_ledger_metadata(ledger_id)
            end = "open" if found.last_entry_id is None else f"{found.last_entry_id + 1} entries"
            question = f"Delete ledger {ledger_id} ({end})?"
            if not is_confirmed(question, yes=yes, warning=_warning(found)):
                return
        with audited("delete", "zbk ledger delete", ledger_id=ledger_id):
            client.delete_ledger(ledger_id)
    print_object({"ledger_id": ledger_id, "is_deleted": True}, output)


# ------------------------------------------------------------------ private


def _warning(found: "LedgerMetadata") -> str:
    """Return who needs a ledger that is to be deleted; empty if its metadata name nothing."""
    from zbk.client.calls.logs import LOG_KEY
    from zbk.client.dataset.ledgers import NAME_TAG

    for key, kind, advice in (
        (LOG_KEY, "log", "`zbk log truncate` deletes the oldest ledgers of a log"),
        (NAME_TAG, "data set", "`zbk dataset gc` deletes the ledgers that no version needs"),
    ):
        if name := found.custom_metadata.get(key):
            owner = f"{kind} {name.decode(errors='replace')}"
            return (
                f"ledger {found.ledger_id} was written for {owner}, whose readers may fail "
                f"without it; {advice}"
            )
    return ""


def _split(arguments: tuple[str, ...]) -> tuple[int | None, str]:
    match arguments:
        case ():
            return None, "-"
        case (one,) if one.isdigit():
            return _ledger_id(one), "-"
        case (one,):
            return None, one
        case (first, second) if first.isdigit():
            return _ledger_id(first), second
        case _:
            raise click.UsageError("Give at most a ledger ID and a FILE, in this order.")


def _ledger_id(text: str) -> int:
    if int(text) > LEDGER_ID_MAX:
        raise click.UsageError(f"{text} is not a ledger ID; a file of this name is ./{text}")
    return int(text)


def _refuse_fixed(ctx: click.Context, ledger_id: int | None) -> None:
    """Refuse options of a new ledger if the ledger exists already."""
    if ledger_id is None:
        return
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name in NEW_LEDGER_OPTIONS and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[-1]} is for a new ledger; ledger {ledger_id} exists already."
            )


def _fill(
    writer: "LedgerWriter", batches: Iterator[list[bytes]], *, keep_open: bool, accept_loss: bool
) -> "tuple[Loaded, int]":
    """Load and close; after a failure report the state of the ledger, which exists now."""
    try:
        loaded = load_with_progress(writer, batches)
        if keep_open:
            return loaded, writer.last_add_pushed
        last_entry_id = writer.close(accept_loss=accept_loss)
    except NotDurableError:
        raise  # its text has all there is to report
    except BaseException:
        _end(writer, keep_open=keep_open, accept_loss=accept_loss)
        raise
    if last_entry_id < writer.last_add_acknowledged:
        note(
            f"zbk: ledger {writer.ledger_id} was closed at entry {last_entry_id}; entries up to "
            f"{writer.last_add_acknowledged} were acknowledged and are lost"
        )
    return loaded, last_entry_id


def _end(writer: "LedgerWriter", *, keep_open: bool, accept_loss: bool) -> None:
    """Close the ledger of a load that failed or was interrupted, if no entry is lost by that."""
    is_closed = False
    if not keep_open:
        with suppress(ZbkError):
            writer.close(timeout=FAILED_CLOSE_S, accept_loss=accept_loss)
            is_closed = True
    ledger_id = writer.ledger_id
    state = "is closed" if is_closed else f"is open: `zbk ledger recover {ledger_id}` closes it"
    note(
        f"zbk: ledger {ledger_id} {state}; its entries up to {writer.last_add_confirmed} are "
        f"confirmed, up to {writer.last_add_acknowledged} acknowledged"
    )
