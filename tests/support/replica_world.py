"""Bookies and a ledger in memory, a writer that lives or not, and repairs that run among them.

A repair is a ``LedgerRepair`` and the ``FragmentCopy`` it has ordered. One *step* carries out one
effect, or lets one answer arrive: a test, or chance, chooses whose and which. What a bookie holds
is on its disk; nothing here is ever lost but by ``damage`` and ``punch``.

``World`` checks at each change of the metadata that no entry has fewer replicas than before (I26),
and that nothing but what the writer wrote is stored anywhere (I27).
"""

from collections.abc import Callable, Collection, Sequence

import msgspec

from tests.support.recovery_world import DIGEST, LEDGER_ID, encoded, ledger
from zbk.errors import (
    BookieUnavailableError,
    DuplicateEntryError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.changes import change_ensemble, cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.fragment_copy_events import (
    AddAnswered,
    CopyAdvanced,
    CopyEnded,
    CopyLimits,
    CopyStarted,
    HoldingsAnswered,
    ReadAnswered,
    SendAdd,
    SendRead,
)
from zbk.protocol.repair.fragment_copy_events import Effect as CopyEffect
from zbk.protocol.repair.fragment_copy_events import Event as CopyEvent
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.repair_effects import (
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    LedgerRecovered,
    LedgerSeen,
    LookAtLedger,
    RecoverLedger,
    RepairAim,
    RepairEffect,
    RepairLimits,
    RepairResult,
    ReplaceBookie,
    TargetChosen,
    WaitUntil,
)

KEY = b"k" * 16
GRACE_MS = 1_000
LIMITS = CopyLimits(
    window_size=600, read_size=200, read_count_max=2, batch_size_max=200, batch_count_max=3,
    chunk_count_max=4,
)  # fmt: skip
DAMAGE = b"\xff"


class World:
    """One ledger, its bookies, their disks, and the metadata store."""

    def __init__(self, quorum: Quorum, spare_count: int = 2) -> None:
        made = msgspec.structs.replace(ledger(quorum), ledger_key=KEY)
        self.metadata: LedgerMetadata | None = made
        names = made.last_fragment.bookies
        self.disks: dict[str, dict[int, bytes]] = {
            name: {} for name in (*names, *(f"x{n}" for n in range(spare_count)))
        }
        self.up = set(self.disks)
        self.refusing: set[str] = set()  # bookies that answer nobody, though they are registered
        self.in_limbo: set[str] = set()  # bookies that do not deny what they do not have
        self.next_id = 0
        self.now_ms = 0
        self.fragment_changed_ms = 0
        self.fenced_at_ms: int | None = None
        self.is_writer_alive = True

    # -------------------------------------------------------------- what happens to the world

    def append(self, count: int) -> bool:
        """Add entries as the writer; it changes the ensemble where bookies are down."""
        metadata = self.metadata
        if metadata is None or not self.can_write:
            return False
        down = {
            slot: bookie
            for slot, bookie in enumerate(metadata.last_fragment.bookies)
            if not self.answers(bookie)
        }
        if down and not self.change_ensemble(down):
            return False
        assert self.metadata is not None
        for _ in range(count):
            entry_id, self.next_id = self.next_id, self.next_id + 1
            for slot in self.metadata.quorum.write_set(entry_id):
                bookie = self.metadata.last_fragment.bookies[slot]
                self.disks[bookie][entry_id] = encoded(entry_id, entry_id - 1)
        return True

    @property
    def can_write(self) -> bool:
        """True while there is a writer and nobody has fenced it."""
        open_one = self.metadata is not None and not self.metadata.is_closed
        return open_one and self.is_writer_alive and self.fenced_at_ms is None

    def change_ensemble(self, down: dict[int, str]) -> bool:
        """Replace bookies as the writer, from its next entry on."""
        assert self.metadata is not None
        used = set(self.metadata.last_fragment.bookies)
        spare = sorted(b for b in self.up if b not in used and self.answers(b))
        if len(spare) < len(down):
            return False
        replaced = {s: (old, new) for (s, old), new in zip(down.items(), spare, strict=False)}
        changed = change_ensemble(self.metadata, self.next_id, replaced)
        assert changed is not None
        self.set_metadata(changed)
        self.fragment_changed_ms = self.now_ms
        return True

    def close(self) -> None:
        """Close the ledger at its end, as the writer or a recoverer."""
        if self.metadata is not None and not self.metadata.is_closed:
            self.set_metadata(self.metadata.with_closed(self.next_id - 1, 0))

    def answers(self, bookie_id: str) -> bool:
        """Return whether a bookie answers."""
        return bookie_id in self.up and bookie_id not in self.refusing

    def damage(self, bookie_id: str, entry_id: int) -> None:
        """Flip a bit on a disk, of an entry that is due there: a fresh copy is left alone."""
        entry = self.disks[bookie_id].get(entry_id)
        if entry is not None and self.is_due(bookie_id, entry_id):
            self.disks[bookie_id][entry_id] = entry[:-1] + bytes([entry[-1] ^ 1])

    def punch(self, bookie_id: str, entry_id: int) -> None:
        """Lose an entry that is due there: a fresh copy is left alone."""
        if self.is_due(bookie_id, entry_id):
            self.disks[bookie_id].pop(entry_id, None)

    def is_due(self, bookie_id: str, entry_id: int) -> bool:
        """Return whether the metadata name a bookie for an entry."""
        if self.metadata is None:
            return False
        fragment, _ = self.metadata.fragment_of(entry_id)
        slots = self.metadata.quorum.write_set(entry_id)
        return bookie_id in (fragment.bookies[slot] for slot in slots)

    def told(self, bookie_id: str, span: Span) -> Holdings:
        """Return what a bookie says that it holds: two ranges at a time."""
        ranges = held(self.disks[bookie_id], *span)
        last_entry_id = ranges[2][0] - 1 if len(ranges) > 2 else None
        return Holdings(ranges[:2], last_entry_id, bookie_id in self.in_limbo)

    # -------------------------------------------------------------- what must always be

    def good_count(self, metadata: LedgerMetadata, entry_id: int) -> int:
        """Return how many bookies of an entry's write set have it, undamaged, up or not."""
        fragment, _ = metadata.fragment_of(entry_id)
        return sum(
            self.disks[fragment.bookies[slot]].get(entry_id) == original(entry_id)
            for slot in metadata.quorum.write_set(entry_id)
        )

    def set_metadata(self, changed: LedgerMetadata) -> None:
        """Change the metadata; no entry may have fewer replicas than before."""
        assert self.metadata is not None
        for entry_id in range(self.next_id):
            before = self.good_count(self.metadata, entry_id)
            after = self.good_count(changed, entry_id)
            assert after >= before, f"I26: entry {entry_id} had {before} replicas, now {after}"
        self.metadata = changed

    def lacking(self, bookie_ids: Collection[str] | None = None) -> list[tuple[int, str]]:
        """Return which entries are due on which bookies and not there."""
        assert self.metadata is not None
        found = []
        for entry_id in range(self.next_id):
            fragment, _ = self.metadata.fragment_of(entry_id)
            for slot in self.metadata.quorum.write_set(entry_id):
                bookie = fragment.bookies[slot]
                is_meant = bookie_ids is None or bookie in bookie_ids
                if is_meant and entry_id not in self.disks[bookie]:
                    found.append((entry_id, bookie))
        return found


def original(entry_id: int) -> bytes:
    """Return an entry as the writer of a ``World`` encodes it."""
    return encoded(entry_id, entry_id - 1)


class Repair:
    """One repair in a world, and what it waits for."""

    def __init__(
        self,
        world: World,
        aim: RepairAim | None = None,
        *,
        digest: DigestFunction | None = DIGEST,
        choose: Callable[[Sequence[str]], str] = lambda found: found[0],
    ) -> None:
        self.world = world
        self.aim = aim or RepairAim(ledger_id=LEDGER_ID)
        self.digest = digest
        self.choose = choose
        limits = RepairLimits(grace_ms=GRACE_MS, look_count_max=8)
        self.procedure = LedgerRepair(self.aim, limits)
        self.copy: FragmentCopy | None = None
        self.waiting: list[CopyEffect] = []  # requests of the copy, on their way
        self.asked_ms = self.started_ms = world.now_ms
        self.go_on(self.procedure.begin())

    @property
    def is_over(self) -> bool:
        """True when it has ended."""
        return self.procedure.is_over

    @property
    def pending(self) -> RepairEffect | None:
        """The effect that waits for its answer."""
        return self.procedure.effect

    def go_on(self, effect: RepairEffect | None) -> None:
        """Begin with an effect."""
        self.asked_ms = self.world.now_ms
        if isinstance(effect, CopyFragment):
            self.copy = FragmentCopy(effect.order, self.digest, LIMITS)
            self.say_copy(CopyStarted())

    def say_copy(self, event: CopyEvent) -> None:
        """Give the copy one event."""
        assert self.copy is not None
        for effect in self.copy.handle(event, self.world.now_ms):
            match effect:
                case CopyEnded(result):
                    self.copy, self.waiting = None, []
                    self.go_on(self.procedure.answer(result))
                case CopyAdvanced():
                    continue
                case _:
                    self.waiting.append(effect)

    def step(self, index: int = 0, *, is_lost: bool = False) -> None:
        """Carry out what the repair waits for; of the copy's requests the one at ``index``."""
        if self.copy is not None:
            wanted = self.waiting.pop(index % len(self.waiting))
            self.say_copy(self._answer(wanted, is_lost=is_lost))
        elif self.pending is not None:
            self.go_on(self.procedure.answer(self._outcome(self.pending, is_lost=is_lost)))

    def run(self) -> RepairResult:
        """Step to the end, in the plainest order, letting time pass."""
        for _ in range(10_000):
            if self.is_over:
                return self.procedure.result
            if isinstance(self.pending, WaitUntil):
                self.world.now_ms = max(self.world.now_ms, self.pending.until_ms)
            self.step()
        raise AssertionError("the repair does not end")

    # -------------------------------------------------------------- the repair's effects

    def _outcome(self, effect: RepairEffect, *, is_lost: bool) -> object:
        try:
            return self._carry_out(effect, is_lost=is_lost)
        except ZbkError as error:
            return error

    def _carry_out(self, effect: RepairEffect, *, is_lost: bool) -> object:  # noqa: PLR0911 - a case an effect
        world = self.world
        if world.metadata is None and not isinstance(
            effect, AskHoldings | ChooseTarget | WaitUntil
        ):
            raise NoSuchLedgerError(LEDGER_ID)
        match effect:
            case WaitUntil():
                return world.now_ms
            case LookAtLedger():
                assert world.metadata is not None
                up = frozenset(world.up)
                return LedgerSeen(world.metadata, up, self.asked_ms, world.now_ms)
            case AskHoldings(bookie_id, span):
                if is_lost or not world.answers(bookie_id):
                    raise BookieUnavailableError(bookie_id, "silent")
                return world.told(bookie_id, span)
            case ChooseTarget(ensemble, _slot, exclude):
                free = sorted(b for b in world.up if b not in {*ensemble, *exclude})
                return TargetChosen(self.choose(free) if free else None)
            case ReplaceBookie():
                return self._replace(effect, is_lost=is_lost)
            case CutFragment():
                return self._cut(effect, is_lost=is_lost)
            case RecoverLedger(fragment):
                return self._recover(fragment, is_lost=is_lost)
            case _:
                raise AssertionError(f"no answer to {effect}")

    def _replace(self, wanted: ReplaceBookie, *, is_lost: bool) -> BookieReplaced:
        world = self.world
        assert world.metadata is not None
        changed = replace_bookie(
            world.metadata, wanted.first_entry_id, wanted.slot, wanted.old, wanted.new
        )
        if changed is not None:
            world.set_metadata(changed)
        if is_lost:  # the change was made, and nobody heard of it
            raise BookieUnavailableError("store", "reply lost")
        return BookieReplaced(world.metadata, changed is not None)

    def _cut(self, wanted: CutFragment, *, is_lost: bool) -> LedgerMetadata:
        world = self.world
        assert world.metadata is not None
        changed = cut_fragment(world.metadata, wanted.first_entry_id, wanted.starts)
        if changed is not None:
            world.set_metadata(changed)
        if is_lost:
            raise BookieUnavailableError("store", "reply lost")
        return world.metadata

    def _recover(self, fragment: Fragment, *, is_lost: bool) -> LedgerRecovered:
        world = self.world
        assert world.metadata is not None
        if world.metadata.is_closed or world.metadata.last_fragment != fragment:
            return LedgerRecovered(is_ours=False)
        waited_ms = world.now_ms - max(world.fragment_changed_ms, self.started_ms)
        assert waited_ms >= GRACE_MS, f"a writer is fenced after {waited_ms} ms"
        world.fenced_at_ms = world.now_ms
        if is_lost:
            raise NotEnoughBookiesError(2, 1, "to recover")
        world.close()
        return LedgerRecovered()

    # -------------------------------------------------------------- the copy's requests

    def _answer(self, wanted: CopyEffect, *, is_lost: bool) -> CopyEvent:
        world = self.world
        assert isinstance(wanted, SendRead | SendAdd | AskHoldings)
        error: ZbkError = BookieUnavailableError(wanted.bookie_id, "silent")
        is_silent = is_lost or not world.answers(wanted.bookie_id)
        match wanted:
            case SendRead(request_id, bookie_id, entry_ids):
                body = error if is_silent else self._read(bookie_id, entry_ids)
                return ReadAnswered(request_id, body)
            case SendAdd(request_id):
                refusal = None if is_silent and not is_lost else self._add(wanted)
                return AddAnswered(request_id, refusal or error if is_silent else refusal)
            case AskHoldings(bookie_id, (first, _last)):
                told = Holdings(held(world.disks[bookie_id], first, world.next_id))
                return HoldingsAnswered(error if is_silent else told)

    def _read(self, bookie_id: str, entry_ids: Sequence[int]) -> bytes | ZbkError:
        disk = self.world.disks[bookie_id]
        if entry_ids[0] not in disk and bookie_id in self.world.in_limbo:
            return UnknownLedgerStateError(LEDGER_ID, bookie_id)
        if entry_ids[0] not in disk:
            return NoSuchEntryError(LEDGER_ID, entry_ids[0])
        if disk[entry_ids[0]] == DAMAGE:
            return EntryUnreadableError(LEDGER_ID, entry_ids[0], "bad sector")
        found: list[bytes] = []
        for entry_id in entry_ids[:3]:
            if disk.get(entry_id, DAMAGE) == DAMAGE:
                break
            found.append(disk[entry_id])
        return b"".join(found)

    def _add(self, wanted: SendAdd) -> ZbkError | None:
        disk = self.world.disks[wanted.bookie_id]
        start = 0
        for entry_id, size in zip(wanted.batch.entry_ids, wanted.batch.sizes, strict=True):
            entry = wanted.batch.body[start : start + size]
            start += size
            if self.digest is not None:
                assert entry == original(entry_id), f"I27: a wrong entry {entry_id} is copied"
            if disk.get(entry_id) == DAMAGE:
                del disk[entry_id]  # a bookie replaces what it cannot read
            if disk.setdefault(entry_id, entry) != entry:
                return DuplicateEntryError(LEDGER_ID, entry_id)
        return None


def held(disk: Collection[int], first: int, last: int) -> tuple[Span, ...]:
    """Return what a disk holds of a span, as ranges."""
    ranges: list[Span] = []
    for entry_id in sorted(e for e in disk if first <= e <= last):
        if ranges and ranges[-1][1] == entry_id - 1:
            ranges[-1] = (ranges[-1][0], entry_id)
        else:
            ranges.append((entry_id, entry_id))
    return tuple(ranges)
