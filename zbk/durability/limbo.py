"""What a bookie that may have lost something says of the ledgers that it may have lost it of.

A bookie's "no such entry" is evidence: a recovery ends a ledger at an entry that enough bookies
deny. So whoever may have had an entry and lost it says neither yes nor no: *unknown*. Words:

    loss        something happened after which what the bookie knew may be gone; its *reason* says
                what. It concerns the ledgers below its *bound*, the cluster's next ledger id when
                the loss was found: a ledger that was made later cannot have lost anything
    limbo       where a ledger is that a loss concerns, until it was checked against its peers
    cleared     checked: what peers hold and this bookie should hold is here again

    reason           ledgers         what is unknown
    ------           -------         ---------------
    UNCLEAN_STOP     those that      whether entries were here that are not: they were acknowledged
                     acknowledge     before an fsync. Fences, keys and the LACs that readers were
                     after a write   told were synced, and are here
    WIPED            all             that, and whether a ledger was fenced, and how far it was
    DIRECTORY_LOST   all             confirmed
    INDEX_LOST       its *scope*:    the same
                     those whose
                     index is gone

What is here is answered as ever, and a fence is put on and made durable as ever: from then on this
bookie takes no add of the ledger's writer, which is all that a fence promises.

Lost fences are lost for good: a recovery may have counted this bookie as fenced long ago. So no
ordinary add is ever taken for a ledger that such a loss concerned, cleared or not; a writer that is
still there takes another bookie. Recovery adds are taken: they bring back what was lost.

The LAC. The same bookie may tell a lower one after a loss than before:

  * To a recovery that does no harm. It reads from the LAC that it heard on, asks for every entry
    behind it, and ends at one that enough bookies deny; what was confirmed is held by an ack
    quorum, of which those in limbo deny nothing. A lower LAC costs reads, not entries.
  * To a reader it would: it takes the highest LAC of bookies that cover the ensemble, so that
    "nothing is confirmed" from one that had known better may hide what another reader has read.
    After a loss that may include LACs the bookie therefore tells readers none, ever, of ledgers
    of before; to a reader that is a bookie that it did not hear. (After UNCLEAN_STOP it tells
    them: readers were only told what was on stable storage.)

Pure; values that never change, so that any thread may ask one while another makes the next.

Source: BookKeeper's BP-46 ("Running without the journal") and ``bookie/datainteg``: its limbo
state, there for all ledgers whose last ensemble has the bookie.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol, Self

import msgspec

from zbk.durability.level import level_of
from zbk.protocol.entry.words import LedgerType


class LossReason(Enum):
    """What happened."""

    UNCLEAN_STOP = "unclean stop"
    WIPED = "wiped"
    DIRECTORY_LOST = "directory lost"
    INDEX_LOST = "index lost"

    @property
    def has_lost_fences(self) -> bool:
        """True when more than entries may be gone: fences, LACs, keys."""
        return self is not LossReason.UNCLEAN_STOP


class LedgerSet(Protocol):
    """Ledger ids; a value."""

    @property
    def ledger_count(self) -> int:
        """How many ids there are."""
        ...

    def __contains__(self, ledger_id: int) -> bool:
        """Return whether an id is there."""
        ...

    def with_ranges(self, ranges: Iterable[tuple[int, int]]) -> Self:
        """Return these ids and those of ranges, each of a first and a last id."""
        ...

    def union(self, other: Any) -> Self:  # noqa: ANN401 - another set of the same kind
        """Return these ids and those of another set."""
        ...

    def without(self, other: Any) -> Self:  # noqa: ANN401 - another set of the same kind
        """Return the ids that are here and not there."""
        ...


class Loss(msgspec.Struct, frozen=True):
    """One loss, and what was cleared since."""

    reason: LossReason
    bound: int  # ledgers below it
    cleared: LedgerSet  # ids below the bound
    scope: LedgerSet | None = None  # it concerns these only; None: all below the bound

    @property
    def is_over(self) -> bool:
        """True when every ledger was cleared."""
        if self.scope is not None:
            return not self.scope.without(self.cleared).ledger_count
        return self.cleared.ledger_count == self.bound

    def covers(self, ledger_id: int) -> bool:
        """Return whether a ledger was concerned when the loss was found."""
        return ledger_id < self.bound and (self.scope is None or ledger_id in self.scope)

    def concerns(self, ledger_id: int, ledger_type: LedgerType | None) -> bool:
        """Return whether a ledger, of a type that may not be known, is in limbo because of it."""
        return (
            self.covers(ledger_id)
            and ledger_id not in self.cleared
            and (self.reason.has_lost_fences or ledger_type is None or _is_volatile(ledger_type))
        )

    def with_cleared(self, ranges: Iterable[tuple[int, int]]) -> "Loss":
        """Return the loss with more ledgers cleared."""
        below = [(first, min(last, self.bound - 1)) for first, last in ranges if first < self.bound]
        cleared = self.cleared.with_ranges(below)
        if self.scope is not None:  # of others nothing need be kept
            cleared = self.scope.without(self.scope.without(cleared))
        return msgspec.structs.replace(self, cleared=cleared)


class Limbo(msgspec.Struct, frozen=True):
    """All losses of a bookie: at most one of each reason, the latest one."""

    losses: tuple[Loss, ...] = ()

    def is_miss_unknown(self, ledger_id: int, ledger_type: LedgerType | None) -> bool:
        """Return whether "it is not here" must not be said of this ledger and its entries."""
        return any(loss.concerns(ledger_id, ledger_type) for loss in self.losses)

    def may_lack_fence(self, ledger_id: int) -> bool:
        """Return whether this ledger may have been fenced here, and confirmed, unknown to us."""
        return any(loss.covers(ledger_id) for loss in self.losses if loss.reason.has_lost_fences)

    @property
    def reasons(self) -> tuple[LossReason, ...]:
        """Why ledgers are in limbo; empty when none is."""
        return tuple(loss.reason for loss in self.losses if not loss.is_over)

    def with_loss(self, loss: Loss) -> "Limbo":
        """Return the limbo after one more loss: it stands for an earlier one of its reason, too.

        The bound of the later one is never lower, and nothing that was cleared is so any more. Of
        losses that concern some ledgers only, those stay cleared that the later one spares.
        """
        others = tuple(one for one in self.losses if one.reason is not loss.reason)
        for before in self.losses:
            if before.reason is loss.reason:
                loss = _merged(before, loss)
        return Limbo((*others, loss))

    def with_cleared(self, ranges: Iterable[tuple[int, int]]) -> "Limbo":
        """Return the limbo without these ledgers; a loss that is over and can be forgotten goes.

        One after which fences may be missing is never forgotten.
        """
        ranges = list(ranges)
        losses = (loss.with_cleared(ranges) for loss in self.losses)
        return Limbo(tuple(one for one in losses if one.reason.has_lost_fences or not one.is_over))


def _merged(before: Loss, loss: Loss) -> Loss:
    """Return what stands for two losses of one reason."""
    bound = max(before.bound, loss.bound)
    if before.scope is None or loss.scope is None:
        return msgspec.structs.replace(loss, bound=bound, scope=None)
    cleared = before.cleared.without(loss.scope).union(loss.cleared)
    return Loss(loss.reason, bound, cleared, before.scope.union(loss.scope))


def _is_volatile(ledger_type: LedgerType) -> bool:
    return level_of(ledger_type).acknowledges_after == "write"
