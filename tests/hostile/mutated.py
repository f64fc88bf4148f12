"""A peer that sends changed messages to a bookie, one connection after another."""

import os
from pathlib import Path
from typing import Final

import msgspec
import zmq

import zbk
from tests.hostile.mutations import Mutations, real_requests
from tests.hostile.reads import MIB, Watch
from tests.support.cluster import lone_ledger
from tests.support.machine import patient_s
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.transport.frames import receive_frames
from zbk.wire import codec
from zbk.wire.messages import AnswerBundle, Hello, HelloAnswer, Ping

MESSAGE_COUNT: Final = 1_000_000
BURST_COUNT: Final = 250
"""Messages of one connection."""

LAST_ID: Final = 2**62
PATIENCE_MS: Final = int(patient_s(20.0) * 1000)


class Sent(msgspec.Struct):
    """Counts of an attack."""

    message_count: int = 0
    answer_count: int = 0


class Mutant:
    """Sends the messages."""

    def __init__(self, bookie: LocalBookie, mutations: Mutations) -> None:
        self._bookie = bookie
        self._mutations = mutations
        self.sent = Sent()

    def burst(self, count: int = BURST_COUNT) -> None:
        """Connect, say HELLO, send changed messages, and receive what answers come."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.ROUTING_ID, b"m" + os.urandom(8))
            socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
            socket.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
            socket.connect(self._bookie.address)
            socket.send(codec.encode(Hello(request_id=1)))
            greeting = codec.decode_answer(socket.recv())
            assert isinstance(greeting, HelloAnswer), greeting
            for _ in range(count):
                socket.send_multipart(self._mutations.next())
                self.sent.message_count += 1
                while socket.poll(0):
                    self._take(receive_frames(socket))
            self._finish(socket)

    def _finish(self, socket: "zmq.Socket[bytes]") -> None:
        """Wait until the bookie has handled everything, or has ended the connection."""
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        incarnation = self._bookie.incarnation
        socket.send(codec.encode(Ping(request_id=LAST_ID, incarnation=incarnation)))
        try:
            while ready := dict(poller.poll(PATIENCE_MS)):
                if socket in ready and self._take(receive_frames(socket)) == LAST_ID:
                    return
                if monitor in ready:
                    return
            raise AssertionError("the bookie neither answers nor ends the connection")
        finally:
            socket.disable_monitor()
            monitor.close(0)

    def _take(self, frames: list[bytes]) -> int:
        """Count an answer; return its request id."""
        answer = codec.decode_answer(frames[0])
        parts = answer.parts if isinstance(answer, AnswerBundle) else [answer]
        self.sent.answer_count += len(parts)
        return parts[-1].request_id


def mutant_of(client: zbk.Client, cluster: LocalCluster, seed: int, victim_id: int) -> Mutant:
    """Return a peer with a ledger of its own, which knows the id of another one, not its key."""
    bookie = cluster.bookies[0]
    with lone_ledger(client) as own:
        own.append(b"mine")
    samples = [
        *real_requests(own.ledger_id, own.metadata.ledger_key, bookie.incarnation),
        *real_requests(victim_id, os.urandom(16), bookie.incarnation),
    ]
    return Mutant(bookie, Mutations(seed, samples))


def attack_with_mutations(folder: Path) -> None:
    """Run it, and print what it did to memory."""
    with LocalCluster(folder / "data", bookie_count=1) as cluster:
        watch = Watch(cluster.bookies[0].pid)
        with zbk.connect(cluster.metadata_uri) as client, lone_ledger(client) as victim:
            victim.append_many([b"kept"] * 1_000).result(30)
            mutant = mutant_of(client, cluster, 1, victim.ledger_id)
            while mutant.sent.message_count < MESSAGE_COUNT and not cluster.deaths():
                mutant.burst()
                watch.look()
            victim.append(b"not fenced")
        deaths = cluster.deaths()
    sent = mutant.sent
    print(  # noqa: T201 - it is a command
        f"{sent.message_count} changed messages, {sent.answer_count} answers\n"
        f"  RSS: at most {watch.size_max // MIB} MiB\n"
        f"  the bookie {'stopped' if deaths else 'goes on'}, the other ledger is writable"
    )
