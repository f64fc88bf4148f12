"""The rule that decides which process holds an ephemeral node: a registration, or the auditor's.

A *claim* is the sequence of attempts of one process to create a node. Each attempt writes a value
with a fresh token. The store may apply an attempt after its reply was lost, and even after the next
attempt began, so a node may hold the value of any attempt so far:

    NOBODY   there is no node
    OURS     the node holds the value of the last attempt
    FORMER   the node holds the value of an earlier attempt: remove it, then claim the node again
    OTHER    the node holds the value of another process

``RegistrationPlan`` adds the two decisions of a registration: how long another process may hold the
node, and which step comes next.

Pure: no store, no clock. One thread.
"""

from enum import Enum, auto


class Holder(Enum):
    """The process whose value a node holds."""

    NOBODY = auto()
    OURS = auto()
    FORMER = auto()
    OTHER = auto()


class NodeClaim:
    """The attempts of one process to create one node."""

    def __init__(self) -> None:
        self._last: bytes | None = None
        self._former: set[bytes] = set()

    @property
    def is_open(self) -> bool:
        """True while the node of the last attempt may exist."""
        return self._last is not None

    def begin(self, value: bytes) -> None:
        """Record an attempt, before its request is sent: the reply may be lost."""
        self.withdraw()
        self._last = value

    def withdraw(self) -> None:
        """Give up the last attempt. A node with its value is FORMER from now on."""
        if self._last is not None:
            self._former.add(self._last)
        self._last = None

    def refused(self) -> None:
        """Record that the store refused the last attempt: no node can have its value."""
        self._last = None

    def holder(self, found: bytes | None) -> Holder:
        """Return the holder of the node; ``found`` is its value, ``None`` if there is no node."""
        if found is None:
            return Holder.NOBODY
        if found == self._last:
            return Holder.OURS
        return Holder.FORMER if found in self._former else Holder.OTHER


class Step(Enum):
    """The next step of a registration."""

    WAIT = auto()  # the store does not answer
    CREATE = auto()
    REMOVE_FORMER = auto()
    WAIT_FOR_OTHER = auto()
    GIVE_UP = auto()  # another process has held the node for longer than a dead one could
    REGISTER = auto()  # the node is ours: remove the node of the other mode, report REGISTERED


class RegistrationPlan:
    """The next step of one registration.

    A node of another process belongs to an earlier process of this bookie, whose session has not
    ended yet, or to a second one that runs now: the plan waits ``wait_ms`` for it to go. Time in
    which the store does not answer does not count, because no session can end in it.
    """

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self._claims: dict[str, NodeClaim] = {}
        self._blocked_since_ms: int | None = None

    def claim(self, path: str) -> NodeClaim:
        """Return the claim on the node at ``path``."""
        return self._claims.setdefault(path, NodeClaim())

    def open_paths(self) -> list[str]:
        """Return the paths whose node may be there and ours."""
        return [path for path, claim in self._claims.items() if claim.is_open]

    @property
    def is_blocked(self) -> bool:
        """True while another process holds the node."""
        return self._blocked_since_ms is not None

    def disconnected(self) -> Step:
        """Return the step while the session is not connected."""
        self._blocked_since_ms = None
        return Step.WAIT

    def created(self) -> None:
        """Record that the store made the wanted node: no other process holds it."""
        self._blocked_since_ms = None

    def step(self, path: str, found: bytes | None, now_ms: int) -> Step:
        """Return the next step; ``found`` is the value of the wanted node at ``path``."""
        match self.claim(path).holder(found):
            case Holder.NOBODY:
                return Step.CREATE
            case Holder.OURS:
                self._blocked_since_ms = None
                return Step.REGISTER
            case Holder.FORMER:
                return Step.REMOVE_FORMER
            case Holder.OTHER:
                if self._blocked_since_ms is None:
                    self._blocked_since_ms = now_ms
                is_over = now_ms - self._blocked_since_ms > self.wait_ms
                return Step.GIVE_UP if is_over else Step.WAIT_FOR_OTHER
