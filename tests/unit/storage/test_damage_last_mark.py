"""The last log mark with its bits flipped, or cut at any byte: the damage is seen, or harmless.

``test_damage_journal.py`` damages the journal that the mark points at.
"""

import pytest

from tests.support.bookie_storages import TwinnedStorage
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptJournalError, CorruptRecordError

SLOT_SIZE = 72  # of a mark with one journal, beside a census


def with_two_marks(*, is_first_kept: bool) -> TwinnedStorage:
    """Return killed storage with two slots; the segment of the older one is there, or long gone."""
    bookie = TwinnedStorage(SimulatedDisk(), log_size_max=4000)
    bookie.open()
    for n in range(3):
        bookie.add(1, range(9 * n, 9 * n + 9))
        if not is_first_kept:
            bookie.add(2, range(20 * n, 20 * n + 20), 200)  # the journal goes on to a new segment
        bookie.sync()
        bookie.finish_checkpoint()
    bookie.fence(1)
    bookie.add(1, range(27, 30))
    bookie.sync()
    bookie.storage.journal.note_synced()
    bookie.kill()
    return bookie


@pytest.mark.parametrize("is_first_kept", [True, False], ids=["journal there", "journal gone"])
def test_every_flipped_bit_of_the_last_mark_is_seen_or_harmless(is_first_kept: bool) -> None:
    """B39: harmless is the slot before last, or the last one while the journal goes back so far.

    A replay from an earlier mark does again what was done. Seen is a start that is refused because
    the mark points at a segment that is gone, or no slot is whole.
    """
    killed = with_two_marks(is_first_kept=is_first_kept)
    size = len(killed.disk.content("/l/last_mark"))
    assert size == 512 + SLOT_SIZE
    bits = [
        *range(0, 8 * SLOT_SIZE, 5),
        *range(8 * SLOT_SIZE, 8 * 512, 409),
        *range(8 * 512, 8 * size, 5),
    ]
    refused = []
    for bit in bits:
        bookie = killed.copy()
        bookie.disk.flip_bit("/l/last_mark", bit)
        if not _starts(bookie):
            refused.append(bit)
    last_slot = [bit for bit in bits if bit < 8 * SLOT_SIZE]  # generation 4
    assert refused == ([] if is_first_kept else last_slot)


@pytest.mark.parametrize("is_first_kept", [True, False], ids=["journal there", "journal gone"])
def test_a_last_mark_cut_at_any_byte_is_seen_or_harmless(is_first_kept: bool) -> None:
    killed = with_two_marks(is_first_kept=is_first_kept)
    for size in range(512 + SLOT_SIZE):
        bookie = killed.copy()
        bookie.disk.set_content("/l/last_mark", bookie.disk.content("/l/last_mark")[:size])
        assert _starts(bookie) or size < SLOT_SIZE or not is_first_kept


def _starts(bookie: TwinnedStorage) -> bool:
    try:
        bookie.open()
    except (CorruptJournalError, CorruptRecordError):
        return False
    bookie.check()
    return True
