"""Ensemble changes of striped VD ledgers, with cursors that count what is due at a slot."""

from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.level import level_of
from zbk.durability.synced_run import runs_of
from zbk.errors import BookieUnavailableError, NoSuchLedgerError
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
    EnsembleChanged,
    Event,
    LacTaken,
    ReportMissing,
    SendAdd,
    SendLac,
    SendSync,
    SlotDown,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncFailed,
    SyncRequested,
    Tick,
)
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

LEDGER_ID = 7
LOST = BookieUnavailableError("b", "lost")
MASTER_KEY = bytes(16)


class StripedWriter:
    """A writer whose bookies answer at once, and know a ledger from the first add or LAC on."""

    def __init__(self, quorum: Quorum, *bookies: str, limits: WriterLimits | None = None) -> None:
        self.core = WriterCore(
            LEDGER_ID,
            quorum,
            level_of(LedgerType.VD_JOURNAL),
            ensemble=bookies,
            digest_type=DigestType.XXH3,
            digest=digest_function(DigestType.XXH3, b"", LEDGER_ID),
            limits=limits,
        )
        self.now_ms = 0
        self.ledgers: dict[str, BookieLedger] = {}
        self.silent: set[str] = set()  # bookies that answer nothing
        for slot in range(len(bookies)):
            self.do(SlotUp(slot, 1))

    def do(self, event: Event) -> list[Effect]:
        """Handle an event and the answers of bookies; return all effects."""
        effects = self.core.handle(event, self.now_ms)
        for effect in effects:  # grows on the way
            if isinstance(effect, SendAdd | SendSync | SendLac):
                bookie_id = self.core.slots.bookies[effect.slot]
                if bookie_id not in self.silent:
                    effects += self.core.handle(self._answer(bookie_id, effect), self.now_ms)
        return effects

    def wait(self, ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for _ in range(0, ms, 100):
            self.now_ms += 100
            effects += self.do(Tick())
        return effects

    def replace(self, slot: int, bookie_id: str, first_entry_id: int | None = None) -> list[Effect]:
        """Lose the bookie in a slot; another one is in the metadata from an entry on."""
        effects = [*self.do(SlotDown(slot, LOST)), *self.wait(1_000)]
        (change,) = [one for one in effects if isinstance(one, ChangeEnsemble)]
        bookies = list(self.core.slots.bookies)
        bookies[slot] = bookie_id
        first = change.first_entry_id if first_entry_id is None else first_entry_id
        return self.do(EnsembleChanged(change.change_id, first, tuple(bookies)))

    def _answer(self, bookie_id: str, request: SendAdd | SendSync | SendLac) -> Event:
        slot, stripe = request.slot, self.core.stripes[request.slot]
        assert stripe is not None, "the ledger is striped"
        known = self.ledgers.get(bookie_id)
        if isinstance(request, SendSync) and known is None:
            error = NoSuchLedgerError(LEDGER_ID)
            return SyncFailed(slot, request.sync_id, error, request.epoch)
        ledger = self.ledgers.setdefault(bookie_id, BookieLedger(LEDGER_ID))
        if isinstance(request, SendLac):
            ledger.admit_lac(MASTER_KEY, LedgerType.VD_JOURNAL)
            ledger.added(request.lac)
            return LacTaken(slot, request.lac, request.epoch)
        if isinstance(request, SendAdd):
            ledger.admit_add(MASTER_KEY, LedgerType.VD_JOURNAL, is_recovery=False)
        if ledger.stripe != stripe:
            ledger.follow(stripe, -1)
        ledger.added(request.lac)
        if isinstance(request, SendSync):
            cursor = ledger.last_add_synced_of(stripe)
            return SyncAnswered(slot, request.sync_id, 1, cursor, request.epoch)
        for run in runs_of(request.batch, stripe):
            ledger.synced(run)
        cursor = ledger.last_add_synced_of(stripe)
        return AddAnswered(slot, request.batch.first_entry_id, 1, cursor, request.epoch)


def test_a_bookie_that_joined_and_is_owed_nothing_does_not_hold_up_syncs_and_the_close() -> None:
    limits = WriterLimits(explicit_lac_ms=0)  # so the new bookie never hears of the ledger
    writer = StripedWriter(Quorum(4, 2, 2), "a", "b", "c", "d", limits=limits)
    writer.do(Append("first", [b"x"] * 100))
    assert writer.core.path.lac == 99
    writer.replace(3, "e")
    writer.do(SlotUp(3, 1))

    writer.do(Append("second", [b"y"]))  # due at slots 0 and 1
    assert "e" not in writer.ledgers
    synced = writer.do(SyncRequested("sync"))

    assert [one for one in synced if isinstance(one, SyncDone)] == [SyncDone("sync", 100)]
    closed = [*writer.do(CloseRequested("close", 1_000)), *writer.wait(2_000)]
    assert [one.last_entry_id for one in closed if isinstance(one, CloseLedger)] == [100]


def test_a_bookie_that_joined_an_idle_writer_is_told_the_lac() -> None:
    writer = StripedWriter(Quorum(4, 2, 2), "a", "b", "c", "d")
    writer.do(Append("first", [b"x"] * 100))
    writer.do(SyncRequested("sync"))
    writer.replace(3, "e")

    sent = [*writer.do(SlotUp(3, 1)), *writer.wait(3_000)]

    assert [one for one in sent if isinstance(one, SendLac)] == [SendLac(3, 99, 1)]


def test_what_a_replaced_bookie_lacks_of_a_batch_that_was_cut_is_reported() -> None:
    """Another client has found entries up to 7 durable, in the middle of a batch."""
    writer = StripedWriter(Quorum(3, 2, 1), "a", "b", "c")
    writer.do(Append("first", [b"x"] * 6))
    writer.silent = {"a", "c"}
    writer.do(Append("second", [b"y"] * 6))
    assert writer.core.path.lac == 5

    effects = writer.replace(0, "d", first_entry_id=8)

    assert [one for one in effects if isinstance(one, ReportMissing)] == [
        ReportMissing({"a": ((6, 7),)})
    ]
    assert writer.core.path.missing.by_bookie == {"a": ((6, 7),)}
    assert writer.core.path.last_acked_id == 5, "its entries from 8 on are not acknowledged"
