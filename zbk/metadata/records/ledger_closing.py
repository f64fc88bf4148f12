"""The closing of a ledger, together with the report of entries that its bookies may lack.

The client that closes a ledger knows or suspects that some bookies lack entries of it. One step of
the metadata store writes the report and the end of the ledger, so a client that dies has done both
or neither. If the report came earlier, a worker could look at the ledger while it is open, find
nothing to repair, and drop the task. If it came later and the client died in between, no task would
know about the holes of the closed ledger.

Both or neither also holds for a store that does not answer: closing again closes and reports.

Decision: if the report fails although the store answers (the task is damaged, other clients change
it all the time, or this process may not report), the ledger is closed without the report, and a
WARNING lists the missing entries.

Any thread; every method blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from zbk.errors import (
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    ZbkError,
)
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.store import Operation
from zbk.protocol.entry.spans import Span, spans_text
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.metadata")


class MissingReport(msgspec.Struct, frozen=True):
    """The bookies that lack entries, the reason, and the ranges of each if known."""

    reason: MissingReason
    bookies: Mapping[str, Sequence[Span]]

    def __str__(self) -> str:
        return "; ".join(
            f"bookie {one}: {f'entries {spans_text(ranges)}' if ranges else self.reason.value}"
            for one, ranges in sorted(self.bookies.items())
        )

    @classmethod
    def not_written(cls, missing: Mapping[str, Sequence[Span]]) -> "MissingReport":
        """Return the report of a writer, which knows the entries that it could not write."""
        return cls(MissingReason.NOT_WRITTEN, missing)

    @classmethod
    def unchecked(cls, closed: LedgerMetadata) -> "MissingReport":
        """Return the report of a recovery: any bookie may lack entries, as the writer knew."""
        named = {one for fragment in closed.fragments for one in fragment.bookies}
        is_empty = closed.last_entry_id is None or closed.last_entry_id < 0
        return cls(MissingReason.UNCHECKED, {} if is_empty else dict.fromkeys(sorted(named), ()))


class LedgerCloser:
    """Close ledgers and report their missing entries, in the cluster of these two stores."""

    def __init__(self, ledgers: LedgerStore, tasks: UnderreplicationStore) -> None:
        self._ledgers = ledgers
        self._tasks = tasks

    def close(
        self,
        ledger_id: int,
        change: Callable[[LedgerMetadata], LedgerMetadata | None],
        report_of: Callable[[LedgerMetadata], MissingReport],
    ) -> LedgerMetadata:
        """Close a ledger; return its metadata after that.

        ``change`` as in ``LedgerStore.update``. ``report_of`` receives the metadata to write. If
        the ledger is closed already, nothing is reported: the client that closed it did that.

        Raises:
            ZbkError: as ``LedgerStore.update``. The ledger may be closed and reported.
        """
        reports: list[MissingReport] = []
        trouble: list[ZbkError] = []

        def operations(wanted: LedgerMetadata) -> Sequence[Operation]:
            report = report_of(wanted)
            reports[:] = [report]
            trouble.clear()
            try:
                return self._operations(ledger_id, report)
            except MetadataUnavailableError:
                raise
            except ZbkError as error:  # the task is damaged, or of a newer version
                trouble.append(error)
                return ()

        try:
            metadata, _version = self._ledgers.update(ledger_id, change, beside=operations)
        except (MetadataConflictError, MetadataAccessError) as error:
            reports.clear()
            metadata, _version = self._ledgers.update(ledger_id, change)
            self._warn(ledger_id, report_of(metadata), error)
            return metadata
        for report in reports:
            if trouble:
                self._warn(ledger_id, report, trouble[0])
            elif report.bookies:
                with suppress(ZbkError):  # workers look without it, too
                    self._tasks.announce()
        return metadata

    def report(self, ledger_id: int, report: MissingReport) -> None:
        """Report missing entries of a ledger that is not closed yet.

        Raises:
            ZbkError: as ``UnderreplicationStore.report``.
        """
        self._tasks.report(ledger_id, report.bookies, report.reason, ranges=report.bookies)

    def _operations(self, ledger_id: int, report: MissingReport) -> Sequence[Operation]:
        if not report.bookies:
            return ()
        return self._tasks.report_operations(
            ledger_id, report.bookies, report.reason, ranges=report.bookies
        )

    def _warn(self, ledger_id: int, report: MissingReport, error: Exception) -> None:
        if report.bookies:
            LOG.warning(
                "ledger.missing_entries_not_reported",
                "ledger %(ledger_id)d is closed, but its missing entries could not be reported to "
                "autorecovery: %(report)s. Try `zbk ledger check --full %(ledger_id)d`. Cause: "
                "%(error)s",
                ledger_id=ledger_id,
                report=report,
                error=error,
            )
