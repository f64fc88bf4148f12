"""Filters of ``zbk ledger ls``: which ledgers are listed, by their metadata."""

from typing import Any

import click

from zbk.cli.options import (
    LEDGER_TYPES,
    choice_option,
    custom_metadata_option,
    duration_option,
    ledger_type_option,
    option_group,
    size_option,
)
from zbk.protocol.ledger.filter import LedgerFilter

filter_options = option_group(
    choice_option(
        "--state",
        choices=["open", "in_recovery", "closed"],
        any_case=True,
        help_text="Only ledgers in this state.",
    ),
    ledger_type_option("--type", help_text="Only ledgers of this type; the full name counts, too."),
    duration_option("--older-than", help_text="Only ledgers older than this, such as 90min or 7d."),
    duration_option("--newer-than", help_text="Only ledgers younger than this."),
    size_option("--larger-than", help_text="Only closed ledgers with a longer payload."),
    size_option("--smaller-than", help_text="Only closed ledgers with a shorter payload."),
    click.option("--owner", metavar="PRINCIPAL", help="Only ledgers that this principal owns."),
    click.option("--namespace", metavar="PATH", help="Only ledgers with this path, or below it."),
    custom_metadata_option("--custom", help_text="Only ledgers with this custom metadata"),
)
"""The options that ``ledger_filter`` reads."""


def ledger_filter(options: dict[str, Any]) -> LedgerFilter:
    """Return the filter that the options of ``filter_options`` describe, at this moment."""
    from zbk.system.clock import wall_ms

    now_ms = wall_ms()
    state, ledger_type = options["state"], options["ledger_type"]
    older_ms, newer_ms = options["older_than"], options["newer_than"]
    return LedgerFilter(
        state=state and state.upper(),
        ledger_type=ledger_type and LEDGER_TYPES[ledger_type],
        created_before_ms=now_ms - older_ms if older_ms else None,
        created_after_ms=now_ms - newer_ms if newer_ms else None,
        length_above=options["larger_than"],
        length_below=options["smaller_than"],
        custom=options["custom"],
        owner=options["owner"],
        namespace=options["namespace"],
    )
