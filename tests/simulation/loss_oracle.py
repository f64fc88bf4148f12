"""What one bookie has lost, and until when it may not deny that.

I24: "no such entry" is said only of what was never promised; nor of what was acknowledged and lost
since, unless peers were asked for it meanwhile. A wiped bookie that leaves limbo has again what it
had, as far as the metadata want it there.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from tests.simulation.judged_bookie import JudgedBookie
from tests.simulation.oracle_requests import Entries
from zbk.errors import NoSuchEntryError, NoSuchLedgerError, from_wire
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.wire.messages import Read, Refused


class LossOracle:
    """The losses of one bookie; ``durable`` is what it has on stable storage, by ledger."""

    def __init__(
        self, bookie: JudgedBookie, durable: dict[int, set[int]], current: Collection[int]
    ) -> None:
        self._bookie = bookie
        self._durable = durable
        self._current = current  # ids of ledgers that were not deleted
        self.lost: dict[int, set[int]] = defaultdict(set)  # acknowledged, gone, not cleared
        self.clearing: list[tuple[int, int]] = []
        """Ledgers that are leaving limbo; after the process ended in that, they may have left."""
        self.lost_us: dict[tuple[int, int], int] = {}  # when that was, cleared or not
        self._durable_before: dict[int, set[int]] = defaultdict(set)  # on a disk that was wiped
        self._owed: dict[int, set[int]] = defaultdict(set)  # of that, until the ledger is cleared

    def was_durable(self, ledger_id: int, entry_id: int) -> bool:
        """Return whether an entry was on stable storage before the disk was lost."""
        return entry_id in self._durable_before[ledger_id]

    def power_lost(self, here: Mapping[int, set[int]]) -> None:
        """Note that what was here may be lost."""
        for ledger_id, entries in here.items():
            self.lost[ledger_id] |= entries

    def index_vanishes(self, promises: Sequence[Mapping[int, Entries]]) -> None:
        """Note that all is lost that was durable, or promised."""
        for ledger_id, entries in self._durable.items():
            self._durable_before[ledger_id] |= entries
            self._owed[ledger_id] |= entries
        for promised in promises:
            for ledger_id, sums in promised.items():
                self.lost[ledger_id].update(sums)

    def started(self) -> None:
        """Compare what was acknowledged with what is here, after a start."""
        for ledger_id, entries in list(self.lost.items()):
            entries.difference_update(self._durable[ledger_id])
            for entry_id in entries:
                self.lost_us[(ledger_id, entry_id)] = self._bookie.kernel.now_us

    def metadata_changed(self, metadata: LedgerMetadata) -> None:
        """Forget what is wanted here no more."""
        owed = self._owed.get(metadata.ledger_id)
        if owed:
            owed.intersection_update([one for one in owed if self._is_due(metadata, one)])

    def cleared(
        self, ranges: Sequence[tuple[int, int]], ledgers: Mapping[int, LedgerMetadata]
    ) -> None:
        """Note that ledgers have left limbo: what is not here may be denied."""
        for ledger_id in sorted(self.lost):
            if any(first <= ledger_id <= last for first, last in ranges):
                metadata = ledgers.get(ledger_id)
                if metadata is not None and self._bookie.was_wiped and not self._bookie.is_damaged:
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
                text = f"may deny L{ledger_id}/{entry_id}, which it had, from now on"
                self._bookie.violated("I24", text)
                return

    def dropped(self, ledger_id: int) -> None:
        """Forget a deleted ledger."""
        for known in (self.lost, self._durable_before, self._owed):
            known.pop(ledger_id, None)

    def refused(self, request: Read, answer: Refused, promised: Entries, written: Entries) -> None:
        """Judge what a bookie denies, by what it promised and by what it lost."""
        error = from_wire(answer.code, tuple(answer.fields))
        bookie, ledger_id = self._bookie, request.ledger_id
        if isinstance(error, NoSuchEntryError):
            entry_id = error.entry_id
            if entry_id in promised or entry_id in written:
                bookie.violated("I24", f"says that it has no L{ledger_id}/{entry_id}")
            elif (
                entry_id in self.lost[ledger_id]
                and not bookie.is_damaged
                and not self._is_clearing(ledger_id)
            ):
                text = f"says that it has no L{ledger_id}/{entry_id}, which it lost"
                bookie.violated("I24", text)
        elif isinstance(error, NoSuchLedgerError) and (promised or written):
            bookie.violated("I24", f"says that it has no ledger {ledger_id}")
        elif (
            isinstance(error, NoSuchLedgerError)
            and self.lost[ledger_id]
            and not self._is_clearing(ledger_id)
            and ledger_id in self._current
        ):
            text = f"says that it has no ledger {ledger_id}, parts of which it lost"
            bookie.violated("I24", text)

    def _is_clearing(self, ledger_id: int) -> bool:
        return any(first <= ledger_id <= last for first, last in self.clearing)

    def _is_due(self, metadata: LedgerMetadata, entry_id: int) -> bool:
        """Return whether an entry is to be here; on a striped ledger the slot may have changed."""
        if metadata.last_entry_id is not None and entry_id > metadata.last_entry_id:
            return False
        fragment, _ = metadata.fragment_of(entry_id)
        slots = metadata.quorum.write_set(entry_id)
        return self._bookie.bookie_id in (fragment.bookies[slot] for slot in slots)
