"""The task to make one ledger whole again, as the metadata store keeps it; reports merge into it.

A *report* says that a ledger lacks replicas of some bookies, and why. The first one makes the
*task*; each later one is merged into it. A task covers the whole ledger: the worker looks at every
fragment. The *ranges* of a report show people which entries are missing; the worker asks the
bookies itself. Ranges are merged, too. A task keeps at most ``RANGES_COUNT_MAX`` of a bookie: with
more, the narrowest gaps between them count as missing, too.

Format version 2: a task with a reason that version 1 does not know. All others are written as
version 1, so that older workers can do them; these ignore the ranges.

Source: BookKeeper's ``UnderreplicatedLedgerFormat`` and ``ZkLedgerUnderreplicationManager``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, Self

import msgspec

from zbk.protocol.entry.spans import Span, covering, merged

UNDERREPLICATED_FORMAT_VERSION: Final = 2

RANGES_COUNT_MAX: Final = 64
"""Ranges of missing entries that a task keeps of one bookie."""

RANGES_COUNT_ALL_MAX: Final = 8_192
"""The same of all bookies of a ledger: the value stays far below the size limit of a node."""


class MissingReason(StrEnum):
    """Why a bookie's replicas count as missing."""

    LOST = "bookie lost"
    """The bookie is not registered."""

    DAMAGED = "damaged"
    """The bookie found that it cannot read its replicas."""

    CHECKED = "checked"
    """A check of the ledger found that the bookie lacks entries."""

    PLACEMENT = "placement"
    """The replicas exist, but too close to each other."""

    BY_HAND = "by hand"
    """An operator reported it."""

    NOT_WRITTEN = "not written"
    """A writer or a recovery could not write entries to the bookie."""

    UNCHECKED = "unchecked"
    """The writer died, and may have left holes: the holdings of its bookies are compared."""


_REASONS_OF_FORMAT_1: Final = frozenset(MissingReason) - {
    MissingReason.NOT_WRITTEN,
    MissingReason.UNCHECKED,
}

NO_RANGES: Final[Mapping[str, Sequence[Span]]] = {}


class UnderreplicatedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one ledger."""

    ledger_id: int
    missing: dict[str, tuple[MissingReason, ...]]  # by bookie id; reasons sorted
    created_ms: int  # wall clock, for people
    reported_ms: int  # the last time
    report_count: int = 1
    failure_count: int = 0  # failed attempts since the last new report
    failure: str = ""  # the reason of the last one
    unrepairable: str = ""  # why it cannot be repaired; "": no such reason is known
    unrepairable_ms: int = 0  # when that was found
    ledger_version: int | msgspec.UnsetType = msgspec.UNSET  # for which that was found
    ranges: dict[str, tuple[Span, ...]] = {}  # missing entries by bookie id, as far as reported
    format_version: int = UNDERREPLICATED_FORMAT_VERSION

    @classmethod
    def reported(
        cls,
        ledger_id: int,
        bookie_ids: Iterable[str],
        reason: MissingReason,
        now_ms: int,
        ranges: Mapping[str, Sequence[Span]] = NO_RANGES,
    ) -> Self:
        """Return the task of a first report."""
        nothing = cls(
            ledger_id=ledger_id, missing={}, created_ms=now_ms, reported_ms=now_ms, report_count=0
        )
        return nothing.merged(bookie_ids, reason, now_ms, ranges)

    def is_news(
        self,
        bookie_ids: Iterable[str],
        reason: MissingReason,
        ranges: Mapping[str, Sequence[Span]] = NO_RANGES,
    ) -> bool:
        """Return whether a report adds a reason or a range."""
        is_new = any(reason not in self.missing.get(bookie_id, ()) for bookie_id in bookie_ids)
        return is_new or any(
            list(known := self.ranges.get(bookie_id, ())) != merged([*known, *more])
            for bookie_id, more in ranges.items()
        )

    def merged(
        self,
        bookie_ids: Iterable[str],
        reason: MissingReason,
        now_ms: int,
        ranges: Mapping[str, Sequence[Span]] = NO_RANGES,
    ) -> Self:
        """Return the task with one more report.

        Failures are counted anew after news only. A bookie that is lost for good is reported again
        by each check of the auditor, and the attempts have to come to an end all the same.
        """
        more = sorted(set(bookie_ids))
        found = {one: tuple(sorted({*self.missing.get(one, ()), reason})) for one in more}
        missing = dict(sorted((self.missing | found).items()))
        is_of_format_1 = _REASONS_OF_FORMAT_1.issuperset(chain.from_iterable(missing.values()))
        return msgspec.structs.replace(
            self,
            missing=missing,
            ranges=_merged_ranges(self.ranges, ranges),
            reported_ms=now_ms,
            report_count=self.report_count + 1,
            failure_count=0 if self.is_news(more, reason, ranges) else self.failure_count,
            format_version=1 if is_of_format_1 else UNDERREPLICATED_FORMAT_VERSION,
        )

    def to_work_on(self) -> Self:
        """Return the task without its failures."""
        return msgspec.structs.replace(
            self,
            failure_count=0,
            failure="",
            unrepairable="",
            unrepairable_ms=0,
            ledger_version=msgspec.UNSET,
        )

    def with_failure(self, why: str, mended: Collection[str] = ()) -> Self:
        """Return the task after one more failed attempt, which mended the damage of some bookies.

        These are only compared from then on: a copy of all of their replicas is not repeated.
        """
        after = {MissingReason.DAMAGED: MissingReason.CHECKED}
        missing = {
            one: tuple(
                sorted({after.get(reason, reason) for reason in reasons})
                if one in mended
                else reasons
            )
            for one, reasons in self.missing.items()
        }
        return msgspec.structs.replace(
            self, missing=missing, failure_count=self.failure_count + 1, failure=why
        )

    def with_unrepairable(
        self, why: str, now_ms: int, ledger_version: int | msgspec.UnsetType = msgspec.UNSET
    ) -> Self:
        """Return the task as one that cannot be done with this version of the ledger."""
        return msgspec.structs.replace(
            self, unrepairable=why, unrepairable_ms=now_ms, ledger_version=ledger_version
        )


def _merged_ranges(
    known: Mapping[str, Sequence[Span]], more: Mapping[str, Sequence[Span]]
) -> dict[str, tuple[Span, ...]]:
    both = {one: [*known.get(one, ()), *more.get(one, ())] for one in sorted({*known, *more})}
    named = {bookie_id: spans for bookie_id, spans in both.items() if spans}
    count_max = max(1, min(RANGES_COUNT_MAX, RANGES_COUNT_ALL_MAX // max(1, len(named))))
    return {bookie_id: covering(spans, count_max) for bookie_id, spans in named.items()}
