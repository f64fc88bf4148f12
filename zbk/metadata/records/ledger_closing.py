"""How a ledger is closed, together with the report of what its bookies may lack.

Who closes a ledger knows, or has reason to fear, that some bookies lack entries of it. The report
and the end of the ledger are written in one step of the metadata store: a client that dies has done
both or neither. Reported earlier, a worker could look at the ledger while it is open, find nothing
that may be repaired, and forget it; reported later, the holes of a closed ledger would be known to
nobody if the client died in between.

Both or neither goes for a store that does not answer, too: closing again closes and reports.

Decision: a report that cannot be made though the store answers (the task is damaged, or others
change it all the time) does not keep a ledger open. It is closed without, and a WARNING says what
is missing.

Any thread; every method blocks.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from zbk.errors import MetadataConflictError, MetadataUnavailableError, ZbkError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.store import Operation
from zbk.protocol.entry.spans import Span, spans_text
from zbk.protocol.ledger.metadata import LedgerMetadata

LOG = logging.getLogger("zbk.metadata")


class MissingReport(msgspec.Struct, frozen=True):
    """Which bookies lack entries, why, and the ranges of each where they are known."""

    reason: MissingReason
    bookies: Mapping[str, Sequence[Span]]

    def __str__(self) -> str:
        return "; ".join(
            f"bookie {one}: {f'entries {spans_text(ranges)}' if ranges else self.reason.value}"
            for one, ranges in sorted(self.bookies.items())
        )

    @classmethod
    def not_written(cls, missing: Mapping[str, Sequence[Span]]) -> "MissingReport":
        """Return the report of a writer, which knows what it could not write."""
        return cls(MissingReason.NOT_WRITTEN, missing)

    @classmethod
    def unchecked(cls, closed: LedgerMetadata) -> "MissingReport":
        """Return the report of a recovery: any bookie may lack what the writer knew it lacks."""
        named = {one for fragment in closed.fragments for one in fragment.bookies}
        is_empty = closed.last_entry_id is None or closed.last_entry_id < 0
        return cls(MissingReason.UNCHECKED, {} if is_empty else dict.fromkeys(sorted(named), ()))


class LedgerCloser:
    """Closes ledgers and reports what they lack, in the cluster of these two stores."""

    def __init__(self, ledgers: LedgerStore, tasks: UnderreplicationStore) -> None:
        self._ledgers = ledgers
        self._tasks = tasks

    def close(
        self,
        ledger_id: int,
        change: Callable[[LedgerMetadata], LedgerMetadata | None],
        report_of: Callable[[LedgerMetadata], MissingReport],
    ) -> LedgerMetadata:
        """Change a ledger's metadata to closed ones; return what is there afterwards.

        ``change`` as for ``LedgerStore.update``. ``report_of`` gets the metadata that are about to
        be written; nothing is reported if they are there already: the one who wrote them did.

        Raises:
            ZbkError: as ``LedgerStore.update``. The ledger may be closed and the report made.
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
            except ZbkError as error:  # what is there is damaged, or of a newer version
                trouble.append(error)
                return ()

        try:
            metadata, _version = self._ledgers.update(ledger_id, change, beside=operations)
        except MetadataConflictError as error:
            reports.clear()
            metadata, _version = self._ledgers.update(ledger_id, change)
            self._warn(ledger_id, report_of(metadata), error)
            return metadata
        for report in reports:
            if trouble:
                self._warn(ledger_id, report, trouble[0])
            elif report.bookies:
                with suppress(ZbkError):  # workers look by themselves, too
                    self._tasks.announce()
        return metadata

    def report(self, ledger_id: int, report: MissingReport) -> None:
        """Report what a ledger lacks that is not closed yet.

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
                "ledger %d is closed, and autorecovery could not be told what it lacks: %s. "
                "Try `zbk ledger check --full %d`. Cause: %s",
                ledger_id,
                report,
                ledger_id,
                error,
            )
