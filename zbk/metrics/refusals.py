"""Counts of refused requests, by a few kinds of reasons: one thread counts, any thread may read.

>>> from zbk.errors import LedgerFencedError
>>> refusals = Refusals()
>>> refusals.count(LedgerFencedError(7))
>>> refusals.counts["fenced"]
1
"""

from typing import Final

from zbk.errors import (
    BookieReadOnlyError,
    BusyError,
    CallerError,
    DamageError,
    LedgerFencedError,
    NoSpaceError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RoleRequiredError,
    UnauthorizedError,
    UnknownLedgerStateError,
    WireError,
    ZbkError,
)

RESULTS: Final = (
    "fenced", "read_only", "busy", "unauthorized", "not_found", "damaged", "in_limbo", "malformed",
    "invalid", "other",
)  # fmt: skip
"""The values of the label ``result``."""

_RESULT_OF: Final[dict[type[ZbkError], str]] = {
    LedgerFencedError: "fenced",
    BookieReadOnlyError: "read_only",
    NoSpaceError: "busy",
    BusyError: "busy",
    UnauthorizedError: "unauthorized",
    RoleRequiredError: "unauthorized",
    NoSuchLedgerError: "not_found",
    NoSuchEntryError: "not_found",
    DamageError: "damaged",
    UnknownLedgerStateError: "in_limbo",
    WireError: "malformed",
    CallerError: "invalid",
}


class Refusals:
    """Counts by result. The keys never change, so that another thread may read them."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = dict.fromkeys(RESULTS, 0)

    def count(self, error: ZbkError) -> None:
        """Count one refusal. Only the owner's thread."""
        for kind in type(error).__mro__:
            if kind in _RESULT_OF:
                self.counts[_RESULT_OF[kind]] += 1
                return
        self.counts["other"] += 1
