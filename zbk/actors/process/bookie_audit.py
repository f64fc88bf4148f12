"""What a bookie writes into the audit log: refused connections, and what its clients do to ledgers.

    authenticate   a connection with a key of no principal, or without one; a request without the
                   right or the role for what it asks, or with a wrong key of a ledger
    create         the first entry, or LAC, of a ledger that is new at this bookie
    fence          a fence that the ledger did not have
    recovery       the first entry that a recovery brings, while the bookie has the ledger in memory

Called by the thread of the front and by the storage actor, and only for these events.
"""

from zbk.audit.record import Action, AuditRecord, key_id
from zbk.audit.trail import AuditSink
from zbk.errors import RoleRequiredError, UnauthorizedError, ZbkError
from zbk.transport.inbound import Inbound
from zbk.transport.peers import Peer
from zbk.transport.router import RouterFront


class BookieAudit:
    """Makes records of what happens at one bookie."""

    def __init__(self, sink: AuditSink, front: RouterFront) -> None:
        """Begin with the connections; the storage actor is given ``done`` and ``refused``."""
        self._sink = sink
        self._front = front
        front.when_refused(self._connection_refused)

    def done(self, action: Action, inbound: Inbound, ledger_id: int) -> None:
        """Record what the client of a request has done to a ledger."""
        self._sink(self._record(action, inbound, ledger_id, ""))

    def refused(self, inbound: Inbound, error: ZbkError) -> None:
        """Record the refusal of a request, if it is about who asks."""
        if isinstance(error, UnauthorizedError | RoleRequiredError):
            ledger_id = getattr(inbound.request, "ledger_id", None)
            self._sink(self._record("authenticate", inbound, ledger_id, str(error)))

    def _record(
        self, action: Action, inbound: Inbound, ledger_id: int | None, refusal: str
    ) -> AuditRecord:
        key, address = "", ""
        if isinstance(inbound.life, Peer):
            key, address = inbound.life.key, inbound.life.address
        return AuditRecord(
            action=action,
            outcome="refused" if refusal else "done",
            principal=self._front.principal_of(key),
            key_id=key_id(key),
            address=address,
            ledger_id=ledger_id,
            what=refusal,
        )

    def _connection_refused(self, key: str, address: str, why: str) -> None:
        record = AuditRecord(
            action="authenticate", outcome="refused", key_id=key_id(key), address=address, what=why
        )
        self._sink(record)
