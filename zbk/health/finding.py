"""A finding: one thing that is wrong, what follows from it, and the next command. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

NAMED_COUNT_MAX: Final = 3
"""Subjects that the text of a finding names; ``Finding.subjects`` has all of them."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a report. ``kind`` is constant and unique to the rule that found it."""

    kind: str
    what: str
    consequence: str
    command: str  # the command, or the change, that leads on
    is_problem: bool = True  # false: worth knowing, and nothing is wrong
    subjects: tuple[str, ...] = ()  # ids of the bookies, or paths, that it is about

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.what}: {self.consequence}; next: {self.command}"


def has_problem(findings: Sequence[Finding]) -> bool:
    """Return whether one of the findings is a problem."""
    return any(one.is_problem for one in findings)


def named(subjects: Sequence[str]) -> str:
    """Return the first few names of a list, and the number of the others.

    >>> named(["a"]), named(["a", "b", "c", "d", "e"])
    ('a', 'a, b, c and 2 more')
    """
    more = len(subjects) - NAMED_COUNT_MAX
    shown = ", ".join(subjects[:NAMED_COUNT_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it is one.

    >>> counted(1, "bookie"), counted(2_000, "bookie")
    ('1 bookie', '2,000 bookies')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
