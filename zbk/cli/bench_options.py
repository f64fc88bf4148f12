"""Options that the benchmarks share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zbk.cli.options import LEDGER_TYPES

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

size_option = click.option(
    "--size",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Bytes of payload in an entry.",
)
type_option = click.option(
    "--type",
    "ledger_type",
    type=click.Choice(list(LEDGER_TYPES), case_sensitive=False),
    default="pd",
    show_default=True,
    help="pd waits for fsync, vd for the page cache.",
)


def count_option(default: int, what: str = "How many entries.") -> Callable[[FunctionT], FunctionT]:
    """Return ``--count`` with this default."""
    return click.option(
        "--count", type=click.IntRange(min=1), default=default, show_default=True, help=what
    )


def shape_options(command: FunctionT) -> FunctionT:
    """Add ``--batch`` and ``--window``."""
    for option in (
        click.option(
            "--batch",
            "batch_count",
            type=click.IntRange(min=1, max=65_536),
            default=1_000,
            show_default=True,
            help="Entries in one append_many.",
        ),
        click.option(
            "--window",
            type=click.IntRange(min=1),
            default=64,
            show_default=True,
            help="Calls of append_many that may be unanswered.",
        ),
    ):
        command = option(command)
    return command


zookeeper_option = click.option(
    "--zookeeper",
    "use_zookeeper",
    is_flag=True,
    help="Start the temporary cluster on a ZooKeeper of its own, not on SQLite.",
)
