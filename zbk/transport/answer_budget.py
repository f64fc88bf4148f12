"""How many bytes of answers a bookie holds: for each connection, and in all.

Words: an answer is *expected* from when its request is let in until it is there, for the most that
it may be; *queued* while it waits at the front; *untaken* after ZeroMQ got it, until the peer's
machine has acknowledged its bytes. All of it counts.

A connection gets no more than a share of what nobody uses: a lone one a quarter of everything, one
of very many less and less, and something is left for the next one always. One of which nothing is
held gets an answer as long as there is room at all.

Requests whose answers have no room are *held*: they wait in the order in which they came.

Pure. Owned by the front (``zbk.transport.router``). Source: dynamic thresholds of shared switch
buffers (Choudhury and Hahne, 1998). Limits by who the peer is would stand in ``has_room``.
"""

from typing import Final

TOTAL_SIZE_MAX: Final = 128 * 1024 * 1024
SHARE: Final = 4
"""A connection may take one in so many of the bytes that are free."""

PRESSED_SHARE: Final = 4
"""Of the total so large a part is free, one in so many, while peers are waited for at length."""


class PeerAnswers:
    """What is held for one connection."""

    __slots__ = ("expected_size", "handed_size", "queued_size", "taken_size")

    def __init__(self) -> None:
        self.expected_size = 0
        self.queued_size = 0
        self.handed_size = 0  # to ZeroMQ, since the connection began
        self.taken_size = 0  # of these by the peer

    @property
    def untaken_size(self) -> int:
        """Bytes that ZeroMQ and the kernel hold."""
        return self.handed_size - self.taken_size

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.expected_size + self.queued_size + self.handed_size - self.taken_size


class AnswerBudget:
    """The bytes of all connections.

    Invariant: ``used_size`` is the sum over all peers, and of what is expected for those that are
    gone. It is never negative.
    """

    def __init__(self, total_size_max: int = TOTAL_SIZE_MAX) -> None:
        self._total_size_max = total_size_max
        self.used_size = 0

    @property
    def is_pressed(self) -> bool:
        """True while little is free."""
        free_size = self._total_size_max - self.used_size
        return free_size < self._total_size_max // PRESSED_SHARE

    def has_room(self, peer: PeerAnswers, size: int) -> bool:
        """Return whether a request may be let in whose answer may have so many bytes."""
        free_size = self._total_size_max - self.used_size
        if not peer.size:
            return size <= free_size or not self.used_size  # whatever its size, one at a time is
        return peer.size + size <= free_size // SHARE

    def expect(self, peer: PeerAnswers, size: int) -> None:
        """Note that an answer of so many bytes may come."""
        peer.expected_size += size
        self.used_size += size

    def arrived(self, peer: PeerAnswers | None, expected_size: int) -> None:
        """Note that the answer is there; ``None``: for somebody who is gone."""
        self.used_size -= expected_size
        if peer is not None:
            peer.expected_size -= expected_size
        assert self.used_size >= 0

    def queue(self, peer: PeerAnswers, size: int) -> None:
        """Note that an answer waits at the front."""
        peer.queued_size += size
        self.used_size += size

    def unqueue(self, peer: PeerAnswers, size: int) -> None:
        """Note that it waits no more."""
        peer.queued_size -= size
        self.used_size -= size
        assert peer.queued_size >= 0

    def hand_over(self, peer: PeerAnswers, size: int) -> None:
        """Note that ZeroMQ has it."""
        peer.handed_size += size
        self.used_size += size

    def take(self, peer: PeerAnswers, taken_size: int) -> bool:
        """Note how many bytes the peer has taken in all; return true if that is more than before.

        What ZeroMQ says for itself, greetings and signs of life, is taken, too, and was not handed
        over: it counts while nothing else is on its way, so that it does not add up.
        """
        taken_size = min(taken_size, peer.handed_size)
        if taken_size <= peer.taken_size:
            return False
        self.used_size -= taken_size - peer.taken_size
        peer.taken_size = taken_size
        return True

    def forget(self, peer: PeerAnswers) -> None:
        """Note that a connection has ended. What is expected for it still comes."""
        self.used_size -= peer.queued_size + peer.untaken_size
        peer.queued_size = 0
        peer.taken_size = peer.handed_size
