"""What a bookie writes into the audit log of a client."""

import os
from pathlib import Path
from typing import cast

import pytest

from zbk.actors.process.bookie_audit import BookieAudit
from zbk.audit.record import AuditRecord
from zbk.errors import AccessDeniedError, BusyError, RoleRequiredError, UnauthorizedError, ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.transport.inbound import Inbound
from zbk.transport.peers import FrontCounts, PeerTable
from zbk.transport.router import RouterFront
from zbk.wire.messages import ReadLac, Scrub


class NoFront:
    """A front without principals."""

    def when_refused(self, _on_refused: object) -> None:
        """Accept it."""

    def principal_of(self, _key: str) -> str:
        return "alice"


def test_an_ended_connection_is_named_by_the_address_that_it_had() -> None:
    """Its descriptor may be that of another connection by then."""
    records: list[AuditRecord] = []
    audit = BookieAudit(records.append, cast("RouterFront", NoFront()))
    peers = PeerTable(FrontCounts(), 1 << 20)
    with Path(os.devnull).open("rb") as other:
        peer = peers.greet(b"name", other.fileno(), 3, 0)
        peers.identify(b"name", "k" * 40, has_role=False, address="192.0.2.7:4711")
        request = ReadLac(
            request_id=1,
            ledger_id=7,
            ledger_key=bytes(16),
            ledger_type=LedgerType.PD_JOURNAL,
            is_fencing=True,
        )
        audit.done("fence", Inbound(b"name", request, (), 100, life=peer), 7)

    [record] = records
    assert (record.principal, record.address) == ("alice", "192.0.2.7:4711")


@pytest.mark.parametrize(
    ("error", "is_about_who_asks"),
    [
        (UnauthorizedError(7), True),
        (AccessDeniedError(7, "alice", "append"), True),
        (RoleRequiredError("alice", "start garbage collection or a scrub", "operator"), True),
        (BusyError("too much waits"), False),
    ],
)
def test_a_request_without_the_right_or_the_role_is_recorded(
    error: ZbkError, is_about_who_asks: bool
) -> None:
    records: list[AuditRecord] = []
    audit = BookieAudit(records.append, cast("RouterFront", NoFront()))
    request = Scrub(request_id=1)

    audit.refused(Inbound(b"name", request, (), 100), error)

    assert [(one.action, one.outcome, one.what) for one in records] == (
        [("authenticate", "refused", str(error))] if is_about_who_asks else []
    )
