"""How an input becomes entries: by line, by chunk, or as a whole."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from zbk.cli.options import option_group, size_option
from zbk.cli.output import note
from zbk.cli.progress import telling
from zbk.cli.streams import is_terminal

if TYPE_CHECKING:
    from io import BufferedReader

    from zbk.cluster.load import Appender, Loaded

framing_options = option_group(
    click.option("--lines", is_flag=True, help="One entry per line, without its end. [default]"),
    size_option("--chunk", "chunk_size", help_text="One entry per SIZE bytes."),
    click.option("--whole", "is_whole", is_flag=True, help="All of the input as one entry."),
)


def open_payloads(
    stack: ExitStack, file_name: str, *, lines: bool, chunk_size: int | None, is_whole: bool
) -> Iterator[list[bytes]]:
    """Open a file, or standard input for ``-``; return its entries in the batches that arrive.

    Raises:
        click.UsageError: more than one way is given, or standard input is closed.
        OSError: the file cannot be opened.
    """
    from zbk.cluster import load

    if lines + (chunk_size is not None) + is_whole > 1:
        raise click.UsageError("--lines, --chunk and --whole exclude each other.")
    source = _open(stack, file_name)
    if chunk_size is not None:
        return load.chunks(source, chunk_size)
    return load.whole(source) if is_whole else load.lines(source)


def load_with_progress(appender: "Appender", batches: Iterator[list[bytes]]) -> "Loaded":
    """Append every batch, and show on a terminal how many entries were appended.

    Raises:
        ZbkError: the first batch that failed.
    """
    from zbk.cluster.load import load

    with telling() as on_progress:
        return load(appender, batches, on_progress=lambda count: on_progress("appended", count))


def _open(stack: ExitStack, file_name: str) -> "BufferedReader":
    if file_name != "-":
        return stack.enter_context(Path(file_name).open("rb"))
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed: give a FILE.")
    if is_terminal(sys.stdin):
        note("zbk: reading entries from the terminal; Ctrl-D ends the input")
    return cast("BufferedReader", sys.stdin.buffer)
