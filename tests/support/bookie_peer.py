"""Who speaks the wire protocol to one bookie of a real cluster, and nothing else."""

from tests.support.wire_peers import Inbox
from zbk.cluster.local import LocalCluster
from zbk.errors import ZbkError
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions, Outgoing, Reply
from zbk.wire.messages import Message

REQUEST_TIMEOUT_MS = 10_000


class Peer:
    """Speaks the wire to the first bookie of a cluster, and knows nothing of the protocol."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._pool = BookiePool(DealerOptions("", "test", 5_000))
        self._inbox = Inbox()
        self._count = 0
        self.look_again()

    def look_again(self) -> None:
        """Note the bookie's address."""
        self.bookie = self._cluster.bookies[0]
        self._pool.set_addresses({self.bookie.bookie_id: self.bookie.address})

    def send(self, request: Message, *frames: bytes) -> int:
        """Put a request on its way; return the key to ``wait_for`` it."""
        self._count += 1
        size = sum(map(len, frames)) + 100
        self._pool.request(
            Outgoing(
                self.bookie.bookie_id,
                request,
                frames,
                self._inbox,
                self._count,
                REQUEST_TIMEOUT_MS,
                size,
            )
        )
        return self._count

    def wait_for(self, key: int) -> Message | ZbkError:
        """Return what came of a request."""
        found = self._inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == key)
        assert isinstance(found, Reply)
        return found.outcome

    def ask(self, request: Message, *frames: bytes) -> Message | ZbkError:
        """Send a request and wait."""
        return self.wait_for(self.send(request, *frames))

    def forget(self) -> None:
        """Forget what came."""
        self._inbox.forget()

    def close(self) -> None:
        self._pool.close()
