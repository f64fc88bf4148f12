"""How an input becomes entries: a line, a chunk, or all of it."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import cast

import click

from zbk.cli.options import option_group, size_option
from zbk.cli.output import note
from zbk.cli.streams import is_terminal

framing_options = option_group(
    click.option("--lines", is_flag=True, help="One entry per line, without its end. [default]"),
    size_option("--chunk", "chunk_size", help_text="One entry per SIZE bytes."),
    click.option("--whole", is_flag=True, help="All of the input as one entry."),
)


def check_framing(*, lines: bool, chunk_size: int | None, whole: bool) -> None:
    """Refuse two ways at once."""
    if lines + (chunk_size is not None) + whole > 1:
        raise click.UsageError("--lines, --chunk and --whole exclude each other.")


def open_input(stack: ExitStack, file_name: str) -> BufferedReader:
    """Return a file, or standard input for ``-``."""
    if file_name != "-":
        return stack.enter_context(Path(file_name).open("rb"))
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed: give a FILE.")
    if is_terminal(sys.stdin):
        note("zbk: reading entries from the terminal; Ctrl-D ends them")
    return cast("BufferedReader", sys.stdin.buffer)


def payload_batches(
    source: BufferedReader, chunk_size: int | None, *, is_whole: bool
) -> Iterator[list[bytes]]:
    """Yield the entries in the batches in which they arrive."""
    from zbk.cluster.load import chunks, lines, whole

    if chunk_size is not None:
        return chunks(source, chunk_size)
    return whole(source) if is_whole else lines(source)
