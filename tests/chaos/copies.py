"""The invariant of copies: a healed cluster makes every closed ledger whole within a bounded time.

What counts is what the bookies say that they hold for good, compared with the metadata, entry by
entry. Only a cluster with autorecovery promises it.
"""

import threading
from collections.abc import Sequence

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.ledger_checks import LedgerChecker
from zbk.errors import ZbkError
from zbk.system.clock import monotonic_s

COPIES_PATIENCE_S = 60.0
"""How long a healed cluster may take to fill every hole."""

RETRY_S = 0.5


def not_whole(uri: str, ledger_ids: Sequence[int]) -> list[str]:
    """Return what closed ledgers still lack after ``COPIES_PATIENCE_S``, in words."""
    deadline_s = monotonic_s() + COPIES_PATIENCE_S
    pause = threading.Event()
    with ClusterConnection(uri) as connection:
        checker = LedgerChecker(connection.requests)
        left = dict.fromkeys(ledger_ids, "not looked at")
        while left and monotonic_s() < deadline_s:
            checker.begin_step()
            for ledger_id in list(left):
                left[ledger_id] = _lack(connection, checker, ledger_id)
            left = {ledger_id: lack for ledger_id, lack in left.items() if lack}
            pause.wait(RETRY_S if left else 0)
    return [
        f"copies: ledger {ledger_id} is not whole after {COPIES_PATIENCE_S:g} s: {lack}"
        for ledger_id, lack in left.items()
    ]


def _lack(connection: ClusterConnection, checker: LedgerChecker, ledger_id: int) -> str:
    """Return what a ledger lacks; empty if it is whole."""
    try:
        metadata, _version = connection.ledgers.read(ledger_id)
        checked = checker.compare_holdings(metadata)
    except ZbkError as error:
        return f"{type(error).__name__}: {error}"
    missing = [f"{bookie} lacks entries ({why})" for bookie, why in sorted(checked.missing.items())]
    silent = [f"{bookie} does not say" for bookie in sorted(checked.undecided)]
    return "; ".join(missing + silent)
