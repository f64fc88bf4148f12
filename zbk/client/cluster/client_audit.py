"""The audit log of a client: the ledgers that it creates and deletes, and the grants it changes.

A client does these in the metadata store, where no bookie sees who it was.

Any thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from zbk.audit.record import Action, AuditRecord, key_id
from zbk.audit.trail import open_trail, own_user
from zbk.client.cluster.own_access import OwnAccess
from zbk.config import ClientConfig, SecurityConfig
from zbk.errors import AccessDeniedError, ZbkError


class ClientAudit:
    """Writes lines into the file of the option ``audit_log``; without one it does nothing."""

    def __init__(self, config: ClientConfig, own: OwnAccess) -> None:
        """Open the file.

        Raises:
            InvalidOptionError: it cannot be written, or others may read it.
        """
        self._trail = open_trail(SecurityConfig(audit_log=config.audit_log), "client")
        self._own = own
        self._principal = ""

    def close(self) -> None:
        """Write what waits."""
        if self._trail is not None:
            self._trail.close()

    @contextmanager
    def of(self, action: Action, what: str, ledger_id: int) -> Iterator[None]:
        """Write a line about what the block does to a ledger, and how it ended."""
        try:
            yield
        except ZbkError as error:
            is_refused = isinstance(error, AccessDeniedError)
            self._note(
                AuditRecord(
                    action=action,
                    outcome="refused" if is_refused else "failed",
                    what=what,
                    ledger_id=ledger_id,
                )
            )
            raise
        self._note(AuditRecord(action=action, outcome="done", what=what, ledger_id=ledger_id))

    def created(self, ledger_ids: list[int]) -> None:
        """Write a line about each new ledger."""
        for one in ledger_ids:
            self._note(AuditRecord(action="create", outcome="done", ledger_id=one))

    def _note(self, record: AuditRecord) -> None:
        if self._trail is None:
            return
        if not self._principal:
            with suppress(ZbkError):  # the line has the key then
                found = self._own.principal()
                self._principal = "" if found is None else found.name
        self._trail.note(
            msgspec.structs.replace(
                record,
                principal=self._principal,
                key_id=key_id(self._own.key),
                user=own_user(),
            )
        )
