"""The bytes of answers that a bookie holds: for each connection, and in all.

Words: an answer is *expected* from the admission of its request until it is made, with its largest
possible size; *queued* while it waits at the front; *untaken* from when ZeroMQ has it until the
peer's machine has acknowledged its bytes. All three count.

A connection gets at most a share of the free bytes: a lone connection a quarter of all, each of
many connections less, so that room is always left for the next one. A connection that holds nothing
gets an answer as long as there is any room.

Requests whose answers have no room are *held*: they wait in the order in which they came.

Pure. Owned by the peer table (``zbk.transport.peers``). Source: dynamic thresholds of shared switch
buffers (Choudhury and Hahne, 1998). Limits that depend on the peer's identity belong in
``has_room``.
"""

from typing import Final

TOTAL_SIZE_MAX: Final = 128 * 1024 * 1024
SHARE: Final = 4
"""A connection may use this part (one in four) of the free bytes."""

PRESSED_SHARE: Final = 4
"""The budget is pressed while less than this part (one in four) of the total is free."""


class PeerAnswers:
    """Bytes of answers that are held for one connection."""

    __slots__ = ("expected_size", "handed_size", "queued_size", "taken_size")

    def __init__(self) -> None:
        self.expected_size = 0
        self.queued_size = 0
        self.handed_size = 0  # to ZeroMQ, since the connection began
        self.taken_size = 0  # of these, acknowledged by the peer

    @property
    def untaken_size(self) -> int:
        """Bytes that ZeroMQ and the kernel hold."""
        return self.handed_size - self.taken_size

    @property
    def size(self) -> int:
        """All bytes that count."""
        return self.expected_size + self.queued_size + self.handed_size - self.taken_size


class AnswerBudget:
    """The bytes of all connections.

    Invariant: ``used_size`` is the sum over all peers, plus what is expected for peers that are
    gone. It is never negative.
    """

    def __init__(self, total_size_max: int = TOTAL_SIZE_MAX) -> None:
        self._total_size_max = total_size_max
        self.used_size = 0

    @property
    def is_pressed(self) -> bool:
        """True while few bytes are free."""
        free_size = self._total_size_max - self.used_size
        return free_size < self._total_size_max // PRESSED_SHARE

    def has_room(self, peer: PeerAnswers, size: int) -> bool:
        """Return whether a request may be admitted whose answer has up to ``size`` bytes."""
        free_size = self._total_size_max - self.used_size
        if not peer.size:
            return size <= free_size or not self.used_size  # a single answer may have any size
        return peer.size + size <= free_size // SHARE

    def expect(self, peer: PeerAnswers, size: int) -> None:
        """Set bytes aside for an answer."""
        peer.expected_size += size
        self.used_size += size

    def arrived(self, peer: PeerAnswers | None, expected_size: int) -> None:
        """Record that an expected answer is made; ``None``: its peer is gone."""
        self.used_size -= expected_size
        if peer is not None:
            peer.expected_size -= expected_size
        assert self.used_size >= 0

    def queue(self, peer: PeerAnswers, size: int) -> None:
        """Record that an answer waits at the front."""
        peer.queued_size += size
        self.used_size += size

    def unqueue(self, peer: PeerAnswers, size: int) -> None:
        """Record that an answer does not wait any more."""
        peer.queued_size -= size
        self.used_size -= size
        assert peer.queued_size >= 0

    def hand_over(self, peer: PeerAnswers, size: int) -> None:
        """Record that ZeroMQ has an answer."""
        peer.handed_size += size
        self.used_size += size

    def take(self, peer: PeerAnswers, taken_size: int) -> bool:
        """Record how many bytes the peer has taken in all; return whether that is more than before.

        The peer also takes bytes that ZeroMQ adds, greetings and heartbeats, which were not handed
        over: more than was handed over does not count.
        """
        taken_size = min(taken_size, peer.handed_size)
        if taken_size <= peer.taken_size:
            return False
        self.used_size -= taken_size - peer.taken_size
        peer.taken_size = taken_size
        return True

    def forget(self, peer: PeerAnswers) -> None:
        """Record that a connection has ended. Its expected answers are still made."""
        self.used_size -= peer.queued_size + peer.untaken_size
        peer.queued_size = 0
        peer.taken_size = peer.handed_size
