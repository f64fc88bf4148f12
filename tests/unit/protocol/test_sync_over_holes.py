"""Sync of a VD ledger whose bookies each miss other entries: rounds lift the LAC over holes."""

from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import level_of
from zbk.protocol.digest import digest_function
from zbk.protocol.quorum import Quorum
from zbk.protocol.words import DigestType, LedgerType
from zbk.protocol.writer import WriterCore
from zbk.protocol.writer_events import (
    AddAnswered,
    Append,
    Effect,
    SendAdd,
    SendSync,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncRequested,
)

KEY = bytes(16)


class Bookies:
    """Three bookies that sync only when asked; each loses the entries it is told to lose."""

    def __init__(self, losses: dict[int, set[int]]) -> None:
        self.losses = losses
        self.ledgers = [
            BookieLedger(7, ledger_key=KEY, ledger_type=LedgerType.VD_JOURNAL) for _ in range(3)
        ]
        self.held: list[list[int]] = [[], [], []]
        self.round_count = 0

    def answer(self, effect: Effect) -> AddAnswered | SyncAnswered | None:
        match effect:
            case SendAdd(slot=slot, batch=batch):
                if batch.first_entry_id in self.losses.get(slot, ()):
                    return None
                self.held[slot].append(batch.first_entry_id)
                las = self.ledgers[slot].last_add_synced
                return AddAnswered(slot, batch.first_entry_id, 1, las)
            case SendSync(slot=slot, sync_id=sync_id, lac=lac):
                self.round_count = max(self.round_count, sync_id + 1)
                ledger = self.ledgers[slot]
                ledger.added(lac)
                for entry_id in self.held[slot]:
                    ledger.synced(entry_id, entry_id)
                return SyncAnswered(slot, sync_id, 1, ledger.last_add_synced)
        return None


def test_disjoint_holes_at_every_bookie_do_not_stop_the_lac() -> None:
    digest = digest_function(DigestType.XXH3, b"", 7)
    core = WriterCore(
        7,
        Quorum(3, 3, 2),
        level_of(LedgerType.VD_JOURNAL),
        ensemble=("a", "b", "c"),
        digest_type=DigestType.XXH3,
        digest=digest,
    )
    bookies = Bookies({0: {1}, 1: {3}, 2: {5}})
    for slot in range(3):
        core.handle(SlotUp(slot, 1), 0)
    for number in range(8):
        for effect in core.handle(Append(number, [b"x"]), 0):
            answer = bookies.answer(effect)
            if answer is not None:
                core.handle(answer, 0)
    assert core.last_acked_id == 7
    assert core.lac == -1

    todo = core.handle(SyncRequested("mine"), 0)
    done = []
    while todo:
        effect = todo.pop(0)
        answer = bookies.answer(effect)
        if answer is not None:
            todo += core.handle(answer, 0)
        elif isinstance(effect, SyncDone):
            done.append(effect)

    assert done == [SyncDone("mine", 7)]
    assert bookies.round_count > 1
