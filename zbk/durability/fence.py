"""The fence of a ledger at a bookie: what it refuses, and when it is answered.

    NONE      nothing is refused
    PENDING   a recovery has asked for the fence: ordinary adds and syncs are refused from now on;
              the fence is not answered yet
    DURABLE   its record is on stable storage: the fence is answered

A fence is permanent. A fenced ledger still takes the adds of recoveries, which close it, and serves
reads. It does not tell its sync cursor: recoveries write entries back, and one of them may have
closed the ledger below entries that another one wrote.

Decision: it accepts an explicit LAC, as in BookKeeper. An ack quorum acknowledged every entry that
a writer reports as confirmed, so no recovery ends below it; and only the writer can send it,
because it needs the ledger's key.

When a recovery may rely on fences is ``zbk.protocol.recovery.fence``.

Source: BookKeeper's ``LedgerDescriptorImpl``; "The BookKeeper protocol", section Closing a ledger
as a reader.
"""

from enum import Enum


class Fence(Enum):
    """The state of a fence.

    >>> fence = Fence.NONE.begun()
    >>> fence.admits_add(is_recovery=False), fence.admits_add(is_recovery=True), fence.is_durable
    (False, True, False)
    >>> fence.synced().is_durable
    True
    """

    NONE = "none"
    PENDING = "pending"
    DURABLE = "durable"

    @property
    def is_set(self) -> bool:
        """True when the ledger is fenced, durably or not."""
        return self is not Fence.NONE

    @property
    def is_durable(self) -> bool:
        """True when the fence can be answered."""
        return self is Fence.DURABLE

    def admits_add(self, *, is_recovery: bool) -> bool:
        """Return whether an add is admitted."""
        return is_recovery or self is Fence.NONE

    @property
    def admits_sync(self) -> bool:
        """Return whether the sync cursor is told."""
        return self is Fence.NONE

    def begun(self) -> "Fence":
        """Return the state after a recovery has asked for the fence."""
        return Fence.PENDING if self is Fence.NONE else self

    def synced(self) -> "Fence":
        """Return the state after the fence record has reached stable storage."""
        assert self is not Fence.NONE, "a fence is accepted before it is durable"
        return Fence.DURABLE
