"""Filters of ``zbk ledger ls``: which ledgers are listed, by their metadata."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zbk.cli.options import (
    LEDGER_TYPES,
    choice_option,
    custom_metadata_option,
    duration_option,
    option_group,
    size_option,
)

if TYPE_CHECKING:
    from zbk.protocol.ledger.metadata import LedgerMetadata


class LedgerFilter(NamedTuple):
    """What a ledger has to be; ``None`` accepts all. Times are wall clock, sizes bytes."""

    state: str | None = None
    ledger_type: str | None = None
    created_before_ms: int | None = None
    created_after_ms: int | None = None
    length_above: int | None = None
    length_below: int | None = None
    custom: Mapping[str, bytes] = {}

    def accepts(self, found: "LedgerMetadata") -> bool:
        """Return whether a ledger passes all filters; without a length it passes none of size."""
        length, created_ms = found.length, found.created_ms
        return (
            self.state in (None, found.state)
            and self.ledger_type in (None, found.ledger_type)
            and (self.created_before_ms is None or created_ms < self.created_before_ms)
            and (self.created_after_ms is None or created_ms > self.created_after_ms)
            and (self.length_above is None or (length is not None and length > self.length_above))
            and (self.length_below is None or (length is not None and length < self.length_below))
            and all(found.custom_metadata.get(key) == self.custom[key] for key in self.custom)
        )


filter_options = option_group(
    choice_option(
        "--state",
        choices=["open", "in_recovery", "closed"],
        any_case=True,
        help_text="Only ledgers in this state.",
    ),
    choice_option(
        "--type",
        "ledger_type",
        choices=list(LEDGER_TYPES),
        any_case=True,
        help_text="Only ledgers of this type.",
    ),
    duration_option("--older-than", help_text="Only ledgers older than this, such as 90min or 7d."),
    duration_option("--newer-than", help_text="Only ledgers younger than this."),
    size_option("--larger-than", help_text="Only closed ledgers with a longer payload."),
    size_option("--smaller-than", help_text="Only closed ledgers with a shorter payload."),
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
    )
