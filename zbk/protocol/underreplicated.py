"""The task to make one ledger whole again, as the metadata store keeps it, and how reports merge.

A *report* says that a ledger lacks what some bookies should hold, and why. The first one makes the
*task*; each later one is merged into it. A task is about the whole ledger: the reasons tell people
and choose nothing, for whoever works on it looks at every fragment.

Source: BookKeeper's ``UnderreplicatedLedgerFormat`` and ``ZkLedgerUnderreplicationManager``.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self

import msgspec

UNDERREPLICATED_FORMAT_VERSION: Final = 1


class MissingReason(StrEnum):
    """Why a bookie's replicas count as missing."""

    LOST = "bookie lost"
    """The bookie is in no list of those that are there."""

    DAMAGED = "damaged"
    """The bookie itself found that it can not read what it holds."""

    CHECKED = "checked"
    """A check of the ledger found that the bookie lacks entries."""

    PLACEMENT = "placement"
    """The replicas are there, and too close to each other."""

    BY_HAND = "by hand"
    """An operator says so."""


class UnderreplicatedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one ledger that is not whole."""

    ledger_id: int
    missing: dict[str, tuple[MissingReason, ...]]  # by bookie id; reasons sorted
    created_ms: int  # wall clock, for people
    reported_ms: int  # the last time
    report_count: int = 1
    failure_count: int = 0  # attempts that failed since the last news
    failure: str = ""  # what the last one met
    unrepairable: str = ""  # why nobody can repair it; "": not known to be so
    unrepairable_ms: int = 0  # when that was found
    format_version: int = UNDERREPLICATED_FORMAT_VERSION

    @classmethod
    def reported(
        cls, ledger_id: int, bookie_ids: Iterable[str], reason: MissingReason, now_ms: int
    ) -> Self:
        """Return the task that a first report makes."""
        names = sorted(set(bookie_ids))
        missing: dict[str, tuple[MissingReason, ...]] = dict.fromkeys(names, (reason,))
        return cls(ledger_id=ledger_id, missing=missing, created_ms=now_ms, reported_ms=now_ms)

    def is_news(self, bookie_ids: Iterable[str], reason: MissingReason) -> bool:
        """Tell whether a report says something that is not noted here."""
        return any(reason not in self.missing.get(bookie_id, ()) for bookie_id in bookie_ids)

    def merged(self, bookie_ids: Iterable[str], reason: MissingReason, now_ms: int) -> Self:
        """Return the task with one more report in it."""
        more = sorted(set(bookie_ids))
        found = {one: tuple(sorted({*self.missing.get(one, ()), reason})) for one in more}
        return msgspec.structs.replace(
            self,
            missing=dict(sorted((self.missing | found).items())),
            reported_ms=now_ms,
            report_count=self.report_count + 1,
        )

    def to_work_on(self) -> Self:
        """Return the task as one to be tried anew."""
        return msgspec.structs.replace(
            self, failure_count=0, failure="", unrepairable="", unrepairable_ms=0
        )

    def with_failure(self, why: str) -> Self:
        """Return the task after one more attempt that failed."""
        return msgspec.structs.replace(self, failure_count=self.failure_count + 1, failure=why)

    def with_unrepairable(self, why: str, now_ms: int) -> Self:
        """Return the task as one that nobody can do."""
        return msgspec.structs.replace(self, unrepairable=why, unrepairable_ms=now_ms)
