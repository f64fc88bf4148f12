"""One copy of a fragment in a world of disks in memory, and the orders for it."""

from collections.abc import Sequence
from itertools import takewhile

from tests.support.recovery_world import DIGEST, LEDGER_ID
from tests.support.replica_world import LIMITS, World, held
from zbk.errors import (
    BookieUnavailableError,
    EntryUnreadableError,
    NoSuchEntryError,
    UnknownLedgerStateError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.fragment_copy_events import (
    AddAnswered,
    CopyAdvanced,
    CopyEnded,
    CopyResult,
    CopyStarted,
    Effect,
    Event,
    HoldingsAnswered,
    ReadAnswered,
    SendAdd,
    SendRead,
)
from zbk.protocol.repair.holdings import AskHoldings, Holdings


class Copy:
    """One copy from the disks of a world, all of which answer at once."""

    def __init__(
        self, world: World, order: CopyOrder, digest: DigestFunction | None = DIGEST
    ) -> None:
        self.world = world
        self.core = FragmentCopy(order, digest, LIMITS)
        self.sent: list[Effect] = []
        self.waiting: list[Effect] = []
        self.result: CopyResult | None = None
        self.silent: set[str] = set()
        self.lies: tuple[Span, ...] | None = None  # what the target says that it holds
        self.forged: bytes | None = None  # what the target gives back
        self.rotten: set[tuple[str, int]] = set()  # replicas whose bookie finds them damaged
        self.say(CopyStarted())

    def say(self, event: Event) -> None:
        for effect in self.core.handle(event, 0):
            self.sent.append(effect)
            match effect:
                case CopyEnded(result):
                    self.result = result
                case CopyAdvanced():
                    continue
                case _:
                    self.waiting.append(effect)

    def run(self) -> CopyResult:
        while self.result is None:
            self.say(self.answer(self.waiting.pop(0)))
        return self.result

    def answer(self, wanted: Effect) -> Event:
        assert isinstance(wanted, SendRead | SendAdd | AskHoldings)
        error = BookieUnavailableError(wanted.bookie_id, "silent")
        is_silent = wanted.bookie_id in self.silent
        match wanted:
            case SendRead(request_id, bookie_id, entry_ids):
                if is_silent:
                    return ReadAnswered(request_id, error)
                if wanted.is_checked and (bookie_id, entry_ids[0]) in self.rotten:
                    rotten = EntryUnreadableError(LEDGER_ID, entry_ids[0], "its block is damaged")
                    return ReadAnswered(request_id, rotten)
                return self.read(request_id, bookie_id, entry_ids, is_checked=wanted.is_checked)
            case SendAdd(request_id, bookie_id, batch):
                if is_silent:
                    return AddAnswered(request_id, error)
                batch.validate()
                batch.verify()
                self.world.disks[bookie_id].update(parts(batch))
                return AddAnswered(request_id)
            case AskHoldings(bookie_id, (first_entry_id, _)):
                told = held(self.world.disks[bookie_id], first_entry_id, 10_000)
                return HoldingsAnswered(Holdings(told if self.lies is None else self.lies))

    def read(
        self, request_id: int, bookie_id: str, entry_ids: Sequence[int], *, is_checked: bool
    ) -> Event:
        disk = self.world.disks[bookie_id]
        if self.forged is not None and bookie_id == "x0":
            return ReadAnswered(request_id, self.forged)
        rotten = {one for bookie, one in self.rotten if is_checked and bookie == bookie_id}
        found = list(
            takewhile(lambda entry_id: entry_id in disk and entry_id not in rotten, entry_ids[:3])
        )
        if not found and bookie_id in self.world.in_limbo:
            return ReadAnswered(request_id, UnknownLedgerStateError(LEDGER_ID, bookie_id))
        if not found:
            return ReadAnswered(request_id, NoSuchEntryError(LEDGER_ID, entry_ids[0]))
        return ReadAnswered(request_id, b"".join(disk[entry_id] for entry_id in found))

    def batches(self) -> list[EntryBatch]:
        return [effect.batch for effect in self.sent if isinstance(effect, SendAdd)]


def parts(batch: EntryBatch) -> dict[int, bytes]:
    """Return each entry of a batch as it is on the wire."""
    found, start = {}, 0
    for entry_id, size in zip(batch.entry_ids, batch.sizes, strict=True):
        found[entry_id] = batch.body[start : start + size]
        start += size
    return found


def closed(quorum: Quorum, count: int) -> World:
    """Return a world whose ledger has so many entries and is closed."""
    world = World(quorum)
    world.append(count)
    world.close()
    return world


def order(world: World, *spans: Span, target: str = "x0", slot: int = 0) -> CopyOrder:
    """Return the order to copy a slot of the last fragment, all of it unless spans are given."""
    assert world.metadata is not None
    metadata = world.metadata
    sources = tuple(s for s in range(metadata.ensemble_size) if s != slot)
    return CopyOrder(
        metadata=metadata, fragment=metadata.last_fragment, slot=slot, target=target,
        spans=spans or ((0, world.next_id - 1),), sources=sources, lac=world.next_id - 1,
    )  # fmt: skip
