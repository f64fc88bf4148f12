"""Repairs that run in a ``World`` of replicas, one step at a time.

A repair is a ``LedgerRepair`` and the ``FragmentCopy`` it has ordered. One *step* carries out one
effect, or lets one answer arrive: a test, or chance, chooses whose and which.

``Repair`` checks at each add that nothing but what the writer wrote is stored anywhere (I27).
"""

from collections.abc import Callable, Sequence

from tests.support.recovery_world import DIGEST, LEDGER_ID
from tests.support.replica_world import DAMAGE, GRACE_MS, LIMITS, World, held, original
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
from zbk.protocol.ledger.changes import cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.fragment_copy_events import (
    AddAnswered,
    CopyAdvanced,
    CopyEnded,
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
