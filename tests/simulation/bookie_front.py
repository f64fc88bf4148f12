"""The front of a simulated bookie: which requests it lets through, and the answers to them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.simulation.bookie_access import BookieAccess, but_guests
from tests.simulation.kernel import Kernel, Node
from tests.simulation.network import Network
from tests.simulation.oracle import BookieOracle
from zbk.actors.serve.storage import StorageMessage
from zbk.actors.serve.storage_door import Requests
from zbk.errors import BusyError, HelloRequiredError, WrongBookieError, ZbkError
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import refusal


class FrontedBookie(Protocol):
    """What a front needs of its bookie."""

    kernel: Kernel
    node: Node
    oracle: BookieOracle

    @property
    def incarnation(self) -> int:
        """The number of this start."""
        ...

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life."""
        ...

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        ...


class BookieFront:
    """The peers of one life of a bookie, and the bytes of their requests that are in flight."""

    def __init__(
        self, bookie: FrontedBookie, network: Network, access: BookieAccess | None
    ) -> None:
        self._bookie = bookie
        self._network = network
        self._access = access
        self._inbox: list[Inbound] = []
        self._peers: set[bytes] = set()
        self._in_flight: Counter[bytes] = Counter()  # bytes, by peer

    def greeted(self, peer: bytes) -> None:
        """Note a peer that has said HELLO."""
        self._peers.add(peer)

    def take(self, inbound: Inbound) -> None:
        """Receive a request: it is handled with all that come until then."""
        error = self._refusal(inbound)
        if error is not None:
            refused = refusal(inbound.request.request_id, self._bookie.incarnation, error)
            self._network.answer(self._bookie.node, inbound, refused, ())
            return
        self._in_flight[inbound.peer] += inbound.size
        self._inbox.append(inbound)
        if len(self._inbox) == 1:
            self._bookie.later(20 + self._bookie.kernel.tape.draw(4) * 20, self._turn)

    def _refusal(self, inbound: Inbound) -> ZbkError | None:
        """Return why the front would not let a request through, if so."""
        network, sometimes = self._network, self._bookie.kernel.sometimes
        incarnation = self._bookie.incarnation
        if inbound.peer not in self._peers and network.is_checking_hello:
            sometimes["bookie: a request of an earlier life refused"] += 1
            return HelloRequiredError("say HELLO first")
        if inbound.request.incarnation != incarnation and network.is_checking_incarnation:
            sometimes["bookie: a request of an earlier life refused"] += 1
            return WrongBookieError(f"this is incarnation {incarnation}")
        in_flight_size = self._in_flight[inbound.peer]
        if in_flight_size and in_flight_size + inbound.size > network.credit_size:
            sometimes["bookie: a request over the credit refused"] += 1
            return BusyError(f"over the credit of {network.credit_size} bytes")
        return None

    def _turn(self) -> None:
        batch, self._inbox = self._inbox, []
        self._bookie.oracle.received(but_guests(batch))
        if self._access is not None:
            self._access.received(batch)
        self._bookie.tell_storage_actor(Requests(batch))

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers."""
        for outbound in answers:
            self._in_flight[outbound.inbound.peer] -= outbound.inbound.size
            self._bookie.oracle.answered(outbound)
            if self._access is not None:
                self._access.answered(outbound)
            self._network.answer(
                self._bookie.node, outbound.inbound, outbound.answer, outbound.frames
            )
