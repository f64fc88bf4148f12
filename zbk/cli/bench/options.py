"""Options that the benchmarks share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zbk.cli.options import LEDGER_TYPES, parse_duration_option

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


def load_options(command: FunctionT) -> FunctionT:
    """Add what a load may be besides entries in a ledger: at a rate, so long, beside others."""
    for option in (
        duration_option(
            "--slow-bookie",
            "slow_bookie_ms",
            "Each fsync of one bookie of the temporary cluster takes so much longer.",
        ),
        duration_option(
            "--slow-disks",
            "slow_disks_ms",
            "Each fsync of every bookie of the temporary cluster takes so much longer.",
        ),
        click.option(
            "--neighbor",
            "neighbor_type",
            type=click.Choice(list(LEDGER_TYPES), case_sensitive=False),
            default=None,
            help="Append one entry after another to a ledger of this type meanwhile.",
        ),
        click.option(
            "--roll",
            "roll_entry_count",
            type=click.IntRange(min=1),
            default=None,
            callback=lambda _context, _option, value: value or 0,
            help="Go on in a new ledger after so many entries, and delete the one before.",
        ),
        click.option(
            "--idle-ledgers",
            "idle_ledger_count",
            type=click.IntRange(min=0, max=10_000),
            default=0,
            show_default=True,
            help="Other ledgers that are open meanwhile, an entry in each.",
        ),
        click.option(
            "--outstanding",
            type=click.IntRange(min=1, max=1_024),
            default=None,
            callback=lambda _context, _option, value: value or 0,
            help="With --api async: keep so many appends unanswered in each ledger.",
        ),
        click.option(
            "--processes",
            "process_count",
            type=click.IntRange(min=1, max=256),
            default=1,
            show_default=True,
            help="Client processes that write at once, each with its own --ledgers.",
        ),
        click.option(
            "--ledgers",
            "ledger_count",
            type=click.IntRange(min=1, max=10_000),
            default=1,
            show_default=True,
            help="Ledgers that are written at once; --count and --rate are of all together.",
        ),
        duration_option(
            "--seconds",
            "seconds_ms",
            "Write for so long, not a --count; at a --rate: all that is due in it.",
        ),
        click.option(
            "--rate",
            type=click.FloatRange(min=0),
            default=0,
            show_default=True,
            help="Entries a second, due at times fixed beforehand; 0: as fast as it goes.",
        ),
    ):
        command = option(command)
    return command


def duration_option(name: str, parameter: str, text: str) -> Callable[[FunctionT], FunctionT]:
    """Return an option for a duration, in milliseconds; 0 where it is not given."""
    return click.option(
        name,
        parameter,
        metavar="DURATION",
        callback=lambda context, option, value: (
            0 if value is None else parse_duration_option(context, option, value)
        ),
        help=text,
    )


zookeeper_option = click.option(
    "--zookeeper",
    "use_zookeeper",
    is_flag=True,
    help="Start the temporary cluster on a ZooKeeper of its own, not on SQLite.",
)
