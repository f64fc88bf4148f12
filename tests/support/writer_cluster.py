"""A cluster of fake bookies around a real ``WriterCore``, and everything that must stay true.

The bookies are as simple as can be: a set of entries held and a set of entries on disk. Requests
and answers wait in lists until the test lets one of them through, so every order is possible, also
those that a real network would hardly ever make. What is asked of the metadata waits as well.

Invariants, by their numbers, checked after every step: what is acknowledged is on the disks of an
ack quorum of the bookies that the metadata name for it (I1, I7), acknowledged in order and once
(I5); the LAC never goes down (I6); a new fragment starts behind the LAC (I13) and what others were
told (I22), and its new bookies have what is acknowledged.
After the end of a ledger: what a bookie lacks, the writer knows (``check_copies``).
"""

from collections.abc import Callable, Iterable, Sequence

from tests.support.entry_decoding import decode_entry
from tests.support.writer_metadata import FakeMetadata, Store
from zbk.durability.level import level_of
from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    LedgerClosedError,
    LedgerFencedError,
    NotDurableError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.spans import Span, merged, overlaps
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.changes import begin_recovery, report_lac
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.catch_up import SendCatchUp
from zbk.protocol.write.core_parts import VolatileTerms
from zbk.protocol.write.events import (
    Acked,
    AddAnswered,
    AddFailed,
    Append,
    Appends,
    BookiesChanged,
    ChangeEnsemble,
    CloseFailed,
    CloseLedger,
    CloseRequested,
    Effect,
    EnsembleChanged,
    EnsembleChangeFailed,
    Event,
    Failed,
    LacFailed,
    LacTaken,
    MissingReported,
    ReportMissing,
    SendAdd,
    SendLac,
    SendSync,
    SlotDown,
    SlotSuspect,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncFailed,
    SyncFailedFor,
    SyncRequested,
    Tick,
)
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

LEDGER_ID = 7
LIMITS = WriterLimits(
    window_size=1_000,
    window_count=4,
    backlog_size=1_500,
    backlog_count=6,
    batch_size_max=300,
    batch_count_max=5,
    quorum_grace_ms=1_000,
    close_linger_ms=500,
    unsynced_size_max=1_200,
    unsynced_batch_count_max=24,
    sync_count_max=4,
    ensemble_change_count_max=12,
    ensemble_retry_ms=200,
    metadata_grace_ms=3_000,
    slow_bookie_ms=600,
)
PAYLOAD_SIZE_MAX = 150
CLOSE_WAIT_MS = 3_000


class FakeBookie:
    """What one bookie holds and has on disk, and what is on its way to and from it."""

    def __init__(self) -> None:
        self.incarnation = 1
        self.is_connected = False
        self.is_fenced = False
        self.held: set[int] = set()
        self.taken: set[int] = set()  # held at some time: what a loss of power took is not here
        self.durable: set[int] = set()
        self.lac = NO_ENTRY
        self.is_writable = True  # registered, and not read-only
        self.catches_up = True
        self.requests: list[SendAdd | SendSync | SendLac] = []
        self.answers: list[Event] = []

    def last_add_synced(self) -> int:
        las = self.lac
        while las + 1 in self.durable:
            las += 1
        return las

    def crash(self, *, loses_power: bool) -> None:
        """Start again, with what was on disk, or with all if only the process died."""
        if loses_power:
            self.held &= self.durable
        else:
            self.durable |= self.held  # a start syncs what it finds before it trusts it
        self.lac = NO_ENTRY
        self.incarnation += 1
        self.requests.clear()


class WriterCluster:
    """A writer, its bookies, and what the application has been told."""

    def __init__(
        self,
        quorum: Quorum,
        ledger_type: LedgerType = LedgerType.PD_JOURNAL,
        spare_count: int = 0,
        limits: WriterLimits = LIMITS,
        *,
        volatile: VolatileTerms | None = None,
    ) -> None:
        ensemble = [f"b{slot}" for slot in range(quorum.ensemble_size)]
        spares = [f"spare{number}" for number in range(spare_count)]
        self.quorum = quorum
        self.level = level_of(ledger_type)
        self.digest = digest_function(DigestType.XXH3, b"", LEDGER_ID)
        self.core = WriterCore(
            LEDGER_ID,
            quorum,
            self.level,
            ensemble=ensemble,
            digest_type=DigestType.XXH3,
            digest=self.digest,
            limits=limits,
            volatile=volatile,
        )
        self.limits = limits
        self.now_ms = 0
        self.pool = {bookie_id: FakeBookie() for bookie_id in [*ensemble, *spares]}
        self.metadata = FakeMetadata(
            LEDGER_ID, quorum, ledger_type, ensemble, self._writable, self._catch_up
        )
        self.checked_ledger = self.metadata.ledger
        self.replaced_slots: set[int] = set()
        self.payloads: list[bytes] = []  # by entry id, all that were ever appended
        self.lives: dict[int, dict[str, int]] = {}  # entry id -> bookie -> life that took it
        self.holders_before: dict[int, set[str]] = {}  # by entry, when a change was decided
        self.known_lives = dict.fromkeys(self.pool, 0)  # as the writer was told
        self.appends: dict[int, tuple[int, int]] = {}  # open tickets -> first id, count
        self.syncs: dict[int, int] = {}  # open tickets -> last id appended before
        self.next_ticket = 0
        self.acked_id = NO_ENTRY  # confirmed by an ack quorum
        self.sent_id = NO_ENTRY  # the last entry that any bookie was sent
        self.told_id = NO_ENTRY  # the last one that the application was told of
        self.lac = NO_ENTRY
        self.last_sync_id = NO_ENTRY
        self.close_ticket: int | None = None
        self.end: CloseLedger | CloseFailed | None = None
        self.accepts_loss = False
        self.reported_lac = NO_ENTRY  # the last LAC that another client reported
        self.reports: list[ReportMissing] = []  # that the metadata store has not noted
        self.reported: dict[str, list[Span]] = {}
        self.seen: set[str] = set()  # kinds of effects and errors

    @property
    def bookies(self) -> list[FakeBookie]:
        """The bookies that the writer writes to, by slot."""
        return [self.pool[bookie_id] for bookie_id in self.core.slots.bookies]

    def _writable(self) -> list[str]:
        return [bookie_id for bookie_id, bookie in self.pool.items() if bookie.is_writable]

    # ------------------------------------------------------------------ what the test does

    def append(self, sizes: list[int]) -> None:
        self.handle(self._append_event(sizes))

    def append_each(self, sizes: list[int]) -> None:
        events = [self._append_event([size]) for size in sizes]
        self.handle(Appends([(event.ticket, event.payloads) for event in events]))

    def sync(self) -> None:
        ticket = self._ticket()
        self.syncs[ticket] = self.core.path.last_appended_id
        self.handle(SyncRequested(ticket))

    def close(self, *, accepts_loss: bool = False) -> None:
        ticket = self._ticket()
        if self.close_ticket is None or self.is_stuck:
            self.close_ticket, self.end = ticket, None
            self.accepts_loss = accepts_loss
        self.handle(CloseRequested(ticket, CLOSE_WAIT_MS, accepts_loss))

    @property
    def is_stuck(self) -> bool:
        """True when a close has left the ledger open, and may be asked for again."""
        return isinstance(self.end, CloseFailed) and isinstance(self.end.error, NotDurableError)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.handle(Tick())

    def connect(self, slot: int) -> None:
        bookie = self.bookies[slot]
        bookie.requests.clear()
        bookie.is_connected = True
        self.known_lives[self.core.slots.bookies[slot]] = bookie.incarnation
        self.handle(SlotUp(slot, bookie.incarnation))

    def disconnect(self, slot: int) -> None:
        bookie = self.bookies[slot]
        bookie.requests.clear()
        bookie.is_connected = False
        self.handle(SlotDown(slot, BookieUnavailableError(f"b{slot}", "connection lost")))

    def serve(self, slot: int, refusal: ZbkError | None = None) -> None:
        """Deliver the oldest request that waits for a bookie."""
        self.serve_bookie(self.core.slots.bookies[slot], refusal)

    def serve_bookie(self, bookie_id: str, refusal: ZbkError | None = None) -> None:
        """As ``serve``; it may be a bookie that was replaced since it was sent to."""
        bookie = self.pool[bookie_id]
        if not bookie.requests:
            return
        request = bookie.requests.pop(0)
        match request:
            case SendAdd():
                if refusal is None and bookie.is_fenced:
                    refusal = LedgerFencedError(LEDGER_ID)
                bookie.answers.append(self._add(bookie_id, request, refusal))
            case SendSync():
                bookie.answers.append(self._sync(bookie, request, refusal))
            case SendLac():
                if refusal is None:
                    bookie.lac = max(bookie.lac, request.lac)
                    bookie.answers.append(LacTaken(request.slot, request.lac, request.epoch))
                else:
                    slot, lac, epoch = request.slot, request.lac, request.epoch
                    bookie.answers.append(LacFailed(slot, lac, refusal, epoch))

    def answer(self, slot: int, index: int) -> None:
        """Deliver one of a bookie's answers, in any order, even from a lost connection."""
        self.answer_of(self.core.slots.bookies[slot], index)

    def answer_of(self, bookie_id: str, index: int) -> None:
        """As ``answer``; it may be a bookie that was replaced since."""
        answers = self.pool[bookie_id].answers
        if not answers:
            return
        answer = answers.pop(index % len(answers))
        self.handle(answer)
        if isinstance(answer, AddAnswered) and self.core.slots.bookies[answer.slot] != bookie_id:
            self.seen.add("late answer of a replaced bookie")

    def answer_together(self, picks: Sequence[tuple[int, int]]) -> None:
        """Deliver answers of several slots in one turn, each a slot and an index as ``answer``."""
        events: list[Event] = []
        for slot, index in picks:
            answers = self.pool[self.core.slots.bookies[slot]].answers
            if answers:
                events.append(answers.pop(index % len(answers)))
        for effect in self.core.handle_all(events, self.now_ms):
            self.seen.add(type(effect).__name__)
            self._carry_out(effect)
        self._check()

    def serve_metadata(self, store: Store = Store.ANSWERS) -> None:
        """Store the change of ensemble that waits, if one does."""
        if not self.metadata.asked:
            return
        before = self.metadata.ledger
        answer = self.metadata.serve(store)
        if self.metadata.ledger is not self.checked_ledger:
            start = self.metadata.ledger.last_fragment.first_entry_id
            assert start == max(self.core.path.lac, before.confirmed_floor) + 1, "I13, I22"
            self.checked_ledger = self.metadata.ledger
            self._check_all_acked()
            self._check_joined(before.last_fragment.bookies)
        if isinstance(answer, EnsembleChangeFailed):
            self.seen.add(f"change: {type(answer.error).__name__}")
            self.handle(answer)
        else:
            self._let_change_through(answer)

    def _catch_up(self, send: SendCatchUp) -> int | ZbkError:
        """A new bookie takes what it is sent, and syncs it."""
        bookie = self.pool[send.bookie_id]
        if not bookie.catches_up:
            self.seen.add("a new bookie cannot catch up")
            return BookieUnavailableError(send.bookie_id, "gone")
        for batch in send.batches:
            batch.verify()
            for entry_id in batch.entry_ids:
                self.lives.setdefault(entry_id, {})[send.bookie_id] = bookie.incarnation
            for entries in (bookie.held, bookie.taken, bookie.durable):
                entries |= set(batch.entry_ids)
        bookie.durable |= bookie.held
        bookie.lac = max(bookie.lac, send.lac)
        self.seen.add("a new bookie catches up")
        return bookie.last_add_synced()

    def sync_from_outside(self) -> int:
        """Another client syncs, records the LAC, and reports it; return it, or -1."""
        before = self.metadata.ledger
        if not before.records_reported_lac or before.state is not LedgerState.OPEN:
            return NO_ENTRY
        bookies = [self.pool[bookie_id] for bookie_id in before.last_fragment.bookies]
        for bookie in bookies:
            bookie.durable |= bookie.held
        cursors = sorted(bookie.last_add_synced() for bookie in bookies)
        lac = cursors[self.quorum.write_size - self.quorum.ack_size]
        self.metadata.ledger = report_lac(before, before.last_fragment, lac) or before
        self.checked_ledger = self.metadata.ledger
        for entry_id in range(lac + 1):
            self._check_durable(entry_id)
        if self.metadata.ledger is not before:
            self.reported_lac = lac
            self.seen.add("reported from outside")
        return lac

    def _check_joined(self, before: Sequence[str]) -> None:
        """What is acknowledged moves with its fragment: an ack quorum there has it, as before.

        New bookies, where they are part of it, have it on stable storage.
        """
        fragment = self.metadata.ledger.last_fragment
        acknowledged = range(fragment.first_entry_id, self.core.path.last_acked_id + 1)
        staying = set(fragment.bookies).intersection(before)
        for entry_id in acknowledged:
            joined = [
                new
                for new in set(fragment.bookies).difference(before)
                if entry_id in self.pool[new].durable
            ]
            before_count = len(self.holders_before[entry_id])  # fewer after a loss of power
            count = len(self.holders_before[entry_id] & staying) + len(joined)
            assert count >= min(self.quorum.ack_size, before_count), f"{entry_id} stays behind"
        if acknowledged:
            self.seen.add("a fragment starts below what is acknowledged")

    def _let_change_through(self, answer: EnsembleChanged) -> None:
        before, acked_id = self.core.slots.bookies, self.core.path.last_acked_id
        was_connected = [bookie.is_connected for bookie in self.bookies]
        self.handle(answer)
        assert self.core.error is not None or self.core.slots.bookies == answer.ensemble
        self.seen.add("changed")
        if self.core.path.last_acked_id > acked_id:
            self.seen.add("held acks")
        for slot, (old, new) in enumerate(zip(before, self.core.slots.bookies, strict=True)):
            if old == new:
                continue
            self.pool[new].is_connected = False
            if slot in self.replaced_slots:
                self.seen.add("replaced twice")
            if was_connected[slot]:
                self.seen.add("slow bookie replaced")
            self.replaced_slots.add(slot)

    def set_writable(self, bookie_id: str, *, is_writable: bool) -> None:
        self.pool[bookie_id].is_writable = is_writable
        self.handle(BookiesChanged())

    def repair_old_fragment(self) -> None:
        """Replace a bookie in the first fragment, as another client, if that is an old one."""
        fragments = self.metadata.ledger.fragments
        old = fragments[0].bookies[0]
        free = [bookie_id for bookie_id in self.pool if bookie_id not in fragments[0].bookies]
        if len(fragments) == 1 or not free:
            return
        self.pool[free[0]].held |= self.pool[old].held
        self.pool[free[0]].durable |= self.pool[old].durable
        self.metadata.ledger = self.metadata.ledger.with_replaced_bookie(0, old, free[0])
        self.checked_ledger = self.metadata.ledger
        self.seen.add("repaired")

    def recover(self) -> None:
        """Begin to recover the ledger, as another client."""
        self.metadata.ledger = begin_recovery(self.metadata.ledger) or self.metadata.ledger
        self.checked_ledger = self.metadata.ledger
        for bookie in self.pool.values():
            bookie.is_fenced = True

    def heal(self) -> None:
        """End all faults, and let everything through until nothing is left to do."""
        for slot, bookie in enumerate(self.bookies):
            bookie.answers.clear()
            self.connect(slot)
        for _ in range(400):
            for slot, bookie in enumerate(self.bookies):
                if not bookie.is_connected:
                    self.connect(slot)
                while bookie.requests or bookie.answers:
                    self.serve(slot)
                    self.answer(slot, 0)
                    if bookie not in self.bookies:
                        break
            self.serve_metadata()
            if not self.is_waiting():
                return
            self.wait(100)

    def is_waiting(self) -> bool:
        is_closing = self.close_ticket is not None and self.end is None
        return bool(self.appends or self.syncs or is_closing or self.metadata.asked)

    def check_copies(self) -> None:
        """Judge, at the end, that each copy that is due is there or reported as missing."""
        if not isinstance(self.end, CloseLedger) or "repaired" in self.seen:
            return
        missing: dict[str, list[Span]] = {one: list(ids) for one, ids in self.reported.items()}
        for bookie_id, ranges in self.end.missing.items():
            missing.setdefault(bookie_id, []).extend(ranges)
        for entry_id in range(self.end.last_entry_id + 1):
            for bookie_id in self.metadata.names(entry_id):
                ranges = missing.get(bookie_id, ())
                is_known = any(first <= entry_id <= last for first, last in ranges)
                is_here = entry_id in self.pool[bookie_id].taken
                assert is_here or is_known, f"{bookie_id} lacks entry {entry_id}: {missing}"
                if is_known and not is_here:
                    self.seen.add("reported" if bookie_id in self.reported else "missing")

    # ------------------------------------------------------------------ the bookies' side

    def _add(self, bookie_id: str, request: SendAdd, refusal: ZbkError | None) -> Event:
        bookie, batch, slot = self.pool[bookie_id], request.batch, request.slot
        if refusal is not None:
            return AddFailed(slot, batch.first_entry_id, refusal, request.epoch)
        bookie.held |= set(batch.entry_ids)
        bookie.taken |= set(batch.entry_ids)
        bookie.lac = max(bookie.lac, request.lac)
        for entry_id in batch.entry_ids:
            self.lives.setdefault(entry_id, {})[bookie_id] = bookie.incarnation
        if self.level.acknowledges_after == "sync":
            bookie.durable |= set(batch.entry_ids)
        las = bookie.last_add_synced() if self.level.has_sync_cursor else NO_ENTRY
        return AddAnswered(slot, batch.first_entry_id, bookie.incarnation, las, request.epoch)

    def _sync(self, bookie: FakeBookie, request: SendSync, refusal: ZbkError | None) -> Event:
        slot = request.slot
        if refusal is not None:
            return SyncFailed(slot, request.sync_id, refusal, request.epoch)
        bookie.durable |= bookie.held
        bookie.lac = max(bookie.lac, request.lac)
        las = bookie.last_add_synced()
        return SyncAnswered(slot, request.sync_id, bookie.incarnation, las, request.epoch)

    # ------------------------------------------------------------------ the writer's side

    def handle(self, event: Event) -> None:
        effects = self.core.handle(event, self.now_ms)
        if isinstance(event, Tick):
            next_tick_ms = self.core.next_tick_ms
            assert next_tick_ms is None or next_tick_ms > self.now_ms, "a tick has done its work"
        for effect in effects:
            self.seen.add(type(effect).__name__)
            self._carry_out(effect)
        self._check()

    def _carry_out(self, effect: Effect) -> None:
        carry_out: dict[type, Callable[..., None]] = {
            SendAdd: self._on_send_add,
            SendSync: self._on_send_sync,
            Acked: self._on_acked,
            Failed: self._on_failed,
            SyncDone: self._on_sync_done,
            SyncFailedFor: self._on_sync_failed,
            CloseLedger: self._on_close_ledger,
            CloseFailed: self._on_close_failed,
            SlotSuspect: self._on_suspect,
            SendLac: self._on_send_lac,
            ChangeEnsemble: self._on_change_ensemble,
            ReportMissing: self._on_report_missing,
        }
        carry_out[type(effect)](effect)

    def _on_send_add(self, effect: SendAdd) -> None:
        bookie, batch = self.bookies[effect.slot], effect.batch
        assert bookie.is_connected, "nothing is sent to a slot that is down"
        assert all(self.quorum.holds(effect.slot, entry_id) for entry_id in batch.entry_ids)
        assert effect.lac < batch.first_entry_id
        batch.verify()
        batch.validate()
        offset = 0
        for entry_id in batch.entry_ids:
            entry, offset = decode_entry(
                batch.body, offset, LEDGER_ID, entry_id, DigestType.XXH3, self.digest
            )
            assert entry.payload == self.payloads[entry_id]
            assert entry.length == sum(map(len, self.payloads[: entry_id + 1]))
            assert entry.lac <= self.core.path.lac
        bookie.requests.append(effect)
        self.sent_id = max(self.sent_id, batch.entry_ids[-1])

    def _on_send_lac(self, effect: SendLac) -> None:
        assert self.bookies[effect.slot].is_connected
        assert effect.lac <= self.core.path.lac
        assert self.syncs or not self.appends, "a writer that tells its LAC is idle, or has synced"
        self.bookies[effect.slot].requests.append(effect)

    def _on_change_ensemble(self, effect: ChangeEnsemble) -> None:
        path, quorum = self.core.path, self.quorum
        assert effect.first_entry_id == path.lac + 1, "I13"
        volatile = range(path.lac + 1, path.last_acked_id + 1)
        assert effect.unsynced.keys() == effect.failed.keys()
        bookies = self.core.slots.bookies
        staying = [one for slot, one in enumerate(bookies) if slot not in effect.failed]
        self.holders_before = {
            one: {name for name in bookies if one in self.pool[name].durable}.union(
                self._holders(one, bookies)
            )
            for one in volatile
        }
        held = self.holders_before
        needed = {one for one in volatile if len(held[one].intersection(staying)) < quorum.ack_size}
        for batches in effect.unsynced.values():
            moved = [one for batch in batches for one in batch.entry_ids]
            assert needed <= set(moved) <= set(volatile)
            assert moved == sorted(moved)
        if needed != set(volatile):
            self.seen.add("those that stay are an ack quorum")
        assert effect.length_before == sum(map(len, self.payloads[: effect.first_entry_id])), "B45"
        self.metadata.ask(effect, self.core.slots.bookies)
        if effect.is_urgent:
            self.seen.add("urgent")

    def _on_send_sync(self, effect: SendSync) -> None:
        assert self.bookies[effect.slot].is_connected
        self.bookies[effect.slot].requests.append(effect)

    def _on_acked(self, effect: Acked) -> None:
        for ticket, first, count in effect.tickets:
            assert self.appends.pop(ticket) == (first, count)
            assert self.told_id <= first + count - 1 <= self.core.path.last_acked_id, "in order"
            self.told_id = first + count - 1

    def _check_acked(self, entry_id: int) -> None:
        lives = self.lives.get(entry_id, {})
        if self.level.acknowledges_after == "sync" or entry_id <= self.reported_lac:
            self._check_durable(entry_id)
        else:
            holders = self._holders(entry_id, lives)
            assert len(holders) >= self.quorum.ack_size, "an ack quorum took it, as far as known"

    def _holders(self, entry_id: int, bookies: Iterable[str]) -> list[str]:
        """Return the bookies that took an entry, in the life that the writer knows."""
        lives = self.lives.get(entry_id, {})
        return [one for one in bookies if lives.get(one, -1) >= self.known_lives[one]]

    def _check_durable(self, entry_id: int) -> None:
        named = self.metadata.names(entry_id)
        holders = [bookie for bookie in named if entry_id in self.pool[bookie].durable]
        assert len(holders) >= self.quorum.ack_size, f"I1: entry {entry_id} is not where it should"

    def _check_all_acked(self) -> None:
        for entry_id in range(max(self.core.path.lac, self.reported_lac) + 1):
            self._check_durable(entry_id)

    def _on_failed(self, effect: Failed) -> None:
        self.seen.add(type(effect.error).__name__)
        if "changed 12 times" in str(effect.error):
            self.seen.add("too many changes")
        is_refused = isinstance(effect.error, LedgerClosedError)
        assert effect.error.outcome == "unknown" or is_refused, "they may have been sent"
        for ticket in effect.tickets:
            del self.appends[ticket]  # open, and answered once

    def _on_sync_done(self, effect: SyncDone) -> None:
        assert self.syncs.pop(effect.ticket) <= effect.last_entry_id <= self.core.path.lac
        assert effect.last_entry_id >= self.last_sync_id
        self.last_sync_id = effect.last_entry_id

    def _on_sync_failed(self, effect: SyncFailedFor) -> None:
        self.seen.add(f"sync: {type(effect.error).__name__}")
        del self.syncs[effect.ticket]

    def _on_close_ledger(self, effect: CloseLedger) -> None:
        core = self.core
        assert self.end is None
        assert effect.ticket == self.close_ticket
        assert not isinstance(core.error, LedgerFencedError), "not this writer's to close"
        assert effect.last_entry_id == core.path.lac <= core.path.last_acked_id
        assert effect.length == sum(map(len, self.payloads[: effect.last_entry_id + 1]))
        assert effect.last_entry_id == core.path.last_acked_id or self.accepts_loss
        if self.level.has_sync_cursor and self.sent_id > core.path.lac:
            assert self.accepts_loss, "others may have been told of what was sent"
        assert not self.appends, "closed with an append that was not answered"
        assert not self.syncs, "closed with a sync that was not answered"
        self.end = effect
        if effect.last_entry_id < core.path.last_acked_id:
            self.seen.add("close: a loss that was accepted")

    def _on_close_failed(self, effect: CloseFailed) -> None:
        self.seen.add(f"close: {type(effect.error).__name__}")
        if effect.ticket == self.close_ticket:
            if isinstance(effect.error, NotDurableError):
                assert self.core.path.lac < max(
                    self.core.path.last_acked_id, effect.error.last_sent_id
                )
                assert not self.accepts_loss
            else:
                assert isinstance(self.core.error, LedgerFencedError | LedgerClosedError)
            self.end = effect
        else:
            assert isinstance(effect.error, LedgerClosedError | LedgerFencedError)

    def _on_report_missing(self, effect: ReportMissing) -> None:
        open_id = self.metadata.ledger.last_fragment.first_entry_id
        for bookie_id, ranges in effect.missing.items():
            assert ranges[-1][1] < open_id, "what is open may still be written"
            for told in self.reported.get(bookie_id, ()):
                assert not list(overlaps([told], ranges)), "each hole is reported once"
        self.reports.append(effect)

    def note_reports(self) -> None:
        """Store every report that waits."""
        while self.reports:
            report = self.reports.pop(0)
            for bookie_id, ranges in report.missing.items():
                self.reported[bookie_id] = merged([*self.reported.get(bookie_id, ()), *ranges])
            self.handle(MissingReported(report.missing))

    def _on_suspect(self, effect: SlotSuspect) -> None:
        self.seen.add(f"suspect: {type(effect.error).__name__}")
        self.bookies[effect.slot].is_connected = False
        self.bookies[effect.slot].requests.clear()

    # ------------------------------------------------------------------ what stays true

    def _check(self) -> None:
        core = self.core
        for entry_id in range(self.acked_id + 1, core.path.last_acked_id + 1):
            self._check_acked(entry_id)
        assert core.path.last_acked_id >= self.acked_id
        self.acked_id = core.path.last_acked_id
        assert core.path.lac >= self.lac, "the LAC never goes down"
        for entry_id in range(self.lac + 1, core.path.lac + 1):
            self._check_durable(entry_id)
        self.lac = core.path.lac
        copies = self.quorum.write_size if self.quorum.is_striped else 1
        largest = self.limits.of_batch(self.quorum)[0] + entry_size(
            PAYLOAD_SIZE_MAX, DigestType.XXH3
        )
        kept_size_max = self.limits.backlog_size + largest * copies
        if self.level.restart_revokes_acks:
            kept_size_max += self.limits.unsynced_size_max + largest
        assert core.path.kept_size <= kept_size_max

    def _append_event(self, sizes: list[int]) -> Append:
        ticket = self._ticket()
        first = self.core.path.last_appended_id + 1
        if self.core.error is None and self.close_ticket is None:
            first = len(self.payloads)
            self.payloads += [bytes([(first + i) % 256]) * size for i, size in enumerate(sizes)]
            payloads = self.payloads[first:]
        else:
            payloads = [bytes(size) for size in sizes]
        self.appends[ticket] = (first, len(sizes))
        return Append(ticket, payloads)

    def _ticket(self) -> int:
        self.next_ticket += 1
        return self.next_ticket


REFUSALS = (BusyError("too much"), BookieUnavailableError("b", "no answer"))
