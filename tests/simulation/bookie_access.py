"""What a simulated bookie hears of rights: news that come some time after the change."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tests.simulation.kernel import MS, Kernel, Node
from tests.simulation.metadata import Session
from tests.simulation.oracle import BookieOracle
from tests.simulation.principals import GUEST, AccessOracle, Identified, Rights
from zbk.actors.serve.access_gate import AccessMessage, GrantsChanged, SetKeys
from zbk.protocol.ledger.access import Grants
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.access_table import AccessTable
from zbk.security.namespaces import NamespaceTable
from zbk.transport.inbound import Inbound, Outbound


class HearingBookie(Protocol):
    """What the news need of their bookie."""

    kernel: Kernel
    node: Node
    oracle: BookieOracle

    @property
    def waiting(self) -> list[Inbound]:
        """The requests that wait for a look-up."""
        ...

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life."""
        ...

    def tell_storage_actor(self, message: AccessMessage) -> None:
        """Give the storage actor a message to handle."""
        ...


class BookieAccess:
    """The watches of one bookie on principals and grants, and the oracle of its decisions."""

    def __init__(self, bookie: HearingBookie, rights: Rights, lookups: Session) -> None:
        self._bookie = bookie
        self._rights = rights
        self._lookups = lookups
        self._oracle = AccessOracle(bookie.kernel, rights)
        self._grants: dict[int, Grants] = {}

    def begin(self) -> AccessTable:
        """Return what the bookie knows at its start."""
        self._lookups._see_all()
        self._oracle.restarted()
        return AccessTable(self._rights.table(), NamespaceTable())

    def hear_of_keys(self) -> None:
        """Notify the bookie of the principals, some time later."""
        if self._bookie.node.is_alive:
            self._bookie.later(self._delay_us(), self._tell_keys)

    def metadata_changed(self, metadata: LedgerMetadata) -> None:
        """Notify the bookie that the grants of a ledger changed, some time later."""
        ledger_id, grants = metadata.ledger_id, metadata.known_access.grants
        if self._grants.setdefault(ledger_id, grants) != grants:
            self._grants[ledger_id] = grants
            if self._bookie.node.is_alive:
                self._bookie.later(self._delay_us(), self._tell_grants, ledger_id)

    def received(self, batch: Iterable[Inbound]) -> None:
        """Note that requests are taken."""
        self._oracle.received(batch)

    def answered(self, outbound: Outbound) -> None:
        """Judge an answer."""
        problem = self._oracle.answered(outbound)
        if problem:
            self._bookie.oracle.violated("access", problem)

    def _delay_us(self) -> int:
        tape = self._bookie.kernel.tape
        return tape.draw(8) * tape.pick((1, 20)) * MS

    def _tell_keys(self) -> None:
        self._lookups._see_all()
        self._oracle.told_keys()
        self._tell(SetKeys(self._rights.table()))

    def _tell_grants(self, ledger_id: int) -> None:
        self._lookups._see_all()
        self._oracle.told_grants(ledger_id)
        self._tell(GrantsChanged([ledger_id]))

    def _tell(self, message: AccessMessage) -> None:
        self._oracle.received(self._bookie.waiting)
        self._bookie.kernel.sometimes["access: a bookie hears of a change"] += 1
        if self._bookie.waiting:
            self._bookie.kernel.sometimes["access: it hears while requests wait"] += 1
        self._bookie.tell_storage_actor(message)


def but_guests(batch: Sequence[Inbound]) -> Sequence[Inbound]:
    """Return the requests whose LACs may be true."""
    return [one for one in batch if one.life != Identified(f"key of {GUEST}")]
