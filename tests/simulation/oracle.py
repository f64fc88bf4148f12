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

What a bookie answers is a promise, whether the answer arrives or not.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

from tests.simulation.kernel import Kernel
from tests.simulation.passwords import key_of
from tests.support.checker import Violation
from zbk.actors.serve.add_requests import stripe_of
from zbk.actors.serve.sync_queue import AppendGroup
from zbk.durability.level import level_of
from zbk.errors import (
    EntryUnreadableError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    ZbkError,
    from_wire,
)
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry import stored_lac
from zbk.protocol.entry.entry_batch import COUNT_MAX, sizes_from_wire
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, SyncedEntriesRecord
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import decode_ids
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

Entries = dict[int, int]
"""By entry id: the checksum of its bytes."""

LedgerRequest: TypeAlias = Add | WriteLac | Sync | Read | ReadLac
LEDGER_REQUESTS: Final = (Add, WriteLac, Sync, Read, ReadLac)


class BookieOracle:
    """The promises of one bookie."""

    def __init__(
        self, kernel: Kernel, bookie_id: str, ever: Collection[int], current: Collection[int]
    ) -> None:
        self._kernel = kernel
        self._ever = ever  # ids of ledgers that are, or were
        self._current = current  # of those, the ones that were not deleted
        self._bookie_id = bookie_id
        self.promised: dict[int, Entries] = defaultdict(dict)  # survive a loss of power
        self.written: dict[int, Entries] = defaultdict(dict)  # survive a killed process
        self.fenced: set[int] = set()
        self.violations: list[Violation] = []
        self.is_damaged = False  # its disk was: it may have lost anything
        self.was_wiped = False  # by its operator, or it lost index files: fences are gone, too
        self.has_lost_power = False
        self.gave_up: set[int] = set()  # ledgers that left limbo without a silent peer
        self.lost: dict[int, set[int]] = defaultdict(set)  # acknowledged, gone, not cleared
        self.clearing: list[tuple[int, int]] = []
        """Ledgers that are leaving limbo; after the process ended in that, they may have left."""
        self.lost_us: dict[tuple[int, int], int] = {}  # when that was, cleared or not
        self._marked: set[int] = set()  # deleted, and taken in no more in this life
        self._dropped: set[int] = set()  # deleted, for ever
        self._open: set[int] = set()  # ledgers that nobody recovers
        self._late: dict[int, Inbound] = {}  # adds of those that came afterwards, by identity
        self._here: dict[int, set[int]] = defaultdict(set)
        self._received: dict[int, Entries] = defaultdict(dict)
        self._durable_before: dict[int, set[int]] = defaultdict(set)  # on a disk that was wiped
        self._owed: dict[int, set[int]] = defaultdict(set)  # of that, until the ledger is cleared
        self._log_synced: dict[int, set[int]] = defaultdict(set)  # by fsyncs of entry logs
        self._durable: dict[int, set[int]] = defaultdict(set)
        self._told_lac: dict[int, int] = defaultdict(lambda: NO_ENTRY)
        self._answered_lac: dict[int, int] = defaultdict(lambda: NO_ENTRY)
        self._watched: dict[tuple[bytes, int], ReadLac] = {}  # by connection and number
        self._counted: dict[int, dict[Stripe | None, int]] = defaultdict(dict)
        self._by_ledger: Sequence[dict[int, Any]] = (
            self.promised, self.written, self.lost, self._here, self._received,
            self._durable_before, self._owed, self._durable, self._told_lac, self._answered_lac,
            self._counted,
        )  # fmt: skip

    def violated(self, invariant: str, text: str) -> None:
        """Note a broken promise."""
        self._kernel.violated(self._bookie_id, invariant, text)
        self.violations.append(Violation(invariant, f"bookie {self._bookie_id}: {text}"))

    def is_durable(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is, or was before the disk was lost, on stable storage here."""
        return entry_id in self._durable[ledger_id] or entry_id in self._durable_before[ledger_id]

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry is on stable storage here now."""
        return entry_id in self._durable[ledger_id]

    def has(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry that was acknowledged can be read here, or after a restart."""
        return entry_id in self._here[ledger_id]

    # ------------------------------------------------------------------ what happens

    def received(self, batch: Sequence[Inbound]) -> None:
        """Note the LACs that requests tell, and those in the headers of entries.

        A copy is sent without a LAC; the one in its header, which its writer knew to be confirmed,
        is what a start finds.
        """
        for inbound in batch:
            request = inbound.request
            if isinstance(request, Add | WriteLac | Sync) and _has_key(request):
                if self._is_deleted(request.ledger_id):
                    self._late[id(inbound)] = inbound
                    continue
                lac = request.lac
                if isinstance(request, Add):
                    lac = max(lac, _highest_lac(inbound.frames))
                self._told_lac[request.ledger_id] = max(self._told_lac[request.ledger_id], lac)

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
        for ledger_id, entries in self._here.items():
            self.lost[ledger_id] |= entries
        self._here.clear()
        self.written.clear()

    def wiped(self) -> None:
        """Forget what was promised: it is gone, and nobody may deny it."""
        self.index_vanishes()
        self._dropped.clear()
        self._marked.clear()

    def index_vanishes(self) -> None:
        """Forget what was promised, but for what was deleted: nobody may deny it."""
        for ledger_id, entries in self._durable.items():
            self._durable_before[ledger_id] |= entries
            self._owed[ledger_id] |= entries
        for promises in (self.promised, self.written):
            for ledger_id, sums in promises.items():
                self.lost[ledger_id].update(sums)
        self._durable.clear()
        self._here.clear()
        self.promised.clear()
        self.written.clear()
        self._counted.clear()
        self.was_wiped = True

    def _is_clearing(self, ledger_id: int) -> bool:
        return any(first <= ledger_id <= last for first, last in self.clearing)

    def cleared(
        self, ranges: Sequence[tuple[int, int]], ledgers: Mapping[int, LedgerMetadata]
    ) -> None:
        """Note that ledgers have left limbo: what is not here may be denied."""
        for ledger_id in sorted(self.lost):
            if any(first <= ledger_id <= last for first, last in ranges):
                metadata = ledgers.get(ledger_id)
                if metadata is not None and self.was_wiped and not self.is_damaged:
                    self._check_filled(metadata)
                del self.lost[ledger_id]
                # it is here again, or nobody wanted it here: an ensemble that names this bookie
                # later counts none of its answers of before
                self._owed.pop(ledger_id, None)

    def _check_filled(self, metadata: LedgerMetadata) -> None:
        """Judge that a wiped bookie has again what it had, as far as the metadata want it here."""
        ledger_id = metadata.ledger_id
        for entry_id in sorted(self._owed[ledger_id] - self._durable[ledger_id]):
            if self._is_due(metadata, entry_id):
                self.violated("I24", f"may deny L{ledger_id}/{entry_id}, which it had, from now on")
                return

    def metadata_changed(self, metadata: LedgerMetadata) -> None:
        """Note what is wanted here no more: one who wants it later counts no answer of before."""
        if metadata.state is LedgerState.OPEN:
            self._open.add(metadata.ledger_id)
        else:
            self._open.discard(metadata.ledger_id)
        owed = self._owed.get(metadata.ledger_id)
        if owed:
            owed.intersection_update([one for one in owed if self._is_due(metadata, one)])

    def _is_due(self, metadata: LedgerMetadata, entry_id: int) -> bool:
        """Return whether an entry is to be here; on a striped ledger the slot may have changed."""
        if metadata.last_entry_id is not None and entry_id > metadata.last_entry_id:
            return False
        fragment, _ = metadata.fragment_of(entry_id)
        slots = metadata.quorum.write_set(entry_id)
        return self._bookie_id in (fragment.bookies[slot] for slot in slots)

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

    def _is_deleted(self, ledger_id: int) -> bool:
        return ledger_id in self._marked or ledger_id in self._dropped

    def answered(self, outbound: Outbound) -> None:  # noqa: C901 - a case for each answer
        """Note, and judge, an answer."""
        request, answer = outbound.inbound.request, outbound.answer
        if isinstance(request, LEDGER_REQUESTS):
            if request.ledger_id in self._ever and not _has_key(request):
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
                self._check_watches(outbound.inbound.peer, request, answer)
            case Add(), AddAnswer():
                self._added(outbound.inbound, request, answer)
            case Sync(), SyncAnswer():
                self._check_cursor(request, answer.last_add_synced)
            case ((WriteLac() | ReadLac()), LacAnswer()):
                self._check_lac(request, answer.lac)
            case Read(), Refused():
                self._refused(request, answer)
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
            self._kernel.sometimes["bookie: a wrong key refused"] += 1

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
        for entry_id, sum_ in _entries_of(
            request.first_entry_id, request.is_striped, inbound.frames
        ):
            known = self._received[ledger_id].setdefault(entry_id, sum_)
            if known != sum_:
                self.violated("I30", f"took L{ledger_id}/{entry_id} twice, with different bytes")
            target[entry_id] = sum_
            self._here[ledger_id].add(entry_id)
            self.lost[ledger_id].discard(entry_id)
            if is_synced and not self.is_damaged and entry_id not in self._durable[ledger_id]:
                self.violated("I7", f"acknowledged L{ledger_id}/{entry_id} without an fsync")
                self._durable[ledger_id].add(entry_id)
        if level_of(request.ledger_type).has_sync_cursor:
            self._check_cursor(request, answer.last_add_synced)

    def _check_cursor(self, request: Add | Sync, last_add_synced: int) -> None:
        ledger_id, stripe = request.ledger_id, stripe_of(request)
        durable, told = self._durable[ledger_id], self._told_lac[ledger_id]
        counted = self._counted[ledger_id]
        for entry_id in range(counted.get(stripe, NO_ENTRY) + 1, last_add_synced + 1):
            if stripe is not None and not _is_due(stripe, entry_id):
                self._kernel.sometimes["bookie: a sync cursor passes what is due elsewhere"] += 1
            elif entry_id in durable:
                sum_ = self._received[ledger_id].get(entry_id)
                if sum_ is not None:
                    self.promised[ledger_id][entry_id] = sum_
            elif entry_id <= told:
                self._kernel.sometimes["bookie: a LAC lifts the sync cursor over a hole"] += 1
            elif not self.is_damaged:
                self.violated(
                    "I21",
                    f"LastAddSynced {last_add_synced} of ledger {ledger_id} counts {entry_id}, "
                    f"which is not synced here; the LAC told is {told}",
                )
                return
        counted[stripe] = max(counted.get(stripe, NO_ENTRY), last_add_synced)

    def _check_lac(self, request: WriteLac | ReadLac, lac: int) -> None:
        """A LAC that readers were told is never taken back.

        A recoverer may hear of more. It, and a writer, which knows its own LAC, may hear of less
        from a bookie that is known to have lost some.
        """
        ledger_id = request.ledger_id
        is_for_readers = isinstance(request, ReadLac) and not request.is_fencing
        highest = self._answered_lac[ledger_id]
        may_know_less = self.is_damaged or (self.was_wiped and not is_for_readers)
        if lac < highest and not may_know_less:
            self.violated("I8", f"told the LAC {highest} of ledger {ledger_id}, then {lac}")
        if is_for_readers or isinstance(request, WriteLac):
            self._answered_lac[ledger_id] = max(lac, highest)

    def _check_watches(self, peer: bytes, request: WatchLacs, answer: LacsRisen) -> None:
        """Judge the LACs that the watches of a connection ended with."""
        for watch in request.begun:
            self._watched[peer, watch.number] = ReadLac(
                request_id=0,
                ledger_id=watch.ledger_id,
                ledger_key=watch.ledger_key,
                ledger_type=watch.ledger_type,
                known_lac=watch.known_lac,
            )
        for number, lac in answer.risen:
            asked = self._watched.pop((peer, number))
            self._kernel.sometimes["bookie: a watch ends with news"] += lac > asked.known_lac
            if not _has_key(asked):
                self.violated("key", f"answers LAC {lac} to a wrong key: {asked}")
            if not self._is_deleted(asked.ledger_id):
                self._check_lac(asked, lac)

    def _refused(self, request: Read, answer: Refused) -> None:
        error = from_wire(answer.code, tuple(answer.fields))
        ledger_id = request.ledger_id
        promised, written = self.promised[ledger_id], self.written[ledger_id]
        if isinstance(error, NoSuchEntryError):
            entry_id = error.entry_id
            if entry_id in promised or entry_id in written:
                self.violated("I24", f"says that it has no L{ledger_id}/{entry_id}")
            elif (
                entry_id in self.lost[ledger_id]
                and not self.is_damaged
                and not self._is_clearing(ledger_id)
            ):
                text = f"says that it has no L{ledger_id}/{entry_id}, which it lost"
                self.violated("I24", text)
        elif isinstance(error, NoSuchLedgerError) and (promised or written):
            self.violated("I24", f"says that it has no ledger {ledger_id}")
        elif (
            isinstance(error, NoSuchLedgerError)
            and self.lost[ledger_id]
            and not self._is_clearing(ledger_id)
            and ledger_id in self._current
        ):
            self.violated("I24", f"says that it has no ledger {ledger_id}, parts of which it lost")

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
            self._kernel.sometimes["bookie: a claim refused"] += 1

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
            self._audit_promises(storage)
            self._durable.clear()
        for ledger_id in storage.ledgers():
            with suppress(ZbkError):  # of a damaged disk
                ranges, _ = storage.homes.ledger(ledger_id).held_ranges(
                    0, range_count_max=1 << 20, entry_count_max=1 << 20
                )
                for first, last in ranges:
                    self._durable[ledger_id].update(range(first, last + 1))
        self._note_lost()

    def _note_lost(self) -> None:
        """Compare what was acknowledged with what is here."""
        for ledger_id, entries in list(self.lost.items()):
            entries.difference_update(self._durable[ledger_id])
            for entry_id in entries:
                self.lost_us[(ledger_id, entry_id)] = self._kernel.now_us
        for ledger_id, entries in self._durable.items():
            self._here[ledger_id] |= entries

    def _audit_promises(self, storage: BookieStorage) -> None:
        for entries in (self.promised, self.written):
            for ledger_id in sorted(entries):
                for entry_id in sorted(entries[ledger_id]):
                    self._audit_entry(storage, ledger_id, entry_id, entries[ledger_id][entry_id])
        for ledger_id in () if self.was_wiped else sorted(self.fenced):
            info = storage.homes.info(ledger_id)
            if info is None or not info.is_fenced:
                self.violated("I10", f"has lost the fence of ledger {ledger_id}")

    def _audit_entry(
        self, storage: BookieStorage, ledger_id: int, entry_id: int, sum_: int
    ) -> None:
        name = f"L{ledger_id}/{entry_id}"
        try:
            resolved = storage.homes.ledger(ledger_id).resolve(
                range(entry_id, entry_id + 1), 1 << 30
            )
            if resolved is None:
                self.violated("lost", f"has lost {name}")
                return
            _count, body = storage.home_of(resolved).fetch(resolved)
        except ZbkError as error:
            self.violated("lost", f"cannot read {name}: {error!r}")
            return
        if checksum(body) != sum_:
            self.violated("lost", f"has other bytes in {name}")


def _has_key(request: LedgerRequest) -> bool:
    return request.ledger_key == key_of(request.ledger_id)


@lru_cache(maxsize=64)
def _is_due(stripe: Stripe, entry_id: int) -> bool:
    """Return whether an entry is due at a slot, as ``Quorum`` says it."""
    return Quorum(stripe.ensemble_size, stripe.write_size, 1).holds(stripe.slot, entry_id)


def _entries_of(
    first_entry_id: int, is_striped: bool, frames: tuple[bytes, ...]
) -> tuple[tuple[int, int], ...]:
    """Return id and checksum of each entry of an add."""
    sizes = sizes_from_wire(frames[0])
    ids: Sequence[int] = range(first_entry_id, first_entry_id + len(sizes))
    if is_striped:
        ids = decode_ids(frames[2], COUNT_MAX)
    entries, offset = [], 0
    for entry_id, size in zip(ids, sizes, strict=True):
        entries.append((entry_id, checksum(frames[1][offset : offset + size])))
        offset += size
    return tuple(entries)


@lru_cache(maxsize=64)
def _highest_lac(frames: tuple[bytes, ...]) -> int:
    """Return the highest LAC in the headers of an add's entries."""
    ends = list(accumulate(sizes_from_wire(frames[0]), initial=0))
    return max(stored_lac(frames[1], start) for start in ends[:-1])
