"""One life of a connection to a bookie: what came whole is received, whenever the bookie dies."""

import multiprocessing
from collections.abc import Callable

import pytest
import zmq

from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.security.credentials import ANONYMOUS, Door
from zbk.transport.attempt import Attempt
from zbk.transport.dealer_socket import DealerSocket
from zbk.transport.frames import receive_frames

FRAME_COUNT = 250
MESSAGE_COUNT = 8
UNREAD_COUNT = 20_000
READ_COUNT = 50
"""libzmq looks for news of its connections at each hundredth frame: in the middle of a message."""


def connected(
    own: "zmq.Context[zmq.Socket[bytes]]", peer: "zmq.Socket[bytes]"
) -> tuple[DealerSocket, bytes]:
    """Return a dealer that is connected to a peer, and the routing id of its life there."""
    port = peer.bind_to_random_port("tcp://127.0.0.1")
    life = Attempt("b-1", Door(f"tcp://127.0.0.1:{port}"), ANONYMOUS, 5_000)
    dealer = DealerSocket(own, life)
    dealer.socket.connect(life.address)
    wait_until(lambda: dealer.next_event() == zmq.EVENT_HANDSHAKE_SUCCEEDED)
    assert dealer.try_send([b"go"])
    return dealer, peer.recv_multipart()[0]


def receive_from_a_peer_that_dies() -> None:
    """Receive a part of a message, lose the peer, and receive the rest."""
    own, others = zmq.Context(), zmq.Context()
    peer = others.socket(zmq.ROUTER)
    dealer, routing_id = connected(own, peer)
    for _ in range(MESSAGE_COUNT):
        peer.send_multipart([routing_id, *[b"x"] * FRAME_COUNT])
    peer.send_multipart([routing_id, b"last"])
    for _ in range(READ_COUNT):
        dealer.socket.recv()

    peer.close(linger=5_000)
    others.term()  # all that was sent is on its way, and the connection ends after it
    wait_until(lambda: dealer.next_event() == zmq.EVENT_DISCONNECTED)

    assert len(receive_frames(dealer.socket)) == FRAME_COUNT - READ_COUNT
    for _ in range(MESSAGE_COUNT - 1):
        assert len(receive_frames(dealer.socket)) == FRAME_COUNT
    assert receive_frames(dealer.socket) == [b"last"]
    with pytest.raises(zmq.Again):
        receive_frames(dealer.socket)
    dealer.close()
    own.term()


def receive_nothing_until_the_peer_has_died() -> None:
    """Leave more messages unread than libzmq keeps by default, lose the peer, and go on."""
    own, others = zmq.Context(), zmq.Context()
    peer = others.socket(zmq.ROUTER)
    peer.setsockopt(zmq.SNDHWM, 0)
    dealer, routing_id = connected(own, peer)
    for _ in range(UNREAD_COUNT):
        peer.send_multipart([routing_id, b"x" * 1_000])
    peer.close(linger=0)
    others.term()
    wait_until(lambda: dealer.next_event() == zmq.EVENT_DISCONNECTED)
    dealer.close()
    own.term()


@pytest.mark.parametrize(
    "life", [receive_from_a_peer_that_dies, receive_nothing_until_the_peer_has_died]
)
def test_a_bookie_that_dies_in_the_middle_of_answers_does_not_abort_the_client(
    life: Callable[[], None],
) -> None:
    """In a process of its own: the abort would be that of libzmq."""
    process = multiprocessing.get_context("spawn").Process(target=life)
    process.start()
    process.join(patient_s(60.0))

    assert process.exitcode == 0
