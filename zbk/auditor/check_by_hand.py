"""The check of one ledger by hand: the entries that its bookies lack, reported if wanted."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.ledger_checks import LedgerChecker
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.audit_job import reports_of


class LedgerFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a check. ``missing_entries``: as far as they are known."""

    ledger_id: int
    state: str
    missing: Mapping[str, str]  # by bookie: why its replicas count as missing
    missing_entries: Mapping[str, Sequence[Span]]  # by bookie
    undecided: Sequence[str]  # bookies that did not answer

    @property
    def is_whole(self) -> bool:
        """Return whether each bookie has answered, and lacks nothing."""
        return not self.missing and not self.undecided


def check_by_hand(
    connection: ClusterConnection,
    ledger_id: int,
    *,
    is_full: bool,
    is_reporting: bool,
    is_over: Callable[[], bool] = lambda: False,
) -> LedgerFindings:
    """Return the findings of a check of one ledger; report missing replicas if wanted.

    The check reads the first and the last entry of each fragment, or with ``is_full`` all entries
    of all replicas, and compares what the bookies hold. Replicas that are left when ``is_over``
    returns true are undecided.

    Raises:
        NoSuchLedgerError: the ledger does not exist.
        MetadataUnavailableError: the metadata store does not answer; parts may be reported.
    """
    found, _version = connection.ledgers.read(ledger_id)
    checker = LedgerChecker(connection.requests, is_over)
    checked = checker.read_replicas(found, is_full=is_full)
    checker.add_holdings(checked, found)
    for one in reports_of(ledger_id, checked) if is_reporting else ():
        connection.tasks.report(ledger_id, one.bookie_ids, one.reason, ranges=dict(one.ranges))
    return LedgerFindings(
        ledger_id=ledger_id,
        state=str(found.state),
        missing={bookie: str(reason) for bookie, reason in sorted(checked.missing.items())},
        missing_entries=dict(sorted(checked.ranges.items())),
        undecided=sorted(checked.undecided - checked.missing.keys()),
    )
