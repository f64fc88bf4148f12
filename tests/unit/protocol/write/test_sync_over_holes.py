"""Sync of a VD ledger whose bookies each miss other entries: rounds lift the LAC over holes."""

import pytest

from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import level_of
from zbk.durability.synced_run import SyncedRun
from zbk.errors import BookieUnavailableError, CannotAdvanceError, NotEnoughBookiesError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import (
    AddAnswered,
    Append,
    ChangeEnsemble,
    CloseLedger,
    CloseRequested,
    Effect,
    EnsembleChangeFailed,
    LacTaken,
    SendAdd,
    SendLac,
    SendSync,
    SlotDown,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncFailedFor,
    SyncRequested,
    Tick,
)
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

KEY = bytes(16)
LIMITS = WriterLimits()
LOST = BookieUnavailableError("c", "its connection was lost")


class Bookies:
    """Three bookies that sync only when asked; each loses the entries it is told to lose."""

    def __init__(self, losses: dict[int, set[int]]) -> None:
        self.losses = losses
        self.ledgers = [
            BookieLedger(7, ledger_key=KEY, ledger_type=LedgerType.VD_JOURNAL) for _ in range(3)
        ]
        self.held: list[list[int]] = [[], [], []]
        self.round_count = 0
        self.incarnations = [1, 1, 1]

    def settle(self, core: WriterCore, effects: list[Effect], now_ms: int = 0) -> list[Effect]:
        """Answer everything, and what comes of that; return what is told to the application."""
        told: list[Effect] = []
        while effects:
            effect = effects.pop(0)
            answer = self.answer(effect)
            if answer is not None:
                effects += core.handle(answer, now_ms)
            elif isinstance(effect, SyncDone | SyncFailedFor | CloseLedger):
                told.append(effect)
        return told

    def answer(
        self, effect: Effect
    ) -> AddAnswered | SyncAnswered | LacTaken | EnsembleChangeFailed | None:
        match effect:
            case ChangeEnsemble(change_id=change_id):
                return EnsembleChangeFailed(change_id, NotEnoughBookiesError(1, 0, "no spare"))
            case SendLac(slot=slot, lac=lac):
                return LacTaken(slot, lac, effect.epoch)
            case SendAdd(slot=slot, batch=batch):
                if batch.first_entry_id in self.losses.get(slot, ()):
                    return None
                self.held[slot].append(batch.first_entry_id)
                las = self.ledgers[slot].last_add_synced
                return AddAnswered(slot, batch.first_entry_id, self.incarnations[slot], las)
            case SendSync(slot=slot, sync_id=sync_id, lac=lac):
                self.round_count = max(self.round_count, sync_id + 1)
                ledger = self.ledgers[slot]
                ledger.added(lac)
                for entry_id in self.held[slot]:
                    ledger.synced(SyncedRun(entry_id, entry_id))
                return SyncAnswered(slot, sync_id, self.incarnations[slot], ledger.last_add_synced)
        return None


class LosesOne(list[int]):
    """The entries of a bookie that loses one of them each time it is sent."""

    def __init__(self, lost_id: int, held: list[int]) -> None:
        super().__init__(entry_id for entry_id in held if entry_id != lost_id)
        self.lost_id = lost_id
        self.lost_count = 0

    def append(self, entry_id: int) -> None:
        if entry_id == self.lost_id:
            self.lost_count += 1
        else:
            super().append(entry_id)


def writer_of(losses: dict[int, set[int]]) -> tuple[WriterCore, Bookies]:
    """Return a writer of eight entries, all acknowledged and none synced, and its bookies."""
    core = WriterCore(
        7,
        Quorum(3, 3, 2),
        level_of(LedgerType.VD_JOURNAL),
        ensemble=("a", "b", "c"),
        digest_type=DigestType.XXH3,
        digest=digest_function(DigestType.XXH3, b"", 7),
    )
    bookies = Bookies(losses)
    for slot in range(3):
        core.handle(SlotUp(slot, 1), 0)
    for number in range(8):
        bookies.settle(core, core.handle(Append(number, [b"x"]), 0))
    assert core.path.last_acked_id == 7
    assert core.path.lac == -1
    return core, bookies


def test_disjoint_holes_at_every_bookie_do_not_stop_the_lac() -> None:
    core, bookies = writer_of({0: {1}, 1: {3}, 2: {5}})

    done = bookies.settle(core, core.handle(SyncRequested("mine"), 0))

    assert done == [SyncDone("mine", 7)]
    assert bookies.round_count > 1


@pytest.mark.parametrize("is_closing", [False, True])
def test_a_bookie_that_is_just_coming_back_is_waited_for_though_the_others_have_answered(
    *, is_closing: bool
) -> None:
    """Each of them misses something that it has. A close cut off what all three held together."""
    core, bookies = writer_of({0: {1}, 1: {3}, 2: {5}})
    bookies.settle(core, core.handle(SlotDown(2, LOST), 0))

    wanted = (
        CloseRequested("mine", 2 * LIMITS.quorum_grace_ms) if is_closing else SyncRequested("mine")
    )
    assert bookies.settle(core, core.handle(wanted, 0)) == []
    assert core.path.lac == 0, "what both of the others have"
    now_ms = LIMITS.quorum_grace_ms - 1
    assert bookies.settle(core, core.handle(Tick(), now_ms), now_ms) == []

    bookies.incarnations[2] = 2
    done = bookies.settle(core, core.handle(SlotUp(2, 2), now_ms), now_ms)
    if is_closing:
        done += core.handle(Tick(), LIMITS.quorum_grace_ms + LIMITS.close_linger_ms)
        (end,) = done
        assert isinstance(end, CloseLedger)
        assert (end.last_entry_id, end.length) == (7, 8)
        assert end.missing == {"a": ((1, 1),), "b": ((3, 3),), "c": ((5, 5),)}
    else:
        assert done == [SyncDone("mine", 7)]


def test_a_bookie_that_lacks_what_it_answered_is_sent_it_again_and_synced_after() -> None:
    core, bookies = writer_of({})
    for slot in (1, 2):
        bookies.held[slot].remove(4)  # it answered the entry, and has it no more

    done = bookies.settle(core, core.handle(SyncRequested("mine"), 0))

    assert done == [SyncDone("mine", 7)]
    assert bookies.round_count == 1
    assert all(set(held) == set(range(8)) for held in bookies.held)


def test_a_bookie_whose_cursor_stays_is_not_sent_the_same_again_and_again() -> None:
    core, bookies = writer_of({})
    for slot in (1, 2):
        bookies.held[slot] = LosesOne(4, bookies.held[slot])

    for number in range(3):
        done = bookies.settle(core, core.handle(SyncRequested(number), 0))
        assert [type(one) for one in done] == [SyncFailedFor]

    sent_count = sum(held.lost_count for held in bookies.held if isinstance(held, LosesOne))
    assert core.path.lac == 3
    assert sent_count == 2, "once to each"


def test_a_bookie_that_does_not_come_back_is_waited_for_as_long_as_the_grace_lasts() -> None:
    core, bookies = writer_of({0: {1}, 1: {3}, 2: {5}})
    bookies.settle(core, core.handle(SlotDown(2, LOST), 0))
    bookies.settle(core, core.handle(SyncRequested("mine"), 0))

    now_ms = LIMITS.quorum_grace_ms
    (failed,) = bookies.settle(core, core.handle(Tick(), now_ms), now_ms)

    assert isinstance(failed, SyncFailedFor)
    assert isinstance(failed.error, CannotAdvanceError)
    assert "2 of 3 bookies synced; slot 2 (c): " in str(failed.error)
