"""Many Redis streams: a connection each, on which an append waits for its confirmation."""

import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("hiredis", reason="requirements/peers.txt is not installed")

from benchmarks.peers.load import PeerFailedError
from benchmarks.peers.redis_streams import StreamLine
from benchmarks.peers.servers import Version

ADDED = b"$3\r\n1-0\r\n"
RECEIVED = b":1\r\n"
TOO_FEW = b":0\r\n"
FSYNCED = b"*2\r\n:1\r\n:1\r\n"


class Pair:
    """A line and Redis' end of its connection."""

    def __init__(self, version: Version) -> None:
        ours, self.theirs = socket.socketpair()
        self.line = StreamLine(ours, "zbk-peers-3", b"payload", version)

    def receive(self, data: bytes) -> bool:
        self.theirs.sendall(data)
        return self.line.receive()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair((7, 0, 15))
    with made.line, made.theirs:
        yield made


def test_an_append_and_its_confirmation_are_sent_together(pair: Pair) -> None:
    pair.line.send()

    sent = pair.theirs.recv(4096)
    assert b"XADD" in sent
    assert b"zbk-peers-3" in sent
    assert sent.index(b"WAIT") > sent.index(b"payload")


def test_an_append_is_confirmed_with_the_last_answer_however_they_are_cut(pair: Pair) -> None:
    pair.line.send()

    answers = ADDED + RECEIVED
    heard = [pair.receive(answers[place : place + 1]) for place in range(len(answers))]

    assert heard == [False] * (len(answers) - 1) + [True]


def test_a_version_that_has_waitaof_answers_three_times() -> None:
    made = Pair((7, 2, 0))
    with made.line, made.theirs:
        made.line.send()

        assert not made.receive(ADDED + RECEIVED)
        assert made.receive(FSYNCED)


@pytest.mark.parametrize("answers", [b"-OOM no memory\r\n", ADDED + TOO_FEW])
def test_an_append_that_was_refused_or_has_too_few_copies_is_an_error(
    pair: Pair, answers: bytes
) -> None:
    pair.line.send()

    with pytest.raises(PeerFailedError, match="not confirmed"):
        pair.receive(answers)


def test_a_closed_connection_is_an_error(pair: Pair) -> None:
    pair.line.send()
    pair.theirs.recv(4096)
    pair.theirs.close()

    with pytest.raises(PeerFailedError, match="closed"):
        pair.line.receive()
