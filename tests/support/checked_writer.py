"""A ``WriterCore`` whose every effect is judged and noted, with its bookies and its metadata.

Invariants, by their numbers, checked after every step: what is acknowledged is on the disks of an
ack quorum of the bookies that the metadata name for it (I1, I7), acknowledged in order and once
(I5); the LAC never goes down (I6); a new fragment starts behind the LAC (I13) and what others were
told (I22), and its new bookies have what is acknowledged.
"""

from collections.abc import Callable, Iterable, Sequence

from tests.support.entry_decoding import decode_entry
from tests.support.writer_bookie import FakeBookie
from tests.support.writer_cores import LEDGER_ID
from tests.support.writer_limits import LIMITS, PAYLOAD_SIZE_MAX
from tests.support.writer_metadata import FakeMetadata
from zbk.durability.level import level_of
from zbk.errors import (
    BookieUnavailableError,
    LedgerClosedError,
    LedgerFencedError,
    NotDurableError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.spans import Span, overlaps
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.catch_up import SendCatchUp
from zbk.protocol.write.core_parts import VolatileTerms
from zbk.protocol.write.events import (
    Acked,
    ChangeEnsemble,
    CloseFailed,
    CloseLedger,
    Effect,
    Event,
    Failed,
    ReportMissing,
    SendAdd,
    SendLac,
    SendSync,
    SlotSuspect,
    SyncDone,
    SyncFailedFor,
    Tick,
)
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore


class CheckedWriter:
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

    # ------------------------------------------------------------------ what the writer wants

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

    def _on_suspect(self, effect: SlotSuspect) -> None:
        self.seen.add(f"suspect: {type(effect.error).__name__}")
        self.bookies[effect.slot].is_connected = False
        self.bookies[effect.slot].requests.clear()

    # ------------------------------------------------------------------ what stays true

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
