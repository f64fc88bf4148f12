"""What ``striped_search`` puts together: a striped VD ledger, its writer, and exact bookies.

A bookie has entries in its page cache and on its disk. A loss of power takes the first and leaves
the second. Real are ``WriterCore``, ``BookieLedger`` with its cursor, ``CatchUp``, ``SyncedLac``
and the changes of the metadata.
"""

from typing import Final, NamedTuple, TypeAlias

from tests.simulation.small_scope import DIGEST, KEY, LEDGER_ID
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import level_of
from zbk.durability.synced_run import SyncedRun, runs_of
from zbk.protocol.entry.digest import password_digest
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.write import events as ev
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

VD: Final = LedgerType.VD_JOURNAL
LIMITS: Final = WriterLimits(batch_count_max=1, explicit_lac_ms=0)
BOOKIES: Final = ("a", "b", "c", "d", "e", "f")


class VolatileBookie:
    """One ledger at one bookie: the real rules, and what is stored."""

    def __init__(self, incarnation: int = 1, durable: frozenset[int] = frozenset()) -> None:
        self.incarnation = incarnation
        self.ledger = BookieLedger(LEDGER_ID)
        self.durable = durable
        self.stored = durable
        self.waiting: tuple[SyncedRun, ...] = ()  # for an fsync

    def after_power_loss(self) -> "VolatileBookie":
        """Return it as it starts again."""
        return VolatileBookie(self.incarnation + 1, self.durable)

    def fsync(self) -> None:
        """Put all that is stored on stable storage."""
        self.durable = self.stored
        for run in self.waiting:
            self.ledger.synced(run)
        self.waiting = ()

    def add(self, slot: int, epoch: int, batch: EntryBatch, lac: int, quorum: Quorum) -> object:
        """Store a batch; return the event of the answer."""
        stripe = Stripe(quorum.ensemble_size, quorum.write_size, slot)
        self.ledger.admit_add(KEY, VD, is_recovery=False)
        self._follow(stripe)
        self.ledger.added(lac)
        self.stored = self.stored.union(batch.entry_ids)
        self.waiting += tuple(runs_of(batch, stripe))
        last_add_synced = self.ledger.last_add_synced_of(stripe)
        first = batch.first_entry_id
        return ev.AddAnswered(slot, first, self.incarnation, last_add_synced, epoch)

    def sync(self, slot: int, lac: int, quorum: Quorum) -> int:
        """Sync; return the cursor."""
        stripe = Stripe(quorum.ensemble_size, quorum.write_size, slot)
        self.ledger.admit_lac(KEY, VD)
        self.ledger.added(lac)
        self._follow(stripe)
        self.fsync()
        return self.ledger.last_add_synced_of(stripe)

    def _follow(self, stripe: Stripe) -> None:
        if self.ledger.stripe == stripe:
            return
        place = stripe.place(self.ledger.lac + 1)
        while not self.waiting and stripe.entry_id(place) in self.durable:
            place += 1
        last = stripe.entry_id(place - 1) if place else NO_ENTRY
        self.ledger.follow(stripe, max(last, self.ledger.lac))


class ToBookie(NamedTuple):
    """A request of the writer on its way."""

    slot: int
    epoch: int
    batch: EntryBatch | None  # ``None``: a sync
    sync_id: int
    lac: int


Answer: TypeAlias = ev.AddAnswered | ev.SyncAnswered


def answer_of(bookie: VolatileBookie, request: ToBookie, quorum: Quorum) -> object:
    """Carry out a request; return the event of its answer."""
    slot, epoch = request.slot, request.epoch
    if request.batch is not None:
        return bookie.add(slot, epoch, request.batch, request.lac, quorum)
    last_add_synced = bookie.sync(slot, request.lac, quorum)
    return ev.SyncAnswered(slot, request.sync_id, bookie.incarnation, last_add_synced, epoch)


def new_core(quorum: Quorum) -> WriterCore:
    """Return the writer of an empty ledger."""
    return WriterCore(
        LEDGER_ID,
        quorum,
        level_of(VD),
        ensemble=BOOKIES[: quorum.ensemble_size],
        digest_type=DigestType.XXH3,
        digest=DIGEST,
        limits=LIMITS,
    )


def new_ledger(quorum: Quorum) -> LedgerMetadata:
    """Return the metadata of an empty ledger."""
    return LedgerMetadata(
        ledger_id=LEDGER_ID,
        ensemble_size=quorum.ensemble_size,
        write_quorum_size=quorum.write_size,
        ack_quorum_size=quorum.ack_size,
        ledger_type=VD,
        digest_type=DigestType.XXH3,
        password_digest=password_digest(b"", LEDGER_ID),
        fragments=(Fragment(0, BOOKIES[: quorum.ensemble_size]),),
        created_ms=0,
        creation_token="t",
    )
