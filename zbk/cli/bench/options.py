"""Options of ``zbk bench``, and the load that they describe."""

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zbk.cli.options import (
    LEDGER_TYPES,
    Decorator,
    choice_option,
    duration_option,
    integer_option,
    option_group,
    quorum_options,
    type_option,
)

if TYPE_CHECKING:
    from zbk.bench.load import WriteLoad

entry_size_option = integer_option(
    "--size", low=0, default=100, help_text="Bytes of payload in an entry."
)
zookeeper_option = click.option(
    "--zookeeper",
    "use_zookeeper",
    is_flag=True,
    help="Run the temporary cluster on its own ZooKeeper, not on SQLite.",
)


def count_option(default: int, help_text: str = "Number of entries.") -> Decorator[Any]:
    """Return ``--count`` with this default."""
    return integer_option("--count", default=default, help_text=help_text)


shape_options = option_group(
    integer_option(
        "--batch",
        "batch_count",
        high=65_536,
        default=1_000,
        help_text="Entries in one append_many.",
    ),
    integer_option(
        "--window", default=64, help_text="Calls of append_many that may be unanswered."
    ),
)

load_options = option_group(
    entry_size_option,
    count_option(1_000_000),
    type_option,
    quorum_options,
    choice_option(
        "--api",
        choices=["many", "async", "sync"],
        default="many",
        help_text="append_many, append_async with a future per entry, or append.",
    ),
    shape_options,
    click.option(
        "--rate",
        type=click.FloatRange(min=0),
        default=0,
        show_default=True,
        help="Entries a second, due at times fixed in advance; 0: as fast as possible.",
    ),
    duration_option(
        "--seconds",
        "seconds_ms",
        help_text="Write for this time instead of a --count; at a --rate: all that is due in it.",
    ),
    integer_option(
        "--ledgers",
        "ledger_count",
        high=10_000,
        default=1,
        help_text="Ledgers written at the same time; --count and --rate are totals.",
    ),
    integer_option(
        "--outstanding",
        high=1_024,
        callback=lambda _context, _option, value: value or 0,
        help_text="With --api async: keep this many appends unanswered in each ledger.",
    ),
    integer_option(
        "--idle-ledgers",
        "idle_ledger_count",
        low=0,
        high=10_000,
        default=0,
        help_text="Other ledgers that stay open meanwhile, with one entry each.",
    ),
    integer_option(
        "--roll",
        "roll_entry_count",
        callback=lambda _context, _option, value: value or 0,
        help_text="Continue in a new ledger after this many entries, and delete the old one.",
    ),
    choice_option(
        "--neighbor",
        "neighbor_type",
        choices=list(LEDGER_TYPES),
        any_case=True,
        help_text="Append single entries to a ledger of this type meanwhile.",
    ),
    choice_option(
        "--neighbor-client",
        "neighbor_client",
        choices=["same", "other"],
        default="same",
        help_text="The client that writes the --neighbor; other: in its own process.",
    ),
)


def load_of(context: click.Context) -> "WriteLoad":
    """Return the load that the values of ``load_options`` describe.

    Raises:
        click.UsageError: two of the options contradict each other.
    """
    from zbk.bench.load import Api, WriteLoad
    from zbk.protocol.entry.words import LedgerType

    options = context.params
    has_window, has_batch = is_given(context, "window"), is_given(context, "batch_count")
    if options["outstanding"]:
        refuse_if(
            context,
            (options["api"] != "async", "--outstanding is for --api async"),
            (
                has_window or has_batch,
                "--outstanding says how many appends are unanswered: omit --window and --batch",
            ),
            (
                options["rate"] or options["roll_entry_count"],
                "--outstanding appends as answers come, to one ledger: omit --rate and --roll",
            ),
        )
    refuse_if(
        context,
        (
            is_given(context, "neighbor_client") and not options["neighbor_type"],
            "--neighbor-client says who writes the --neighbor: give both",
        ),
        (
            is_given(context, "count") and options["seconds_ms"],
            "--count says how many entries, --seconds how long: give one of them",
        ),
        (
            has_window and options["rate"],
            "--window limits a load without --rate: at a rate, no append waits for answers",
        ),
    )
    is_lone = options["api"] == "sync"  # one entry in one call at a time, also in the floor
    neighbor = options["neighbor_type"]
    return WriteLoad(
        entry_size=options["size"],
        entry_count=options["count"],
        seconds=options["seconds_ms"] / 1000,
        ledger_type=LedgerType(LEDGER_TYPES[options["ledger_type"]]),
        api=Api(options["api"]),
        batch_count=1 if is_lone else options["batch_count"],
        window=1 if is_lone else options["window"],
        outstanding=options["outstanding"],
        rate=options["rate"],
        ledger_count=options["ledger_count"],
        idle_ledger_count=options["idle_ledger_count"],
        neighbor_type=neighbor and LedgerType(LEDGER_TYPES[neighbor]),
        has_own_neighbor_client=options["neighbor_client"] == "other",
        roll_entry_count=options["roll_entry_count"],
        ensemble_size=options["ensemble_size"],
        write_quorum_size=options["write_quorum_size"],
        ack_quorum_size=options["ack_quorum_size"],
    )


def is_given(context: click.Context, name: str) -> bool:
    """Return whether an option was given, not its default taken."""
    return context.get_parameter_source(name) not in {ParameterSource.DEFAULT, None}


def refuse_if(context: click.Context, *reasons: tuple[object, str]) -> None:
    """Raise the first reason that applies.

    Raises:
        click.UsageError: one does.
    """
    for applies, reason in reasons:
        if applies:
            raise click.UsageError(reason, context)
