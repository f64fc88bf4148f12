"""Whether closed ledgers have all of their copies once everything has healed.

    I39     within ``COPIES_US_MAX`` after the repairs ended, each bookie that the metadata of a
            closed ledger name for an entry has it

What cannot be judged is left out: bookies whose disk was damaged; ledgers that are put aside as
unrepairable, or wait for a damaged bookie; what a bookie that lost its power may deny because it
waited in vain for a silent peer.
"""

from collections.abc import Iterator
from typing import Final

from tests.simulation.autorecovery import Autorecovery
from tests.simulation.kernel import SECOND
from tests.simulation.world import World
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.copy_order import ends_of

COPIES_US_MAX: Final = 30 * SECOND


def check_copies(world: World, repair: Autorecovery) -> None:
    """Wait until every copy is there; judge I39."""
    kernel = world.kernel

    def left() -> Iterator[str]:
        aside = repair.put_aside()
        for ledger_id, metadata in sorted(world.metadata.current.items()):
            if metadata.is_closed and ledger_id not in aside and not repair.is_stuck(ledger_id):
                yield from _missing(world, metadata)

    if not kernel.run_until(kernel.now_us + COPIES_US_MAX, lambda: next(left(), None) is None):
        missing = list(left())
        more = f", and {len(missing) - 8} more" if len(missing) > 8 else ""
        world.violated("I39", f"copies are missing: {', '.join(missing[:8])}{more}")


def _missing(world: World, metadata: LedgerMetadata) -> Iterator[str]:
    ledger_id, quorum = metadata.ledger_id, metadata.quorum
    for fragment, end in zip(metadata.fragments, ends_of(metadata), strict=True):
        assert end is not None, "the ledger is closed"
        for slot, bookie_id in enumerate(fragment.bookies):
            oracle = world.bookie(bookie_id).oracle
            if oracle.is_damaged or ledger_id in oracle.gave_up:
                continue
            for entry_id in quorum.entry_ids(slot, fragment.first_entry_id, end):
                is_here = oracle.holds(ledger_id, entry_id) or oracle.has(ledger_id, entry_id)
                if not is_here:
                    yield f"L{ledger_id}/{entry_id} on {bookie_id}"
