"""Whether the storage of a bookie has, after a start, what was promised before it."""

from collections.abc import Collection, Mapping, Sequence

from tests.simulation.judged_bookie import JudgedBookie
from tests.simulation.oracle_requests import Entries
from zbk.errors import ZbkError
from zbk.protocol.entry.digest import checksum
from zbk.storage.bookie_storage import BookieStorage


class StartAudit:
    """One look at the storage of a bookie that has started."""

    def __init__(self, bookie: JudgedBookie, storage: BookieStorage) -> None:
        self._bookie = bookie
        self._storage = storage

    def check_entries(self, promised: Mapping[int, Entries]) -> None:
        """Judge that all entries are there, with the bytes that were written."""
        for ledger_id in sorted(promised):
            for entry_id in sorted(promised[ledger_id]):
                self._check_entry(ledger_id, entry_id, promised[ledger_id][entry_id])

    def check_fences(self, fenced: Collection[int]) -> None:
        """Judge that all fences are there."""
        for ledger_id in sorted(fenced):
            info = self._storage.homes.info(ledger_id)
            if info is None or not info.is_fenced:
                self._bookie.violated("I10", f"has lost the fence of ledger {ledger_id}")

    def _check_entry(self, ledger_id: int, entry_id: int, sum_: int) -> None:
        storage, bookie = self._storage, self._bookie
        name = f"L{ledger_id}/{entry_id}"
        try:
            resolved = storage.homes.ledger(ledger_id).resolve(
                range(entry_id, entry_id + 1), 1 << 30
            )
            if resolved is None:
                bookie.violated("lost", f"has lost {name}")
                return
            _count, body = storage.home_of(resolved).fetch(resolved)
        except ZbkError as error:
            bookie.violated("lost", f"cannot read {name}: {error!r}")
            return
        if checksum(body) != sum_:
            bookie.violated("lost", f"has other bytes in {name}")


def held_ranges(storage: BookieStorage, ledger_id: int) -> Sequence[tuple[int, int]]:
    """Return the first and the last of each row of entries that a ledger has there."""
    ranges, _ = storage.homes.ledger(ledger_id).held_ranges(
        0, range_count_max=1 << 20, entry_count_max=1 << 20
    )
    return ranges
