"""The calls of a client that grant rights in ledgers."""

from collections.abc import Callable, Iterable

from zbk.client import arguments
from zbk.client.calls.connection import ClientConnection
from zbk.metadata.records.ledger_grants import LedgerGrants
from zbk.protocol.ledger.access import Grants, Right, with_grant, without_grant
from zbk.protocol.ledger.metadata import LedgerMetadata


class RightsCalls(ClientConnection):
    """The part of a client that grants rights."""

    def grant(
        self, ledger_id: int, principal: str, rights: Iterable[Right | str]
    ) -> LedgerMetadata:
        """Grant rights in a ledger to a principal, or to ``*`` (all); return its metadata.

        ``rights`` are of ``append``, ``read``, ``recover`` (includes ``read``), ``delete`` and
        ``admin`` (to grant). Bookies apply a change within a second. It needs ``admin``: the owner
        of the ledger and operators have it.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            AccessDeniedError: this client may not grant rights in it.

        Examples:
            >>> import zbk
            >>> with zbk.connect() as client:  # doctest: +SKIP
            ...     client.grant(7, "bob", ["read"]).known_access.grants
            {'bob': (<Right.READ: 'read'>,)}
        """
        name, wanted = arguments.grantee(principal), arguments.rights(rights)
        what = f"grant {name} {_names(wanted)}"
        return self._change(ledger_id, what, lambda now: with_grant(now, name, wanted))

    def revoke(
        self, ledger_id: int, principal: str, rights: Iterable[Right | str] = tuple(Right)
    ) -> LedgerMetadata:
        """Remove rights in a ledger of a principal, or of ``*``; return its metadata.

        The owner keeps all rights, and so does what a namespace or a role gives.

        Raises:
            NoSuchLedgerError: there is no such ledger.
            AccessDeniedError: this client may not take rights in it.
        """
        name, wanted = arguments.grantee(principal), arguments.rights(rights)
        what = f"revoke {name} {_names(wanted)}"
        return self._change(ledger_id, what, lambda now: without_grant(now, name, wanted))

    def _change(
        self, ledger_id: int, what: str, change: Callable[[Grants], Grants]
    ) -> LedgerMetadata:
        ledger_id = arguments.ledger_id(ledger_id)
        self.check_usable()

        def changed(current: LedgerMetadata) -> Grants:
            self._own.check(current, Right.ADMIN)
            return change(current.known_access.grants)

        with self._audit.of("grant", what, ledger_id):
            return LedgerGrants(self._store).change(ledger_id, changed)


def _names(rights: Iterable[Right]) -> str:
    return ",".join(one.value for one in Right if one in set(rights))
