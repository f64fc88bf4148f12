"""How commands list and show ledgers, logs and data sets, and print entries.

``ls`` prints a row per thing. ``show`` prints one thing with its lists: in JSON one object, for
people the fields, then each list as a table. ``cat`` writes payloads as they are.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from zbk.cli.output import (
    Format,
    bytes_value,
    flush,
    note,
    preview,
    print_bytes,
    print_object,
    print_rows,
)
from zbk.errors import EXIT_DAMAGE, DamageError, UnsupportedVersionError, ZbkError

if TYPE_CHECKING:
    from zbk.protocol.entry.read_batch import ReadBatch

NameT = TypeVar("NameT", int, str)
FoundT = TypeVar("FoundT")

ENTRY_COLUMNS = ["entry_id", "size", "payload"]

lines_option = click.option("--lines", is_flag=True, help="Write a newline after each payload.")


class Table(NamedTuple):
    """A list within a shown thing: its key in JSON, and the columns that people see."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str]


class Unreadable:
    """The things of one kind whose metadata cannot be read: a list names them and goes on."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._is_any = False

    def report(self, name: object, error: ZbkError) -> None:
        """Name one of them on standard error."""
        self._is_any = True
        what = "are damaged" if isinstance(error, DamageError) else "cannot be read"
        note(f"zbk: {self._kind} {name}: its metadata {what}: {error}")

    def finish(self) -> None:
        """End the command with the exit code of damage, if there is one of them."""
        if self._is_any:
            click.get_current_context().exit(EXIT_DAMAGE)


def still_there(
    names: Iterable[NameT],
    read: Callable[[NameT], FoundT],
    gone: type[ZbkError],
    unreadable: Unreadable,
) -> Iterator[FoundT]:
    """Yield what ``read`` returns for each name; skip the things deleted since they were listed."""
    for name in names:
        try:
            yield read(name)
        except gone:
            continue
        except (DamageError, UnsupportedVersionError) as error:
            unreadable.report(name, error)


def print_details(value: Mapping[str, Any], tables: Sequence[Table], output: Format) -> None:
    """Print one thing and its lists."""
    if output == "json":
        print_object({**value, **{table.name: table.rows for table in tables}}, output)
        return
    print_object(value, output)
    for table in tables:
        click.echo()
        print_rows(table.rows, table.columns, output)


def print_payloads(
    batches: "Iterable[Iterable[bytes | memoryview]]", *, lines: bool, is_live: bool
) -> None:
    """Write payloads to standard output, with ``lines`` a newline after each."""
    end = b"\n" if lines else b""
    for batch in batches:
        print_bytes(b"".join(itertools.chain.from_iterable((p, end) for p in batch)))
        if is_live:
            flush()


def entry_rows(batches: "Iterable[ReadBatch]", output: Format) -> Iterator[dict[str, Any]]:
    """Yield a row per entry, with the columns ``ENTRY_COLUMNS``."""
    for batch in batches:
        for entry_id, payload in zip(batch.entry_ids, batch, strict=True):
            yield {
                "entry_id": entry_id,
                "size": len(payload),
                "payload": bytes_value(payload) if output == "json" else preview(payload),
            }
