"""Who sees the disks: what each bookie has promised, and whether it keeps it.

``BookieOracle`` listens to the answers of one bookie, knows which of its fsyncs returned, and
after each start looks at what storage has. The invariants that need the disks:

    I7    an entry up to the LAC is on stable storage at an ack quorum (``is_durable``)
    I10   a bookie that answered a fence acknowledges no ordinary add of that ledger any more
    I21   ``LastAddSynced`` counts no entry that is neither synced nor up to a LAC that was told, by
          a request or in the header of an entry
    I24   "no such entry" is said only of what was never promised; nor of what was acknowledged
          and lost since, unless peers were asked for it meanwhile
    I29   a ledger that was dropped never comes back, and none is dropped that was not deleted
    I30   what was acknowledged under an id is never replaced by other bytes
    lost  what was promised is there after a crash; what was written survives a killed process
    claim a ledger is known here only if it was made
    key   a request that shows a wrong key is refused, tells nothing and changes nothing
    scrub a scrubber finds no damage where nobody did any (``tests.simulation.scrubber``)

What a bookie answers is a promise, whether the answer arrives or not. What a bookie has lost, which
LACs it told, and what a start finds have modules of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.simulation.kernel import Kernel
from tests.simulation.lac_oracle import LacOracle
from tests.simulation.loss_oracle import LossOracle
from tests.simulation.oracle_requests import (
    LEDGER_REQUESTS,
    Entries,
    LedgerRequest,
    entries_of,
    has_key,
    is_due_at,
)
from tests.simulation.start_audit import StartAudit, held_ranges
from tests.support.checker import Violation
from zbk.actors.serve.add_requests import stripe_of
from zbk.actors.serve.sync_queue import AppendGroup
from zbk.durability.level import level_of
from zbk.errors import (
    EntryUnreadableError,
    LedgerFencedError,
    NoSuchEntryError,
    UnauthorizedError,
    ZbkError,
    from_wire,
)
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, SyncedEntriesRecord
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import (
    Add,
    AddAnswer,
    LacAnswer,
    LacsRisen,
    Message,
    Read,
    ReadAnswer,
    ReadLac,
    Refused,
    Sync,
    SyncAnswer,
    WatchLacs,
    WriteLac,
)


class BookieOracle:
    """The promises of one bookie."""

    def __init__(
        self, kernel: Kernel, bookie_id: str, ever: Collection[int], current: Collection[int]
    ) -> None:
        self.kernel = kernel
        self._ever = ever  # ids of ledgers that are, or were
        self.bookie_id = bookie_id
        self.promised: dict[int, Entries] = defaultdict(dict)  # survive a loss of power
        self.written: dict[int, Entries] = defaultdict(dict)  # survive a killed process
        self.fenced: set[int] = set()
        self.violations: list[Violation] = []
        self.is_damaged = False  # its disk was: it may have lost anything
        self.was_wiped = False  # by its operator, or it lost index files: fences are gone, too
        self.has_lost_power = False
        self.gave_up: set[int] = set()  # ledgers that left limbo without a silent peer
        self._marked: set[int] = set()  # deleted, and taken in no more in this life
        self._dropped: set[int] = set()  # deleted, for ever
        self._open: set[int] = set()  # ledgers that nobody recovers
        self._late: dict[int, Inbound] = {}  # adds of those that came afterwards, by identity
        self._here: dict[int, set[int]] = defaultdict(set)
        self._received: dict[int, Entries] = defaultdict(dict)
        self._log_synced: dict[int, set[int]] = defaultdict(set)  # by fsyncs of entry logs
        self._durable: dict[int, set[int]] = defaultdict(set)
        self._counted: dict[int, dict[Stripe | None, int]] = defaultdict(dict)
        self._by_ledger: Sequence[dict[int, Any]] = (
            self.promised, self.written, self._here, self._received, self._durable, self._counted,
        )  # fmt: skip
        self.losses = LossOracle(self, self._durable, current)
        self._lacs = LacOracle(self, self._is_deleted)

    def violated(self, invariant: str, text: str) -> None:
        """Note a broken promise."""
        self.kernel.violated(self.bookie_id, invariant, text)
        self.violations.append(Violation(invariant, f"bookie {self.bookie_id}: {text}"))

    def is_durable(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is, or was before the disk was lost, on stable storage here."""
        return entry_id in self._durable[ledger_id] or self.losses.was_durable(ledger_id, entry_id)

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is on stable storage here now."""
        return entry_id in self._durable[ledger_id]

    def has(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry that was acknowledged can be read here, or after a restart."""
        return entry_id in self._here[ledger_id]

    # ------------------------------------------------------------------ what happens

    def received(self, batch: Sequence[Inbound]) -> None:
        """Note the LACs that requests tell, but for requests of deleted ledgers."""
        for inbound in batch:
            request = inbound.request
            if isinstance(request, Add | WriteLac | Sync) and has_key(request):
                if self._is_deleted(request.ledger_id):
                    self._late[id(inbound)] = inbound
                    continue
                self._lacs.received(request, inbound)

    def synced(self, groups: Sequence[AppendGroup]) -> None:
        """Note that an fsync that began after these were written has returned."""
        for group in groups:
            for record in group.records:
                if isinstance(record, EntriesRecord):
                    self._durable[record.batch.ledger_id].update(record.batch.entry_ids)
                elif isinstance(record, SyncedEntriesRecord):  # in entry logs, as a start will show
                    self._check_synced(record)

    def logs_synced(self, held: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Note that an fsync has returned that began when ledgers held these ranges."""
        for ledger_id, ranges in held.items():
            for first, last in ranges:
                self._log_synced[ledger_id].update(range(first, last + 1))

    def _check_synced(self, record: SyncedEntriesRecord) -> None:
        ledger_id, durable = record.ledger_id, self._durable[record.ledger_id]
        for entry_id in record.entry_ids:
            if entry_id in self._log_synced[ledger_id]:
                durable.add(entry_id)
            elif entry_id not in durable and not self.is_damaged:
                self.violated("I7", f"journals L{ledger_id}/{entry_id} as synced without an fsync")

    def power_lost(self) -> None:
        """Forget what was promised for killed processes only."""
        self.has_lost_power = True
        self.losses.power_lost(self._here)
        self._here.clear()
        self.written.clear()

    def wiped(self) -> None:
        """Forget what was promised: it is gone, and nobody may deny it."""
        self.index_vanishes()
        self._dropped.clear()
        self._marked.clear()

    def index_vanishes(self) -> None:
        """Forget what was promised, but for what was deleted: nobody may deny it."""
        self.losses.index_vanishes((self.promised, self.written))
        self._durable.clear()
        self._here.clear()
        self.promised.clear()
        self.written.clear()
        self._counted.clear()
        self.was_wiped = True

    def metadata_changed(self, metadata: LedgerMetadata) -> None:
        """Note what is wanted here no more: one who wants it later counts no answer of before."""
        if metadata.state is LedgerState.OPEN:
            self._open.add(metadata.ledger_id)
        else:
            self._open.discard(metadata.ledger_id)
        self.losses.metadata_changed(metadata)

    def marked(self, ledger_ids: Sequence[int]) -> None:
        """Note that deleted ledgers are taken in no more; after a crash they may be."""
        self._marked.update(ledger_ids)

    def dropped(self, ledger_ids: Sequence[int]) -> None:
        """Forget what was promised of deleted ledgers: from now on they are gone for ever."""
        self._dropped.update(ledger_ids)
        for ledger_id in ledger_ids:
            self.fenced.discard(ledger_id)
            for known in self._by_ledger:
                known.pop(ledger_id, None)
            self.losses.dropped(ledger_id)
            self._lacs.dropped(ledger_id)

    def _is_deleted(self, ledger_id: int) -> bool:
        return ledger_id in self._marked or ledger_id in self._dropped

    def answered(self, outbound: Outbound) -> None:  # noqa: C901 - a case for each answer
        """Note, and judge, an answer."""
        request, answer = outbound.inbound.request, outbound.answer
        if isinstance(request, LEDGER_REQUESTS):
            if request.ledger_id in self._ever and not has_key(request):
                self._check_refused(request, answer)
                return
            self._check_open(request, answer)
        is_late = self._late.pop(id(outbound.inbound), None) is not None
        if is_late and isinstance(answer, AddAnswer | LacAnswer | SyncAnswer):
            self.violated("I29", f"takes a request of a deleted ledger: {request}")
        if isinstance(request, LEDGER_REQUESTS) and (self._is_deleted(request.ledger_id)):
            return
        match request, answer:
            case WatchLacs(), LacsRisen():
                self._lacs.check_watches(outbound.inbound.peer, request, answer)
            case Add(), AddAnswer():
                self._added(outbound.inbound, request, answer)
            case Sync(), SyncAnswer():
                self._check_cursor(request, answer.last_add_synced)
            case ((WriteLac() | ReadLac()), LacAnswer()):
                self._lacs.check(request, answer.lac)
            case Read(), Refused():
                ledger_id = request.ledger_id
                promised, written = self.promised[ledger_id], self.written[ledger_id]
                self.losses.refused(request, answer, promised, written)
            case _:
                pass
        if isinstance(request, Read | ReadLac) and request.is_fencing:
            self._answered_fence(request.ledger_id, answer)
        self._check_claim(outbound)

    def _check_refused(self, request: LedgerRequest, answer: Message) -> None:
        """Judge the answer to a client that does not know the password of a ledger."""
        error = None
        if isinstance(answer, Refused):
            error = from_wire(answer.code, tuple(answer.fields))
        if error is None or isinstance(error, NoSuchEntryError | LedgerFencedError):
            self.violated("key", f"answers {answer} to a wrong key: {request}")
        elif isinstance(error, UnauthorizedError):
            self.kernel.sometimes["bookie: a wrong key refused"] += 1

    def _check_open(self, request: LedgerRequest, answer: Message) -> None:
        """Judge that only a recovery, which the metadata tell of first, fences a ledger."""
        if isinstance(answer, Refused) and request.ledger_id in self._open:
            error = from_wire(answer.code, tuple(answer.fields))
            if isinstance(error, LedgerFencedError):
                text = f"ledger {request.ledger_id} is fenced, and nobody recovers it"
                self.violated("key", text)

    def _added(self, inbound: Inbound, request: Add, answer: AddAnswer) -> None:
        ledger_id = request.ledger_id
        if ledger_id in self.fenced and not request.is_recovery:
            self.violated("I10", f"acknowledged an add of ledger {ledger_id} behind its fence")
        is_synced = request.is_recovery or (
            level_of(request.ledger_type).acknowledges_after == "sync"
        )
        target = (self.promised if is_synced else self.written)[ledger_id]
        for entry_id, sum_ in entries_of(
            request.first_entry_id, request.is_striped, inbound.frames
        ):
            known = self._received[ledger_id].setdefault(entry_id, sum_)
            if known != sum_:
                self.violated("I30", f"took L{ledger_id}/{entry_id} twice, with different bytes")
            target[entry_id] = sum_
            self._here[ledger_id].add(entry_id)
            self.losses.lost[ledger_id].discard(entry_id)
            if is_synced and not self.is_damaged and entry_id not in self._durable[ledger_id]:
                self.violated("I7", f"acknowledged L{ledger_id}/{entry_id} without an fsync")
                self._durable[ledger_id].add(entry_id)
        if level_of(request.ledger_type).has_sync_cursor:
            self._check_cursor(request, answer.last_add_synced)

    def _check_cursor(self, request: Add | Sync, last_add_synced: int) -> None:
        ledger_id, stripe = request.ledger_id, stripe_of(request)
        durable, told = self._durable[ledger_id], self._lacs.told(ledger_id)
        counted = self._counted[ledger_id]
        for entry_id in range(counted.get(stripe, NO_ENTRY) + 1, last_add_synced + 1):
            if stripe is not None and not is_due_at(stripe, entry_id):
                self.kernel.sometimes["bookie: a sync cursor passes what is due elsewhere"] += 1
            elif entry_id in durable:
                sum_ = self._received[ledger_id].get(entry_id)
                if sum_ is not None:
                    self.promised[ledger_id][entry_id] = sum_
            elif entry_id <= told:
                self.kernel.sometimes["bookie: a LAC lifts the sync cursor over a hole"] += 1
            elif not self.is_damaged:
                self.violated(
                    "I21",
                    f"LastAddSynced {last_add_synced} of ledger {ledger_id} counts {entry_id}, "
                    f"which is not synced here; the LAC told is {told}",
                )
                return
        counted[stripe] = max(counted.get(stripe, NO_ENTRY), last_add_synced)

    def _check_claim(self, outbound: Outbound) -> None:
        """Judge that nobody claims a ledger before there is one."""
        request, answer = outbound.inbound.request, outbound.answer
        if not isinstance(request, Add | WriteLac | Read | ReadLac):
            return
        ledger_id = request.ledger_id
        if ledger_id in self._ever:
            return
        if ledger_id in self.fenced or isinstance(answer, AddAnswer | LacAnswer):
            self.violated("claim", f"takes in ledger {ledger_id}, which nobody has made: {request}")
        else:
            self.kernel.sometimes["bookie: a claim refused"] += 1

    def _answered_fence(self, ledger_id: int, answer: object) -> None:
        if isinstance(answer, Refused):
            error = from_wire(answer.code, tuple(answer.fields))
            if not isinstance(error, NoSuchEntryError | EntryUnreadableError):
                return
        elif not isinstance(answer, ReadAnswer | LacAnswer):
            return
        self.fenced.add(ledger_id)

    # ------------------------------------------------------------------ after a start

    def audit(self, storage: BookieStorage) -> None:
        """Look whether everything promised is there; what is there is durable now."""
        self._late.clear()
        self._log_synced.clear()
        self.dropped([one for one in sorted(self._marked) if storage.is_deleted(one)])
        # what is not noted at all is as it was
        self._marked = {one for one in self._marked if storage.is_deleted(one)}
        if not self.is_damaged:
            for ledger_id in sorted(self._dropped.intersection(storage.ledgers())):
                self.violated("I29", f"has ledger {ledger_id} again, which it had dropped")
        if not self.is_damaged:
            audit = StartAudit(self, storage)
            audit.check_entries(self.promised)
            audit.check_entries(self.written)
            if not self.was_wiped:
                audit.check_fences(self.fenced)
            self._durable.clear()
        for ledger_id in storage.ledgers():
            with suppress(ZbkError):  # of a damaged disk
                for first, last in held_ranges(storage, ledger_id):
                    self._durable[ledger_id].update(range(first, last + 1))
        self.losses.started()
        for ledger_id, entries in self._durable.items():
            self._here[ledger_id] |= entries
