"""A bookie of a writer: a set of entries held, and a set of entries on disk."""

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.events import Event, SendAdd, SendLac, SendSync


class FakeBookie:
    """What one bookie holds and has on disk, and what is on its way to and from it."""

    def __init__(self) -> None:
        self.incarnation = 1
        self.is_connected = False
        self.is_fenced = False
        self.held: set[int] = set()
        self.taken: set[int] = set()  # held at some time: what a loss of power took is not here
        self.durable: set[int] = set()
        self.lac = NO_ENTRY
        self.is_writable = True  # registered, and not read-only
        self.catches_up = True
        self.requests: list[SendAdd | SendSync | SendLac] = []
        self.answers: list[Event] = []

    def last_add_synced(self) -> int:
        las = self.lac
        while las + 1 in self.durable:
            las += 1
        return las

    def crash(self, *, loses_power: bool) -> None:
        """Start again, with what was on disk, or with all if only the process died."""
        if loses_power:
            self.held &= self.durable
        else:
            self.durable |= self.held  # a start syncs what it finds before it trusts it
        self.lac = NO_ENTRY
        self.incarnation += 1
        self.requests.clear()
