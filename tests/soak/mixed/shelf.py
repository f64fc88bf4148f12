"""The ledgers of a run that are closed, and what was promised of each. Any thread."""

import random
from threading import Lock

import msgspec

import zbk
from tests.soak.mixed.payloads import Plan


class Written(msgspec.Struct, frozen=True):
    """A closed ledger."""

    ledger_id: int
    plan: Plan
    entry_count: int
    stored_size: int  # bytes of its entries, once


class TypeCounts(msgspec.Struct, frozen=True):
    """What was done with ledgers of one type."""

    ledger_count: int = 0
    entry_count: int = 0  # acknowledged
    read_count: int = 0  # entries read and compared


class Counts(msgspec.Struct):
    """What was done."""

    ledger_count: int = 0
    entry_count: int = 0  # acknowledged
    written_size: int = 0  # bytes of payload acknowledged
    read_count: int = 0  # entries read and compared
    deleted_count: int = 0  # ledgers
    taken_over_count: int = 0  # ledgers closed by a recovery, with or without the writer's consent
    refused_count: int = 0  # calls that failed as they may, and were tried again
    kill_count: int = 0
    scrub_count: int = 0  # passes that came to their ends
    by_type: dict[str, TypeCounts] = msgspec.field(
        default_factory=lambda: {one.value: TypeCounts() for one in zbk.LedgerType}
    )


class Shelf:
    """Closed ledgers, counts, and violations."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.violations: list[str] = []
        self.live_size = 0  # bytes of entries, once each
        self._lock = Lock()
        self._written: dict[int, Written] = {}
        self._in_use: dict[int, int] = {}

    def add(self, written: Written, payload_size: int) -> None:
        """Put a ledger onto the shelf."""
        with self._lock:
            self._written[written.ledger_id] = written
            self.live_size += written.stored_size
            self.counts.ledger_count += 1
            self.counts.entry_count += written.entry_count
            self.counts.written_size += payload_size
            self._count(written, TypeCounts(1, written.entry_count))

    def borrow(self, dice: random.Random) -> Written | None:
        """Return a ledger to read; nobody deletes it until it is given back."""
        with self._lock:
            if not self._written:
                return None
            written = self._written[dice.choice(list(self._written))]
            self._in_use[written.ledger_id] = self._in_use.get(written.ledger_id, 0) + 1
            return written

    def give_back(self, written: Written, read_count: int) -> None:
        """End a loan."""
        with self._lock:
            self._count_read(written, read_count)
            self._in_use[written.ledger_id] -= 1
            if not self._in_use[written.ledger_id]:
                del self._in_use[written.ledger_id]

    def take(self, dice: random.Random) -> Written | None:
        """Take a ledger away that nobody reads, to delete it."""
        with self._lock:
            free = [one for one in self._written if one not in self._in_use]
            if not free:
                return None
            written = self._written.pop(dice.choice(free))
            self.live_size -= written.stored_size
            self.counts.deleted_count += 1
            return written

    def was_read(self, written: Written) -> None:
        """Count a whole ledger that was read and compared without a loan."""
        with self._lock:
            self._count_read(written, written.entry_count)

    def _count_read(self, written: Written, read_count: int) -> None:
        self.counts.read_count += read_count
        self._count(written, TypeCounts(read_count=read_count))

    def _count(self, written: Written, more: TypeCounts) -> None:
        by_type, name = self.counts.by_type, written.plan.ledger_type.value
        pairs = zip(
            msgspec.structs.astuple(by_type[name]), msgspec.structs.astuple(more), strict=True
        )
        # a sample keeps the dictionary of its time
        self.counts.by_type = {**by_type, name: TypeCounts(*(a + b for a, b in pairs))}

    def all(self) -> list[Written]:
        """Return all ledgers."""
        with self._lock:
            return list(self._written.values())

    def note(self, *, refused: int = 0, taken_over: int = 0, kills: int = 0) -> None:
        """Count."""
        with self._lock:
            self.counts.refused_count += refused
            self.counts.taken_over_count += taken_over
            self.counts.kill_count += kills

    def violated(self, story: str) -> None:
        """Keep what must not happen."""
        with self._lock:
            self.violations.append(story)
