"""What holds in every state of ``striped_search``: where entries are, by the metadata.

the LAC     each entry up to the writer's LAC is on stable storage at an ack quorum of its write
            set, by the bookies that the metadata name
outside     the same holds for the LAC that another client would compute by asking all bookies
            of the last fragment to sync
acked       an acknowledged entry is held by Qa bookies of its write set, or by fewer if others
            of it crashed: a new bookie has what it takes the place for
"""

from collections.abc import Sequence

from tests.simulation.striped_scope import BOOKIES, VolatileBookie
from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.ledger.metadata import LedgerMetadata


def broken_promise(
    metadata: LedgerMetadata, bookies: Sequence[VolatileBookie], lac: int, acked_id: int
) -> str:
    """Return what does not hold; empty if all does. The bookies are synced by it."""
    durable = _holders(metadata, [one.durable for one in bookies], lac)
    quorum = metadata.quorum
    for entry_id, holders in enumerate(durable):
        if len(holders) < quorum.ack_size:
            return f"the LAC is {lac}, entry {entry_id} is on the disks of {holders}"
    stored = _holders(metadata, [one.stored for one in bookies], acked_id)
    for entry_id, holders in enumerate(stored):
        members = _members(metadata, entry_id)
        crashed = [one for one in members if bookies[BOOKIES.index(one)].incarnation > 1]
        if len(set(holders).union(crashed)) < quorum.ack_size:
            return f"entry {entry_id} is acknowledged, {holders} of {members} have it"
    return _problem_outside(metadata, bookies)


def _problem_outside(metadata: LedgerMetadata, bookies: Sequence[VolatileBookie]) -> str:
    quorum, floor = metadata.quorum, metadata.confirmed_floor
    synced = SyncedLac(quorum, floor)
    for slot, bookie_id in enumerate(metadata.last_fragment.bookies):
        bookie = bookies[BOOKIES.index(bookie_id)]
        synced.update(slot, bookie.incarnation, bookie.sync(slot, floor, quorum))
    lac = synced.lac
    for entry_id, holders in enumerate(_holders(metadata, [one.durable for one in bookies], lac)):
        if len(holders) < quorum.ack_size:
            return f"others find the LAC {lac}, entry {entry_id} is on the disks of {holders}"
    return ""


def _holders(
    metadata: LedgerMetadata, held: list[frozenset[int]], last_entry_id: int
) -> list[list[str]]:
    """Return the bookies of the write set of each entry that have it."""
    return [
        [one for one in _members(metadata, entry_id) if entry_id in held[BOOKIES.index(one)]]
        for entry_id in range(last_entry_id + 1)
    ]


def _members(metadata: LedgerMetadata, entry_id: int) -> list[str]:
    fragment, _ = metadata.fragment_of(entry_id)
    return [fragment.bookies[slot] for slot in metadata.quorum.write_set(entry_id)]
