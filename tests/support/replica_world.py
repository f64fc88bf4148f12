"""Bookies and a ledger in memory, their disks, their metadata, and a writer that lives or not.

What a bookie holds is on its disk; nothing here is ever lost but by ``damage`` and ``punch``. The
repairs are in ``tests.support.repair_run``.

``World`` checks at each change of the metadata that no entry has fewer replicas than before (I26).
"""

from collections.abc import Collection

import msgspec

from tests.support.recovery_world import encoded, ledger
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.changes import change_ensemble
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.fragment_copy_events import CopyLimits
from zbk.protocol.repair.holdings import Holdings

KEY = b"k" * 16
GRACE_MS = 1_000
LIMITS = CopyLimits(
    window_size=600, read_size=200, read_count_max=2, batch_size_max=200, batch_count_max=3,
    chunk_count_max=4,
)  # fmt: skip
DAMAGE = b"\xff"


class World:
    """One ledger, its bookies, their disks, and the metadata store."""

    def __init__(self, quorum: Quorum, spare_count: int = 2) -> None:
        made = msgspec.structs.replace(ledger(quorum), ledger_key=KEY)
        self.metadata: LedgerMetadata | None = made
        names = made.last_fragment.bookies
        self.disks: dict[str, dict[int, bytes]] = {
            name: {} for name in (*names, *(f"x{n}" for n in range(spare_count)))
        }
        self.up = set(self.disks)
        self.refusing: set[str] = set()  # bookies that answer nobody, though they are registered
        self.in_limbo: set[str] = set()  # bookies that do not deny what they do not have
        self.next_id = 0
        self.now_ms = 0
        self.fragment_changed_ms = 0
        self.fenced_at_ms: int | None = None
        self.is_writer_alive = True

    # -------------------------------------------------------------- what happens to the world

    def append(self, count: int) -> bool:
        """Add entries as the writer; it changes the ensemble where bookies are down."""
        metadata = self.metadata
        if metadata is None or not self.can_write:
            return False
        down = {
            slot: bookie
            for slot, bookie in enumerate(metadata.last_fragment.bookies)
            if not self.answers(bookie)
        }
        if down and not self.change_ensemble(down):
            return False
        assert self.metadata is not None
        for _ in range(count):
            entry_id, self.next_id = self.next_id, self.next_id + 1
            for slot in self.metadata.quorum.write_set(entry_id):
                bookie = self.metadata.last_fragment.bookies[slot]
                self.disks[bookie][entry_id] = encoded(entry_id, entry_id - 1)
        return True

    @property
    def can_write(self) -> bool:
        """True while there is a writer and nobody has fenced it."""
        open_one = self.metadata is not None and not self.metadata.is_closed
        return open_one and self.is_writer_alive and self.fenced_at_ms is None

    def change_ensemble(self, down: dict[int, str]) -> bool:
        """Replace bookies as the writer, from its next entry on."""
        assert self.metadata is not None
        used = set(self.metadata.last_fragment.bookies)
        spare = sorted(b for b in self.up if b not in used and self.answers(b))
        if len(spare) < len(down):
            return False
        replaced = {s: (old, new) for (s, old), new in zip(down.items(), spare, strict=False)}
        changed = change_ensemble(self.metadata, self.next_id, replaced)
        assert changed is not None
        self.set_metadata(changed)
        self.fragment_changed_ms = self.now_ms
        return True

    def close(self) -> None:
        """Close the ledger at its end, as the writer or a recoverer."""
        if self.metadata is not None and not self.metadata.is_closed:
            self.set_metadata(self.metadata.with_closed(self.next_id - 1, 0))

    def answers(self, bookie_id: str) -> bool:
        """Return whether a bookie answers."""
        return bookie_id in self.up and bookie_id not in self.refusing

    def damage(self, bookie_id: str, entry_id: int) -> None:
        """Flip a bit on a disk, of an entry that is due there: a fresh copy is left alone."""
        entry = self.disks[bookie_id].get(entry_id)
        if entry is not None and self.is_due(bookie_id, entry_id):
            self.disks[bookie_id][entry_id] = entry[:-1] + bytes([entry[-1] ^ 1])

    def punch(self, bookie_id: str, entry_id: int) -> None:
        """Lose an entry that is due there: a fresh copy is left alone."""
        if self.is_due(bookie_id, entry_id):
            self.disks[bookie_id].pop(entry_id, None)

    def is_due(self, bookie_id: str, entry_id: int) -> bool:
        """Return whether the metadata name a bookie for an entry."""
        if self.metadata is None:
            return False
        fragment, _ = self.metadata.fragment_of(entry_id)
        slots = self.metadata.quorum.write_set(entry_id)
        return bookie_id in (fragment.bookies[slot] for slot in slots)

    def told(self, bookie_id: str, span: Span) -> Holdings:
        """Return what a bookie says that it holds: two ranges at a time."""
        ranges = held(self.disks[bookie_id], *span)
        last_entry_id = ranges[2][0] - 1 if len(ranges) > 2 else None
        return Holdings(ranges[:2], last_entry_id, bookie_id in self.in_limbo)

    # -------------------------------------------------------------- what must always be

    def good_count(self, metadata: LedgerMetadata, entry_id: int) -> int:
        """Return how many bookies of an entry's write set have it, undamaged, up or not."""
        fragment, _ = metadata.fragment_of(entry_id)
        return sum(
            self.disks[fragment.bookies[slot]].get(entry_id) == original(entry_id)
            for slot in metadata.quorum.write_set(entry_id)
        )

    def set_metadata(self, changed: LedgerMetadata) -> None:
        """Change the metadata; no entry may have fewer replicas than before."""
        assert self.metadata is not None
        for entry_id in range(self.next_id):
            before = self.good_count(self.metadata, entry_id)
            after = self.good_count(changed, entry_id)
            assert after >= before, f"I26: entry {entry_id} had {before} replicas, now {after}"
        self.metadata = changed

    def lacking(self, bookie_ids: Collection[str] | None = None) -> list[tuple[int, str]]:
        """Return which entries are due on which bookies and not there."""
        assert self.metadata is not None
        found = []
        for entry_id in range(self.next_id):
            fragment, _ = self.metadata.fragment_of(entry_id)
            for slot in self.metadata.quorum.write_set(entry_id):
                bookie = fragment.bookies[slot]
                is_meant = bookie_ids is None or bookie in bookie_ids
                if is_meant and entry_id not in self.disks[bookie]:
                    found.append((entry_id, bookie))
        return found


def original(entry_id: int) -> bytes:
    """Return an entry as the writer of a ``World`` encodes it."""
    return encoded(entry_id, entry_id - 1)


def held(disk: Collection[int], first: int, last: int) -> tuple[Span, ...]:
    """Return what a disk holds of a span, as ranges."""
    ranges: list[Span] = []
    for entry_id in sorted(e for e in disk if first <= e <= last):
        if ranges and ranges[-1][1] == entry_id - 1:
            ranges[-1] = (ranges[-1][0], entry_id)
        else:
            ranges.append((entry_id, entry_id))
    return tuple(ranges)
