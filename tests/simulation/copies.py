"""Whether closed ledgers have all of their copies once everything has healed.

    I39     within ``COPIES_US_MAX`` after the repairs ended, each bookie that the metadata of a
            closed ledger name for an entry has it

What cannot be judged is left out: bookies whose disk was damaged; ledgers that are put aside as
unrepairable, or wait for a damaged bookie; what a bookie that lost its power may deny because it
waited in vain for a silent peer.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.simulation.autorecovery import Autorecovery
from tests.simulation.kernel import SECOND
from tests.simulation.oracle import BookieOracle
from tests.simulation.world import World
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.copy_order import ends_of

COPIES_US_MAX: Final = 30 * SECOND


class _Copy(NamedTuple):
    """A copy that the metadata of a closed ledger want: of an entry, on a bookie."""

    metadata: LedgerMetadata
    entry_id: int
    bookie_id: str

    def __str__(self) -> str:
        return f"L{self.metadata.ledger_id}/{self.entry_id} on {self.bookie_id}"


def check_copies(world: World, repair: Autorecovery) -> None:
    """Wait until every copy is there; judge I39."""
    kernel, copies = world.kernel, _Copies(world, repair)
    if not kernel.run_until(kernel.now_us + COPIES_US_MAX, copies.are_there):
        missing = [str(copy) for copy in copies.missing()]
        more = f", and {len(missing) - 8} more" if len(missing) > 8 else ""
        world.violated("I39", f"copies are missing: {', '.join(missing[:8])}{more}")


class _Copies:
    """The copies of all closed ledgers."""

    def __init__(self, world: World, repair: Autorecovery) -> None:
        self._world = world
        self._repair = repair
        self._last_missing: _Copy | None = None

    def are_there(self) -> bool:
        """Return whether no copy is missing.

        Asked at every event; looks first at the copy that was missing before.
        """
        last = self._last_missing
        if last is not None and self._is_still_missing(last):
            return False
        self._last_missing = next(self.missing(), None)
        return self._last_missing is None

    def missing(self) -> Iterator[_Copy]:
        """Yield each missing copy, by ledger, fragment, slot and entry."""
        repair = self._repair
        aside = repair.put_aside()
        for ledger_id, metadata in sorted(self._world.metadata.current.items()):
            if metadata.is_closed and ledger_id not in aside and not repair.is_stuck(ledger_id):
                yield from self._missing_of(metadata)

    def _missing_of(self, metadata: LedgerMetadata) -> Iterator[_Copy]:
        ledger_id, quorum = metadata.ledger_id, metadata.quorum
        for fragment, end in zip(metadata.fragments, ends_of(metadata), strict=True):
            assert end is not None, "the ledger is closed"
            for slot, bookie_id in enumerate(fragment.bookies):
                oracle = self._world.bookie(bookie_id).oracle
                if not _may_be_judged(oracle, ledger_id):
                    continue
                for entry_id in quorum.entry_ids(slot, fragment.first_entry_id, end):
                    if not _has_copy(oracle, ledger_id, entry_id):
                        yield _Copy(metadata, entry_id, bookie_id)

    def _is_still_missing(self, copy: _Copy) -> bool:
        """Return whether a copy that was missing is: the ledger's metadata are the same, too."""
        metadata = copy.metadata
        ledger_id = metadata.ledger_id
        oracle = self._world.bookie(copy.bookie_id).oracle
        return (
            self._world.metadata.current.get(ledger_id) is metadata
            and _may_be_judged(oracle, ledger_id)
            and not _has_copy(oracle, ledger_id, copy.entry_id)
            and ledger_id not in self._repair.put_aside()
            and not self._repair.is_stuck(ledger_id)
        )


def _may_be_judged(oracle: BookieOracle, ledger_id: int) -> bool:
    return not oracle.is_damaged and ledger_id not in oracle.gave_up


def _has_copy(oracle: BookieOracle, ledger_id: int, entry_id: int) -> bool:
    return oracle.holds(ledger_id, entry_id) or oracle.has(ledger_id, entry_id)
