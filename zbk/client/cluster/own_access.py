"""The principal of a client, and what it may do, as the metadata store says.

Bookies enforce rights in what passes through them. Deleting a ledger, granting and creating are
changes of the metadata only: the client checks these rights itself, so that a program that is not
meant to do them fails with a clear error, and the access control of the metadata store keeps out
programs that do not check.

Any thread; calls block.
"""

from typing import Final

from zbk.errors import (
    AccessDeniedError,
    NamespaceDeniedError,
    NoSuchNamespaceError,
    PrincipalRequiredError,
)
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.ledger.access import DEFAULT_NAMESPACE, Grants, LedgerAccess, Right
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.credentials import Credentials
from zbk.security.namespaces import NamespaceTable
from zbk.security.principals import KeyTable, Principal
from zbk.security.rights import decide

NO_KEY: Final = "(no key)"
"""The name in errors of a client without a key."""


UNKNOWN_NAMESPACE: Final = ""
"""No record has this path."""


class OwnAccess:
    """Who this client is."""

    def __init__(self, store: MetadataStore, credentials: Credentials) -> None:
        self._principals = PrincipalStore(store)
        self._namespaces = NamespaceStore(store)
        pair = credentials.pair
        self.key: Final = "" if pair is None or credentials.security == "off" else pair.public_key
        self._is_required = credentials.security == "required"

    @property
    def has_key(self) -> bool:
        """True when this client has a key, so that it has to look whose a ledger is."""
        return bool(self.key)

    def principal(self) -> Principal | None:
        """Return the principal of this client's key; ``None``: it has no key, or no principal.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        if not self.key:
            return None
        for is_fresh in (False, True):  # a read may lag behind what an operator was told
            found = KeyTable(self._principals.all(is_fresh=is_fresh)).find(self.key)
            if found is not None:
                return found
        return None

    def new_access(self, namespace: str, grants: Grants) -> LedgerAccess | None:
        """Return the access of a new ledger; ``None``: it is a plain one.

        Raises:
            PrincipalRequiredError: there is no principal that could own it.
            NoSuchNamespaceError: there is no such namespace.
            NamespaceDeniedError: the principal may not create ledgers in the namespace.
            MetadataUnavailableError: the store does not answer.
        """
        if not (self.key or namespace or grants):
            return None
        principal = self.principal()
        if principal is None:
            if self._is_required or namespace or grants:
                raise PrincipalRequiredError(self.key or NO_KEY)
            return None
        path = namespace or DEFAULT_NAMESPACE
        self._check_namespace(principal, path)
        return LedgerAccess(owner=principal.name, namespace=path, grants=grants)

    def check(self, metadata: LedgerMetadata, right: Right) -> None:
        """Check that this client has a right in a ledger.

        Raises:
            AccessDeniedError: it has not.
            MetadataUnavailableError: the store does not answer.
        """
        access = metadata.known_access
        if access.owner or self._is_required:
            self._check(metadata.ledger_id, access, right)

    def check_damaged(self, ledger_id: int, right: Right) -> None:
        """Check that this client has a right in a ledger whose metadata cannot be read.

        Raises:
            AccessDeniedError: it is no operator.
            MetadataUnavailableError: the store does not answer.
        """
        self._check(ledger_id, LedgerAccess(namespace=UNKNOWN_NAMESPACE), right)

    def _check(self, ledger_id: int, access: LedgerAccess, right: Right) -> None:
        principal = self.principal()
        grants = NamespaceTable(self._namespaces.all()).grants(access.namespace)
        if not decide(principal, right, access, grants):
            raise AccessDeniedError(ledger_id, self._name_of(principal), right.value)

    def _name_of(self, principal: Principal | None) -> str:
        return (self.key or NO_KEY) if principal is None else principal.name

    def _check_namespace(self, principal: Principal, path: str) -> None:
        """Check that a principal may create ledgers in a namespace."""
        table = NamespaceTable(self._namespaces.all(is_fresh=path != DEFAULT_NAMESPACE))
        chain = table.chain(path)
        if not chain:
            if path != DEFAULT_NAMESPACE:
                raise NoSuchNamespaceError(path)
            return  # it is open to all principals
        grants = [one.grants for one in chain]
        if not decide(principal, Right.APPEND, LedgerAccess(namespace=path), grants):
            raise NamespaceDeniedError(principal.name, chain[-1].path)
