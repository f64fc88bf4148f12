"""Limbo: the answers of a bookie about ledgers of which it may have lost entries.

A bookie's "no such entry" is evidence: a recovery ends a ledger at an entry that enough bookies
deny. So a bookie that may have lost an entry answers neither yes nor no: *unknown*. Words:

    loss        an event after which data of the bookie may be gone; its *reason* says which event.
                It concerns the ledgers below its *bound*, the cluster's next ledger id when the
                loss was detected: a ledger that was created later cannot have lost anything
    limbo       the state of a ledger that a loss concerns, until it was checked against its peers
    cleared     checked: this bookie has again all entries that it should hold and peers hold

    reason           ledgers         unknown
    ------           -------         -------
    UNCLEAN_STOP     those that      whether missing entries were here: they were acknowledged
                     acknowledge     before an fsync. Fences, keys and the LACs that readers got
                     after a write   were synced, and are here
    WIPED            all             that, and whether a ledger was fenced, and its LAC
    DIRECTORY_LOST   all             the same
    INDEX_LOST       its *scope*:    the same
                     those whose
                     index is gone,
                     and with entry
                     logs those past
                     the journal

The bookie answers for data that it has as usual. It also accepts fences and makes them durable as
usual: from then on it refuses adds of the ledger's writer, which is the whole promise of a fence.

Lost fences are lost forever: a recovery may have counted this bookie as fenced long ago. So a
ledger that such a loss concerned never accepts an ordinary add, cleared or not; a writer that is
still alive uses another bookie. Recovery adds are accepted, because they restore lost entries.

The LAC. The same bookie may report a lower one after a loss than before:

  * A recovery is not harmed. It reads from the LAC that it got, asks for every entry after it, and
    ends at one that enough bookies deny. Confirmed entries are held by an ack quorum, of which the
    bookies in limbo deny nothing. A lower LAC costs reads, not entries.
  * A reader would be harmed. It uses the highest LAC of bookies that cover the ensemble, so a
    "nothing is confirmed" from a bookie that had known better may hide an entry that another reader
    has read. After a loss that may include LACs the bookie therefore never reports a LAC of
    earlier ledgers to readers; readers count it as not heard. (After UNCLEAN_STOP it does:
    readers got only LACs on stable storage.)

Pure and immutable: a thread can read one value while another thread makes the next.

Source: BookKeeper's BP-46 ("Running without the journal") and ``bookie/datainteg``, whose limbo
state is for all ledgers whose last ensemble has the bookie.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol, Self

import msgspec

from zbk.durability.level import level_of
from zbk.protocol.entry.words import LedgerType


class LossReason(Enum):
    """The event that caused a loss."""

    UNCLEAN_STOP = "unclean stop"
    WIPED = "wiped"
    DIRECTORY_LOST = "directory lost"
    INDEX_LOST = "index lost"

    @property
    def has_lost_fences(self) -> bool:
        """True when fences, LACs and keys may be gone as well as entries."""
        return self is not LossReason.UNCLEAN_STOP


class LedgerSet(Protocol):
    """An immutable set of ledger ids."""

    @property
    def ledger_count(self) -> int:
        """The number of ids."""
        ...

    def __contains__(self, ledger_id: int) -> bool:
        """Return whether an id is in the set."""
        ...

    def with_ranges(self, ranges: Iterable[tuple[int, int]]) -> Self:
        """Return the union with ranges, each a first and a last id."""
        ...

    def union(self, other: Any) -> Self:  # noqa: ANN401 - another set of the same kind
        """Return the union with another set."""
        ...

    def without(self, other: Any) -> Self:  # noqa: ANN401 - another set of the same kind
        """Return the ids that are not in another set."""
        ...


class Loss(msgspec.Struct, frozen=True):
    """One loss, and the ledgers that were cleared since."""

    reason: LossReason
    bound: int  # ledgers below it
    cleared: LedgerSet  # ids below the bound
    scope: LedgerSet | None = None  # the ledgers it concerns; None: all below the bound

    @property
    def is_over(self) -> bool:
        """True when every ledger was cleared."""
        if self.scope is not None:
            return not self.scope.without(self.cleared).ledger_count
        return self.cleared.ledger_count == self.bound

    def covers(self, ledger_id: int) -> bool:
        """Return whether the loss concerned a ledger when it was detected."""
        return ledger_id < self.bound and (self.scope is None or ledger_id in self.scope)

    def concerns(self, ledger_id: int, ledger_type: LedgerType | None) -> bool:
        """Return whether a ledger, whose type may be unknown, is in limbo because of this loss."""
        return (
            self.covers(ledger_id)
            and ledger_id not in self.cleared
            and (self.reason.has_lost_fences or ledger_type is None or _is_volatile(ledger_type))
        )

    def with_cleared(self, ranges: Iterable[tuple[int, int]]) -> "Loss":
        """Return the loss with more ledgers cleared."""
        below = [(first, min(last, self.bound - 1)) for first, last in ranges if first < self.bound]
        cleared = self.cleared.with_ranges(below)
        if self.scope is not None:  # others need no record
            cleared = self.scope.without(self.scope.without(cleared))
        return msgspec.structs.replace(self, cleared=cleared)


class Limbo(msgspec.Struct, frozen=True):
    """All losses of a bookie: at most one of each reason, the latest."""

    losses: tuple[Loss, ...] = ()

    def is_miss_unknown(self, ledger_id: int, ledger_type: LedgerType | None) -> bool:
        """Return whether the bookie must not deny this ledger or one of its entries."""
        return any(loss.concerns(ledger_id, ledger_type) for loss in self.losses)

    def may_lack_fence(self, ledger_id: int) -> bool:
        """Return whether a fence and a LAC of this ledger may be lost."""
        return any(loss.covers(ledger_id) for loss in self.losses if loss.reason.has_lost_fences)

    @property
    def reasons(self) -> tuple[LossReason, ...]:
        """The reasons why ledgers are in limbo; empty if none is."""
        return tuple(loss.reason for loss in self.losses if not loss.is_over)

    def with_loss(self, loss: Loss) -> "Limbo":
        """Return the limbo after one more loss, which replaces an earlier one of its reason.

        The bound of the later loss is never lower, and cleared ledgers are in limbo again. If both
        losses have a scope, cleared ledgers outside the later scope stay cleared.
        """
        others = tuple(one for one in self.losses if one.reason is not loss.reason)
        for before in self.losses:
            if before.reason is loss.reason:
                loss = _merged(before, loss)
        return Limbo((*others, loss))

    def with_cleared(self, ranges: Iterable[tuple[int, int]]) -> "Limbo":
        """Return the limbo without these ledgers and without losses that are over.

        A loss of fences is never dropped.
        """
        ranges = list(ranges)
        losses = (loss.with_cleared(ranges) for loss in self.losses)
        return Limbo(tuple(one for one in losses if one.reason.has_lost_fences or not one.is_over))


def _merged(before: Loss, loss: Loss) -> Loss:
    """Return the loss that replaces two losses of one reason."""
    bound = max(before.bound, loss.bound)
    if before.scope is None or loss.scope is None:
        return msgspec.structs.replace(loss, bound=bound, scope=None)
    cleared = before.cleared.without(loss.scope).union(loss.cleared)
    return Loss(loss.reason, bound, cleared, before.scope.union(loss.scope))


def _is_volatile(ledger_type: LedgerType) -> bool:
    return level_of(ledger_type).acknowledges_after == "write"
