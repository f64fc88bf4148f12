"""What the cases found: one line a figure, as JSON and as a table."""

from collections.abc import Sequence

import msgspec

MIB = 1024 * 1024


class Figure(msgspec.Struct, frozen=True):
    """One line of the table."""

    case: str
    what: str
    value: str
    limit: str = ""
    is_kept: bool = True


def size(value: int) -> str:
    """Return bytes as MiB.

    >>> size(3 * MIB)
    '3 MiB'
    """
    return f"{value / MIB:,.0f} MiB"


def rate(per_s: float) -> str:
    """Return a rate in thousands.

    >>> rate(12_345.0)
    '12.3 k/s'
    """
    return f"{per_s / 1000:,.1f} k/s"


def share(value: float, minimum: float, case: str, what: str) -> Figure:
    """Return the figure of a ratio that must not be below ``minimum``."""
    return Figure(case, what, f"{value:.0%}", f">= {minimum:.0%}", value >= minimum)


def at_most(value: float, maximum: float, unit: str, case: str, what: str) -> Figure:
    """Return the figure of a number that must not be above ``maximum``."""
    return Figure(case, what, f"{value:,.1f} {unit}", f"<= {maximum:,g} {unit}", value <= maximum)


def table(figures: Sequence[Figure]) -> str:
    """Return a Markdown table."""
    lines = ["| case | what | measured | limit |", "|---|---|---|---|"]
    for one in figures:
        limit = one.limit if one.is_kept else f"**{one.limit}: not kept**"
        lines.append(f"| {one.case} | {one.what} | {one.value} | {limit} |")
    return "\n".join(lines)
