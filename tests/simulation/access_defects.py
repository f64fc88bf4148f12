"""The wrong methods about rights that ``tests.simulation.defects`` puts in."""

from typing import Final
from unittest.mock import patch

from zbk.actors.serve.access_gate import AccessGate
from zbk.actors.serve.ledger_lookups import LookedUp
from zbk.actors.serve.storage import StorageActor
from zbk.security.access_table import AccessTable
from zbk.security.operations import LEDGER_NEEDS, Need
from zbk.security.principals import KeyTable
from zbk.security.rights import APPEND, READ
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Add, Message, Read, ReadLac

FENCE_BY_READERS: Final[dict[type[Message], Need]] = {
    **LEDGER_NEEDS,
    Read: lambda _request: READ,
    ReadLac: lambda _request: READ,
}
"""A1: who may read a ledger may fence it."""

ADD_BY_READERS: Final[dict[type[Message], Need]] = {
    **LEDGER_NEEDS,
    Add: lambda request: READ if request.is_recovery else APPEND,
}
"""A2: who may read a ledger may write entries back."""


def ignores_keys(_self: AccessTable, _keys: KeyTable) -> None:
    """A3: the principals are those that there were at the start."""


def forgets_no_access(self: AccessTable, _ledger_ids: object) -> None:
    """A4: decisions are made again, by the grants that were known before."""
    self.decisions.clear()


_looked_up = StorageActor._on_looked_up


def admits_what_waited(self: StorageActor, message: LookedUp) -> None:
    """A6: a request whose ledger was looked up goes on, whatever was found."""
    with patch.object(AccessGate, "admits", lambda *_: True):
        _looked_up(self, message)


_admits = AccessGate.admits


def admits_known_connections(self: AccessGate, inbound: Inbound) -> bool:
    """A7: a connection that was admitted once to a ledger needs no right any more."""
    known = getattr(self, "admitted", None)
    if known is None:
        known = self.admitted = set()  # type: ignore[attr-defined]
    one = (inbound.peer, getattr(inbound.request, "ledger_id", -1), type(inbound.request))
    if one in known:
        return True
    is_admitted = _admits(self, inbound)
    if is_admitted:
        known.add(one)
    return is_admitted
