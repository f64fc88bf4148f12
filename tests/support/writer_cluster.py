"""A cluster of fake bookies around a real ``WriterCore``, and everything that must stay true.

The bookies are as simple as can be: a set of entries held and a set of entries on disk. Requests
and answers wait in lists until the test lets one of them through, so every order is possible, also
those that a real network would hardly ever make. What is asked of the metadata waits as well.

``CheckedWriter`` judges the writer after every step. After the end of a ledger: what a bookie
lacks, the writer knows (``check_copies``).
"""

from collections.abc import Sequence

from tests.support.checked_writer import CheckedWriter
from tests.support.writer_bookie import FakeBookie
from tests.support.writer_cores import LEDGER_ID
from tests.support.writer_metadata import Store
from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    LedgerFencedError,
    NotDurableError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span, merged
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.changes import begin_recovery, report_lac
from zbk.protocol.write.events import (
    AddAnswered,
    AddFailed,
    Append,
    Appends,
    BookiesChanged,
    CloseFailed,
    CloseLedger,
    CloseRequested,
    EnsembleChanged,
    EnsembleChangeFailed,
    Event,
    LacFailed,
    LacTaken,
    MissingReported,
    SendAdd,
    SendLac,
    SendSync,
    SlotDown,
    SlotUp,
    SyncAnswered,
    SyncFailed,
    SyncRequested,
    Tick,
)

CLOSE_WAIT_MS = 3_000


class WriterCluster(CheckedWriter):
    """A writer whose bookies, metadata store and application do what the test says."""

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

    def note_reports(self) -> None:
        """Store every report that waits."""
        while self.reports:
            report = self.reports.pop(0)
            for bookie_id, ranges in report.missing.items():
                self.reported[bookie_id] = merged([*self.reported.get(bookie_id, ()), *ranges])
            self.handle(MissingReported(report.missing))

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

    # ------------------------------------------------------------------ the application's side

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
